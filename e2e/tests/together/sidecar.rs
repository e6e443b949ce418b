//! A container that somebody's admission policy puts in front of the workload's, as a service mesh does: what becomes of
//! the ScavengerJob is what becomes of its main container.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    admissionregistration::v1::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding},
    core::v1::Pod,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use scavenger_e2e::{
    World,
    room::status,
    run,
    world::{COUNTER, argument, counter_beside, ordinary_pod, over_attempts, resumed_at, until},
};
use scavenger_schema::scavenger_job::{Phase, ScavengerJob};
use scavenger_vocabulary::Outcome;
use serde_json::json;

/// The injected container: the first by place and by name.
const SIDECAR: &str = "a-proxy";

/// A label with the value `false` keeps it out, as with every mesh.
const INJECT: &str = "example.com/inject";

/// Injects it into every pod of the test's namespace; it ends with exit code 0 after 3 seconds.
async fn inject(world: &World) -> Result<()> {
    let arguments = ["--to=30", "--every=100ms", "--checkpoint=/tmp/count"];
    let expression = format!(
        r#"[JSONPatch{{op: "add", path: "/spec/containers/0", value: Object.spec.containers{{
            name: "{SIDECAR}", image: "{COUNTER}", imagePullPolicy: "IfNotPresent",
            command: ["scavenger-counter"], args: {},
            resources: Object.spec.containers.resources{{
                requests: {{"cpu": "10m", "memory": "16Mi"}}, limits: {{"cpu": "10m", "memory": "16Mi"}}
            }},
            securityContext: Object.spec.containers.securityContext{{allowPrivilegeEscalation: false}}
        }}}}]"#,
        json!(arguments)
    );
    let wanted = format!("object.metadata.?labels[?'{INJECT}'].orValue('true') != 'false'");
    let policy: MutatingAdmissionPolicy = serde_json::from_value(json!({
        "metadata": { "name": world.namespace },
        "spec": {
            "matchConstraints": { "resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"],
            }] },
            "matchConditions": [{ "name": "wanted", "expression": wanted }],
            "failurePolicy": "Fail", "reinvocationPolicy": "Never",
            "mutations": [{ "patchType": "JSONPatch", "jsonPatch": { "expression": expression } }],
        },
    }))?;
    let binding: MutatingAdmissionPolicyBinding = serde_json::from_value(json!({
        "metadata": { "name": world.namespace },
        "spec": {
            "policyName": world.namespace,
            "matchResources": { "namespaceSelector": {
                "matchLabels": { "kubernetes.io/metadata.name": world.namespace },
            } },
        },
    }))?;
    Api::all(world.client.clone()).create(&PostParams::default(), &policy).await?;
    Api::all(world.client.clone()).create(&PostParams::default(), &binding).await?;
    // The API server learns of it a moment later.
    let probe: Pod =
        serde_json::from_value(ordinary_pod("probe", &json!({ "cpu": "10m", "memory": "16Mi" })))?;
    until("the policy injects", || async {
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        let pod = world.api::<Pod>().create(&dry_run, &probe).await?;
        Ok((containers(&pod) == [SIDECAR, "owner"]).then_some(()))
    })
    .await
}

async fn inject_no_more(world: &World) -> Result<()> {
    let (policies, bindings) = (
        Api::<MutatingAdmissionPolicy>::all(world.client.clone()),
        Api::<MutatingAdmissionPolicyBinding>::all(world.client.clone()),
    );
    bindings.delete(&world.namespace, &DeleteParams::default()).await?;
    policies.delete(&world.namespace, &DeleteParams::default()).await?;
    Ok(())
}

fn containers(pod: &Pod) -> Vec<&str> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.map(|container| &*container.name).collect()
}

/// The injected container has ended long before the main one is interrupted and goes on.
async fn interrupted_and_completed(world: &World) -> Result<()> {
    world.create::<ScavengerJob>(over_attempts(counter_beside("long", 150), 2)).await?;
    world.phase("long", Phase::Running).await?;
    let pod = world.pod("long").await?;
    ensure!(containers(&pod) == [SIDECAR, "main"], "{:?}", containers(&pod));
    until("the sidecar has ended and the main container runs", || async {
        let pod = world.pod("long").await?.status.unwrap_or_default();
        let states = pod.container_statuses.unwrap_or_default();
        let state = |name: &str| states.iter().find(|status| status.name == name)?.state.clone();
        let ended = state(SIDECAR).is_some_and(|state| state.terminated.is_some());
        Ok((ended && state("main").is_some_and(|state| state.running.is_some())).then_some(()))
    })
    .await?;
    let sj = world.phase("long", Phase::Running).await?;
    ensure!(
        status(&sj).attempts.is_empty(),
        "the end of the sidecar was taken for its own: {:?}",
        status(&sj)
    );
    world.api::<Pod>().delete(&pod.name_any(), &DeleteParams::default()).await?;
    let sj = world.phase("long", Phase::Completed).await?;
    let outcomes: Vec<_> = status(&sj).attempts.iter().map(|attempt| attempt.outcome).collect();
    ensure!(outcomes == [Some(Outcome::Interrupted), Some(Outcome::Completed)], "{:?}", status(&sj));
    let log = world.api::<Pod>();
    let pod = world.pod("long").await?.name_any();
    let parameters = kube::api::LogParams { container: Some("main".into()), ..Default::default() };
    let resumed = resumed_at(&log.logs(&pod, &parameters).await?)?;
    ensure!(resumed > 0, "it began again");
    Ok(())
}

#[test]
fn an_injected_container_in_front_of_main_decides_nothing() {
    run("sidecar", |world| async move {
        world.claim("data").await?;
        inject(world).await?;
        let result = async {
            let mut failing = counter_beside("fails", 600);
            argument(&mut failing, "--fail-at=60");
            world.create::<ScavengerJob>(failing).await?;
            // Shorter than the container beside it.
            world.create::<ScavengerJob>(counter_beside("short", 5)).await?;
            // This one tells the mesh, by its label, to stay out.
            let mut without = counter_beside("without", 5);
            without["spec"]["podMetadata"] = json!({
                "labels": { INJECT: "false" }, "annotations": { "example.com/owner": "chemistry" },
            });
            world.create::<ScavengerJob>(without).await?;
            interrupted_and_completed(world).await?;
            let short = world.phase("short", Phase::Completed).await?;
            ensure!(status(&short).attempts.len() == 1, "{:?}", status(&short));
            world.phase("without", Phase::Completed).await?;
            let pod = world.pod("without").await?;
            ensure!(containers(&pod) == ["main"], "{:?}", containers(&pod));
            ensure!(pod.annotations()["example.com/owner"] == "chemistry", "{:?}", pod.metadata);
            let fails = world.phase("fails", Phase::Failed).await?;
            let message = status(&fails).message.context("it says nothing")?;
            ensure!(message.contains("exited with code 1"), "{message}");
            Ok(())
        }
        .await;
        inject_no_more(world).await?;
        result
    });
}
