//! The docker-archive: layers, a configuration that names them, and a manifest that names the configuration.

use std::fs::File;
use std::io::{BufWriter, Write};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use super::Archive;
use super::catalogue::Image;
use super::layer::{EPOCH_SECONDS, Layer, sha256};
use crate::cache::{self, Key};

/// [`EPOCH_SECONDS`] as the configuration writes it.
const CREATED: &str = "2000-01-01T00:00:00Z";

/// Writes the archive unless it is there.
pub(super) fn write(image: Image, layers: &[Layer]) -> Result<Archive> {
    let config = serde_json::to_string(&config(image, layers))?;
    let id = sha256(config.as_bytes());
    let file_name = image.file_name();
    // The configuration names the layers by their digests, but not the image.
    let key = Key::new(&format!("{}\n{config}", image.reference()));
    let entry = cache::entry("image", &key, |folder| {
        let path = folder.join(&file_name);
        let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        fill(file, image, &config, layers)
            .with_context(|| format!("cannot write the archive of {}", image.reference()))
    })?;
    Ok(Archive { name: image.reference(), path: entry.join(file_name), digest: format!("sha256:{id}") })
}

fn config(image: Image, layers: &[Layer]) -> Value {
    let diff_ids: Vec<_> = layers.iter().map(|layer| format!("sha256:{}", layer.sha256)).collect();
    let made_by = ["Debian packages, unpacked by mmdebstrap", "cargo xtask images"];
    let history: Vec<_> =
        made_by.iter().take(layers.len()).map(|by| json!({ "created": CREATED, "created_by": by })).collect();
    json!({
        "architecture": architecture(),
        "os": "linux",
        "created": CREATED,
        "config": image.run_config(),
        "rootfs": { "type": "layers", "diff_ids": diff_ids },
        "history": history,
    })
}

/// The Go name of this machine's architecture, which image configurations use.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn fill(output: impl Write, image: Image, config: &str, layers: &[Layer]) -> Result<()> {
    let mut builder = Builder::new(BufWriter::with_capacity(1 << 20, output));
    let mut names = Vec::new();
    for layer in layers {
        let name = format!("{}.tar", layer.sha256);
        builder.append_data(&mut header(layer.size()?), &name, layer.reader()?)?;
        names.push(name);
    }
    let config_name = format!("{}.json", sha256(config.as_bytes()));
    builder.append_data(&mut header(config.len() as u64), &config_name, config.as_bytes())?;
    let manifest =
        json!([{ "Config": config_name, "RepoTags": [image.reference()], "Layers": names }]).to_string();
    builder.append_data(&mut header(manifest.len() as u64), "manifest.json", manifest.as_bytes())?;
    builder.into_inner()?.flush()?;
    Ok(())
}

fn header(size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_mtime(EPOCH_SECONDS);
    header.set_size(size);
    header
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::io::Read;

    use super::super::layer::NewFile;
    use super::*;

    fn layers(content: &[u8]) -> Vec<Layer> {
        vec![Layer::of_files(&[NewFile::new("usr/local/bin/program", 0o755, content)]).unwrap()]
    }

    fn archive(content: &[u8]) -> (Vec<u8>, Vec<Layer>) {
        let layers = layers(content);
        let config = config(Image::Counter, &layers).to_string();
        let mut bytes = Vec::new();
        fill(&mut bytes, Image::Counter, &config, &layers).unwrap();
        (bytes, layers)
    }

    #[test]
    fn the_archive_names_its_parts_and_is_the_same_each_time() {
        let (bytes, layers) = archive(b"program");
        assert_eq!(bytes, archive(b"program").0);
        assert_ne!(bytes, archive(b"another").0);

        let mut parts = HashMap::new();
        for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            parts.insert(entry.path().unwrap().display().to_string(), content);
        }
        assert_eq!(parts.len(), 3);
        let manifest: Value = serde_json::from_slice(&parts["manifest.json"]).unwrap();
        assert_eq!(manifest[0]["RepoTags"][0], Image::Counter.reference());
        let config: Value = serde_json::from_slice(&parts[manifest[0]["Config"].as_str().unwrap()]).unwrap();
        let layer = &parts[manifest[0]["Layers"][0].as_str().unwrap()];
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", sha256(layer)));
        assert_eq!(layers[0].sha256, sha256(layer));
        assert_eq!(config["config"]["Entrypoint"][0], "/usr/local/bin/scavenger-counter");
    }
}
