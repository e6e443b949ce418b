//! From a ScavengerJob to the objects that run it: a batch/v1 Job, and for a gang a headless Service. Pure.
//!
//! The pods meet the restricted Pod Security level by construction; the spec has no field that could change that.

mod by_use;
mod supervisor;

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        batch::v1::{
            Job as BatchJob, JobSpec, PodFailurePolicy, PodFailurePolicyOnPodConditionsPattern,
            PodFailurePolicyRule,
        },
        core::v1::{
            Affinity, Capabilities, ConfigMapKeySelector, ConfigMapVolumeSource, Container, EnvVar,
            EnvVarSource, LocalObjectReference, NodeAffinity, NodeSelector, NodeSelectorRequirement,
            NodeSelectorTerm, ObjectFieldSelector, PersistentVolumeClaimVolumeSource, PodSecurityContext,
            PodSpec, PodTemplateSpec, ResourceRequirements, SeccompProfile, SecretKeySelector,
            SecretVolumeSource, SecurityContext, Service, ServiceSpec, Toleration, Volume, VolumeMount,
        },
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use kube::{Resource, ResourceExt};
use scavenger_planner::values::{ByUse, Confinement, Expression, Name, Supervisor};
use scavenger_schema::{
    names::{self, env},
    scavenger_job::{self as crd, ScavengerJob, ScavengerJobSpec},
};

pub(crate) use supervisor::Settings;

/// Name of the container in every pod that runs the workload. What else a pod has was injected, by a service mesh say.
pub(crate) const CONTAINER: &str = "main";

/// A gang of so many pods at most gets the names of all of them: each pod holds the whole list, so it grows with the square
/// of the gang, and a thousand long names are more than Linux takes in one variable.
const MOST_HOSTS: i32 = 64;

/// Name of the headless Service through which the pods of a gang find each other.
pub(crate) fn service_name(sj: &str) -> String {
    format!("{sj}-pods")
}

/// Labels of everything that belongs to one attempt.
fn labels(sj: &ScavengerJob, attempt: u32) -> BTreeMap<String, String> {
    let folder = sj.labels().get(names::LABEL_FOLDER);
    [
        (names::LABEL_JOB, sj.name_any()),
        (names::LABEL_JOB_UID, sj.uid().unwrap_or_default()),
        (names::LABEL_ATTEMPT, attempt.to_string()),
    ]
    .into_iter()
    .chain(folder.map(|folder| (names::LABEL_FOLDER, folder.clone())))
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

/// The batch/v1 Job of an attempt; with a supervisor, its workload runs under it; counted by use, its pods request next to
/// nothing.
pub(crate) fn job(
    sj: &ScavengerJob,
    attempt: u32,
    priority_class: u32,
    confinement: &Confinement,
    supervision: Option<(&Supervisor, &Settings)>,
    by_use: Option<ByUse>,
) -> BatchJob {
    let name = names::job(&sj.name_any(), attempt);
    let labels = labels(sj, attempt);
    let mut pod = pod_spec(sj, &name, attempt, priority_class, confinement);
    let mut metadata = pod_metadata(sj, &labels);
    if let Some(by_use) = by_use {
        by_use::take_what_is_unused(&mut pod, by_use);
        by_use::mark(&mut metadata);
    }
    if let Some((supervisor, settings)) = supervision {
        supervisor::put_in_front(&mut pod, &sj.spec, supervisor, settings);
        supervisor::let_nodes_go(&mut metadata, &pod);
    }
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
        template: PodTemplateSpec { metadata: Some(metadata), spec: Some(pod) },
        ..JobSpec::default()
    };
    BatchJob {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: sj.namespace(),
            labels: Some(labels),
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

fn pod_spec(
    sj: &ScavengerJob,
    job: &str,
    attempt: u32,
    priority_class: u32,
    confinement: &Confinement,
) -> PodSpec {
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
        runtime_class_name: spec.runtime_class_name.clone(),
        service_account_name: spec.service_account_name.clone(),
        automount_service_account_token: Some(spec.service_account_name.is_some()),
        enable_service_links: Some(false),
        subdomain: gang.then(|| service_name(&sj.name_any())),
        image_pull_secrets: (!spec.image_pull_secrets.is_empty()).then(|| {
            spec.image_pull_secrets.iter().map(|name| LocalObjectReference { name: name.clone() }).collect()
        }),
        node_selector: (!spec.node_selector.is_empty()).then(|| spec.node_selector.clone()),
        affinity: affinity(confinement),
        tolerations: some_list(
            &spec.tolerations.iter().flat_map(|own| tolerations(own, confinement)).collect::<Vec<_>>(),
        ),
        volumes: (!volumes.is_empty()).then_some(volumes),
        ..PodSpec::default()
    }
}

fn some_list<T: Clone>(list: &[T]) -> Option<Vec<T>> {
    (!list.is_empty()).then(|| list.to_vec())
}

/// What the pool, and volumes that are attached somewhere, require of a node. A ScavengerJob has no affinity of its own; its
/// nodeSelector counts in addition.
fn affinity(confinement: &Confinement) -> Option<Affinity> {
    let nodes = &confinement.nodes;
    let requirements = |expressions: &[Expression]| {
        let requirement = |expression: &Expression| NodeSelectorRequirement {
            key: expression.key.to_string(),
            operator: format!("{:?}", expression.operator),
            values: some_list(&expression.values.iter().map(ToString::to_string).collect::<Vec<_>>()),
        };
        some_list(&expressions.iter().map(requirement).collect::<Vec<_>>())
    };
    let term = NodeSelectorTerm {
        match_expressions: requirements(&nodes.labels),
        match_fields: requirements(&nodes.names),
    };
    // A field takes one value, so there is a term for each node.
    let on = |node: &Name| {
        let mut term = term.clone();
        term.match_fields.get_or_insert_default().push(NodeSelectorRequirement {
            key: "metadata.name".to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![node.to_string()]),
        });
        term
    };
    let terms = match confinement.attached.as_slice() {
        // A term without expressions would match no node.
        [] if term == NodeSelectorTerm::default() => return None,
        [] => vec![term],
        attached => attached.iter().map(on).collect(),
    };
    Some(Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                node_selector_terms: terms,
            }),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    })
}

/// Requests and limits are made from the requests alone, so they cannot differ.
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
    let gang = sj.spec.pod_count > 1;
    let host = |index: &str| match gang {
        true => format!("{job}-{index}.{}", service_name(&sj.name_any())),
        false => "localhost".to_owned(),
    };
    let mut all = vec![
        own(env::POD_COUNT, sj.spec.pod_count.to_string()),
        own(env::HOST_TEMPLATE, host("{index}")),
        own(env::ATTEMPT, attempt.to_string()),
    ];
    if sj.spec.pod_count <= MOST_HOSTS {
        let hosts: Vec<String> = (0..sj.spec.pod_count).map(|index| host(&index.to_string())).collect();
        all.push(own(env::HOSTS, hosts.join(",")));
    }
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

/// What the pool leaves of a toleration.
fn tolerations(own: &crd::Toleration, confinement: &Confinement) -> Vec<Toleration> {
    let keys = confinement.keys(own.key.as_deref()).into_iter();
    keys.map(|key| Toleration {
        key: Some(key.to_owned()),
        operator: own.operator.map(|operator| format!("{operator:?}")),
        value: own.value.clone(),
        effect: own.effect.map(|effect| format!("{effect:?}")),
        toleration_seconds: None,
    })
    .collect()
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

/// True if a Job that exists already is that of an attempt. Only the operator makes Jobs with these labels (a policy sees to
/// that), and the name has the attempt's number, so nothing else has to be compared: a Job that was made for other
/// settings of the pool, or by another version of the operator, is the attempt's Job all the same.
pub(crate) fn is_of_attempt(existing: &BatchJob, owner: &str, attempt: u32) -> bool {
    let number = existing.labels().get(names::LABEL_ATTEMPT);
    let mut owners = existing.owner_references().iter();
    number == Some(&attempt.to_string())
        && owners.any(|reference| reference.controller == Some(true) && reference.uid == owner)
}

#[cfg(test)]
mod tests;
