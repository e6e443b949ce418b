//! Container images without a registry: `cargo xtask images`.
//!
//! An image is one tar file, OCI layout and docker-archive at once, that `ctr images import`, `docker load` or `skopeo
//! copy` reads; beside it lies a list of what is in it. Its lowest layer comes from Debian packages, what we add lies in a second, small one. Everything in an archive is
//! sorted and dated alike, so the same inputs give the same digest, and an archive that is already in the cache
//! is not made again.

mod archive;
mod catalogue;
mod debian;
mod layer;
mod programs;
mod push;
mod registry_login;
mod sbom;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use self::catalogue::Content;
pub(crate) use self::catalogue::Image;
use self::layer::{Layer, NewFile};
pub(crate) use self::programs::{Checkout, Profile};
pub(crate) use self::push::Registry;
pub(crate) use self::registry_login::Login;
use crate::cluster::{self, Cluster};
use crate::packages;
use crate::progress::Task;

/// What an image runs on, by the names that image configurations use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Architecture {
    /// x86_64
    Amd64,
    /// aarch64
    Arm64,
}

impl Architecture {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// That of this machine.
    pub(crate) fn of_this_machine() -> Self {
        // The two for which the project is built at all.
        if cfg!(target_arch = "aarch64") { Self::Arm64 } else { Self::Amd64 }
    }

    fn is_foreign(self) -> bool {
        self != Self::of_this_machine()
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }
}

/// The flags of `cargo xtask images`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Build these images; all that users get if none is named
    #[arg(value_name = "NAME", value_enum)]
    names: Vec<Image>,

    /// Also put the archives into this directory, as NAME-VERSION.tar, each with its list of contents (CycloneDX) as
    /// NAME-VERSION.cdx.json; those of another architecture have its name in front
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Push the images to this registry, as REGISTRY/NAME:VERSION. `http://` in front allows a registry without TLS;
    /// user and password are read from ~/.docker/config.json, or from SCAVENGER_REGISTRY_USER and
    /// SCAVENGER_REGISTRY_PASSWORD
    #[arg(long, value_name = "REGISTRY")]
    push: Option<Registry>,

    /// How the programs are built. `dev` is for clusters of this checkout: tests and demo use the same build
    #[arg(long, default_value = "release", value_name = "PROFILE")]
    profile: Profile,

    /// Unpack the Debian packages again, to take in their updates
    #[arg(long)]
    refresh: bool,

    /// Do not install missing Debian packages and Rust targets, only name them
    #[arg(long)]
    no_install: bool,

    /// Build for these architectures instead of this machine's; with several also one archive of all of them,
    /// NAME-VERSION.oci.tar, which is then what is pushed. Images of Debian packages alone are built for this machine's
    /// architecture only
    #[arg(long, value_name = "ARCHITECTURE", value_delimiter = ',')]
    architecture: Vec<Architecture>,
}

/// A built image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Archive {
    /// What a pod writes in `image:`.
    pub(crate) name: String,
    /// The archive.
    pub(crate) path: PathBuf,
    /// What is in the image, as a CycloneDX document; none for the archive of several architectures, since each has its
    /// own.
    pub(crate) sbom: Option<PathBuf>,
    /// Digest of the image's configuration, which `crictl images` and `docker images` show as the image's id. That of the
    /// index for several architectures.
    pub(crate) digest: String,
}

/// Carries out `cargo xtask images`. Prints one line for each archive: name, size, digest, path.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let architectures = chosen(&arguments.architecture);
    let names = names(&arguments.names, &architectures)?;
    ensure_for(&architectures, &names, !arguments.no_install)?;
    if arguments.refresh {
        for architecture in &architectures {
            for recipe in names.iter().filter_map(|image| image.debian(*architecture)) {
                debian::forget(&recipe)?;
            }
        }
    }
    let archives = build_all(&architectures, &names, arguments.profile)?;
    // An archive of several architectures is pushed in place of theirs.
    let has_all = |name: &str| archives.iter().any(|archive| archive.name == name && archive.sbom.is_none());
    for archive in &archives {
        let path = match &arguments.output {
            None => archive.path.clone(),
            Some(directory) => archive.copy_to(directory)?,
        };
        let size = megabytes(fs::metadata(&path)?.len());
        println!("{}\t{size}\t{}\t{}", archive.name, archive.digest, path.display());
        let is_part = archive.sbom.is_some() && has_all(&archive.name);
        if let Some(registry) = arguments.push.as_ref().filter(|_| !is_part) {
            let pushed = registry.push(&path, &archive.repository_and_tag()?)?;
            println!("{pushed}");
        }
    }
    Ok(())
}

/// Each architecture once; this machine's if none is named.
fn chosen(named: &[Architecture]) -> Vec<Architecture> {
    let mut chosen: Vec<_> = Architecture::ALL.into_iter().filter(|one| named.contains(one)).collect();
    if chosen.is_empty() {
        chosen.push(Architecture::of_this_machine());
    }
    chosen
}

/// The images to build: those named, or else all that there are for these architectures.
fn names(named: &[Image], architectures: &[Architecture]) -> Result<Vec<Image>> {
    let can = |image: &Image| architectures.iter().all(|architecture| image.is_for(*architecture));
    if named.is_empty() {
        return Ok(Image::all().into_iter().filter(can).collect());
    }
    if let Some(image) = named.iter().find(|image| !can(image)) {
        bail!(
            "the image {} is built for this machine's architecture only; name the images of our own programs",
            image.repository()
        );
    }
    Ok(named.to_vec())
}

impl Archive {
    /// Copies the archive and its list of contents into a directory; returns where the archive is then.
    pub(crate) fn copy_to(&self, directory: &Path) -> Result<PathBuf> {
        fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
        let copy = |from: &Path| -> Result<PathBuf> {
            let path = directory.join(from.file_name().context("an archive without a name")?);
            fs::copy(from, &path).with_context(|| format!("cannot write {}", path.display()))?;
            Ok(path)
        };
        self.sbom.as_deref().map(copy).transpose()?;
        copy(&self.path)
    }

    /// The image's name behind that of the registry: `operator:0.1.0`.
    fn repository_and_tag(&self) -> Result<String> {
        let (_, name) = self.name.split_once('/').context("an image without a registry")?;
        Ok(name.to_owned())
    }
}

/// The Debian packages with which images for this machine are built.
pub(crate) fn packages() -> Vec<&'static str> {
    programs::packages(Architecture::of_this_machine())
}

/// Makes sure that everything is installed that building images for this machine needs, or names what is missing.
pub(crate) fn ensure(install: bool) -> Result<()> {
    ensure_for(&[Architecture::of_this_machine()], &Image::all(), install)
}

/// The same for these images and architectures.
pub(crate) fn ensure_for(architectures: &[Architecture], images: &[Image], install: bool) -> Result<()> {
    for architecture in architectures {
        packages::ensure(&programs::packages(*architecture), install)?;
        for program in images.iter().filter_map(|image| image.program()) {
            programs::ensure_target(program, *architecture, install)?;
        }
    }
    Ok(())
}

/// Builds the programs that people run on machines of their own: static ones, with the names that they have in a release. Such
/// a program is larger and slower than that in the image, and runs on any Linux.
pub(crate) fn build_commands(
    architectures: &[Architecture],
    install: bool,
) -> Result<Vec<(String, PathBuf)>> {
    let programs = catalogue::commands();
    let mut all = Vec::new();
    for architecture in architectures {
        packages::ensure(&programs::packages(*architecture), install)?;
        for program in &programs {
            programs::ensure_target(*program, *architecture, install)?;
        }
        let built = programs::build_commands(&programs, *architecture)?;
        let version = env!("CARGO_PKG_VERSION");
        let name = |binary: &str| format!("{binary}-{version}-linux-{}", architecture.name());
        all.extend(built.into_iter().map(|(binary, path)| (name(binary), path)));
    }
    Ok(all)
}

/// Builds these images for users: for each architecture that an image is for its archive, and one of all of them if there
/// are several. [`ensure_for`] must have been called.
pub(crate) fn build_all(
    architectures: &[Architecture],
    images: &[Image],
    profile: Profile,
) -> Result<Vec<Archive>> {
    let mut variants = Vec::new();
    for architecture in architectures {
        let images: Vec<_> = images.iter().filter(|image| image.is_for(*architecture)).copied().collect();
        variants.extend(build_variants(&Checkout::this(), *architecture, &images, profile)?);
    }
    let mut archives = Vec::new();
    for image in images {
        let of_image: Vec<_> = variants.iter().filter(|variant| variant.image == *image).collect();
        for variant in &of_image {
            archives.push(archive::write(variant)?);
        }
        if of_image.len() > 1 {
            archives.push(archive::write_index(*image, &of_image)?);
        }
    }
    Ok(archives)
}

/// Names of these images whose Debian packages are not in the cache, for this machine's architecture.
pub(crate) fn missing_layers(images: &[Image]) -> Result<Vec<&'static str>> {
    let mut missing = Vec::new();
    for image in images {
        if let Some(recipe) = image.debian(Architecture::of_this_machine())
            && !debian::is_made(&recipe)?
        {
            missing.push(image.repository());
        }
    }
    Ok(missing)
}

/// Builds what is missing and returns the archives in the order of the names. [`ensure`] must have been called.
pub(crate) fn build(images: &[Image], profile: Profile) -> Result<Vec<Archive>> {
    build_of(&Checkout::this(), images, profile)
}

/// As [`build`], with the programs of another checkout.
pub(crate) fn build_of(checkout: &Checkout, images: &[Image], profile: Profile) -> Result<Vec<Archive>> {
    build_for(checkout, Architecture::of_this_machine(), images, profile)
}

/// Loads an image that [`build`] makes onto the node of a cluster.
pub(crate) fn load_onto(cluster: &Cluster, image: Image, profile: Profile) -> Result<()> {
    let archives: Vec<_> = build(&[image], profile)?.into_iter().map(|archive| archive.path).collect();
    cluster.load(&archives)
}

/// Pushes an image that [`build`] makes to the registry of a cluster.
pub(crate) fn push_to(cluster: &Cluster, image: Image, profile: Profile) -> Result<()> {
    let registry: Registry = format!("http://{}", cluster.registry()).parse().map_err(anyhow::Error::msg)?;
    let (user, password) = cluster::LOGIN;
    for archive in build(&[image], profile)? {
        let login = || Ok(Some(Login::new(user, password)));
        registry.push_as(login, &archive.path, &archive.repository_and_tag()?)?;
    }
    Ok(())
}

/// Pushes every image that users get, with tags that begin with `tag`, and returns what a pod writes for each: with the
/// digest, since a node may have an older image of the same tag.
pub(crate) fn push_all(registry: &Registry, profile: Profile, tag: &str) -> Result<Vec<(Image, String)>> {
    let mut names = Vec::new();
    let all = Image::all();
    for (image, archive) in all.iter().zip(build(&all, profile)?) {
        let name = format!("{}/{}", registry.prefix(), image.repository());
        let task = Task::start(format!("pushing {name}"));
        let pushed =
            registry.push(&archive.path, &format!("{}:{tag}{}", image.repository(), image.version()))?;
        let (_, digest) = pushed.split_once('@').context("a pushed image without a digest")?;
        names.push((*image, format!("{name}@{digest}")));
        task.done(format!("pushed {pushed}"));
    }
    Ok(names)
}

fn build_for(
    checkout: &Checkout,
    architecture: Architecture,
    images: &[Image],
    profile: Profile,
) -> Result<Vec<Archive>> {
    build_variants(checkout, architecture, images, profile)?.iter().map(archive::write).collect()
}

/// An image for one architecture.
struct Variant {
    image: Image,
    architecture: Architecture,
    layers: Vec<Layer>,
    /// What is in it.
    sbom: String,
}

fn build_variants(
    checkout: &Checkout,
    architecture: Architecture,
    images: &[Image],
    profile: Profile,
) -> Result<Vec<Variant>> {
    let wanted: Vec<_> = images.iter().filter_map(|image| image.program()).collect();
    let programs = programs::build(checkout, &wanted, profile, architecture)?;
    let mut variants = Vec::new();
    for image in images {
        let mut layers = Vec::new();
        if let Some(recipe) = image.debian(architecture) {
            layers.push(debian::layer(&recipe)?);
        }
        let mut files = image.files();
        if let Content::Program(program) = image.content() {
            let built = programs
                .get(program.binary)
                .with_context(|| format!("cargo did not say where it put the program {}", program.binary))?;
            files.push(NewFile::read(&program.path(), built)?);
        }
        if !files.is_empty() {
            layers.push(Layer::of_files(&files)?);
        }
        let sbom = sbom::document(*image, architecture)?;
        variants.push(Variant { image: *image, architecture, layers, sbom });
    }
    Ok(variants)
}

fn megabytes(bytes: u64) -> String {
    format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_our_programs_are_for_both_architectures() {
        let here = Architecture::of_this_machine();
        let ours =
            names(&[], &chosen(&[Architecture::Arm64, Architecture::Amd64, Architecture::Arm64])).unwrap();
        assert!(ours.iter().all(|image| image.program().is_some()) && ours.contains(&Image::Operator));
        assert!(names(&[], &chosen(&[])).unwrap().contains(&Image::Postgres));
        assert_eq!(names(&[Image::Gromacs], &[here]).unwrap(), [Image::Gromacs]);
        let error = names(&[Image::Tuner, Image::Gromacs], &Architecture::ALL).unwrap_err().to_string();
        assert!(error.contains("gromacs"), "{error}");
    }
}
