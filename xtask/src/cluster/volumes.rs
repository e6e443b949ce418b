//! The pool of local volumes: what was released is emptied and offered again.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Cluster;
use crate::cache;

#[derive(Debug, Deserialize)]
struct List {
    items: Vec<Volume>,
}

#[derive(Debug, Deserialize)]
struct Volume {
    metadata: Metadata,
    #[serde(default)]
    status: VolumeStatus,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
struct VolumeStatus {
    #[serde(default)]
    phase: String,
}

impl Cluster {
    /// Empties the volumes whose claims are gone, and makes them available again.
    pub(crate) fn recycle_volumes(&self) -> Result<()> {
        let list = self.kubectl_output(&["get", "persistentvolumes", "-o", "json"])?;
        let list: List = serde_json::from_str(&list).context("cannot understand the list of volumes")?;
        for volume in list.items.iter().filter(|volume| volume.status.phase == "Released") {
            let name = &volume.metadata.name;
            let folder = self.state_dir.join("volumes").join(name);
            // Only the pool's own: anyone may create volumes, with any path.
            if !folder.is_dir() {
                continue;
            }
            // A new folder has neither the files nor the owner that the last claim's pods gave it. The pods are
            // gone: the claim's protection finalizer kept it until then.
            cache::remove(&folder)?;
            fs::create_dir(&folder)
                .and_then(|()| fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)))
                .with_context(|| format!("cannot create the volume {}", folder.display()))?;
            let patch = r#"{"spec":{"claimRef":null}}"#;
            self.kubectl_output(&["patch", "persistentvolume", name, "--type=merge", "--patch", patch])?;
            eprintln!("the volume {name} is empty and available again");
        }
        Ok(())
    }
}
