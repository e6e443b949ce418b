//! The archive of an image: an OCI layout that is a docker-archive as well.
//!
//! Both name the same blobs, so one file serves `docker load`, `ctr images import`, `podman load` and `skopeo copy
//! oci-archive:`. Layers are not compressed: what a compressor makes differs from version to version, and with it the
//! digest of an image that has not changed.

use std::fs::{self, File};
use std::io::{BufWriter, Write};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use super::catalogue::{Content, Image};
use super::layer::{EPOCH_SECONDS, Layer, sha256};
use super::{Architecture, Archive, Variant, sbom};
use crate::cache::{self, Key};

/// [`EPOCH_SECONDS`] as the configuration writes it.
const CREATED: &str = "2000-01-01T00:00:00Z";

/// Media types of the parts.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// The file oci-layout.
const LAYOUT: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;

/// Writes the archive of one architecture unless it is there.
pub(super) fn write(variant: &Variant) -> Result<Archive> {
    let Variant { image, architecture, layers, sbom } = variant;
    let parts = Parts::new(*image, *architecture, layers)?;
    // Those of two architectures can lie side by side.
    let file_name = match image.file_name() {
        name if architecture.is_foreign() => format!("{}-{name}", architecture.name()),
        name => name,
    };
    // The configuration names the layers by their digests, but not the image.
    let key = Key::new(&format!("{}\n{}\n{sbom}", image.reference(), parts.manifest));
    let entry = cache::entry("image", &key, |folder| {
        let path = folder.join(&file_name);
        let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        parts
            .fill(file, layers)
            .with_context(|| format!("cannot write the archive of {}", image.reference()))?;
        fs::write(folder.join(sbom::file_name(&file_name)), sbom).context("cannot write to the cache")
    })?;
    Ok(Archive {
        name: image.reference(),
        sbom: Some(entry.join(sbom::file_name(&file_name))),
        path: entry.join(file_name),
        digest: digest(&parts.config),
    })
}

/// Writes one archive of several architectures, unless it is there: an OCI layout with an index, from which a node takes
/// what it can run. A docker-archive has no such thing.
pub(super) fn write_index(image: Image, variants: &[&Variant]) -> Result<Archive> {
    let parts = variants.iter().map(|one| Parts::new(image, one.architecture, &one.layers));
    let parts = parts.collect::<Result<Vec<_>>>()?;
    let manifests: Vec<_> = parts.iter().map(|parts| parts.descriptor.clone()).collect();
    let index = index_of(&manifests, Some(labels(image)));
    let mut of_index = descriptor(INDEX, &index);
    of_index["annotations"] = names(image);
    let file_name = image.file_name().replace(".tar", ".oci.tar");
    let entry = cache::entry("image", &Key::new(&format!("{}\n{index}", image.reference())), |folder| {
        let path = folder.join(&file_name);
        let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        fill_index(file, &index_of(&[of_index.clone()], None), &index, &parts, variants)
            .with_context(|| format!("cannot write the archive of {}", image.reference()))
    })?;
    let digest = digest(&index);
    Ok(Archive { name: image.reference(), sbom: None, path: entry.join(file_name), digest })
}

fn fill_index(
    output: impl Write,
    top: &str,
    index: &str,
    parts: &[Parts],
    variants: &[&Variant],
) -> Result<()> {
    let mut builder = Builder::new(BufWriter::with_capacity(1 << 20, output));
    add(&mut builder, "oci-layout", LAYOUT)?;
    add(&mut builder, "index.json", top)?;
    add(&mut builder, &blob(&sha256(index.as_bytes())), index)?;
    for (parts, variant) in parts.iter().zip(variants) {
        parts.add_blobs(&mut builder, &variant.layers)?;
    }
    builder.into_inner()?.flush()?;
    Ok(())
}

/// The documents of an archive.
struct Parts {
    /// How a container is run, and the layers.
    config: String,
    /// The OCI manifest: digests and sizes of configuration and layers.
    manifest: String,
    /// The manifest's digest and size, and what it runs on.
    descriptor: Value,
    /// Which manifest is the image of which name.
    index: String,
    /// The same for readers of docker-archives.
    docker: String,
}

impl Parts {
    fn new(image: Image, architecture: Architecture, layers: &[Layer]) -> Result<Self> {
        let config = serde_json::to_string(&config(image, architecture, layers))?;
        let mut blobs = Vec::new();
        for layer in layers {
            blobs.push(json!({
                "mediaType": LAYER,
                "digest": format!("sha256:{}", layer.sha256),
                "size": layer.size()?,
            }));
        }
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor(CONFIG, &config),
            "layers": blobs,
            "annotations": labels(image),
        })
        .to_string();
        let mut descriptor = descriptor(MANIFEST, &manifest);
        descriptor["platform"] = json!({ "architecture": architecture.name(), "os": "linux" });
        let mut named = descriptor.clone();
        named["annotations"] = names(image);
        let index = index_of(&[named], None);
        let names: Vec<_> = layers.iter().map(|layer| blob(&layer.sha256)).collect();
        let docker = json!([{
            "Config": blob(&sha256(config.as_bytes())), "RepoTags": [image.reference()], "Layers": names,
        }]);
        Ok(Self { config, manifest, descriptor, index, docker: docker.to_string() })
    }

    fn fill(&self, output: impl Write, layers: &[Layer]) -> Result<()> {
        let mut builder = Builder::new(BufWriter::with_capacity(1 << 20, output));
        add(&mut builder, "oci-layout", LAYOUT)?;
        add(&mut builder, "index.json", &self.index)?;
        add(&mut builder, "manifest.json", &self.docker)?;
        self.add_blobs(&mut builder, layers)?;
        builder.into_inner()?.flush()?;
        Ok(())
    }

    fn add_blobs(&self, builder: &mut Builder<impl Write>, layers: &[Layer]) -> Result<()> {
        for document in [&self.manifest, &self.config] {
            add(builder, &blob(&sha256(document.as_bytes())), document)?;
        }
        for layer in layers {
            builder.append_data(&mut header(layer.size()?), blob(&layer.sha256), layer.reader()?)?;
        }
        Ok(())
    }
}

fn add(builder: &mut Builder<impl Write>, name: &str, content: &str) -> Result<()> {
    builder.append_data(&mut header(content.len() as u64), name, content.as_bytes())?;
    Ok(())
}

/// By which name programs know what the archive holds.
fn names(image: Image) -> Value {
    json!({
        "io.containerd.image.name": image.reference(),
        "org.opencontainers.image.ref.name": image.reference().rsplit(':').next(),
    })
}

fn index_of(manifests: &[Value], annotations: Option<Value>) -> String {
    let mut index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests });
    if let Some(annotations) = annotations {
        index["annotations"] = annotations;
    }
    index.to_string()
}

fn digest(content: &str) -> String {
    format!("sha256:{}", sha256(content.as_bytes()))
}

fn descriptor(media_type: &str, content: &str) -> Value {
    json!({
        "mediaType": media_type,
        "digest": digest(content),
        "size": content.len(),
    })
}

/// Where a blob lies in the layout.
fn blob(sha256: &str) -> String {
    format!("blobs/sha256/{sha256}")
}

fn config(image: Image, architecture: Architecture, layers: &[Layer]) -> Value {
    let diff_ids: Vec<_> = layers.iter().map(|layer| format!("sha256:{}", layer.sha256)).collect();
    let debian = image.debian(architecture).map(|_| "Debian packages, unpacked by mmdebstrap");
    let made_by = debian.into_iter().chain(["cargo xtask images"]);
    let history: Vec<_> =
        made_by.take(layers.len()).map(|by| json!({ "created": CREATED, "created_by": by })).collect();
    let mut run = image.run_config();
    run["Labels"] = labels(image);
    json!({
        "architecture": architecture.name(),
        "os": "linux",
        "created": CREATED,
        "config": run,
        "rootfs": { "type": "layers", "diff_ids": diff_ids },
        "history": history,
    })
}

/// What the image says of itself. No commit: an image that has not changed keeps its digest.
fn labels(image: Image) -> Value {
    let mut labels = json!({
        "org.opencontainers.image.title": image.repository(),
        "org.opencontainers.image.version": image.version(),
        "org.opencontainers.image.created": CREATED,
        "org.opencontainers.image.vendor": "ScavengerJobs for Kubernetes",
        "org.opencontainers.image.description": match image.content() {
            Content::Program(program) => format!("{} of ScavengerJobs for Kubernetes", program.binary),
            Content::Packages => format!("{} from Debian, for ScavengerJobs for Kubernetes", image.repository()),
        },
    });
    if let Content::Program(_) = image.content() {
        labels["org.opencontainers.image.licenses"] = "Apache-2.0".into();
    }
    labels
}

fn header(size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_mtime(EPOCH_SECONDS);
    header.set_size(size);
    header
}

/// The archive of an image with one small layer for each architecture, for tests.
#[cfg(test)]
pub(super) fn sample_of_both() -> Vec<u8> {
    use super::layer::NewFile;
    let variants = Architecture::ALL.map(|architecture| {
        let file = NewFile::new("usr/local/bin/program", 0o755, architecture.name().as_bytes());
        let layers = vec![Layer::of_files(&[file]).unwrap()];
        Variant { image: Image::Counter, architecture, layers, sbom: String::new() }
    });
    let path = write_index(Image::Counter, &variants.each_ref()).unwrap().path;
    fs::read(path).unwrap()
}

/// The archive of an image with one small layer, for tests.
#[cfg(test)]
pub(super) fn sample(content: &[u8]) -> (Vec<u8>, Vec<Layer>) {
    use super::layer::NewFile;
    let layers = vec![Layer::of_files(&[NewFile::new("usr/local/bin/program", 0o755, content)]).unwrap()];
    let mut bytes = Vec::new();
    let parts = Parts::new(Image::Counter, Architecture::of_this_machine(), &layers).unwrap();
    parts.fill(&mut bytes, &layers).unwrap();
    (bytes, layers)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::io::Read;

    use super::*;

    fn members(bytes: &[u8]) -> HashMap<String, Vec<u8>> {
        let mut members = HashMap::new();
        for entry in tar::Archive::new(bytes).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            members.insert(entry.path().unwrap().display().to_string(), content);
        }
        members
    }

    fn json_of(members: &HashMap<String, Vec<u8>>, name: &str) -> Value {
        serde_json::from_slice(&members[name]).unwrap()
    }

    #[test]
    fn a_docker_archive_names_its_parts_and_is_the_same_each_time() {
        let (bytes, layers) = sample(b"program");
        assert_eq!(bytes, sample(b"program").0);
        assert_ne!(bytes, sample(b"another").0);

        let members = members(&bytes);
        let manifest = json_of(&members, "manifest.json");
        assert_eq!(manifest[0]["RepoTags"][0], Image::Counter.reference());
        let config = json_of(&members, manifest[0]["Config"].as_str().unwrap());
        let layer = &members[manifest[0]["Layers"][0].as_str().unwrap()];
        assert_eq!(config["architecture"], Architecture::of_this_machine().name());
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", sha256(layer)));
        assert_eq!(layers[0].sha256, sha256(layer));
        assert_eq!(config["config"]["Entrypoint"][0], "/usr/local/bin/scavenger-counter");
        let labels = &config["config"]["Labels"];
        assert_eq!(labels["org.opencontainers.image.version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(labels["org.opencontainers.image.licenses"], "Apache-2.0");
    }

    #[test]
    fn the_history_names_the_layers_that_are_there() {
        let created_by = |image, count: usize| {
            let layers: Vec<_> = (0..count).flat_map(|_| sample(b"program").1).collect();
            let config = config(image, Architecture::Arm64, &layers);
            let history = config["history"].as_array().unwrap();
            history.iter().map(|entry| entry["created_by"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(created_by(Image::Supervisor, 1), ["cargo xtask images"]);
        let both = ["Debian packages, unpacked by mmdebstrap", "cargo xtask images"];
        assert_eq!(created_by(Image::Counter, 2), both);
        assert_eq!(created_by(Image::Gromacs, 1), [both[0]]);
    }

    /// What a manifest or an index names.
    fn named_by(descriptor: &Value, content: &[u8]) -> Vec<Value> {
        let document = || serde_json::from_slice::<Value>(content).unwrap();
        match descriptor["mediaType"].as_str().unwrap() {
            MANIFEST => {
                let layers = document()["layers"].as_array().unwrap().clone();
                [vec![document()["config"].clone()], layers].concat()
            }
            INDEX => document()["manifests"].as_array().unwrap().clone(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn an_archive_of_both_architectures_has_an_image_of_each() {
        let members = members(&sample_of_both());
        let top = json_of(&members, "index.json")["manifests"].as_array().unwrap().clone();
        assert_eq!((top.len(), &top[0]["mediaType"]), (1, &Value::from(INDEX)));
        assert_eq!(top[0]["annotations"]["io.containerd.image.name"], Image::Counter.reference());
        let mut wanted = top;
        let mut platforms = Vec::new();
        let mut seen = 0;
        while let Some(descriptor) = wanted.pop() {
            let content =
                &members[&blob(descriptor["digest"].as_str().unwrap().trim_start_matches("sha256:"))];
            assert_eq!(
                (digest(std::str::from_utf8(content).unwrap()), content.len() as u64),
                (descriptor["digest"].as_str().unwrap().to_owned(), descriptor["size"].as_u64().unwrap())
            );
            platforms.extend(descriptor["platform"]["architecture"].as_str().map(str::to_owned));
            wanted.extend(named_by(&descriptor, content));
            seen += 1;
        }
        platforms.sort();
        assert_eq!(platforms, ["amd64", "arm64"]);
        // The index, and of each a manifest, a configuration and a layer; oci-layout and index.json beside them.
        assert_eq!((seen, members.len()), (7, 9));
    }

    #[test]
    fn an_oci_layout_has_every_blob_under_its_digest() {
        let members = members(&sample(b"program").0);
        assert_eq!(json_of(&members, "oci-layout")["imageLayoutVersion"], "1.0.0");
        let mut wanted = vec![json_of(&members, "index.json")["manifests"][0].clone()];
        assert_eq!(wanted[0]["annotations"]["io.containerd.image.name"], Image::Counter.reference());
        let mut seen = 0;
        while let Some(descriptor) = wanted.pop() {
            let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
            let content = &members[&blob(&digest)];
            assert_eq!(sha256(content), digest);
            assert_eq!(descriptor["size"], content.len());
            wanted.extend(named_by(&descriptor, content));
            seen += 1;
        }
        assert_eq!(seen, 3);
        // oci-layout, index.json and manifest.json beside the blobs.
        assert_eq!(members.len(), seen + 3);
    }
}
