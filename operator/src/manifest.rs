//! From a ScavengerJob to the objects that run it: a batch/v1 Job, and for a gang a headless Service. Pure.
//!
//! The pods meet the restricted Pod Security level by construction; the spec has no field that could change that.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        batch::v1::{
            Job as BatchJob, JobSpec, PodFailurePolicy, PodFailurePolicyOnPodConditionsPattern,
            PodFailurePolicyRule,
        },
        core::v1::{
            Capabilities, ConfigMapKeySelector, ConfigMapVolumeSource, Container, EnvVar, EnvVarSource,
            LocalObjectReference, ObjectFieldSelector, PersistentVolumeClaimVolumeSource, PodSecurityContext,
            PodSpec, PodTemplateSpec, ResourceRequirements, SeccompProfile, SecretKeySelector,
            SecretVolumeSource, SecurityContext, Service, ServiceSpec, Toleration, Volume, VolumeMount,
        },
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use kube::{Resource, ResourceExt};
use scavenger_schema::{
    names::{self, env},
    scavenger_job::{self as crd, ScavengerJob, ScavengerJobSpec},
};
use sha2::{Digest, Sha256};

/// Name of the container in every pod.
const CONTAINER: &str = "main";

/// Name of the headless Service through which the pods of a gang find each other.
pub(crate) fn service_name(sj: &str) -> String {
    format!("{sj}-pods")
}

/// Labels of everything that belongs to one attempt.
fn labels(sj: &ScavengerJob, attempt: u32) -> BTreeMap<String, String> {
    [
        (names::LABEL_JOB, sj.name_any()),
        (names::LABEL_JOB_UID, sj.uid().unwrap_or_default()),
        (names::LABEL_ATTEMPT, attempt.to_string()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect()
}

/// The headless Service of a gang.
pub(crate) fn service(sj: &ScavengerJob) -> Service {
    let selector: BTreeMap<String, String> =
        [(names::LABEL_JOB_UID.to_owned(), sj.uid().unwrap_or_default())].into();
    Service {
        metadata: ObjectMeta {
            name: Some(service_name(&sj.name_any())),
            namespace: sj.namespace(),
            owner_references: Some(sj.controller_owner_ref(&()).into_iter().collect()),
            labels: Some([(names::LABEL_JOB.to_owned(), sj.name_any())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            selector: Some(selector),
            // Peers look for each other before they are ready.
            publish_not_ready_addresses: Some(true),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// The batch/v1 Job of an attempt.
pub(crate) fn job(sj: &ScavengerJob, attempt: u32, priority_class: u32) -> BatchJob {
    let name = names::job(&sj.name_any(), attempt);
    let labels = labels(sj, attempt);
    let spec = JobSpec {
        parallelism: Some(sj.spec.pod_count),
        completions: Some(sj.spec.pod_count),
        completion_mode: Some("Indexed".to_owned()),
        // The operator alone decides about another attempt.
        backoff_limit: Some(0),
        pod_replacement_policy: Some("Failed".to_owned()),
        // A preempted or evicted pod ends the Job, and the Job controller terminates the rest of the gang, even while
        // no operator runs; the verdict stays in the Job's status.
        pod_failure_policy: Some(PodFailurePolicy {
            rules: vec![PodFailurePolicyRule {
                action: "FailJob".to_owned(),
                on_pod_conditions: Some(vec![PodFailurePolicyOnPodConditionsPattern {
                    type_: "DisruptionTarget".to_owned(),
                    status: Some("True".to_owned()),
                }]),
                ..PodFailurePolicyRule::default()
            }],
        }),
        template: PodTemplateSpec {
            metadata: Some(pod_metadata(sj, &labels)),
            spec: Some(pod_spec(sj, &name, attempt, priority_class)),
        },
        ..JobSpec::default()
    };
    let hash = hash(&spec);
    BatchJob {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: sj.namespace(),
            labels: Some(labels),
            annotations: Some([(names::ANNOTATION_SPEC_HASH.to_owned(), hash)].into()),
            owner_references: Some(sj.controller_owner_ref(&()).into_iter().collect()),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        ..BatchJob::default()
    }
}

/// What the ScavengerJob asks for, and the operator's own labels over it: the schema refuses their keys.
fn pod_metadata(sj: &ScavengerJob, own: &BTreeMap<String, String>) -> ObjectMeta {
    let asked = sj.spec.pod_metadata.clone().unwrap_or_default();
    let mut labels = asked.labels;
    labels.extend(own.clone());
    ObjectMeta {
        labels: Some(labels),
        annotations: (!asked.annotations.is_empty()).then_some(asked.annotations),
        ..ObjectMeta::default()
    }
}

/// Hash of a Job's spec as the operator makes it, before the API server fills in defaults.
fn hash(spec: &JobSpec) -> String {
    let json = serde_json::to_vec(spec).expect("a Job's spec should serialise, having only string keys");
    let digest = Sha256::digest(json);
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn pod_spec(sj: &ScavengerJob, job: &str, attempt: u32, priority_class: u32) -> PodSpec {
    let spec = &sj.spec;
    let gang = spec.pod_count > 1;
    let group = spec.run_as_group.unwrap_or(spec.run_as_user);
    let (volumes, mounts) = volumes(spec);
    PodSpec {
        containers: vec![Container {
            name: CONTAINER.to_owned(),
            image: Some(spec.image.clone()),
            image_pull_policy: spec.image_pull_policy.map(|policy| format!("{policy:?}")),
            command: some_list(&spec.command),
            args: some_list(&spec.args),
            working_dir: spec.working_dir.clone(),
            env: Some(environment(sj, job, attempt)),
            resources: Some(resources(&spec.resources)),
            volume_mounts: (!mounts.is_empty()).then_some(mounts),
            // The last lines of the log tell why, if the workload left no message of its own.
            termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
            security_context: Some(SecurityContext {
                allow_privilege_escalation: Some(false),
                capabilities: Some(Capabilities {
                    drop: Some(vec!["ALL".to_owned()]),
                    ..Capabilities::default()
                }),
                ..SecurityContext::default()
            }),
            ..Container::default()
        }],
        restart_policy: Some("Never".to_owned()),
        priority_class_name: Some(names::priority_class(priority_class)),
        termination_grace_period_seconds: Some(spec.termination_grace_period_seconds),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(spec.run_as_user),
            run_as_group: Some(group),
            fs_group: Some(spec.fs_group.unwrap_or(group)),
            // Changing the owner of every file of a large volume at each start would cost more than the restart.
            fs_group_change_policy: Some("OnRootMismatch".to_owned()),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                ..SeccompProfile::default()
            }),
            ..PodSecurityContext::default()
        }),
        service_account_name: spec.service_account_name.clone(),
        automount_service_account_token: Some(spec.service_account_name.is_some()),
        enable_service_links: Some(false),
        subdomain: gang.then(|| service_name(&sj.name_any())),
        image_pull_secrets: (!spec.image_pull_secrets.is_empty()).then(|| {
            spec.image_pull_secrets.iter().map(|name| LocalObjectReference { name: name.clone() }).collect()
        }),
        node_selector: (!spec.node_selector.is_empty()).then(|| spec.node_selector.clone()),
        tolerations: (!spec.tolerations.is_empty())
            .then(|| spec.tolerations.iter().map(toleration).collect()),
        volumes: (!volumes.is_empty()).then_some(volumes),
        ..PodSpec::default()
    }
}

fn some_list(list: &[String]) -> Option<Vec<String>> {
    (!list.is_empty()).then(|| list.to_vec())
}

/// Requests and limits are made from the requests alone, so they can not differ.
fn resources(resources: &crd::Resources) -> ResourceRequirements {
    let list: BTreeMap<String, Quantity> = resources
        .requests
        .iter()
        .map(|(name, quantity)| (name.clone(), Quantity(quantity.0.clone())))
        .collect();
    ResourceRequirements {
        requests: Some(list.clone()),
        limits: Some(list),
        ..ResourceRequirements::default()
    }
}

fn environment(sj: &ScavengerJob, job: &str, attempt: u32) -> Vec<EnvVar> {
    let own =
        |name: &str, value: String| EnvVar { name: name.to_owned(), value: Some(value), value_from: None };
    let hosts = if sj.spec.pod_count > 1 {
        let service = service_name(&sj.name_any());
        (0..sj.spec.pod_count).map(|index| format!("{job}-{index}.{service}")).collect::<Vec<_>>().join(",")
    } else {
        "localhost".to_owned()
    };
    let mut all = vec![
        own(env::POD_COUNT, sj.spec.pod_count.to_string()),
        own(env::HOSTS, hosts),
        own(env::ATTEMPT, attempt.to_string()),
    ];
    all.extend(sj.spec.env.iter().map(|variable| EnvVar {
        name: variable.name.clone(),
        value: variable.value.clone(),
        value_from: variable.value_from.as_ref().map(env_source),
    }));
    all
}

fn env_source(source: &crd::EnvVarSource) -> EnvVarSource {
    EnvVarSource {
        config_map_key_ref: source.config_map_key_ref.as_ref().map(|key| ConfigMapKeySelector {
            name: key.name.clone(),
            key: key.key.clone(),
            optional: key.optional,
        }),
        secret_key_ref: source.secret_key_ref.as_ref().map(|key| SecretKeySelector {
            name: key.name.clone(),
            key: key.key.clone(),
            optional: key.optional,
        }),
        field_ref: source
            .field_ref
            .as_ref()
            .map(|field| ObjectFieldSelector { field_path: field.field_path.clone(), api_version: None }),
        ..EnvVarSource::default()
    }
}

fn toleration(toleration: &crd::Toleration) -> Toleration {
    Toleration {
        key: toleration.key.clone(),
        operator: toleration.operator.map(|operator| format!("{operator:?}")),
        value: toleration.value.clone(),
        effect: toleration.effect.map(|effect| format!("{effect:?}")),
        toleration_seconds: None,
    }
}

fn volumes(spec: &ScavengerJobSpec) -> (Vec<Volume>, Vec<VolumeMount>) {
    let mut volumes: Vec<Volume> = Vec::new();
    let mut mounts = Vec::new();
    let mount = |name: &str, path: &str, sub_path: Option<&String>, read_only: bool| VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        sub_path: sub_path.cloned(),
        read_only: Some(read_only),
        ..VolumeMount::default()
    };
    // One volume for each claim, however often it is mounted.
    let mut claims: BTreeMap<&str, String> = BTreeMap::new();
    for claim in &spec.persistent_volume_claims {
        let number = claims.len();
        let name = claims.entry(&claim.claim_name).or_insert_with(|| {
            let name = format!("pvc-{number}");
            volumes.push(Volume {
                name: name.clone(),
                persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                    claim_name: claim.claim_name.clone(),
                    read_only: None,
                }),
                ..Volume::default()
            });
            name
        });
        mounts.push(mount(name, &claim.mount_path, claim.sub_path.as_ref(), claim.read_only));
    }
    for (number, map) in spec.config_maps.iter().enumerate() {
        let name = format!("configmap-{number}");
        mounts.push(mount(&name, &map.mount_path, None, true));
        let source = ConfigMapVolumeSource { name: map.name.clone(), ..ConfigMapVolumeSource::default() };
        volumes.push(Volume { name, config_map: Some(source), ..Volume::default() });
    }
    for (number, secret) in spec.secrets.iter().enumerate() {
        let name = format!("secret-{number}");
        mounts.push(mount(&name, &secret.mount_path, None, true));
        let source = SecretVolumeSource {
            secret_name: Some(secret.secret_name.clone()),
            ..SecretVolumeSource::default()
        };
        volumes.push(Volume { name, secret: Some(source), ..Volume::default() });
    }
    (volumes, mounts)
}

/// The service account that the pods will have. One that does not exist refuses them, the default one like any other.
pub(crate) fn service_account(spec: &ScavengerJobSpec) -> &str {
    spec.service_account_name.as_deref().unwrap_or("default")
}

/// Selector for the pods and Jobs of one ScavengerJob.
pub(crate) fn selector(uid: &str) -> String {
    format!("{}={uid}", names::LABEL_JOB_UID)
}

/// True if a Job that exists already is the one the operator would make.
pub(crate) fn is_same(existing: &BatchJob, wanted: &BatchJob, owner: &str) -> bool {
    let hash = |sj: &BatchJob| sj.annotations().get(names::ANNOTATION_SPEC_HASH).cloned();
    let controlled = existing
        .owner_references()
        .iter()
        .any(|reference| reference.controller == Some(true) && reference.uid == owner);
    controlled && hash(existing) == hash(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sj(pods: i32) -> ScavengerJob {
        let mut sj = ScavengerJob::new(
            "water",
            serde_json::from_value(serde_json::json!({
                "image": "counter", "command": ["count"], "podCount": pods, "runAsUser": 1234,
                "resources": { "requests": { "cpu": 1, "memory": "1Gi" } }, "interruptionAfter": "10m",
                "persistentVolumeClaims": [
                    { "claimName": "a", "mountPath": "/in", "readOnly": true },
                    { "claimName": "a", "mountPath": "/out", "subPath": "x" }],
                "secrets": [{ "secretName": "s", "mountPath": "/secret" }],
            }))
            .unwrap(),
        );
        sj.metadata.namespace = Some("chem".to_owned());
        sj.metadata.uid = Some("u-1".to_owned());
        sj
    }

    #[test]
    fn a_service_account_is_always_looked_up() {
        let mut sj = sj(1);
        assert_eq!(service_account(&sj.spec), "default");
        sj.spec.service_account_name = Some("chemist".to_owned());
        assert_eq!(service_account(&sj.spec), "chemist");
    }

    #[test]
    fn pods_are_guaranteed_and_restricted() {
        let job = job(&sj(1), 3, 12);
        let pod = job.spec.unwrap().template.spec.unwrap();
        let container = &pod.containers[0];
        let resources = container.resources.as_ref().unwrap();
        assert_eq!(resources.requests, resources.limits);
        let context = pod.security_context.as_ref().unwrap();
        assert_eq!(context.run_as_non_root, Some(true));
        assert_eq!(
            (context.run_as_user, context.run_as_group, context.fs_group),
            (Some(1234), Some(1234), Some(1234))
        );
        assert_eq!(context.seccomp_profile.as_ref().unwrap().type_, "RuntimeDefault");
        let context = container.security_context.as_ref().unwrap();
        assert_eq!(context.allow_privilege_escalation, Some(false));
        assert_eq!(context.capabilities.as_ref().unwrap().drop.as_deref(), Some(&["ALL".to_owned()][..]));
        assert_eq!(pod.automount_service_account_token, Some(false));
        assert_eq!(pod.priority_class_name.as_deref(), Some("scavenger-9"));
        assert_eq!(job.metadata.name.as_deref(), Some("water-3"));
        let volumes = pod.volumes.unwrap();
        assert_eq!(volumes.len(), 2, "one volume for a claim that is mounted twice");
        assert_eq!(container.volume_mounts.as_ref().unwrap().len(), 3);
    }

    #[test]
    fn pods_get_the_labels_and_annotations_that_were_asked_for() {
        let mut sj = sj(1);
        let plain = job(&sj, 1, 0);
        assert_eq!(plain.spec.as_ref().unwrap().template.metadata.as_ref().unwrap().annotations, None);
        sj.spec.pod_metadata = Some(
            serde_json::from_value(serde_json::json!({
                "labels": { "team": "water", names::LABEL_ATTEMPT: "7" },
                "annotations": { "sidecar.istio.io/inject": "false" },
            }))
            .unwrap(),
        );
        let job = job(&sj, 1, 0);
        let metadata = job.spec.as_ref().unwrap().template.metadata.as_ref().unwrap();
        let labels = metadata.labels.as_ref().unwrap();
        assert_eq!(labels.get("team").map(String::as_str), Some("water"));
        assert_eq!(
            labels.get(names::LABEL_ATTEMPT).map(String::as_str),
            Some("1"),
            "the operator's own stay"
        );
        assert_eq!(metadata.annotations.as_ref().unwrap()["sidecar.istio.io/inject"], "false");
        assert_eq!(job.metadata.labels.unwrap().get("team"), None, "pods alone have them");
        assert!(!is_same(&plain, &super::job(&sj, 1, 0), "u-1"));
    }

    #[test]
    fn a_gang_knows_its_hosts() {
        let job = job(&sj(2), 1, 0);
        let pod = job.spec.unwrap().template.spec.unwrap();
        assert_eq!(pod.subdomain.as_deref(), Some("water-pods"));
        let hosts =
            pod.containers[0].env.as_ref().unwrap().iter().find(|v| v.name == "SCAVENGER_HOSTS").unwrap();
        assert_eq!(hosts.value.as_deref(), Some("water-1-0.water-pods,water-1-1.water-pods"));
    }

    #[test]
    fn the_hash_tells_other_specs_apart() {
        let wanted = job(&sj(1), 1, 0);
        assert!(is_same(&job(&sj(1), 1, 0), &wanted, "u-1"));
        assert!(!is_same(&job(&sj(2), 1, 0), &wanted, "u-1"));
        assert!(!is_same(&job(&sj(1), 1, 0), &wanted, "u-2"));
    }
}
