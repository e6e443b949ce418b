//! Where the demo is played: how its cluster is reached, and what differs between a development cluster and another.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{
    chart,
    cluster::{Access, Cluster},
    images::Image,
    shell::ROOT,
};

/// Label of everything that the demo creates, or changes, on a cluster of the user's own.
pub(super) const LABEL: &str = "scavenger.dev/demo";

/// The cluster, and what is called how in it.
pub(super) struct Stage {
    pub(super) access: Access,
    /// Namespace of the chemists.
    pub(super) chemists: &'static str,
    /// Namespace of the ordinary pod.
    pub(super) owner: &'static str,
    /// What pods write for images that nodes pull from a registry; empty if the node has them all.
    pub(super) images: Vec<(Image, String)>,
    /// True if the demo's pods run only where [`LABEL`] is.
    pub(super) is_pinned: bool,
    /// StorageClass of the claims, if not the cluster's default.
    pub(super) storage_class: Option<String>,
}

impl Stage {
    /// A development cluster, which is the demo's own.
    pub(super) fn of(cluster: &Cluster) -> Self {
        Self {
            access: cluster.access(),
            chemists: "chem",
            owner: "owner",
            images: Vec::new(),
            is_pinned: false,
            storage_class: None,
        }
    }

    /// What a pod writes for an image.
    pub(super) fn image(&self, image: Image) -> String {
        let pushed = self.images.iter().find(|(one, _)| *one == image);
        pushed.map_or_else(|| image.reference(), |(_, name)| name.clone())
    }

    /// The objects of a kustomization of this checkout, fitted to the cluster, as one list.
    pub(super) fn objects(&self, folder: &str) -> Result<Value> {
        let text = self.access.kubectl_output(&["kustomize", &format!("{ROOT}/{folder}")])?;
        let mut objects = chart::documents(&text).with_context(|| format!("in {folder}"))?;
        objects.iter_mut().for_each(|object| self.fit(object));
        Ok(json!({ "apiVersion": "v1", "kind": "List", "items": objects }))
    }

    /// Lets a pod run where the demo runs.
    pub(super) fn fit_pod(&self, spec: &mut Value) {
        if self.is_pinned {
            spec["nodeSelector"] = json!({ LABEL: "true" });
        }
        for list in ["containers", "initContainers"] {
            for container in spec[list].as_array_mut().into_iter().flatten() {
                let of_ours = self.images.iter().find(|(image, _)| container["image"] == image.reference());
                if let Some((_, name)) = of_ours {
                    container["image"] = json!(name);
                }
            }
        }
    }

    /// The same for the pods of an object, and its claims.
    fn fit(&self, object: &mut Value) {
        if let Some(spec) = object.pointer_mut("/spec/template/spec") {
            self.fit_pod(spec);
        }
        if let (Some(class), true) = (&self.storage_class, object["kind"] == "PersistentVolumeClaim") {
            object["spec"]["storageClassName"] = json!(class);
        }
    }
}

#[cfg(test)]
pub(super) fn example() -> Stage {
    Stage {
        access: Access::new("kubectl".into(), "none".into(), || Ok(())),
        chemists: "chem",
        owner: "owner",
        images: vec![(Image::Gromacs, "registry.example/gromacs@sha256:0".into())],
        is_pinned: true,
        storage_class: Some("fast".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_and_its_claim_are_fitted_to_the_cluster() {
        let container = |image: &str| json!({ "name": "a", "image": image });
        let mut job = json!({ "kind": "Job", "spec": { "template": { "spec": {
            "initContainers": [container("busybox:1")], "containers": [container(&Image::Gromacs.reference())],
        }}}});
        example().fit(&mut job);
        let spec = &job["spec"]["template"]["spec"];
        assert_eq!(spec["containers"][0]["image"], "registry.example/gromacs@sha256:0");
        assert_eq!(spec["initContainers"][0]["image"], "busybox:1");
        assert_eq!(spec["nodeSelector"], json!({ LABEL: "true" }));
        let mut claim =
            json!({ "kind": "PersistentVolumeClaim", "spec": { "accessModes": ["ReadWriteOnce"] } });
        example().fit(&mut claim);
        assert_eq!(claim["spec"]["storageClassName"], "fast");
    }
}
