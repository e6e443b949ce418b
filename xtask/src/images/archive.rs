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
use super::{Architecture, Archive, sbom};
use crate::cache::{self, Key};

/// [`EPOCH_SECONDS`] as the configuration writes it.
const CREATED: &str = "2000-01-01T00:00:00Z";

/// Media types of the parts.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// Writes the archive unless it is there; `sbom` lists what is in the image.
pub(super) fn write(
    image: Image,
    architecture: Architecture,
    layers: &[Layer],
    sbom: &str,
) -> Result<Archive> {
    let parts = Parts::new(image, architecture, layers)?;
    // Those of two architectures can lie side by side.
    let file_name = match image.file_name() {
        name if architecture == Architecture::of_this_machine() => name,
        name => format!("{}-{name}", architecture.name()),
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
        sbom: entry.join(sbom::file_name(&file_name)),
        path: entry.join(file_name),
        digest: format!("sha256:{}", sha256(parts.config.as_bytes())),
    })
}

/// The documents of an archive.
struct Parts {
    /// How a container is run, and the layers.
    config: String,
    /// The OCI manifest: digests and sizes of configuration and layers.
    manifest: String,
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
        let mut of_image = descriptor(MANIFEST, &manifest);
        of_image["platform"] = json!({ "architecture": architecture.name(), "os": "linux" });
        of_image["annotations"] = json!({
            "io.containerd.image.name": image.reference(),
            "org.opencontainers.image.ref.name": image.reference().rsplit(':').next(),
        });
        let index = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [of_image],
        });
        let names: Vec<_> = layers.iter().map(|layer| blob(&layer.sha256)).collect();
        let docker = json!([{
            "Config": blob(&sha256(config.as_bytes())), "RepoTags": [image.reference()], "Layers": names,
        }]);
        Ok(Self { config, manifest, index: index.to_string(), docker: docker.to_string() })
    }

    fn fill(&self, output: impl Write, layers: &[Layer]) -> Result<()> {
        let mut builder = Builder::new(BufWriter::with_capacity(1 << 20, output));
        let mut add = |name: &str, content: &str| {
            builder.append_data(&mut header(content.len() as u64), name, content.as_bytes())
        };
        add("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#)?;
        add("index.json", &self.index)?;
        add("manifest.json", &self.docker)?;
        for document in [&self.manifest, &self.config] {
            add(&blob(&sha256(document.as_bytes())), document)?;
        }
        for layer in layers {
            builder.append_data(&mut header(layer.size()?), blob(&layer.sha256), layer.reader()?)?;
        }
        builder.into_inner()?.flush()?;
        Ok(())
    }
}

fn descriptor(media_type: &str, content: &str) -> Value {
    json!({
        "mediaType": media_type,
        "digest": format!("sha256:{}", sha256(content.as_bytes())),
        "size": content.len(),
    })
}

/// Where a blob lies in the layout.
fn blob(sha256: &str) -> String {
    format!("blobs/sha256/{sha256}")
}

fn config(image: Image, architecture: Architecture, layers: &[Layer]) -> Value {
    let diff_ids: Vec<_> = layers.iter().map(|layer| format!("sha256:{}", layer.sha256)).collect();
    let debian = image.debian().map(|_| "Debian packages, unpacked by mmdebstrap");
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
            if descriptor["mediaType"] == MANIFEST {
                let manifest: Value = serde_json::from_slice(content).unwrap();
                wanted.push(manifest["config"].clone());
                wanted.extend(manifest["layers"].as_array().unwrap().clone());
            }
            seen += 1;
        }
        assert_eq!(seen, 3);
        // oci-layout, index.json and manifest.json beside the blobs.
        assert_eq!(members.len(), seen + 3);
    }
}
