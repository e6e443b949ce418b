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

/// Debian packages that building images for this machine needs.
pub const PACKAGES: &[&str] = &["mmdebstrap", programs::MUSL];

/// What an image runs on, by the names that image configurations use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Architecture {
    /// x86_64
    Amd64,
    /// aarch64
    Arm64,
}

impl Architecture {
    /// That of this machine.
    pub(crate) fn of_this_machine() -> Self {
        // The two for which the project is built at all.
        if cfg!(target_arch = "aarch64") { Self::Arm64 } else { Self::Amd64 }
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
    /// NAME-VERSION.cdx.json
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Push the images to this registry, as REGISTRY/NAME:VERSION. `http://` in front allows a registry without TLS;
    /// user and password are read from ~/.docker/config.json, or from SCAVENGER_REGISTRY_USER and
    /// SCAVENGER_REGISTRY_PASSWORD
    #[arg(long, value_name = "REGISTRY")]
    push: Option<Registry>,

    /// Unpack the Debian packages again, to take in their updates
    #[arg(long)]
    refresh: bool,

    /// Do not install missing Debian packages and Rust targets, only name them
    #[arg(long)]
    no_install: bool,

    /// Build for another architecture than this machine's; only the image supervisor, which has nothing of Debian in it
    #[arg(long, value_name = "ARCHITECTURE")]
    architecture: Option<Architecture>,
}

/// A built image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Archive {
    /// What a pod writes in `image:`.
    pub(crate) name: String,
    /// The archive.
    pub(crate) path: PathBuf,
    /// What is in the image, as a CycloneDX document.
    pub(crate) sbom: PathBuf,
    /// Digest of the image's configuration, which `crictl images` and `docker images` show as the image's id.
    pub(crate) digest: String,
}

/// Carries out `cargo xtask images`. Prints one line for each image: name, size, digest, path.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let names = if arguments.names.is_empty() { Image::all() } else { arguments.names.clone() };
    let here = Architecture::of_this_machine();
    let architecture = arguments.architecture.unwrap_or(here);
    if architecture != here
        && let Some(image) = names.iter().find(|image| !image.is_static())
    {
        bail!(
            "the image {} is built for this machine's architecture only; name the image supervisor alone",
            image.repository()
        );
    }
    let install = !arguments.no_install;
    packages::ensure(if architecture == here { PACKAGES } else { programs::cross(architecture) }, install)?;
    programs::ensure_target(architecture, install)?;
    if arguments.refresh {
        for recipe in names.iter().filter_map(|image| image.debian()) {
            debian::forget(&recipe)?;
        }
    }
    for archive in build_for(&Checkout::this(), architecture, &names, Profile::Release)? {
        let path = match &arguments.output {
            None => archive.path.clone(),
            Some(directory) => archive.copy_to(directory)?,
        };
        let size = megabytes(fs::metadata(&path)?.len());
        println!("{}\t{size}\t{}\t{}", archive.name, archive.digest, path.display());
        if let Some(registry) = &arguments.push {
            let pushed = registry.push(&path, &archive.repository_and_tag()?)?;
            println!("{pushed}");
        }
    }
    Ok(())
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
        copy(&self.sbom)?;
        copy(&self.path)
    }

    /// The image's name behind that of the registry: `operator:0.1.0`.
    fn repository_and_tag(&self) -> Result<String> {
        let (_, name) = self.name.split_once('/').context("an image without a registry")?;
        Ok(name.to_owned())
    }
}

/// Makes sure that everything is installed that building images for this machine needs, or names what is missing.
pub(crate) fn ensure(install: bool) -> Result<()> {
    packages::ensure(PACKAGES, install)?;
    programs::ensure_target(Architecture::of_this_machine(), install)
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
    let wanted: Vec<_> = images.iter().filter_map(|image| image.program()).collect();
    let programs = programs::build(checkout, &wanted, profile, architecture)?;
    let mut archives = Vec::new();
    for image in images {
        let mut layers = Vec::new();
        if let Some(recipe) = image.debian() {
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
        archives.push(archive::write(*image, architecture, &layers, &sbom::document(*image)?)?);
    }
    Ok(archives)
}

fn megabytes(bytes: u64) -> String {
    format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10)
}
