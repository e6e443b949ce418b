//! What there is in each image.

use clap::ValueEnum;
use serde_json::{Value, json};

use super::Architecture;
use super::debian::{Recipe, Suite};
use super::layer::NewFile;

/// Name of the registry in all image names; nothing is ever pulled from it.
const REGISTRY: &str = "scavenger.dev";

/// The user of our own programs; the number that images without a shell commonly use.
const PROGRAM_USER: u32 = 65532;
/// The user of GROMACS, the CRD's default for `runAsUser`.
const GROMACS_USER: u32 = 1000;
/// The user of Postgres. initdb insists that it has a name, so it is in the image's /etc/passwd.
const POSTGRES_USER: u32 = 999;

/// Paths that no image needs. Besides size it is about two files of the building machine that mmdebstrap copies
/// into the tree: etc/hostname and etc/resolv.conf.
const DROP_ALWAYS: &[&str] = &[
    "dev/*",
    "etc/apt",
    "etc/fstab",
    "etc/hostname",
    "etc/machine-id",
    "etc/resolv.conf",
    "usr/lib/apt",
    "usr/share/bash-completion",
    "usr/share/bug",
    "usr/share/doc-base",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/pixmaps",
    "usr/lib/*/gconv",
    "usr/lib/*/perl",
    "usr/share/perl",
    "usr/share/perl5",
    "var/cache/*",
    "var/lib/apt",
    "var/lib/dpkg/info",
    "var/log/*",
];

/// What ca-certificates and base-files bring along, and a program that is linked to libc alone does not use. What
/// is left has no shell and no tools.
const DROP_FROM_BASE: &[&str] = &[
    "etc/debconf.conf",
    "etc/dpkg",
    "etc/skel",
    "etc/ssl/openssl.cnf",
    "etc/update-motd.d",
    "usr/bin/*",
    "usr/sbin/*",
    "usr/games",
    "usr/include",
    "usr/src",
    "usr/lib/ssl",
    "usr/lib/*/audit",
    "usr/lib/*/engines-3",
    "usr/lib/*/ossl-modules",
    "usr/lib/*/libcrypto.so.3",
    "usr/lib/*/libssl.so.3",
    "usr/share/base-files",
    "usr/share/ca-certificates",
    "usr/share/debconf",
    "usr/share/dict",
    "var/lib/dpkg",
];

/// Documentation, and the libraries in double precision.
const DROP_FROM_GROMACS: &[&str] = &[
    "usr/bin/gmx_d",
    "usr/bin/gmx_mpi_d",
    "usr/bin/perl5.36-x86_64-linux-gnu",
    "usr/lib/*/libgromacs_d.so.7",
    "usr/lib/*/libgromacs_d.so.7.0.0",
    "usr/lib/*/libgromacs_mpi_d.so.7",
    "usr/lib/*/libgromacs_mpi_d.so.7.0.0",
    "usr/share/fonts-mathjax",
    "usr/share/fonts",
    "usr/share/javascript",
    "usr/share/gromacs/html",
];

/// The build for library MPI. Without it Open MPI and all that belongs to it is dead weight, but small enough to stay.
const DROP_LIBRARY_MPI: &[&str] =
    &["usr/bin/gmx_mpi", "usr/lib/*/libgromacs_mpi.so.7", "usr/lib/*/libgromacs_mpi.so.7.0.0"];

/// The build with thread-MPI, which many images with library MPI have not.
const DROP_THREAD_MPI: &[&str] =
    &["usr/bin/gmx", "usr/lib/*/libgromacs.so.7", "usr/lib/*/libgromacs.so.7.0.0"];

/// Perl wrappers of postgresql-common, and the just-in-time compiler, which is bigger than Postgres itself and
/// is turned off by the start script.
const DROP_FROM_POSTGRES: &[&str] = &[
    "etc/dpkg",
    "etc/init.d",
    "etc/skel",
    "etc/ssl/openssl.cnf",
    "usr/games",
    "usr/include",
    "usr/lib/postgresql/15/lib/bitcode",
    "usr/lib/postgresql/15/lib/llvmjit.so",
    "usr/lib/*/libLLVM-14.so",
    "usr/lib/*/libLLVM-14.so.1",
    "usr/lib/llvm-14",
    "usr/lib/*/libz3.so.4",
    "usr/bin/perl",
    "usr/bin/perl5.36.0",
    "usr/bin/perl5.36-x86_64-linux-gnu",
    "usr/lib/*/libperl.so.5.36",
    "usr/lib/*/libperl.so.5.36.0",
    "usr/share/base-files",
    "usr/share/i18n",
    "usr/lib/*/perl-base",
    "usr/share/postgresql-common",
    "usr/share/zoneinfo/posix",
    "usr/share/zoneinfo/right",
    "usr/src",
    "var/lib/dpkg",
];

/// An image that can be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum Image {
    /// The operator
    Operator,
    /// The tuner
    Tuner,
    /// The submitter
    GromacsSubmitter,
    /// The supervisor, which is copied into pods
    Supervisor,
    /// The agent of a node
    NodeAgent,
    /// The laboratory, which plays recordings
    Laboratory,
    /// The demo workload
    Counter,
    /// The demo workload beside Debian's mpirun and bash, for the tests
    CounterMpirun,
    /// GROMACS from Debian
    Gromacs,
    /// The same behind a script and with a number of threads, for the tests
    GromacsWrapped,
    /// GROMACS from Debian for library MPI, with Open MPI, for the tests
    GromacsMpi,
    /// Postgres from Debian
    Postgres,
}

/// The programs that people run on machines of their own.
pub(super) fn commands() -> Vec<Program> {
    let images = [Image::Operator, Image::Tuner, Image::GromacsSubmitter, Image::Laboratory];
    let programs = images.into_iter().filter_map(Image::program);
    programs.map(|program| Program { linking: Linking::Static, ..program }).collect()
}

/// What an image is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content {
    /// A program of this workspace.
    Program(Program),
    /// Debian packages.
    Packages,
}

/// A program of this workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Program {
    /// The crate it is in.
    pub(super) package: &'static str,
    /// Its file name.
    pub(super) binary: &'static str,
    /// What it needs to run.
    pub(super) linking: Linking,
}

/// What a program needs to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Linking {
    /// The libc of the image's lowest layer.
    Dynamic,
    /// Nothing: it runs in the image of any workload, and is alone in its own.
    Static,
}

impl Program {
    /// True if it shares no run of cargo with the others. The laboratory needs parts of the planner that only tests have
    /// otherwise, and what is built together has the same features.
    pub(super) fn is_built_apart(self) -> bool {
        self.package == "scavenger-laboratory"
    }

    /// Where it lies in its image.
    pub(super) fn path(self) -> String {
        match self.linking {
            Linking::Dynamic => format!("usr/local/bin/{}", self.binary),
            Linking::Static => self.binary.to_owned(),
        }
    }
}

impl Image {
    /// Every image that users get.
    pub(crate) fn all() -> Vec<Self> {
        let for_tests =
            |image: &&Self| matches!(image, Self::CounterMpirun | Self::GromacsWrapped | Self::GromacsMpi);
        Self::value_variants().iter().filter(|image| !for_tests(image)).copied().collect()
    }

    /// What a pod writes in `image:`.
    pub(crate) fn reference(self) -> String {
        self.reference_at(self.version())
    }

    /// The same with another tag.
    pub(crate) fn reference_at(self, tag: &str) -> String {
        format!("{}:{tag}", self.without_tag())
    }

    /// The same without a tag, as a kustomization names it.
    pub(crate) fn without_tag(self) -> String {
        format!("{REGISTRY}/{}", self.repository())
    }

    /// File name of the archive for people.
    pub(crate) fn file_name(self) -> String {
        format!("{}-{}.tar", self.repository(), self.version())
    }

    /// Last part of the image's name.
    pub(super) fn repository(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Tuner => "tuner",
            Self::GromacsSubmitter => "gromacs-submitter",
            Self::Supervisor => "supervisor",
            Self::NodeAgent => "node-agent",
            Self::Laboratory => "laboratory",
            Self::Counter => "counter",
            Self::CounterMpirun => "counter-mpirun",
            Self::Gromacs => "gromacs",
            Self::GromacsWrapped => "gromacs-wrapped",
            Self::GromacsMpi => "gromacs-mpi",
            Self::Postgres => "postgres",
        }
    }

    /// The tag: our version, or that of the software inside.
    pub(super) fn version(self) -> &'static str {
        match self.content() {
            // All crates carry the version of the workspace.
            Content::Program(_) => env!("CARGO_PKG_VERSION"),
            Content::Packages if self == Self::Postgres => "15",
            Content::Packages => "2022.5",
        }
    }

    /// What it is for.
    pub(super) fn content(self) -> Content {
        let linked = |package, binary, linking| Content::Program(Program { package, binary, linking });
        let program = |package, binary| linked(package, binary, Linking::Dynamic);
        match self {
            Self::Operator => program("scavenger-operator", "scavenger-operator"),
            Self::Tuner => program("scavenger-tuner", "scavenger-tuner"),
            Self::GromacsSubmitter => program("gromacs-submitter", "gromacs-submitter"),
            Self::Supervisor => linked("scavenger-supervisor", "scavenger-supervisor", Linking::Static),
            Self::NodeAgent => linked("scavenger-node-agent", "scavenger-node-agent", Linking::Static),
            Self::Laboratory => program("scavenger-laboratory", "scavenger-laboratory"),
            Self::Counter | Self::CounterMpirun => program("scavenger-counter", "scavenger-counter"),
            Self::Gromacs | Self::GromacsWrapped | Self::GromacsMpi | Self::Postgres => Content::Packages,
        }
    }

    /// The program that must be built for it.
    pub(super) fn program(self) -> Option<Program> {
        match self.content() {
            Content::Program(program) => Some(program),
            Content::Packages => None,
        }
    }

    /// True if it can be built for an architecture. Our own programs are cross-built, and what lies below them is only
    /// unpacked. GROMACS is installed by scripts, which run on its own architecture alone.
    pub(super) fn is_for(self, architecture: Architecture) -> bool {
        !architecture.is_foreign() || self.is_ours()
    }

    /// True for an image of one of our programs and nothing that its scripts would have to set up.
    fn is_ours(self) -> bool {
        self.program().is_some() && self != Self::CounterMpirun
    }

    /// Its lowest layer, if it is of Debian packages. Our programs share one.
    pub(super) fn debian(self, architecture: Architecture) -> Option<Recipe> {
        let recipe = match self {
            Self::Supervisor | Self::NodeAgent => return None,
            Self::Gromacs | Self::GromacsWrapped | Self::GromacsMpi => Recipe {
                architecture,
                suite: Suite::Bookworm,
                // Its libraries for linear algebra are reached through alternatives, which the packages' own
                // scripts set up; so this one is installed, not only unpacked.
                variant: "minbase",
                packages: if self == Self::GromacsMpi { &["gromacs", "openmpi-bin"] } else { &["gromacs"] },
                hooks: &[],
                drop: if self == Self::GromacsMpi {
                    &[DROP_ALWAYS, DROP_FROM_GROMACS, DROP_THREAD_MPI]
                } else {
                    &[DROP_ALWAYS, DROP_FROM_GROMACS, DROP_LIBRARY_MPI]
                },
            },
            Self::Postgres => Recipe {
                architecture,
                suite: Suite::Bookworm,
                variant: "extract",
                packages: &[
                    "base-files",
                    "coreutils",
                    "dash",
                    "libc-bin",
                    "postgresql-15",
                    "postgresql-client-15",
                    "tzdata",
                ],
                hooks: &[],
                drop: &[DROP_ALWAYS, DROP_FROM_POSTGRES],
            },
            Self::CounterMpirun => Recipe {
                architecture,
                suite: Suite::ThisMachine,
                variant: "extract",
                packages: &[
                    "base-files",
                    "bash",
                    "coreutils",
                    "dash",
                    "libc-bin",
                    "libc6",
                    "libgcc-s1",
                    "openmpi-bin",
                ],
                // The name is an alternative, which a script of the package would set up.
                hooks: &[r#"ln -s mpirun.openmpi "$1"/usr/bin/mpirun"#],
                drop: &[DROP_ALWAYS],
            },
            _ => Recipe {
                architecture,
                suite: Suite::ThisMachine,
                variant: "extract",
                packages: &["base-files", "ca-certificates", "libc6", "libgcc-s1"],
                // Unpacking runs no package scripts, so what update-ca-certificates would write is written here.
                hooks: &[
                    r#"cat "$1"/usr/share/ca-certificates/mozilla/*.crt > "$1"/etc/ssl/certs/ca-certificates.crt"#,
                ],
                drop: &[DROP_ALWAYS, DROP_FROM_BASE],
            },
        };
        Some(recipe)
    }

    /// Small files that lie above it.
    pub(super) fn files(self) -> Vec<NewFile> {
        let text = |path: &str, content: &str| NewFile::new(path, 0o644, content.as_bytes());
        match self {
            Self::Gromacs | Self::GromacsMpi | Self::Supervisor | Self::NodeAgent => Vec::new(),
            Self::GromacsWrapped => vec![NewFile::new("usr/local/bin/gmx", 0o755, WRAPPER.as_bytes())],
            Self::Postgres => vec![
                text("etc/passwd", &passwd("postgres", POSTGRES_USER, "/var/lib/postgresql")),
                text("etc/group", &group("postgres", POSTGRES_USER)),
                text("etc/nsswitch.conf", NSSWITCH),
                NewFile::new(
                    "usr/local/bin/postgres-entrypoint",
                    0o755,
                    include_bytes!("../../../workloads/postgres/entrypoint.sh"),
                ),
            ],
            _ => vec![
                text("etc/passwd", &passwd("scavenger", PROGRAM_USER, "/")),
                text("etc/group", &group("scavenger", PROGRAM_USER)),
                text("etc/nsswitch.conf", NSSWITCH),
            ],
        }
    }

    /// How a container of it is run, unless the pod says otherwise: the `config` part of the image.
    pub(super) fn run_config(self) -> Value {
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        match self.content() {
            Content::Program(program) if program.linking == Linking::Static => json!({
                "User": format!("{PROGRAM_USER}:{PROGRAM_USER}"),
                "Entrypoint": [format!("/{}", program.path())],
                "WorkingDir": "/",
            }),
            Content::Program(program) => json!({
                "User": format!("{PROGRAM_USER}:{PROGRAM_USER}"),
                "Env": [format!("PATH={path}"), "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
                "Entrypoint": [format!("/{}", program.path())],
                "WorkingDir": "/",
            }),
            Content::Packages if self == Self::Postgres => json!({
                "User": format!("{POSTGRES_USER}:{POSTGRES_USER}"),
                "Env": [
                    format!("PATH={path}:/usr/lib/postgresql/15/bin"),
                    "LANG=C.UTF-8",
                    "PGDATA=/var/lib/postgresql/data/pgdata",
                ],
                "Entrypoint": ["/usr/local/bin/postgres-entrypoint"],
                "WorkingDir": "/",
                // SIGTERM would make Postgres wait until every client has gone, that is until SIGKILL; SIGINT
                // disconnects them and shuts down in order.
                "StopSignal": "SIGINT",
                "ExposedPorts": { "5432/tcp": {} },
            }),
            Content::Packages => {
                // HOME: gmx and MPI libraries look for their settings there, and / is not ours to write.
                let mut variables = vec![format!("PATH={path}"), "LANG=C.UTF-8".into(), "HOME=/tmp".into()];
                if self == Self::GromacsWrapped {
                    variables.push("OMP_NUM_THREADS=4".into());
                }
                json!({
                    "User": format!("{GROMACS_USER}:{GROMACS_USER}"), "Env": variables, "WorkingDir": "/",
                })
            }
        }
    }
}

/// As images from modules and from conda have it. The shell stays, as process 1, and ignores SIGTERM.
const WRAPPER: &str = "#!/bin/bash\n/usr/bin/gmx \"$@\"\nexit $?\n";

const NSSWITCH: &str = "passwd: files\ngroup: files\nhosts: files dns\nservices: files\n";

fn passwd(name: &str, user: u32, home: &str) -> String {
    format!(
        "root:x:0:0:root:/root:/usr/sbin/nologin\n{name}:x:{user}:{user}:{name}:{home}:/usr/sbin/nologin\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    )
}

fn group(name: &str, group: u32) -> String {
    format!("root:x:0:\n{name}:x:{group}:\nnogroup:x:65534:\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const HERE: Architecture = Architecture::Amd64;

    #[test]
    fn references_carry_the_version_of_what_is_inside() {
        let references: Vec<_> = Image::all().into_iter().map(Image::reference).collect();
        let ours = env!("CARGO_PKG_VERSION");
        assert_eq!(
            references,
            [
                &format!("scavenger.dev/operator:{ours}"),
                &format!("scavenger.dev/tuner:{ours}"),
                &format!("scavenger.dev/gromacs-submitter:{ours}"),
                &format!("scavenger.dev/supervisor:{ours}"),
                &format!("scavenger.dev/node-agent:{ours}"),
                &format!("scavenger.dev/laboratory:{ours}"),
                &format!("scavenger.dev/counter:{ours}"),
                "scavenger.dev/gromacs:2022.5",
                "scavenger.dev/postgres:15",
            ]
        );
    }

    #[test]
    fn our_programs_share_their_lowest_layer() {
        let is_dynamic =
            |image: &Image| image.program().is_some_and(|program| program.linking == Linking::Dynamic);
        let programs: Vec<_> = Image::all().into_iter().filter(is_dynamic).collect();
        assert_eq!(programs.len(), 5);
        let recipes: BTreeSet<_> = programs.iter().map(|image| format!("{:?}", image.debian(HERE))).collect();
        assert_eq!(recipes.len(), 1);
    }

    #[test]
    fn what_is_for_the_tests_is_built_only_if_it_is_named() {
        let image = Image::CounterMpirun;
        assert!(!Image::all().contains(&image) && Image::value_variants().contains(&image));
        assert_eq!(image.program(), Image::Counter.program());
        assert!(image.debian(HERE).unwrap().packages.contains(&"openmpi-bin"));
        let image = Image::GromacsMpi;
        assert!(!Image::all().contains(&image) && Image::value_variants().contains(&image));
        let recipe = image.debian(HERE).unwrap();
        let drops = |name: &str| recipe.drop.concat().contains(&name);
        assert!(
            drops("usr/bin/gmx") && !drops("usr/bin/gmx_mpi") && recipe.packages.contains(&"openmpi-bin")
        );
        let image = Image::GromacsWrapped;
        assert!(!Image::all().contains(&image) && Image::value_variants().contains(&image));
        let layers = [image, Image::Gromacs].map(|image| format!("{:?}", image.debian(HERE)));
        assert_eq!(layers[0], layers[1], "the node has that layer already");
    }

    #[test]
    fn a_static_program_is_alone_in_its_image() {
        for (image, entrypoint) in
            [(Image::Supervisor, "/scavenger-supervisor"), (Image::NodeAgent, "/scavenger-node-agent")]
        {
            assert_eq!(image.program().unwrap().linking, Linking::Static);
            assert!(image.debian(HERE).is_none() && image.files().is_empty());
            assert_eq!(image.run_config()["Entrypoint"][0], entrypoint);
        }
    }

    #[test]
    fn no_image_runs_as_root() {
        for image in Image::value_variants() {
            let config = image.run_config();
            let user = config["User"].as_str().unwrap();
            assert!(user.parse::<u32>().is_err() && !user.starts_with("0:"), "{image:?}: {user}");
        }
    }
}
