//! The demo on a cluster of the user's own: it knows nothing of the project, and has other work. What the demo creates or
//! changes carries a label, and is removed at the end, also if the demo failed or was interrupted.

mod clean_up;
mod nodes;
mod prepare;
mod survey;

use std::{
    fs,
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    str::FromStr,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context, Result, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use scavenger_schema::quantity::format_milli;
use serde_json::Value;

use super::{
    VALUES,
    stage::{LABEL, Stage},
};
use crate::{
    cluster::Access,
    images::{self, Image, Login, Registry},
    install, preflight,
};
use clean_up::clean_up;
use prepare::{set, values};
use survey::{Place, Survey};

/// Namespaces of the demo beside the installation's own. Names that nobody has.
const CHEMISTS: &str = "scavenger-demo-chem";
const OWNER: &str = "scavenger-demo-owner";

/// The definitions, which the demo installs with its label.
const CRDS: &str = "deploy/chart/crds/crds.yaml";

/// In front of the images' own tags, so that a push never replaces an image that others use.
const TAG: &str = "demo-";

/// Name of the pull Secret in the demo's namespaces.
const PULL_SECRET: &str = "scavenger-demo-pull";

/// Priority of the placeholder: above ScavengerJobs, so that these are preempted first; below everybody else, so that it is
/// in nobody's way; and below the cutoff of the cluster autoscaler, so that it buys no node.
const PLACEHOLDER_PRIORITY: i32 = -100;

/// The demo on a cluster of the user's own.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "On a cluster of yours")]
pub(crate) struct Elsewhere {
    /// Run the demo on the cluster of this kubeconfig, and remove everything at the end
    ///
    /// Images are built here, pushed to the registry of --registry and installed with the Helm chart. Asks before it changes
    /// anything. Needs a cluster administrator, one amd64 node with 1.9 cpu and 1 GiB free, a StorageClass, and kubectl in the
    /// PATH.
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; its current one if none is named
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    context: Option<String>,
    /// Push the images to this registry, from which the nodes pull them: HOST\[:PORT\]\[/PATH\]
    ///
    /// `http://` in front allows a registry without TLS; the nodes must allow it, too. User and password for the push are read
    /// from ~/.docker/config.json, or from SCAVENGER_REGISTRY_USER and SCAVENGER_REGISTRY_PASSWORD.
    #[arg(long, value_name = "REGISTRY", requires = "kubeconfig")]
    registry: Option<Registry>,
    /// How the nodes log in to the registry: FILE as `docker login` writes it, NAMESPACE/NAME of a Secret in the cluster, or
    /// `login` for the login with which the images are pushed
    ///
    /// Of a file or of the login, the demo's Secrets hold only what is for the registry of --registry.
    #[arg(long, value_name = "SOURCE", requires = "registry")]
    pull_secret: Option<PullSecret>,
    /// Node that carries the demo; the smallest that suffices if none is named
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    node: Option<String>,
    /// StorageClass of the demo's two volumes; the cluster's default if none is named
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    storage_class: Option<String>,
    /// Say what would be done, and do nothing
    #[arg(long, requires = "kubeconfig")]
    dry_run: bool,
    /// Do not ask before the cluster is changed
    #[arg(long, requires = "kubeconfig")]
    yes: bool,
    /// Remove what an earlier demo has left on the cluster, and do nothing else
    #[arg(long, requires = "kubeconfig", conflicts_with_all = ["registry", "dry_run", "node"])]
    clean_up: bool,
}

/// Where the nodes' login comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PullSecret {
    /// The login of the push.
    Login,
    /// A file that `docker login` wrote.
    File(PathBuf),
    /// A Secret in the cluster.
    Secret { namespace: String, name: String },
}

impl FromStr for PullSecret {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "login" {
            return Ok(Self::Login);
        }
        if Path::new(text).is_file() {
            return Ok(Self::File(text.into()));
        }
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self::Secret { namespace: namespace.into(), name: name.into() })
            }
            _ => Err("there is no such file; write a FILE, NAMESPACE/NAME of a Secret, or login".into()),
        }
    }
}

impl Elsewhere {
    /// The one command that removes what the demo made.
    fn clean_up_command(&self) -> String {
        let file = self.kubeconfig.as_deref().unwrap_or(Path::new("FILE"));
        let mut command = format!("cargo xtask demo --kubeconfig {}", file.display());
        if let Some(context) = &self.context {
            command += &format!(" --context {context}");
        }
        command + " --clean-up"
    }
}

/// Carries out `cargo xtask demo --kubeconfig`.
pub(super) fn run(all: &super::Arguments, kubeconfig: &Path) -> Result<()> {
    let arguments = &all.elsewhere;
    // Only what this one context needs: whatever becomes of the user's file meanwhile, no other cluster is touched.
    let own = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
    let (access, place) = connect(kubeconfig, arguments.context.as_deref(), own.path())?;
    if arguments.clean_up {
        eprintln!("cluster {}, context {}", place.server, place.context);
        confirm(arguments, "Remove what a demo left there?")?;
        return clean_up(&access.to_the_end());
    }
    let registry = arguments.registry.as_ref().context(
        "the demo on a cluster of yours needs a registry that its nodes can reach: name it with --registry",
    )?;
    preflight::debian()?;
    let survey = Survey::of(&access, &place, arguments)?;
    let secret = arguments.pull_secret.as_ref().map(|secret| secret.read(&access, registry)).transpose()?;
    eprintln!("{}", plan(&survey, arguments, registry));
    if arguments.dry_run {
        eprintln!("dry run: nothing was changed");
        return Ok(());
    }
    confirm(arguments, "Go on?")?;

    wait_for_interruptions(arguments.clean_up_command())?;
    images::ensure(!all.no_install)?;
    let images = images::push_all(registry, all.profile, TAG)?;
    let stage = Stage {
        access,
        chemists: CHEMISTS,
        owner: OWNER,
        images,
        is_pinned: true,
        storage_class: Some(survey.storage_class.clone()),
    };
    IS_CHANGED.store(true, Ordering::SeqCst);
    let rest = stage.access.to_the_end();
    let result = set(&stage, &survey, secret.as_deref()).and_then(|()| {
        let values = values(&stage, &survey, secret.is_some()).to_string();
        let result = install::by_chart(&stage.access, VALUES, &values).and_then(|()| super::story(&stage));
        if result.is_err() && may_go_on().is_ok() {
            super::tell_what_happened(&stage, &rest);
        }
        result
    });
    // Programs that end because of an interruption complain of other things.
    let result = may_go_on().and(result);
    if all.keep {
        println!("\nThe demo stays on the cluster. To look around, with this kubeconfig:");
        super::print_commands(&stage);
        println!("To remove it:\n  {}", arguments.clean_up_command());
        return result;
    }
    if let Err(error) = clean_up(&rest) {
        eprintln!("not everything was removed: {error:#}\nto try again:\n  {}", arguments.clean_up_command());
        return result.and(Err(error.context("the demo is not removed")));
    }
    eprintln!("the images stay in {}, under tags that begin with {TAG}", registry.prefix());
    result
}

/// Reads the kubeconfig, and writes what belongs to one context into a file of the demo's own.
fn connect(kubeconfig: &Path, context: Option<&str>, own: &Path) -> Result<(Access, Place)> {
    fs::read(kubeconfig).with_context(|| format!("cannot read the kubeconfig {}", kubeconfig.display()))?;
    let version = Command::new("kubectl").args(["version", "--client"]).stdin(Stdio::null()).output();
    ensure!(
        version.is_ok_and(|output| output.status.success()),
        "kubectl is missing: install it (https://kubernetes.io/docs/tasks/tools), and put it into the PATH"
    );
    let of_user = Access::new("kubectl".into(), kubeconfig.to_owned(), || Ok(()));
    let mut view = vec!["config", "view", "--minify", "--flatten", "--raw", "--output=json"];
    if let Some(context) = context {
        view.extend(["--context", context]);
    }
    let config = of_user
        .kubectl_output(&view)
        .with_context(|| format!("{} cannot be used as a kubeconfig", kubeconfig.display()))?;
    fs::write(own, &config).context("cannot write a temporary file")?;
    let config: Value =
        serde_json::from_str(&config).context("kubectl printed no JSON for the kubeconfig")?;
    let place = Place::read(&config, kubeconfig)?;
    Ok((Access::new("kubectl".into(), own.to_owned(), may_go_on), place))
}

impl PullSecret {
    /// The content of the Secret for the demo's namespaces, looked for before anything is changed.
    fn read(&self, access: &Access, registry: &Registry) -> Result<String> {
        let host = registry.host();
        let login = match self {
            Self::Login => Login::find(host)?
                .with_context(|| format!("this machine has no login for {host} (--pull-secret)"))?,
            Self::File(path) => Login::in_file(path, host)?
                .with_context(|| format!("{} has no login for {host} (--pull-secret)", path.display()))?,
            Self::Secret { namespace, name } => {
                let get = ["get", "secret", name, "--namespace", namespace, "--output=json"];
                let secret: Value = serde_json::from_str(&access.kubectl_output(&get)?)
                    .context("kubectl printed no JSON for the Secret")?;
                return from_secret(&secret).with_context(|| {
                    format!("Secret {namespace}/{name} is not of type kubernetes.io/dockerconfigjson (--pull-secret)")
                });
            }
        };
        Ok(login.pull_secret(host))
    }
}

/// The logins in a Secret.
fn from_secret(secret: &Value) -> Option<String> {
    let data = secret["data"][".dockerconfigjson"].as_str()?;
    String::from_utf8(BASE64_STANDARD.decode(data).ok()?).ok()
}

/// What will be done, for an admin who has to agree to it.
fn plan(survey: &Survey, arguments: &Elsewhere, registry: &Registry) -> String {
    let cpu = |milli: i64| format!("{} cpu", format_milli(milli));
    let mut lines = vec![
        ("cluster", format!("{}, context {}, Kubernetes {}", survey.server, survey.context, survey.version)),
        (
            "images",
            format!(
                "{} for {}, built here, pushed to {} as NAME:{TAG}VERSION; they stay there",
                Image::all().len(),
                images::Architecture::of_this_machine().name(),
                registry.prefix()
            ),
        ),
    ];
    let login = match (&arguments.pull_secret, survey.asks_for_login) {
        (Some(_), _) => format!("Secret {PULL_SECRET} in the demo's namespaces"),
        (None, true) => {
            "none, although the registry asks for a login: the nodes must have one (--pull-secret)".into()
        }
        (None, false) => "none".into(),
    };
    lines.push(("pull secret", login));
    if registry.is_insecure() {
        lines.push(("no TLS", "the registry is used over http, and the nodes must allow that".into()));
    }
    lines.push((
        "node",
        format!(
            "{} gets the label {LABEL}=true; {} of {} are free; all pods of the demo run there",
            survey.node.name,
            format_milli(survey.node.free.cpu),
            cpu(survey.node.allocatable.cpu)
        ),
    ));
    if let Some(held) = survey.share.placeholder {
        lines.push((
            "placeholder",
            format!(
                "a pod that requests {} and uses nothing; every pod of priority above {PLACEHOLDER_PRIORITY} preempts it",
                cpu(held)
            ),
        ));
    }
    lines.push(("storage", format!("two volumes of 1Gi, StorageClass {}", survey.storage_class)));
    lines.push(("namespaces", [install::NAMESPACE, CHEMISTS, OWNER].join(", ")));
    let definitions = if survey.has_definitions {
        "the CustomResourceDefinitions are there already, and stay"
    } else {
        "two CustomResourceDefinitions"
    };
    lines.push((
        "cluster-wide",
        format!("{definitions}; the chart's ClusterRoles, PriorityClasses and admission policies"),
    ));
    lines.push(("at the end", "all of it is removed, also after a failure or Ctrl-C".into()));
    lines.push(("time", "images: 5 to 10 minutes the first time; the demo: about 6 minutes".into()));
    let lines: Vec<String> = lines.iter().map(|(name, what)| format!("  {name:<13} {what}")).collect();
    format!("The demo on a cluster of yours:\n{}", lines.join("\n"))
}

/// Asks a person, unless `--yes` answers.
fn confirm(arguments: &Elsewhere, question: &str) -> Result<()> {
    if arguments.yes {
        return Ok(());
    }
    ensure!(
        std::io::stdin().is_terminal(),
        "nobody can be asked here; pass --yes if this is the right cluster"
    );
    eprint!("{question} [y/N] ");
    std::io::stderr().flush().context("cannot write to the terminal")?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context("cannot read from the terminal")?;
    ensure!(matches!(answer.trim(), "y" | "Y" | "yes"), "nothing was changed");
    Ok(())
}

/// True once the cluster may have been changed.
static IS_CHANGED: AtomicBool = AtomicBool::new(false);
/// True once the user wants an end.
static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

fn may_go_on() -> Result<()> {
    ensure!(!IS_INTERRUPTED.load(Ordering::SeqCst), "interrupted");
    Ok(())
}

/// The first interruption leads to the end, where everything is removed. The second one, or one before anything was changed,
/// is the end.
fn wait_for_interruptions(command: String) -> Result<()> {
    static COMMAND: OnceLock<String> = OnceLock::new();
    COMMAND.get_or_init(|| command);
    ctrlc::set_handler(|| {
        let again = IS_INTERRUPTED.swap(true, Ordering::SeqCst);
        if !IS_CHANGED.load(Ordering::SeqCst) {
            eprintln!("\ninterrupted; the cluster was not changed");
        } else if again {
            let command = COMMAND.get().map_or("", String::as_str);
            eprintln!("\nstopped; what the demo made is still on the cluster. To remove it:\n  {command}");
        } else {
            eprintln!("\ninterrupted; the demo is being removed (once more: stop at once)");
            return;
        }
        // As a shell reports an end by SIGINT.
        std::process::exit(130);
    })
    .context("cannot wait for an interruption")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pull_secret_is_a_file_a_secret_or_the_login() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        assert_eq!(path.parse(), Ok(PullSecret::File(path.into())));
        assert_eq!("login".parse(), Ok(PullSecret::Login));
        let secret = PullSecret::Secret { namespace: "apps".into(), name: "pull".into() };
        assert_eq!("apps/pull".parse(), Ok(secret));
        for wrong in ["", "pull", "/pull", "apps/", "no/such/file.json"] {
            assert!(wrong.parse::<PullSecret>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_secret_of_another_type_is_none() {
        let secret = |key: &str| json!({ "data": { key: BASE64_STANDARD.encode("{\"auths\":{}}") } });
        assert_eq!(from_secret(&secret(".dockerconfigjson")).unwrap(), "{\"auths\":{}}");
        assert_eq!(from_secret(&secret("password")), None);
    }
}
