//! Which containers a spec describes. While that does not change, a container that could once be created and cannot be any
//! more lacks nothing that is misspelt.

use scavenger_schema::scavenger_job::ScavengerJobSpec;
use serde::Serialize;

/// A hash of all from which the containers of a ScavengerJob are created. Neither what they request, nor their arguments (the
/// first is the program where there is no command), nor where they run keeps them from being created. It is stored, so it must be the same in each version of the operator:
/// FNV-1a over the fields as JSON.
pub fn of(spec: &ScavengerJobSpec) -> u64 {
    let mut hash = Fnv(OFFSET);
    let program = (&spec.image, spec.image_pull_policy, &spec.image_pull_secrets, &spec.command);
    let user = (spec.run_as_user, spec.run_as_group, spec.fs_group);
    let mounts = (&spec.persistent_volume_claims, &spec.config_maps, &spec.secrets);
    let place = (&spec.working_dir, &spec.runtime_class_name, &spec.service_account_name);
    hash.add(&(program, user, mounts, place, &spec.env));
    if spec.command.is_empty() {
        hash.add(&spec.args.first());
    }
    hash.0
}

/// A hash of the image and of all that decides whether it is pulled: a node that gets one of two with the same hash
/// gets the other.
pub fn of_image(spec: &ScavengerJobSpec) -> u64 {
    let mut hash = Fnv(OFFSET);
    let pull = (&spec.image, spec.image_pull_policy, &spec.image_pull_secrets, &spec.service_account_name);
    hash.add(&pull);
    hash.0
}

/// A hash of the whole spec.
pub fn of_all(spec: &ScavengerJobSpec) -> u64 {
    let mut hash = Fnv(OFFSET);
    hash.add(spec);
    hash.0
}

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a of 64 bits.
struct Fnv(u64);

impl Fnv {
    fn add(&mut self, value: &impl Serialize) {
        // Texts, numbers and lists of them: nothing that JSON cannot write.
        let bytes = serde_json::to_vec(value).unwrap_or_default();
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// As the status has it.
pub fn text(hash: u64) -> String {
    format!("{hash:016x}")
}

/// The hash that a status has.
pub fn parse(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn hash(change: &Value) -> u64 {
        of(&changed(change))
    }

    fn changed(change: &Value) -> ScavengerJobSpec {
        let mut spec = json!({
            "image": "counter:1", "command": ["count"],
            "resources": { "requests": { "cpu": 1, "memory": "1Gi" } }, "interruptionAfter": "10m",
            "secrets": [{ "secretName": "s", "mountPath": "/secret" }],
        });
        let fields = change.as_object().expect("a change should be an object").clone();
        spec.as_object_mut().expect("the spec should be an object").extend(fields);
        serde_json::from_value(spec).expect("the spec should be valid")
    }

    #[test]
    fn what_keeps_no_container_from_being_created_changes_nothing() {
        for change in [
            json!({ "suspend": true }),
            json!({ "activeDeadlineSeconds": 5, "ttlSecondsAfterFinished": 5 }),
            json!({ "resources": { "requests": { "cpu": 2, "memory": "1Gi" } } }),
            json!({ "args": ["--to=9"], "podCount": 2, "interruptionAfter": "20m" }),
            json!({ "nodeSelector": { "a": "b" }, "tolerations": [{ "operator": "Exists" }] }),
        ] {
            assert_eq!(hash(&change), hash(&json!({})), "{change}");
        }
    }

    #[test]
    fn what_may_be_misspelt_changes_it() {
        for change in [
            json!({ "image": "counter:2" }),
            json!({ "imagePullPolicy": "Never" }),
            json!({ "imagePullSecrets": ["login"] }),
            json!({ "command": ["cuont"] }),
            json!({ "workingDir": "/nowhere" }),
            json!({ "env": [{ "name": "A", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } }] }),
            json!({ "secrets": [] }),
            json!({ "configMaps": [{ "name": "c", "mountPath": "/map" }] }),
            json!({ "persistentVolumeClaims": [{ "claimName": "c", "mountPath": "/data" }] }),
            json!({ "serviceAccountName": "somebody" }),
        ] {
            assert_ne!(hash(&change), hash(&json!({})), "{change}");
        }
    }

    #[test]
    fn the_hash_of_the_image_changes_only_with_what_decides_whether_it_is_pulled() {
        let image = |change: Value| of_image(&changed(&change));
        for same in [json!({ "command": ["cuont"] }), json!({ "secrets": [] }), json!({ "podCount": 2 })] {
            assert_eq!(image(same), image(json!({})));
        }
        for other in [
            json!({ "image": "counter:2" }),
            json!({ "imagePullPolicy": "Never" }),
            json!({ "imagePullSecrets": ["login"] }),
            json!({ "serviceAccountName": "somebody" }),
        ] {
            assert_ne!(image(other), image(json!({})));
        }
    }

    #[test]
    fn without_a_command_the_first_argument_is_the_program() {
        let of = |args: Value| hash(&json!({ "command": [], "args": args }));
        assert_ne!(of(json!(["python", "run.py"])), of(json!(["no-such-program", "run.py"])));
        assert_eq!(of(json!(["python", "run.py"])), of(json!(["python", "again.py"])));
    }

    #[test]
    fn it_is_the_same_in_every_version() {
        assert_eq!(text(hash(&json!({}))), "e3f474dec670b155");
        for hash in [0, 1, u64::MAX] {
            assert_eq!(parse(&text(hash)), Some(hash));
        }
        assert_eq!(parse("no number"), None);
    }
}
