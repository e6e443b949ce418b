//! Whether files can be locked on the volumes of a namespace. Only a pod that mounts a volume could try it; what is known
//! is how it is mounted. mdrun appends to its output only where it can lock its log.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeSpec};

use super::{Finding, Verdict, read::Read};

const CHECK: &str = "file locks";

/// Drivers that show an object store as files: these lock nothing.
/// Sources: awslabs/mountpoint-s3 `doc/SEMANTICS.md`, the limitations in the documentation of Cloud Storage FUSE and in the
/// README of Azure/azure-storage-fuse.
const OBJECT_STORES: [&str; 3] = ["s3.csi.aws.com", "gcsfuse.csi.storage.gke.io", "blob.csi.azure.com"];

/// What keeps locks from other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Locks {
    /// As far as is known, files can be locked.
    Usual,
    /// Files cannot be locked.
    None,
    /// An NFS client keeps them to itself.
    OneNode,
}

fn locks_of(volume: &PersistentVolumeSpec) -> Locks {
    let csi = volume.csi.as_ref();
    let attributes = csi.and_then(|csi| csi.volume_attributes.as_ref());
    // The driver for Azure Blob mounts NFS, too, if it is asked to.
    let protocol = attributes.and_then(|attributes| attributes.get("protocol"));
    if csi.is_some_and(|csi| OBJECT_STORES.contains(&&*csi.driver)) && protocol.is_none_or(|it| it != "nfs") {
        return Locks::None;
    }
    let options = volume.mount_options.iter().flatten().flat_map(|options| options.split(','));
    // mdrun takes fcntl locks, which nfs(5) calls POSIX locks.
    let local = ["nolock", "local_lock=all", "local_lock=posix"];
    let is_local =
        options.map(|option| option.trim_start_matches("-o ").trim()).any(|one| local.contains(&one));
    if is_local { Locks::OneNode } else { Locks::Usual }
}

/// What is known of the volumes to which the claims of the namespace are bound.
pub(super) fn findings(volumes: &Read<Vec<PersistentVolume>>) -> Vec<Finding> {
    let volumes = match volumes {
        Err(why) => return vec![Finding::new(CHECK, Verdict::Unknown, why.clone())],
        Ok(volumes) if volumes.is_empty() => return vec![],
        Ok(volumes) => volumes,
    };
    let with = |locks: Locks| {
        let has =
            |volume: &&PersistentVolume| volume.spec.as_ref().is_some_and(|spec| locks_of(spec) == locks);
        let claims: Vec<&str> = volumes.iter().filter(has).map(claim_of).collect();
        (!claims.is_empty()).then(|| claims.join(", "))
    };
    let none = with(Locks::None).map(|claims| {
        format!(
            "an object store shown as files: {claims}; files can neither be locked nor changed there, so mdrun cannot go on \
             from a checkpoint; use a file system"
        )
    });
    let one_node = with(Locks::OneNode).map(|claims| {
        format!(
            "mounted so that a lock holds on one node only: {claims}; two programs on two nodes can write to one file; mount \
             without nolock and local_lock"
        )
    });
    let found: Vec<Finding> =
        none.into_iter().chain(one_node).map(|message| Finding::warning(CHECK, message)).collect();
    if found.is_empty() {
        return vec![Finding::ok(
            CHECK,
            "no volume is known to lack them; the inspection of each row tries it",
        )];
    }
    found
}

fn claim_of(volume: &PersistentVolume) -> &str {
    let claim = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()?.name.as_deref());
    claim.unwrap_or_else(|| volume.metadata.name.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn volume(claim: &str, how: &Value) -> PersistentVolume {
        let mut spec = json!({ "claimRef": { "name": claim } });
        spec.as_object_mut().unwrap().extend(how.as_object().unwrap().clone());
        serde_json::from_value(json!({ "metadata": { "name": format!("pv-{claim}") }, "spec": spec }))
            .unwrap()
    }

    fn csi(driver: &str, attributes: &Value) -> Value {
        json!({ "csi": { "driver": driver, "volumeHandle": "v", "volumeAttributes": attributes } })
    }

    #[test]
    fn volumes_without_locks_and_with_locks_of_one_node_are_named() {
        let nfs =
            |options: &[&str]| json!({ "nfs": { "server": "s", "path": "/" }, "mountOptions": options });
        let volumes = vec![
            volume("disk", &csi("ebs.csi.aws.com", &json!({}))),
            volume("bucket", &csi("s3.csi.aws.com", &json!({}))),
            volume("blob", &csi("blob.csi.azure.com", &json!({ "protocol": "fuse2" }))),
            volume("blob-nfs", &csi("blob.csi.azure.com", &json!({ "protocol": "nfs" }))),
            volume("home", &nfs(&["nfsvers=3", "hard,nolock"])),
            volume("scratch", &nfs(&["local_lock=posix"])),
            volume("flock", &nfs(&["local_lock=flock"])),
        ];
        let found = findings(&Ok(volumes));
        let [none, one_node] = &*found else { panic!("{found:?}") };
        assert_eq!((none.verdict, one_node.verdict), (Verdict::Warning, Verdict::Warning));
        assert!(none.message.contains("shown as files: bucket, blob; "), "{}", none.message);
        assert!(one_node.message.contains("one node only: home, scratch; "), "{}", one_node.message);
    }

    #[test]
    fn nothing_is_claimed_of_what_is_not_known() {
        let found = findings(&Ok(vec![volume("data", &json!({ "hostPath": { "path": "/data" } }))]));
        assert_eq!(found.iter().map(|found| found.verdict).collect::<Vec<_>>(), [Verdict::Ok]);
        assert_eq!(findings(&Ok(vec![])), []);
        let found = findings(&Err("this user may not read persistentvolumes".to_owned()));
        assert_eq!(found.iter().map(|found| found.verdict).collect::<Vec<_>>(), [Verdict::Unknown]);
    }
}
