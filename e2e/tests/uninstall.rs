//! docs/uninstall.md, word for word. It takes the installation away, so `cargo xtask test` runs it when all other tests
//! are done.

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
    discovery::{Discovery, verbs},
};
use scavenger_e2e::{
    LAST, World,
    kubectl::script,
    run, users,
    world::{counter, until},
};
use scavenger_schema::{
    names,
    scavenger_job::{Phase, ScavengerJob},
};
use serde_json::{Value, json};

const DOCUMENT: &str = include_str!("../../docs/uninstall.md");

/// The commands of the document: those of its first part, and those for when the operator is gone already.
fn commands() -> Result<[String; 2]> {
    let normal = DOCUMENT.split("\n## ").next().unwrap_or_default();
    let gone = DOCUMENT.split("\n## ").find(|part| part.starts_with("If the operator is gone"));
    let gone = gone.context("the document does not say what to do without an operator")?;
    let scripts = [normal, gone].map(|part| {
        let blocks = part.split("```sh\n").skip(1);
        blocks.filter_map(|block| block.split_once("```")).map(|(script, _)| script).collect::<String>()
    });
    ensure!(scripts.iter().all(|script| script.contains("kubectl delete")), "{scripts:?}");
    Ok(scripts)
}

/// Two ScavengerJobs that run, one of them a gang, and one that waits.
async fn use_it(world: &World) -> Result<()> {
    world.create::<ScavengerJob>(counter("runs", 1_000_000)).await?;
    let mut gang = counter("gang", 1_000_000);
    gang["spec"]["podCount"] = json!(2);
    gang["spec"]["args"] = json!([
        "--gang",
        "--to=1000000",
        "--every=100ms",
        "--checkpoint=/data/gang",
        "--checkpoint-interval=1s",
        "--journal=/data/journal-{index}",
    ]);
    world.create::<ScavengerJob>(gang).await?;
    let mut large = counter("waits", 10);
    large["spec"]["resources"]["requests"]["cpu"] = json!("1000");
    world.create::<ScavengerJob>(large).await?;
    world.phase("runs", Phase::Running).await?;
    world.phase("gang", Phase::Running).await?;
    world.phase("waits", Phase::Waiting).await?;
    Ok(())
}

/// Everything in the cluster that has to do with the project, by kind and name.
async fn traces(world: &World) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let discovery = Discovery::new(world.client.clone()).run().await?;
    for group in discovery.groups() {
        if group.name().ends_with("scavenger.dev") {
            found.push(format!("API group {}", group.name()));
        }
        for (resource, capabilities) in group.recommended_resources() {
            // Events tell what was, and go by themselves.
            if !capabilities.supports_operation(verbs::LIST) || resource.kind == "Event" {
                continue;
            }
            let objects: Api<DynamicObject> = Api::all_with(world.client.clone(), &resource);
            let objects = match objects.list(&ListParams::default()).await {
                Ok(objects) => objects,
                // A definition that is just going away.
                Err(kube::Error::Api(status)) if status.is_not_found() => {
                    found.push(format!("{} that cannot be listed", resource.plural));
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let ours = objects.iter().filter(|object| is_ours(&resource.kind, object));
            found.extend(ours.map(|object| {
                format!("{} {}/{}", resource.kind, object.namespace().unwrap_or_default(), object.name_any())
            }));
        }
    }
    Ok(found)
}

fn is_ours(kind: &str, object: &DynamicObject) -> bool {
    // The cluster's own machine is called scavenger-node, and the tests label their namespaces.
    let name =
        object.name_any().replace("scavenger-node-agent", "scavenger-agent").replace("scavenger-node", "");
    let marks = object.labels().keys().chain(object.annotations().keys());
    let marked = marks.filter(|key| *key != "scavenger.dev/e2e").any(|key| key.starts_with("scavenger.dev/"));
    let held = object.finalizers().iter().any(|finalizer| finalizer.starts_with("scavenger.dev/"));
    let owned = object.owner_references().iter().any(|owner| owner.api_version.starts_with("scavenger.dev/"));
    let made_to_test = kind == "Namespace" && object.labels().contains_key("scavenger.dev/e2e");
    let inside = object.namespace().as_deref() == Some("scavenger-system");
    let named = name.contains("scavenger") || name.contains("gromacs-submitter");
    !made_to_test && (named || marked || held || owned || inside)
}

/// The pool is gone, and with it the limits and the list of trusted creators. Who may not create Jobs still changes nothing
/// that a ScavengerJob runs; everything else about it stays possible.
async fn changes_without_a_pool(world: &World) -> Result<()> {
    let user = format!("editor@{}", world.namespace);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "editor" },
        "rules": [{ "apiGroups": ["scavenger.dev"], "resources": ["scavengerjobs"], "verbs": ["get", "update", "patch"] }],
    });
    world.create::<Role>(role).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "editor" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "editor" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    });
    world.create::<RoleBinding>(binding).await?;
    script("kubectl delete scavengerpool default").await?;
    let editor = World { client: users::client(&user).await?, namespace: world.namespace.clone() };
    let patch = async |change: &Value| {
        let dry = PatchParams { dry_run: true, ..PatchParams::default() };
        editor.api::<ScavengerJob>().patch("waits", &dry, &Patch::Merge(change)).await
    };
    until("a label can be changed", || async {
        Ok(patch(&json!({ "metadata": { "labels": { "mine": "yes" } } })).await.is_ok().then_some(()))
    })
    .await?;
    let refusal = match patch(&json!({ "spec": { "image": "example.org/other:1" } })).await {
        Ok(_) => bail!("without a pool the image is changed by somebody who may not create Jobs"),
        Err(kube::Error::Api(refusal)) => refusal.message,
        Err(error) => return Err(error.into()),
    };
    ensure!(refusal.contains("scavengerjob-changes") && refusal.contains("create Jobs"), "{refusal}");
    Ok(())
}

/// The ScavengerJobs of [`use_it`] are there, and the pods of those that ran run.
async fn all_go_on(world: &World) -> Result<()> {
    for name in ["runs", "gang", "waits"] {
        let sj = world.api::<ScavengerJob>().get(name).await?;
        ensure!(sj.metadata.deletion_timestamp.is_none(), "{name} is deleted with the operator");
    }
    let ours = ListParams::default().labels(names::LABEL_JOB);
    let pods = world.api::<k8s_openapi::api::core::v1::Pod>().list(&ours).await?;
    let is_running = |pod: &&k8s_openapi::api::core::v1::Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        pod.metadata.deletion_timestamp.is_none() && phase == Some("Running")
    };
    let running = pods.iter().filter(is_running).count();
    ensure!(running == 3, "{running} of three pods run after the operator is gone");
    Ok(())
}

async fn nothing_is_left(world: &World) -> Result<()> {
    // Some of it the garbage collector takes a moment later.
    let clean =
        until("nothing is left", || async { Ok(traces(world).await?.is_empty().then_some(())) }).await;
    if clean.is_err() {
        bail!("these are left: {:#?}", traces(world).await?);
    }
    // What the simulations wrote is their owner's.
    let claim = world.api::<k8s_openapi::api::core::v1::PersistentVolumeClaim>().get("data").await?;
    ensure!(claim.metadata.deletion_timestamp.is_none(), "the claim goes too");
    Ok(())
}

#[test]
fn nothing_stays_and_nothing_hangs() {
    if std::env::var_os(LAST).is_none() {
        eprintln!("skipped: {LAST} is not set; `cargo xtask test` runs this when all other tests are done");
        return;
    }
    run("uninstall", |world| async move {
        let [normal, gone] = commands()?;
        world.claim("data").await?;
        use_it(world).await?;
        let installed = traces(world).await?;
        ensure!(installed.len() > 40, "an installation in use has more than {installed:?}");
        changes_without_a_pool(world).await?;
        let printed = script(&normal).await?;
        ensure!(printed.contains("\"runs\" deleted") && printed.contains("\"gang\" deleted"), "{printed}");
        nothing_is_left(world).await?;

        // It can be installed again, as the README says.
        script(
            "kubectl apply --server-side -k schema/generated
             kubectl wait --for=condition=Established crd/scavengerjobs.scavenger.dev crd/scavengerpools.scavenger.dev
             kubectl apply --server-side -k e2e/deploy
             kubectl rollout status --namespace scavenger-system --timeout=3m deployment/scavenger-operator",
        )
        .await?;
        use_it(world).await?;
        // Somebody takes the operator away first. No ScavengerJob goes with it, and those that run go on; one that is
        // deleted then waits for the operator.
        script("kubectl delete --ignore-not-found -k deploy/operator").await?;
        all_go_on(world).await?;
        world.api::<ScavengerJob>().delete("runs", &DeleteParams::default()).await?;
        let held = world.api::<ScavengerJob>().get("runs").await?;
        ensure!(held.finalizers() == [names::FINALIZER], "{:?}", held.finalizers());
        script(&gone).await?;
        nothing_is_left(world).await
    });
}
