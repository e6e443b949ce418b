//! What was stored before the definition asked for the form of names. The test puts a definition without such rules in place for a
//! moment, and nothing else may be refused by it meanwhile, so it has a cluster to itself.

use anyhow::{Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use scavenger_e2e::{
    World,
    kubectl::script,
    room::status,
    run,
    world::{OPERATORS, played, until},
};
use scavenger_schema::scavenger_job::{Phase, ScavengerJob};
use scavenger_vocabulary::Reason;
use serde_json::{Value, json};

const DEFINITION: &str = "scavengerjobs.scavenger.dev";

/// What an older definition let in, by name, and the field that the message names.
fn stored() -> Vec<(&'static str, Value, &'static str)> {
    let mounted = |field: &str, name: &str| json!([{ field: name, "mountPath": "/data" }]);
    vec![
        (
            "claim",
            json!({ "persistentVolumeClaims": mounted("claimName", "../x") }),
            "spec.persistentVolumeClaims[0].claimName \"../x\"",
        ),
        (
            "subresource",
            json!({ "persistentVolumeClaims": mounted("claimName", "x/status") }),
            "spec.persistentVolumeClaims[0].claimName \"x/status\"",
        ),
        ("config-map", json!({ "configMaps": mounted("name", "A B") }), "spec.configMaps[0].name \"A B\""),
        ("secret", json!({ "secrets": mounted("secretName", "A?b") }), "spec.secrets[0].secretName \"A?b\""),
        ("key", json!({ "nodeSelector": { "a b": "c" } }), "spec.nodeSelector: key \"a b\""),
        ("value", json!({ "nodeSelector": { "disk": "a b" } }), "spec.nodeSelector[disk] \"a b\""),
        ("account", json!({ "serviceAccountName": "../default" }), "spec.serviceAccountName \"../default\""),
        ("class", json!({ "runtimeClassName": "A/b" }), "spec.runtimeClassName \"A/b\""),
        ("login", json!({ "imagePullSecrets": ["A B"] }), "spec.imagePullSecrets[0] \"A B\""),
        (
            "variable",
            json!({ "env": [{ "name": "A", "valueFrom": { "configMapKeyRef": { "name": "a/b", "key": "a" } } }] }),
            "spec.env[0].valueFrom.configMapKeyRef.name \"a/b\"",
        ),
        ("1abc", json!({}), "metadata.name \"1abc\""),
    ]
}

fn scavenger_job(name: &str, change: &Value) -> Value {
    let mut job = played(name, "10m");
    // The nodes of a pool without played ones will do: none of these starts.
    job["spec"]["tolerations"] = json!([]);
    for (field, value) in change.as_object().into_iter().flatten() {
        job["spec"][field] = value.clone();
    }
    job
}

/// Takes every rule about the form of a text out of a schema.
fn loosen(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove("x-kubernetes-validations");
            // A property may have this name as well.
            if fields.get("pattern").is_some_and(Value::is_string) {
                fields.remove("pattern");
            }
            fields.values_mut().for_each(loosen);
        }
        Value::Array(items) => items.iter_mut().for_each(loosen),
        _ => {}
    }
}

/// Whether the API server would take it.
async fn is_taken(world: &World, job: &Value) -> Result<bool> {
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let answer = world.api::<ScavengerJob>().create(&dry_run, &serde_json::from_value(job.clone())?).await;
    Ok(answer.is_ok())
}

/// Stores all of them under a definition without the rules.
async fn store(world: &World) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let mut definition = serde_json::to_value(definitions.get(DEFINITION).await?)?;
    loosen(&mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
    definitions.replace(DEFINITION, &PostParams::default(), &serde_json::from_value(definition)?).await?;
    for (name, change, _) in stored() {
        let job = scavenger_job(name, &change);
        // The API server learns of the definition a moment later.
        until(&format!("{name} is taken"), || async {
            Ok(world.create::<ScavengerJob>(job.clone()).await.ok().map(drop))
        })
        .await?;
    }
    Ok(())
}

/// What docs/upgrade.md tells an admin to do first.
async fn upgrade_the_definition(world: &World) -> Result<()> {
    script(
        "kubectl apply --server-side --force-conflicts -k schema/generated
         kubectl wait --for=condition=Established crd/scavengerjobs.scavenger.dev crd/scavengerpools.scavenger.dev",
    )
    .await?;
    for (name, change, _) in stored() {
        // One that is there already would be refused as such.
        let job = scavenger_job(&format!("{name}-again"), &change);
        until(&format!("another {name} is refused"), || async {
            Ok((!is_taken(world, &job).await?).then_some(()))
        })
        .await?;
    }
    ensure!(is_taken(world, &scavenger_job("right", &json!({}))).await?, "what is right is refused, too");
    Ok(())
}

async fn each_fails_with_its_field(world: &World) -> Result<()> {
    for (name, _, field) in stored() {
        let job = world.phase(name, Phase::Failed).await?;
        let status = status(&job);
        let message = status.message.clone().unwrap_or_default();
        let wanted = format!("{}: {field} must be ", Reason::InvalidSpec.name());
        ensure!(message.starts_with(&wanted), "{name}: {message:?} does not begin with {wanted:?}");
        ensure!(status.attempts.is_empty() && status.start_times.is_empty(), "{name}: {status:?}");
    }
    Ok(())
}

/// They hold nothing back: each can be deleted like any other.
async fn each_can_be_deleted(world: &World) -> Result<()> {
    let jobs = world.api::<ScavengerJob>();
    jobs.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    until("all are gone", || async {
        Ok(jobs.list(&ListParams::default()).await?.items.is_empty().then_some(()))
    })
    .await
}

#[test]
fn what_was_stored_with_names_that_nothing_can_have_fails_and_says_why() {
    run("stored", |world| async move {
        world.operators(0).await?;
        let is_stored = store(world).await;
        // As it was, whatever became of it.
        upgrade_the_definition(world).await?;
        world.operators(OPERATORS).await?;
        is_stored?;
        each_fails_with_its_field(world).await?;
        each_can_be_deleted(world).await
    });
}
