//! Who may what: policies, roles, and what the project's own parts may do.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::{Deployment, StatefulSet},
        batch::v1::{CronJob, Job as BatchJob},
        core::v1::{ConfigMap, Event, Pod, PodSpec, PodTemplateSpec},
        rbac::v1::{ClusterRole, PolicyRule, RoleBinding},
    },
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use scavenger_e2e::{
    World,
    postgres::NAMESPACE,
    run,
    users::{self, may, refused},
    world::{COUNTER, counter, until},
};
use scavenger_schema::{
    names,
    quantity::parse_milli,
    scavenger_job::{Phase, ScavengerJob},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// Most that everything in deploy/all may request.
const MAX_MILLICORES: i64 = 300;

/// Somebody to whom one of the cluster's own roles is bound in the test's namespace, as the namespace sees them.
async fn user(world: &World, name: &str, role: &str) -> Result<World> {
    // Users are the whole cluster's; two tests must not share one.
    let user = format!("{name}@{}", world.namespace);
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    });
    world.create::<RoleBinding>(binding).await?;
    let client = users::client(&user).await?;
    until(&format!("{role} counts"), || async {
        let right = ("scavenger.dev", "scavengerjobs", "list");
        Ok(may(&client, Some(&world.namespace), right).await?.then_some(()))
    })
    .await?;
    Ok(World { client, namespace: world.namespace.clone() })
}

/// A template of pods that sleep, with and without what only ScavengerJobs have.
fn template(class: Option<&str>, label: Option<&str>, restart: &str) -> Value {
    let mut template = json!({
        "metadata": { "labels": { "app": "own" } },
        "spec": {
            "restartPolicy": restart, "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "own", "image": COUNTER, "imagePullPolicy": "IfNotPresent",
                "command": ["scavenger-counter", "--to=1000000", "--every=1s", "--checkpoint=/tmp/count"],
            }],
        },
    });
    if let Some(class) = class {
        template["spec"]["priorityClassName"] = json!(class);
    }
    if let Some(label) = label {
        template["metadata"]["labels"][label] = json!("forged");
    }
    template
}

fn pod(name: &str, class: Option<&str>, label: Option<&str>) -> Value {
    let mut pod = template(class, label, "Never");
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(name);
    pod
}

fn job(name: &str, template: Value) -> Value {
    let mut spec = json!({ "backoffLimit": 0 });
    spec["template"] = template;
    json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name }, "spec": spec })
}

fn deployment(name: &str, template: Value) -> Value {
    let mut spec = json!({ "replicas": 1, "selector": { "matchLabels": { "app": "own" } } });
    spec["template"] = template;
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name }, "spec": spec })
}

pub(super) async fn patch<K>(world: &World, name: &str, patch: Value) -> kube::Result<K>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    K::DynamicType: Default,
{
    world.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await
}

/// Waits until a controller's request for pods of `owner` was refused with all of `words`.
async fn creation_fails(world: &World, owner: &str, words: &[&str]) -> Result<()> {
    until(&format!("pods of {owner} are refused with {words:?}"), || async {
        let events = world.api::<Event>().list(&ListParams::default().fields("reason=FailedCreate")).await?;
        let found = events.iter().any(|event| {
            let about = event.involved_object.name.as_deref().unwrap_or_default();
            let message = event.message.as_deref().unwrap_or_default();
            about.starts_with(owner) && words.iter().all(|word| message.contains(word))
        });
        Ok(found.then_some(()))
    })
    .await
}

#[test]
fn a_namespace_admin_can_not_pass_anything_off_as_a_scavenger_job() {
    run("forged", |world| async move {
        let admin = user(world, "admin", "admin").await?;
        let (class, label) = (Some("scavenger-3"), Some(names::LABEL_JOB));

        let jobs = ["scavenger-child-jobs", "only the ScavengerJob operator"];
        let own = job("own", template(class, None, "Never"));
        refused(
            "a Job with a class",
            admin.create::<BatchJob>(own).await,
            &[jobs[0], jobs[1], "scavenger-3"],
        )?;
        let own = job("own", template(None, label, "Never"));
        let words = [jobs[0], jobs[1], "spec.template.metadata.labels[scavenger.dev/job]"];
        refused("a Job with a label in its template", admin.create::<BatchJob>(own).await, &words)?;
        let mut own = job("own", template(None, None, "Never"));
        own["metadata"]["annotations"] = json!({ "scavenger.dev/own": "forged" });
        let words = [jobs[0], jobs[1], "metadata.annotations[scavenger.dev/own]"];
        refused("a Job with an annotation", admin.create::<BatchJob>(own).await, &words)?;

        let pods = "scavenger-pods";
        let own = admin.create::<Pod>(pod("own", class, None)).await;
        refused("a pod with a class", own, &[pods, "only by the Job controller", "scavenger-3"])?;
        let own = admin.create::<Pod>(pod("own", None, label)).await;
        refused("a pod with a label", own, &[pods, "metadata.labels[scavenger.dev/job]"])?;
        let mut referring = pod("own", class, label);
        referring["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "batch/v1", "kind": "Job", "name": "own", "uid": "forged", "controller": true,
        }]);
        let own = admin.create::<Pod>(referring).await;
        refused("a pod that says it is a Job's", own, &[pods, "only by the Job controller"])?;

        // What makes pods is accepted; its pods are not.
        let own = deployment("classed", template(class, None, "Always"));
        admin.create::<Deployment>(own).await?;
        creation_fails(world, "classed-", &[pods, "only by the Job controller"]).await?;
        let own = deployment("labelled", template(None, label, "Always"));
        admin.create::<Deployment>(own).await?;
        creation_fails(world, "labelled-", &[pods, "metadata.labels[scavenger.dev/job]"]).await?;
        Ok(())
    });
}

#[test]
fn ordinary_jobs_and_pods_are_as_free_as_ever() {
    run("ordinary", |world| async move {
        let admin = user(world, "admin", "admin").await?;
        admin.create::<Pod>(pod("own", None, None)).await?;
        world.pod_runs("own").await?;
        patch::<Pod>(&admin, "own", json!({ "metadata": { "labels": { "mine": "1" } } })).await?;
        let forged = json!({ "metadata": { "labels": { names::LABEL_JOB_UID: "forged" } } });
        let words = ["scavenger-pods", "metadata.labels[scavenger.dev/job-uid]=forged"];
        refused("a label on an existing pod", patch::<Pod>(&admin, "own", forged.clone()).await, &words)?;
        let ephemeral = json!({ "spec": { "ephemeralContainers": [{ "name": "look", "image": COUNTER }] } });
        world
            .api::<Pod>()
            .patch_subresource(
                "ephemeralcontainers",
                "own",
                &PatchParams::default(),
                &Patch::Strategic(&ephemeral),
            )
            .await?;

        admin.create::<BatchJob>(job("own", template(None, None, "Never"))).await?;
        patch::<BatchJob>(&admin, "own", json!({ "spec": { "parallelism": 2 } })).await?;
        let words = ["scavenger-child-jobs", "metadata.labels[scavenger.dev/job-uid]=forged"];
        refused("a label on an existing Job", patch::<BatchJob>(&admin, "own", forged).await, &words)?;
        admin.create::<Deployment>(deployment("own", template(None, None, "Always"))).await?;
        until("the Deployment's pod is there", || async {
            let deployment = world.api::<Deployment>().get("own").await?;
            let available = deployment.status.and_then(|status| status.available_replicas).unwrap_or(0);
            Ok((available == 1).then_some(()))
        })
        .await?;
        admin.api::<BatchJob>().delete("own", &DeleteParams::foreground()).await?;
        admin.api::<Pod>().delete("own", &DeleteParams::default()).await?;
        until("the Job is gone", || async {
            Ok(world.api::<BatchJob>().get_opt("own").await?.is_none().then_some(()))
        })
        .await
    });
}

#[test]
fn what_the_operator_made_is_changed_by_the_operator_alone_and_deleted_by_its_owner() {
    run("tampered", |world| async move {
        let admin = user(world, "admin", "admin").await?;
        world.claim("data").await?;
        // The owner makes it, as an owner would.
        admin.create::<ScavengerJob>(counter("count", 100_000)).await?;
        world.phase("count", Phase::Running).await?;
        let words = ["scavenger-child-jobs", "only the ScavengerJob operator", "scavenger-0"];
        for change in [
            json!({ "spec": { "parallelism": 0 } }),
            json!({ "spec": { "suspend": true } }),
            json!({ "metadata": { "labels": { "mine": "1" } } }),
            json!({ "metadata": { "finalizers": ["example.org/stay"] } }),
            json!({ "metadata": { "labels": { names::LABEL_ATTEMPT: "7" } } }),
        ] {
            let answer = patch::<BatchJob>(&admin, "count-1", change.clone()).await;
            refused(&format!("{change} on the operator's Job"), answer, &words)?;
        }
        let name = world.pod("count").await?.name_any();
        for label in [names::LABEL_JOB_UID, "batch.kubernetes.io/controller-uid"] {
            let change = json!({ "metadata": { "labels": { label: null } } });
            let field = format!("metadata.labels[{label}]");
            let words = ["scavenger-pods", "only the ScavengerJob operator", field.as_str()];
            refused("removing a label of its pod", patch::<Pod>(&admin, &name, change).await, &words)?;
        }
        // A pod that its Job releases would be replaced while it runs, and would look like an ordinary one.
        let own = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "own" } });
        let uid = admin.create::<ConfigMap>(own).await?.uid();
        let owner = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": "own", "uid": uid, "controller": true,
        });
        let words = ["scavenger-pods", "ownerReferences and finalizers"];
        for change in [
            json!({ "ownerReferences": [owner] }),
            json!({ "ownerReferences": null }),
            json!({ "finalizers": ["example.org/stay"] }),
            json!({ "finalizers": null }),
        ] {
            let what = format!("{change} on its pod");
            let answer = patch::<Pod>(&admin, &name, json!({ "metadata": change })).await;
            refused(&what, answer, &words)?;
        }
        patch::<Pod>(&admin, &name, json!({ "metadata": { "labels": { "mine": "1" } } })).await?;
        // A merge patch replaces the whole list, and tolerations may only be added.
        let pod = world.api::<Pod>().get(&name).await?;
        let mut tolerations = pod.spec.and_then(|spec| spec.tolerations).unwrap_or_default();
        tolerations.push(serde_json::from_value(json!({ "operator": "Exists" }))?);
        let change = json!({ "spec": { "tolerations": tolerations } });
        let words = ["scavenger-pods", "spec.tolerations"];
        refused("a toleration for its pod", patch::<Pod>(&admin, &name, change).await, &words)?;

        // The cluster's own admin has the rights that RBAC does not give to a namespace's.
        let words =
            ["scavenger-pod-changes", "neither resized nor given ephemeral containers", "scavenger-0"];
        let larger = json!({ "spec": { "containers": [{
            "name": "main", "resources": { "requests": { "cpu": "30m" }, "limits": { "cpu": "30m" } } }] } });
        let ephemeral = json!({ "spec": { "ephemeralContainers": [{ "name": "look", "image": COUNTER }] } });
        let served = world.client.list_core_api_resources("v1").await?.resources;
        let serves_resize = served.iter().any(|resource| resource.name == "pods/resize");
        // Kubernetes before 1.33 resizes no pods.
        let resize = serves_resize.then_some(("resize", larger));
        for (subresource, change) in resize.into_iter().chain([("ephemeralcontainers", ephemeral)]) {
            let patch = Patch::Strategic(&change);
            for (user, words) in [(world, &words[..]), (&admin, &["forbidden"])] {
                let pods = user.api::<Pod>();
                let answer =
                    pods.patch_subresource(subresource, &name, &PatchParams::default(), &patch).await;
                refused(subresource, answer, words)?;
            }
        }

        // Deleting is the owner's right, and an interruption.
        admin.api::<Pod>().delete(&name, &DeleteParams::default()).await?;
        let again = |count: i64| {
            world.job_until("count", "running again", move |job| {
                job.status.as_ref().is_some_and(|status| {
                    status.interrupted_count == count && status.phase == Some(Phase::Running)
                })
            })
        };
        again(1).await?;
        admin.api::<BatchJob>().delete("count-2", &DeleteParams::foreground()).await?;
        again(2).await?;
        admin.api::<ScavengerJob>().delete("count", &DeleteParams::default()).await?;
        until("the ScavengerJob and its Jobs are gone", || async {
            let job = world.api::<ScavengerJob>().get_opt("count").await?;
            let jobs = world.api::<BatchJob>().list(&ListParams::default()).await?;
            Ok((job.is_none() && jobs.items.is_empty()).then_some(()))
        })
        .await
    });
}

/// Without it somebody could delete a ScavengerJob and make it again while the pods of the first one write.
#[test]
fn the_finalizer_holds_until_the_operator_takes_it() {
    run("finalizer", |world| async move {
        let edit = user(world, "edit", "edit").await?;
        world.claim("data").await?;
        edit.create::<ScavengerJob>(counter("count", 1_000_000)).await?;
        let job = world.phase("count", Phase::Running).await?;
        ensure!(job.finalizers() == [names::FINALIZER], "{:?}", job.finalizers());

        let words = ["scavengerjob-finalizers", names::FINALIZER];
        for finalizers in [json!(null), json!([]), json!(["example.org/stay"])] {
            let change = json!({ "metadata": { "finalizers": finalizers } });
            refused("taking the finalizer", patch::<ScavengerJob>(&edit, "count", change).await, &words)?;
        }
        let mut without = world.api::<ScavengerJob>().get("count").await?;
        without.metadata.finalizers = None;
        without.metadata.resource_version = None;
        let jobs = edit.api::<ScavengerJob>();
        until("leaving the finalizer out is refused", || async {
            // The operator writes the status meanwhile.
            let version = jobs.get("count").await?.resource_version();
            let mut without = without.clone();
            without.metadata.resource_version = version;
            match jobs.replace("count", &PostParams::default(), &without).await {
                Err(kube::Error::Api(status)) if status.is_conflict() => Ok(None),
                answer => refused("leaving the finalizer out", answer, &words).map(Some),
            }
        })
        .await?;

        // Everything else is free: other finalizers, the spec, and the deletion.
        for finalizers in [json!([names::FINALIZER, "example.org/stay"]), json!([names::FINALIZER])] {
            patch::<ScavengerJob>(&edit, "count", json!({ "metadata": { "finalizers": finalizers } }))
                .await?;
        }
        patch::<ScavengerJob>(&edit, "count", json!({ "spec": { "ttlSecondsAfterFinished": 3600 } })).await?;
        // Cluster admins may, for when no operator is left.
        let dry = PatchParams { dry_run: true, ..PatchParams::default() };
        let taken = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        world.api::<ScavengerJob>().patch("count", &dry, &taken).await?;
        // The garbage collector takes its own finalizer, and the operator the other one.
        jobs.delete("count", &DeleteParams::foreground()).await?;
        until("it is gone, after its pods", || async {
            let job = world.api::<ScavengerJob>().get_opt("count").await?;
            let pods = world.pods("count").await?;
            let writes = |pod: &Pod| {
                let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                !matches!(phase, Some("Succeeded" | "Failed"))
            };
            ensure!(job.is_some() || !pods.iter().any(writes), "pods are there without their ScavengerJob");
            Ok(job.is_none().then_some(()))
        })
        .await
    });
}

#[test]
fn the_clusters_own_roles_reach_scavenger_jobs() {
    run("roles", |world| async move {
        let namespace = Some(world.namespace.as_str());
        let users = [
            (user(world, "admin", "admin").await?, true),
            (user(world, "edit", "edit").await?, true),
            (user(world, "view", "view").await?, false),
        ];
        for (user, writes) in &users {
            for verb in ["get", "list", "watch"] {
                let right = ("scavenger.dev", "scavengerjobs", verb);
                ensure!(may(&user.client, namespace, right).await?, "{verb} is missing");
            }
            for verb in ["create", "update", "patch", "delete", "deletecollection"] {
                let right = ("scavenger.dev", "scavengerjobs", verb);
                ensure!(may(&user.client, namespace, right).await? == *writes, "{verb}");
                // Who may create ScavengerJobs is who may create Jobs.
                ensure!(may(&user.client, namespace, ("batch", "jobs", verb)).await? == *writes, "{verb}");
            }
            for part in ["scavengerjobs/status", "scavengerjobs/finalizers"] {
                for verb in ["update", "patch"] {
                    let right = ("scavenger.dev", part, verb);
                    ensure!(!may(&user.client, namespace, right).await?, "{verb} on {part}");
                }
            }
            for verb in ["create", "update", "patch", "delete"] {
                let right = ("scavenger.dev", "scavengerpools", verb);
                ensure!(!may(&user.client, None, right).await?, "{verb} on the pool");
            }
        }
        let [(admin, _), _, (view, _)] = &users;
        let mut job = counter("count", 10);
        job["spec"]["resources"]["requests"]["cpu"] = json!("1000");
        refused(
            "creating with view",
            view.create::<ScavengerJob>(job.clone()).await,
            &["cannot create resource"],
        )?;
        admin.create::<ScavengerJob>(job).await?;
        let done = json!({ "status": { "phase": "Completed" } });
        let written = admin
            .api::<ScavengerJob>()
            .patch_status("count", &PatchParams::default(), &Patch::Merge(&done))
            .await;
        refused("writing the status", written, &["scavengerjobs/status"])?;
        view.api::<ScavengerJob>().get("count").await?;
        admin.api::<ScavengerJob>().delete("count", &DeleteParams::default()).await?;

        // With view in the whole cluster one sees the pool.
        let view: Api<ClusterRole> = Api::all(world.client.clone());
        let rules = view.get("view").await?.rules.unwrap_or_default();
        ensure!(
            rights(&rules).contains(&right("scavenger.dev", "scavengerpools", "get")),
            "view has no right to the pool"
        );
        Ok(())
    });
}

fn right(group: &str, resource: &str, verb: &str) -> users::Right {
    (group.to_owned(), resource.to_owned(), verb.to_owned())
}

/// What rules of a role give.
fn rights(rules: &[PolicyRule]) -> BTreeSet<users::Right> {
    let mut all = BTreeSet::new();
    for rule in rules {
        for group in rule.api_groups.as_deref().unwrap_or_default() {
            for resource in rule.resources.as_deref().unwrap_or_default() {
                all.extend(rule.verbs.iter().map(|verb| right(group, resource, verb)));
            }
        }
    }
    all
}

/// What a service account of ours may do in a namespace that any service account may not.
async fn more_than_anyone(world: &World, account: &str, namespace: &str) -> Result<BTreeSet<users::Right>> {
    let nobody = users::client(&users::service_account(&world.namespace, "default")).await?;
    let nobody = users::rights(&nobody, namespace).await?;
    let account = users::client(&users::service_account(NAMESPACE, account)).await?;
    Ok(users::rights(&account, namespace).await?.difference(&nobody).cloned().collect())
}

#[test]
fn the_projects_own_parts_may_do_what_they_need_and_nothing_else() {
    run("least", |world| async move {
        let tuner = more_than_anyone(world, "scavenger-tuner", NAMESPACE).await?;
        ensure!(tuner.is_empty(), "the tuner may {tuner:?}");
        let postgres = more_than_anyone(world, "postgres", NAMESPACE).await?;
        ensure!(postgres.is_empty(), "Postgres may {postgres:?}");

        // The submitter: the pool, and what deploy/tenant binds, where it is bound.
        let pool: BTreeSet<_> =
            ["get", "list", "watch"].map(|verb| right("scavenger.dev", "scavengerpools", verb)).into();
        let submitter = more_than_anyone(world, "gromacs-submitter", &world.namespace).await?;
        ensure!(submitter == pool, "where it is not a tenant the submitter may {submitter:?}");
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": { "name": "gromacs-submitter" },
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "gromacs-submitter-tenant",
            },
            "subjects": [{ "kind": "ServiceAccount", "name": "gromacs-submitter", "namespace": NAMESPACE }],
        });
        world.create::<RoleBinding>(binding).await?;
        let mut tenant = pool;
        for verb in ["get", "list", "watch", "create", "update", "patch", "delete"] {
            tenant.insert(right("scavenger.dev", "scavengerjobs", verb));
        }
        tenant.insert(right("scavenger.dev", "scavengerjobs/spec", "update"));
        tenant.insert(right("", "pods", "get"));
        tenant.insert(right("", "pods", "list"));
        tenant.insert(right("metrics.k8s.io", "pods", "get"));
        tenant.insert(right("", "pods/log", "get"));
        tenant.insert(right("", "resourcequotas", "list"));
        until("the submitter may what a tenant's submitter may", || async {
            let submitter = more_than_anyone(world, "gromacs-submitter", &world.namespace).await?;
            Ok((submitter == tenant).then_some(()))
        })
        .await?;

        let operator = more_than_anyone(world, "scavenger-operator", &world.namespace).await?;
        let wildcard = operator
            .iter()
            .find(|(group, resource, verb)| [group, resource, verb].iter().any(|part| part.contains('*')));
        ensure!(wildcard.is_none(), "the operator may {wildcard:?}");
        let client = users::client(&users::service_account(NAMESPACE, "scavenger-operator")).await?;
        for (needs, right) in [
            (true, ("scavenger.dev", "scavengerjobs/status", "update")),
            (true, ("scavenger.dev", "scavengerjobs", "delete")),
            (true, ("scavenger.dev", "scavengerjobs/finalizers", "update")),
            (true, ("batch", "jobs", "create")),
            (true, ("batch", "jobs", "delete")),
            (true, ("", "pods", "list")),
            // The policy scavenger-operator-configmaps confines it to one name.
            (true, ("", "configmaps", "create")),
            (true, ("authentication.k8s.io", "tokenreviews", "create")),
            (false, ("", "secrets", "create")),
            (false, ("", "secrets", "get")),
            (false, ("", "secrets", "list")),
            (false, ("", "secrets", "watch")),
            (false, ("", "pods", "create")),
            (false, ("", "pods/exec", "create")),
            (false, ("", "pods/exec", "get")),
            (false, ("", "pods/log", "get")),
            (false, ("", "pods/ephemeralcontainers", "patch")),
            (false, ("", "pods/binding", "create")),
            (false, ("batch", "jobs", "update")),
            (false, ("batch", "jobs", "deletecollection")),
            (false, ("batch", "cronjobs", "create")),
            (false, ("apps", "deployments", "create")),
            (false, ("scavenger.dev", "scavengerjobs", "create")),
            (false, ("scavenger.dev", "scavengerpools", "delete")),
            (false, ("", "configmaps", "update")),
            (false, ("", "serviceaccounts/token", "create")),
            (false, ("", "namespaces", "delete")),
            (false, ("", "nodes", "patch")),
            (false, ("", "persistentvolumeclaims", "delete")),
            (false, ("rbac.authorization.k8s.io", "clusterroles", "bind")),
            (false, ("rbac.authorization.k8s.io", "clusterrolebindings", "create")),
            (false, ("admissionregistration.k8s.io", "validatingadmissionpolicies", "delete")),
            (false, ("scheduling.k8s.io", "priorityclasses", "create")),
        ] {
            let may = may(&client, Some(&world.namespace), right).await?;
            ensure!(may == needs, "may the operator {right:?}? {may}");
        }
        Ok(())
    });
}

/// What a pod requests: its containers together, or its largest init container.
fn millicores(template: Option<&PodSpec>) -> Result<i64> {
    let of = |container: &k8s_openapi::api::core::v1::Container| -> Result<i64> {
        let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let cpu = requests.and_then(|requests| requests.get("cpu")).context("a container requests no cpu")?;
        Ok(parse_milli(&cpu.0)?)
    };
    let pod = template.context("a template has no pod")?;
    let containers = pod.containers.iter().map(of).sum::<Result<i64>>()?;
    let init = pod.init_containers.iter().flatten().map(of).collect::<Result<Vec<_>>>()?;
    Ok(containers.max(init.into_iter().max().unwrap_or(0)))
}

fn total(replicas: Option<i32>, template: &PodTemplateSpec) -> Result<i64> {
    Ok(i64::from(replicas.unwrap_or(1)) * millicores(template.spec.as_ref())?)
}

async fn installed<K>(client: &Client) -> Result<Vec<K>>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
    K::DynamicType: Default,
{
    Ok(Api::<K>::namespaced(client.clone(), NAMESPACE).list(&ListParams::default()).await?.items)
}

#[test]
fn all_of_it_requests_little() {
    run("requests", |world| async move {
        let mut sum = 0;
        let deployments: Vec<Deployment> = installed(&world.client).await?;
        ensure!(deployments.len() >= 3, "operator, tuner and submitter should be Deployments");
        for spec in deployments.into_iter().filter_map(|deployment| deployment.spec) {
            // Another test may have scaled one to 0 for a while.
            sum += total(spec.replicas.map(|replicas| replicas.max(1)), &spec.template)?;
        }
        for spec in installed::<StatefulSet>(&world.client).await?.into_iter().filter_map(|set| set.spec) {
            sum += total(spec.replicas, &spec.template)?;
        }
        for spec in installed::<CronJob>(&world.client).await?.into_iter().map(|cron| cron.spec) {
            let job = spec.job_template.spec.context("a CronJob has no Job")?;
            sum += total(job.parallelism, &job.template)?;
        }
        println!("deploy/all requests {sum} millicores (bound: {MAX_MILLICORES})");
        ensure!(sum <= MAX_MILLICORES, "{sum} millicores");
        Ok(())
    });
}
