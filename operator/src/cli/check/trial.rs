//! A ScavengerJob and its pod that the API server is asked to accept, as dry runs: whatever stands in their way in the
//! namespace answers, LimitRanges, quotas, Pod Security and the policies of others included.

use std::path::Path;

use anyhow::{Context, bail};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Client, api::PostParams};
use scavenger_planner::{
    refusal::is_of_small_requests,
    values::{ByUse, Confinement, Supervisor},
};
use scavenger_program::objects::Objects;
use scavenger_schema::{names, scavenger_job::ScavengerJob};
use serde_json::{Value, json};

use super::{Finding, Unusable, Verdict};
use crate::manifest;

const SCAVENGER_JOB: &str = "a ScavengerJob (dry run)";
const POD: &str = "its pod (dry run)";

/// A small ScavengerJob, for those who have none yet.
pub(super) fn small() -> ScavengerJob {
    let value = json!({
        "apiVersion": format!("{}/v1alpha1", names::GROUP),
        "kind": "ScavengerJob",
        "metadata": { "name": "scavenger-check" },
        "spec": {
            "image": "scavenger.dev/counter:0.1.0",
            "command": ["scavenger-counter"],
            "resources": { "requests": { "cpu": "100m", "memory": "64Mi" } },
            "interruptionAfter": "5m",
        },
    });
    serde_json::from_value(value).expect("the ScavengerJob should be what its type says")
}

/// The ScavengerJob of a manifest; the first, if it has several documents.
pub(super) fn from_file(path: &Path) -> anyhow::Result<ScavengerJob> {
    let text = std::fs::read_to_string(path)
        .with_context(|| Unusable(format!("{} cannot be read (--filename)", path.display())))?;
    first(&text).with_context(|| Unusable(format!("{} (--filename) cannot be used", path.display())))
}

fn first(text: &str) -> anyhow::Result<ScavengerJob> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).context("it is not YAML")?;
    let Some(found) = documents.into_iter().find(|document| document["kind"] == "ScavengerJob") else {
        bail!("it has no ScavengerJob")
    };
    serde_json::from_value(found).context("its ScavengerJob is not one")
}

pub(super) async fn findings(
    client: &Client,
    namespace: &str,
    sj: ScavengerJob,
    supervisor: Option<&Supervisor>,
    by_use: Option<ByUse>,
) -> anyhow::Result<Vec<Finding>> {
    let dry_run = PostParams { dry_run: true, field_manager: Some(names::OPERATOR.to_owned()) };
    let mut sj = sj;
    sj.metadata.namespace = Some(namespace.to_owned());
    let api: Objects<ScavengerJob> = Objects::namespaced(client.clone(), namespace);
    let created = api.create(&dry_run, &sj).await;
    let mut found =
        vec![verdict(SCAVENGER_JOB, created.map(|_| ()), |message| message.contains("already exists"))?];
    let api: Objects<Pod> = Objects::namespaced(client.clone(), namespace);
    let made = api.create(&dry_run, &pod(&sj, supervisor, by_use)).await.map(|_| ());
    let small = by_use.and(small_requests(&made));
    found.push(match small {
        None => verdict(POD, made, |_| false)?,
        // As the operator does it.
        Some(message) => {
            let made = api.create(&dry_run, &pod(&sj, supervisor, None)).await.map(|_| ());
            counted_by_requests(verdict(POD, made, |_| false)?, &message)
        }
    });
    Ok(found)
}

/// Why a pod was refused, if that is because it requests next to nothing.
fn small_requests(answer: &kube::Result<()>) -> Option<String> {
    let Err(kube::Error::Api(status)) = answer else { return None };
    is_of_small_requests(&status.message).then(|| status.message.clone())
}

/// What is said of a namespace that takes pods only if they request what they hold.
fn counted_by_requests(by_requests: Finding, refused: &str) -> Finding {
    if by_requests.verdict != Verdict::Ok {
        return by_requests;
    }
    Finding::warning(
        POD,
        format!(
            "a LimitRange refuses pods that request next to nothing, as accounting Usage of the pool makes them, so \
             ScavengerJobs of this namespace are counted by requests: {refused}"
        ),
    )
}

/// The pod of the first attempt without what only the operator may set: PriorityClass and labels of ScavengerJobs.
fn pod(sj: &ScavengerJob, supervisor: Option<&Supervisor>, by_use: Option<ByUse>) -> Pod {
    let settings = manifest::Settings { report_url: Some("https://scavenger-operator:8443".to_owned()) };
    let confinement = Confinement::default();
    let supervision = supervisor.map(|supervisor| (supervisor, &settings));
    let job = manifest::job(sj, 1, 0, &confinement, supervision, by_use);
    let template = job.spec.map(|spec| spec.template).unwrap_or_default();
    let mut spec = template.spec.unwrap_or_default();
    spec.priority_class_name = None;
    let metadata = template.metadata.unwrap_or_default();
    let own = |key: &String| key.starts_with("scavenger.dev/");
    let labels = metadata.labels.unwrap_or_default().into_iter().filter(|(key, _)| !own(key)).collect();
    let metadata = ObjectMeta {
        generate_name: Some("scavenger-check-".to_owned()),
        namespace: sj.metadata.namespace.clone(),
        labels: Some(labels),
        annotations: metadata.annotations,
        ..ObjectMeta::default()
    };
    Pod { metadata, spec: Some(spec), status: None }
}

/// What the API server said. That the user may not create it at all is not the namespace's doing.
fn verdict(
    check: &'static str,
    answer: kube::Result<()>,
    is_fine: impl Fn(&str) -> bool,
) -> anyhow::Result<Finding> {
    let status = match answer {
        Ok(()) => return Ok(Finding::ok(check, "the API server accepts it")),
        Err(kube::Error::Api(status)) => status,
        Err(error) => return Err(error).with_context(|| format!("{check} could not be sent")),
    };
    if is_fine(&status.message) {
        return Ok(Finding::ok(check, "the API server knows one of this name"));
    }
    if status.code == 403 && status.message.contains(" cannot create resource ") {
        return Ok(Finding::new(check, Verdict::Unknown, "this user may not create it, so it was not tried"));
    }
    if status.code == 404 {
        return Ok(Finding::problem(check, "the API is not installed, or the namespace is not there"));
    }
    Ok(Finding::problem(check, format!("the API server refuses it: {}", status.message)))
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn refused(code: u16, message: &str) -> Finding {
        let status = Status { code, message: message.to_owned(), ..Status::default() };
        verdict(POD, Err(kube::Error::Api(Box::new(status))), |_| false).unwrap()
    }

    #[test]
    fn the_pod_that_is_tried_is_the_operators_but_for_what_only_the_operator_sets() {
        let supervisor =
            Supervisor { image: "s".into(), image_pull_secrets: vec!["pull".into()], by_default: true };
        let pod = pod(&small(), Some(&supervisor), None);
        let spec = pod.spec.unwrap();
        assert_eq!(spec.priority_class_name, None);
        assert!(!pod.metadata.labels.unwrap().keys().any(|key| key.starts_with("scavenger.dev/")));
        assert_eq!(spec.init_containers.unwrap().len(), 1, "the supervisor is tried, too");
        assert_eq!(spec.security_context.unwrap().run_as_non_root, Some(true));
        assert_eq!(spec.image_pull_secrets.unwrap()[0].name, "pull");
    }

    #[test]
    fn a_refusal_is_the_namespaces_and_a_missing_right_the_users() {
        let no_right = r#"pods is forbidden: User "a" cannot create resource "pods" in API group """#;
        assert_eq!(refused(403, no_right).verdict, Verdict::Unknown);
        let quota = refused(403, r#"pods "x" is forbidden: exceeded quota: small"#);
        assert_eq!(quota.verdict, Verdict::Problem);
        assert!(quota.message.contains("exceeded quota: small"));
        assert_eq!(verdict(POD, Ok(()), |_| false).unwrap().verdict, Verdict::Ok);
    }

    #[test]
    fn a_limit_range_that_refuses_only_small_requests_is_a_warning() {
        let message = r#"pods "x" is forbidden: minimum cpu usage per Container is 100m, but request is 1m"#;
        let answer = |code: u16, message: &str| {
            let status = Status { code, message: message.to_owned(), ..Status::default() };
            small_requests(&Err(kube::Error::Api(Box::new(status))))
        };
        assert_eq!(answer(403, message).as_deref(), Some(message));
        assert_eq!(answer(403, r#"pods "x" is forbidden: exceeded quota: small"#), None);
        assert_eq!(small_requests(&Ok(())), None);
        let accepted = Finding::ok(POD, "the API server accepts it");
        let said = counted_by_requests(accepted, message);
        assert_eq!(said.verdict, Verdict::Warning);
        assert!(said.message.ends_with(message), "{}", said.message);
        // Refused by requests, too.
        assert_eq!(counted_by_requests(refused(403, "no"), message).verdict, Verdict::Problem);
    }

    #[test]
    fn the_first_scavenger_job_of_a_manifest_is_tried() {
        let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: a}\n";
        let sj = serde_json::to_string(&small()).unwrap();
        assert_eq!(first(&format!("{claim}---\n{sj}\n")).unwrap().metadata.name.unwrap(), "scavenger-check");
        assert!(format!("{:#}", first(claim).unwrap_err()).contains("no ScavengerJob"));
        assert!(first("kind: ScavengerJob\nspec: 3\n").is_err());
    }
}
