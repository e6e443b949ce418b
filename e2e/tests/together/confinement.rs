//! What the operator's and the guard's own accounts are refused although RBAC gives it to them, and who may create
//! ScavengerJobs.

use anyhow::Result;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        batch::v1::Job as BatchJob,
        core::v1::{ConfigMap, Pod, Secret, Service},
        rbac::v1::{Role, RoleBinding},
    },
};
use kube::{
    Client, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use scavenger_e2e::{
    World,
    postgres::NAMESPACE,
    run,
    users::{self, may, refused},
    world::{COUNTER, counter, until},
};
use scavenger_schema::{names, scavenger_job::ScavengerJob};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// The namespace of the test as one of our accounts sees it.
async fn account(world: &World, name: &str) -> Result<World> {
    let client: Client = users::client(&users::service_account(NAMESPACE, name)).await?;
    Ok(World { client, namespace: world.namespace.clone() })
}

/// Sends an object without having it stored.
async fn try_out<K>(world: &World, object: &Value) -> kube::Result<K>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    K::DynamicType: Default,
{
    let object: K = serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
    world.api().create(&PostParams { dry_run: true, ..PostParams::default() }, &object).await
}

fn owner() -> Value {
    json!([{
        "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "name": "own", "uid": "u", "controller": true,
    }])
}

/// A Job as the operator makes it, with what later versions may add.
fn job() -> Value {
    let context = json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } });
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": "own-1", "ownerReferences": owner() },
        "spec": { "template": { "spec": {
            "priorityClassName": "scavenger-0", "restartPolicy": "Never",
            "securityContext": { "runAsNonRoot": true, "runAsUser": 1000 },
            "initContainers": [{
                "name": "scavenger-supervisor", "image": COUNTER, "securityContext": context,
                "command": ["/scavenger-supervisor", "copy", "/.scavenger/bin"],
                "volumeMounts": [{ "name": "scavenger-supervisor", "mountPath": "/.scavenger/bin" }],
            }],
            "containers": [{ "name": "main", "image": COUNTER, "ports": [], "securityContext": context }],
            "volumes": [
                { "name": "data", "persistentVolumeClaim": { "claimName": "data" } },
                { "name": "scavenger-supervisor", "emptyDir": { "sizeLimit": "8Mi" } },
                { "name": "scavenger-supervisor-token", "projected": { "sources": [{ "serviceAccountToken": {
                    "path": "token", "audience": "scavenger.dev/supervisor", "expirationSeconds": 3600 } }] } },
                { "name": "scavenger-supervisor-ca", "configMap": {
                    "name": "scavenger-supervisor-ca", "optional": true,
                    "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
            ],
        } } },
    })
}

/// Jobs that differ from [`job`] in one thing the policies refuse, with a word of the refusal.
fn wrong_jobs() -> Vec<(&'static str, Value)> {
    let added = |list: &str, value: Value| {
        let mut job = job();
        let list = job["spec"]["template"]["spec"][list].as_array_mut().expect("the list should be there");
        list.push(value);
        job
    };
    let set = |path: &str, value: Value| {
        let mut job = job();
        *job.pointer_mut(path).expect("the field should be there") = value;
        job
    };
    let pod = "/spec/template/spec";
    let token = format!("{pod}/volumes/2/projected/sources/0/serviceAccountToken");
    let context = json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } });
    let with = |field: &str, value: Value| {
        let mut job = job();
        job["spec"]["template"]["spec"][field] = value;
        job
    };
    vec![
        ("PriorityClass", set(&format!("{pod}/priorityClassName"), json!("system-node-critical"))),
        ("metadata.ownerReferences", set("/metadata/ownerReferences", json!([]))),
        ("hostNetwork", with("hostNetwork", json!(true))),
        ("hostNetwork", with("hostPID", json!(true))),
        ("hostNetwork", with("hostIPC", json!(true))),
        (
            "hostPort",
            set(&format!("{pod}/containers/0/ports"), json!([{ "containerPort": 80, "hostPort": 80 }])),
        ),
        ("others: host", added("volumes", json!({ "name": "host", "hostPath": { "path": "/" } }))),
        (
            "others: secret",
            added(
                "volumes",
                json!({ "name": "secret", "projected": { "sources": [{ "secret": { "name": "s" } }] } }),
            ),
        ),
        (
            "others: scratch",
            added("volumes", json!({ "name": "scratch", "emptyDir": { "sizeLimit": "1Mi" } })),
        ),
        (
            "others: scavenger-supervisor",
            set(&format!("{pod}/volumes/1"), json!({ "name": "scavenger-supervisor", "emptyDir": {} })),
        ),
        (
            "others: scavenger-supervisor",
            set(&format!("{pod}/volumes/1/emptyDir"), json!({ "sizeLimit": "8Mi", "medium": "Memory" })),
        ),
        ("others: scavenger-supervisor", set(&format!("{pod}/volumes/1/emptyDir/sizeLimit"), json!("9Mi"))),
        (
            "others: scavenger-supervisor-token",
            set(&format!("{token}/audience"), json!("https://kubernetes.default.svc")),
        ),
        ("others: scavenger-supervisor-token", set(&format!("{token}/expirationSeconds"), json!(7200))),
        (
            "others: token",
            added(
                "volumes",
                json!({ "name": "token", "projected": { "sources": [{ "serviceAccountToken": {
                    "path": "token", "audience": "scavenger.dev/supervisor" } }] } }),
            ),
        ),
        (
            "others: first",
            added("initContainers", json!({ "name": "first", "image": COUNTER, "securityContext": context })),
        ),
        (
            "others: scavenger-supervisor",
            set(&format!("{pod}/initContainers/0/command"), json!(["/bin/sh", "-c", "id"])),
        ),
        (
            "others: scavenger-supervisor",
            set(
                &format!("{pod}/initContainers/0/volumeMounts/0"),
                json!({ "name": "data", "mountPath": "/.scavenger/bin" }),
            ),
        ),
        ("run as root", set(&format!("{pod}/securityContext"), json!({}))),
        (
            "privileged",
            set(&format!("{pod}/initContainers/0/securityContext"), json!({ "privileged": true })),
        ),
        (
            "add capabilities",
            set(&format!("{pod}/containers/0/securityContext/capabilities"), json!({ "add": ["SYS_ADMIN"] })),
        ),
    ]
}

#[test]
fn the_operators_jobs_are_confined_to_what_it_makes() {
    run("confined-jobs", |world| async move {
        let operator = account(world, "scavenger-operator").await?;
        try_out::<BatchJob>(&operator, &job()).await?;
        for (word, job) in wrong_jobs() {
            let words = ["scavenger-operator-jobs", word];
            refused(word, try_out::<BatchJob>(&operator, &job).await, &words)?;
        }
        Ok(())
    });
}

#[test]
fn the_operators_account_is_confined_to_scavenger_jobs() {
    run("confined", |world| async move {
        let operator = account(world, "scavenger-operator").await?;
        let service = |spec: Value| {
            json!({
                "apiVersion": "v1", "kind": "Service", "spec": spec,
                "metadata": { "name": "own-pods", "ownerReferences": owner() },
            })
        };
        let headless = json!({ "clusterIP": "None", "selector": { "a": "b" } });
        try_out::<Service>(&operator, &service(headless.clone())).await?;
        let elsewhere = json!({ "type": "ExternalName", "externalName": "example.org" });
        let answer = try_out::<Service>(&operator, &service(elsewhere)).await;
        refused("a Service that leads elsewhere", answer, &["scavenger-operator-services", "headless"])?;
        let mut own = service(headless);
        own["metadata"]["ownerReferences"] = json!([]);
        let answer = try_out::<Service>(&operator, &own).await;
        refused("a Service of nobody", answer, &["scavenger-operator-services", "ownerReferences"])?;

        // Ordinary pods and Jobs are not its own.
        let plain = json!({ "name": "own", "image": COUNTER, "imagePullPolicy": "IfNotPresent",
            "command": ["scavenger-counter", "--to=1000000", "--every=1s", "--checkpoint=/tmp/count"] });
        let template =
            json!({ "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [plain] });
        let pod =
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "own" }, "spec": template });
        world.create::<Pod>(pod).await?;
        let ordinary = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "own" },
            "spec": { "template": { "spec": template } },
        });
        world.create::<BatchJob>(ordinary).await?;
        let dry = DeleteParams { dry_run: true, ..DeleteParams::default() };
        let answer = operator.api::<BatchJob>().delete("own", &dry).await;
        refused("deleting an ordinary Job", answer, &["scavenger-operator-jobs", "PriorityClass"])?;
        let words = ["scavenger-operator-pods", "delete and mark only"];
        refused("deleting an ordinary pod", operator.api::<Pod>().delete("own", &dry).await, &words)?;
        let marked =
            json!({ "status": { "conditions": [{ "type": "DisruptionTarget", "status": "True" }] } });
        let patch = Patch::Strategic(&marked);
        let answer = operator.api::<Pod>().patch_status("own", &PatchParams::default(), &patch).await;
        refused("marking an ordinary pod", answer, &words)
    });
}

#[test]
fn the_operators_account_writes_one_secret_and_config_maps_of_one_name() {
    run("confined-certificates", |world| async move {
        let operator = account(world, "scavenger-operator").await?;
        let name = "scavenger-supervisor-ca";
        let map = |name: &str, data: Value| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data });
        let right = json!({ "ca.crt": "certificate" });
        try_out::<ConfigMap>(&operator, &map(name, right.clone())).await?;
        for (word, wrong) in [
            ("metadata.name", map("settings", right.clone())),
            ("only the key ca.crt", map(name, json!({ "ca.crt": "certificate", "more": "x" }))),
        ] {
            let answer = try_out::<ConfigMap>(&operator, &wrong).await;
            refused(word, answer, &["scavenger-operator-configmaps", word])?;
        }
        // Nor may it change others' that are there.
        world.create::<ConfigMap>(map("settings", json!({ "a": "b" }))).await?;
        let change = Patch::Merge(json!({ "data": { "a": "c" } }));
        let answer = operator.api::<ConfigMap>().patch("settings", &PatchParams::default(), &change).await;
        refused("another ConfigMap", answer, &["forbidden"])?;

        let own = World { client: operator.client.clone(), namespace: NAMESPACE.to_owned() };
        // What is known of the use of nodes stands in the operator's namespace alone.
        let known = |key: &str| map(names::NODE_USE, json!({ key: "" }));
        for key in ["nodes", "byRequests"] {
            match try_out::<ConfigMap>(&own, &known(key)).await {
                // Policies come first: it was let in, and an operator that counted by use has left one there.
                Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                answer => drop(answer?),
            }
        }
        for (word, account, wrong) in [
            ("metadata.name", &operator, known("nodes")),
            ("nodes, harmed and byRequests", &own, known("ca.crt")),
        ] {
            let answer = try_out::<ConfigMap>(account, &wrong).await;
            refused(word, answer, &["scavenger-operator-configmaps", word])?;
        }
        let secret = |name: &str, kind: &str| json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "type": kind });
        for (word, wrong) in [
            ("metadata.name", secret("another", "Opaque")),
            ("of type Opaque", secret(name, "example.org/other")),
        ] {
            refused(word, try_out::<Secret>(&own, &wrong).await, &["scavenger-operator-secrets", word])?;
        }
        let answer = own.api::<Secret>().get("postgres").await;
        refused("reading another Secret", answer, &["forbidden"])?;
        let answer = try_out::<Secret>(&operator, &secret(name, "Opaque")).await;
        refused("a Secret in another namespace", answer, &["forbidden"])
    });
}

#[test]
fn who_may_not_create_jobs_may_not_create_scavenger_jobs() {
    run("creators", |world| async move {
        let user = format!("creator@{}", world.namespace);
        let role = |resource: &str, group: &str, verb: &str| json!({ "apiGroups": [group], "resources": [resource], "verbs": [verb] });
        let rules = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "creator" },
            "rules": [role("scavengerjobs", "scavenger.dev", "create")],
        });
        world.create::<Role>(rules).await?;
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "creator" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "creator" },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
        });
        world.create::<RoleBinding>(binding).await?;
        let creator = World { client: users::client(&user).await?, namespace: world.namespace.clone() };
        until("the role counts", || async {
            let right = ("scavenger.dev", "scavengerjobs", "create");
            Ok(may(&creator.client, Some(&world.namespace), right).await?.then_some(()))
        })
        .await?;
        let words = ["scavengerjob-limits", "right to create Jobs", "trustedCreators"];
        let answer = try_out::<ScavengerJob>(&creator, &counter("own", 10)).await;
        refused("a ScavengerJob without the right to create Jobs", answer, &words)?;

        let both = json!({ "rules": [
            role("scavengerjobs", "scavenger.dev", "create"), role("jobs", "batch", "create"),
        ] });
        world.api::<Role>().patch("creator", &PatchParams::default(), &Patch::Merge(&both)).await?;
        until("Jobs may be created", || async {
            Ok(may(&creator.client, Some(&world.namespace), ("batch", "jobs", "create")).await?.then_some(()))
        })
        .await?;
        until("a ScavengerJob may be created", || async {
            Ok(try_out::<ScavengerJob>(&creator, &counter("own", 10)).await.is_ok().then_some(()))
        })
        .await?;

        // The submitter has no right to Jobs, and is named in the pool.
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "submitter" },
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "gromacs-submitter-tenant",
            },
            "subjects": [{ "kind": "ServiceAccount", "name": names::SUBMITTER, "namespace": NAMESPACE }],
        });
        world.create::<RoleBinding>(binding).await?;
        let submitter = account(world, names::SUBMITTER).await?;
        until("the submitter may create one", || async {
            Ok(try_out::<ScavengerJob>(&submitter, &counter("own", 10)).await.is_ok().then_some(()))
        })
        .await
    });
}
