//! A volume of a few MB, so that a simulation can fill it: a file system in the node's memory.

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::{
    Api,
    api::{DeleteParams, LogParams, PostParams},
};
use serde_json::json;

use crate::{World, world::exec, world::until};

/// Name of the pod that holds the file system, and of its claim.
const NAME: &str = "small";

/// Size of the file system, MiB.
const SIZE: u32 = 16;

/// Mounts it where the kubelet sees it, and copies $1 from the volume of claim `simulations` to it.
const HOLD: &str = r#"
mount -t tmpfs -o "size=$2m,mode=1777" small /small
trap 'umount -l /small; exit 0' TERM
cp "/data/$1" /small/
echo ready
sleep infinity &
wait
"#;

/// Fills it to the last byte as soon as a first checkpoint is in $1: that one is whole, and the next one some time away. A
/// checkpoint that finds the volume full is cut off, and mdrun notices only sometimes; so is the one before it, over which
/// mdrun has copied.
const FILL: &str = r#"
until [ -e "$1/state.cpt" ]; do sleep 0.1; done
cat /dev/zero > /small/filler 2> /dev/null || true
"#;

/// A small volume with a claim of that name.
pub struct SmallVolume {
    world: &'static World,
    /// Volumes are the cluster's.
    volume: String,
}

impl SmallVolume {
    /// Name of its claim.
    pub const CLAIM: &'static str = NAME;

    /// Makes one with a copy of `file` of the claim `simulations` in its root.
    ///
    /// # Errors
    /// What the API server says, or if the node's runtime cannot mount it.
    pub async fn new(world: &'static World, file: &str) -> Result<Self> {
        let volume = format!("{NAME}-{}", world.namespace);
        let folder = format!("/run/{volume}");
        // Only a pod that may mount, and passes its mounts on, can make a file system on any cluster's node.
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": NAME },
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 5,
                "containers": [{
                    "name": NAME, "image": "scavenger.dev/gromacs:2022.5", "imagePullPolicy": "IfNotPresent",
                    "command": ["bash", "-euc", HOLD, NAME, file, SIZE.to_string()],
                    "securityContext": { "privileged": true, "runAsUser": 0 },
                    "resources": { "requests": { "cpu": "10m" } },
                    "volumeMounts": [
                        { "name": "data", "mountPath": "/data", "readOnly": true },
                        { "name": NAME, "mountPath": "/small", "mountPropagation": "Bidirectional" },
                    ],
                }],
                "volumes": [
                    { "name": "data", "persistentVolumeClaim": { "claimName": "simulations" } },
                    { "name": NAME, "hostPath": { "path": folder, "type": "DirectoryOrCreate" } },
                ],
            },
        });
        world.create::<Pod>(pod).await?;
        let pods = world.api::<Pod>();
        let node = until("the small file system is mounted", || async {
            let pod = pods.get(NAME).await?;
            let phase = pod.status.and_then(|status| status.phase).unwrap_or_default();
            if phase == "Failed" {
                bail!("it cannot be made: {}", pods.logs(NAME, &LogParams::default()).await?);
            }
            let is_ready = phase == "Running"
                && pods.logs(NAME, &LogParams::default()).await.is_ok_and(|log| log.contains("ready"));
            Ok(if is_ready { pod.spec.and_then(|spec| spec.node_name) } else { None })
        })
        .await?;
        let capacity = json!({ "storage": format!("{SIZE}Mi") });
        let persistent: PersistentVolume = serde_json::from_value(json!({
            "metadata": { "name": volume },
            "spec": {
                "capacity": capacity, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": { "path": folder, "type": "Directory" },
                "claimRef": { "namespace": world.namespace, "name": NAME },
                "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [
                    { "key": "kubernetes.io/hostname", "operator": "In", "values": [node] },
                ] }] } },
            },
        }))?;
        let volumes: Api<PersistentVolume> = Api::all(world.client.clone());
        volumes.create(&PostParams::default(), &persistent).await?;
        let made = Self { world, volume: volume.clone() };
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": NAME },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": volume,
                "resources": { "requests": capacity },
            },
        });
        world.create::<PersistentVolumeClaim>(claim).await?;
        Ok(made)
    }

    /// Fills it once a first checkpoint is in `folder`, a path from its root.
    ///
    /// # Errors
    /// If that cannot be done.
    pub async fn fill_behind_a_checkpoint(&self, folder: &str) -> Result<()> {
        self.exec(&["bash", "-euc", FILL, NAME, &format!("/small/{folder}")]).await
    }

    /// Lets it hold at most so many files and folders, as a volume that fills although it has bytes left.
    ///
    /// # Errors
    /// If that cannot be done.
    pub async fn limit_files(&self, most: u32) -> Result<()> {
        self.exec(&["mount", "-o", &format!("remount,nr_inodes={most}"), "/small"]).await
    }

    /// Puts a link of that name in its root.
    ///
    /// # Errors
    /// If that cannot be done.
    pub async fn link(&self, name: &str, target: &str) -> Result<()> {
        self.exec(&["ln", "-s", target, &format!("/small/{name}")]).await
    }

    /// Paths of what has this name, a pattern, here or on the volume of claim `simulations`.
    ///
    /// # Errors
    /// If that cannot be done.
    pub async fn find(&self, name: &str) -> Result<Vec<String>> {
        // What goes meanwhile is no failure.
        let script = r#"find /small /data -name "$1" 2>/dev/null || true"#;
        let command = ["sh", "-c", script, NAME, name];
        let found = exec(&self.world.api::<Pod>(), NAME, NAME, &command).await?;
        Ok(found.lines().map(ToOwned::to_owned).collect())
    }

    /// Gives back the room that was filled.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub async fn make_room(&self) -> Result<()> {
        self.exec(&["rm", "/small/filler"]).await
    }

    async fn exec(&self, command: &[&str]) -> Result<()> {
        exec(&self.world.api::<Pod>(), NAME, NAME, command).await.map(|_| ())
    }

    /// Removes what does not go with the namespace.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn remove(self) -> Result<()> {
        let volumes: Api<PersistentVolume> = Api::all(self.world.client.clone());
        volumes.delete(&self.volume, &DeleteParams::default()).await.context("the small volume stays")?;
        Ok(())
    }
}
