//! What the operator makes of a ScavengerJob.

use jiff::SignedDuration;
use scavenger_planner::values::Operator;

use scavenger_planner::values::{NodeTerm, Settings as PoolSettings};
use scavenger_schema::supervisor::{CheckpointRequest, RequestSignal};

use super::*;

/// The Job of an attempt in a pool of every node.
fn job(sj: &ScavengerJob, attempt: u32, priority_class: u32) -> BatchJob {
    super::job(sj, attempt, priority_class, &Confinement::default(), None, None)
}

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
fn its_pods_are_kept_on_the_nodes_where_a_volume_is_attached() {
    let terms = |job: &BatchJob| {
        let pod = job.spec.as_ref()?.template.spec.as_ref()?;
        let required = pod.affinity.as_ref()?.node_affinity.as_ref()?;
        let terms =
            &required.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms;
        Some(serde_json::to_value(terms).unwrap())
    };
    let kept_on = |nodes: &[&str], pool: Confinement| {
        let attached = nodes.iter().map(|node| Name::from(*node)).collect();
        terms(&super::job(&sj(1), 1, 0, &Confinement { attached, ..pool }, None, None))
    };
    let on = |node: &str| serde_json::json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] });
    assert_eq!(kept_on(&[], Confinement::default()), None);
    let both = kept_on(&["n1", "n2"], Confinement::default());
    assert_eq!(both, Some(serde_json::json!([on("n1"), on("n2")])));
    let settings = scavenger_planner::fixtures::settings();
    let settings = PoolSettings { node_selector: [("pool".into(), "x".into())].into(), ..settings };
    let in_pool = kept_on(&["n1", "n2"], Confinement::to_pool(&settings, [])).unwrap_or_default();
    for (index, node) in ["n1", "n2"].into_iter().enumerate() {
        assert_eq!(in_pool[index]["matchFields"], on(node)["matchFields"]);
        assert_eq!(in_pool[index]["matchExpressions"][0]["key"], "pool", "{in_pool}");
    }
}

#[test]
fn a_service_account_is_always_looked_up() {
    let mut sj = sj(1);
    assert_eq!(service_account(&sj.spec), "default");
    sj.spec.service_account_name = Some("chemist".to_owned());
    assert_eq!(service_account(&sj.spec), "chemist");
}

#[test]
fn the_runtime_class_is_that_of_the_spec() {
    let mut sj = sj(1);
    sj.spec.runtime_class_name = Some("nvidia".to_owned());
    let pod = job(&sj, 3, 12).spec.unwrap().template.spec.unwrap();
    assert_eq!(pod.runtime_class_name.as_deref(), Some("nvidia"));
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
    assert_eq!(pod.runtime_class_name, None);
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
    assert_eq!(labels.get(names::LABEL_ATTEMPT).map(String::as_str), Some("1"), "the operator's own stay");
    assert_eq!(metadata.annotations.as_ref().unwrap()["sidecar.istio.io/inject"], "false");
    assert_eq!(job.metadata.labels.unwrap().get("team"), None, "pods alone have them");
}

#[test]
fn a_gang_knows_its_hosts() {
    let variable = |pods, name: &str| {
        let pod = job(&sj(pods), 1, 0).spec.unwrap().template.spec.unwrap();
        assert_eq!(pod.subdomain.as_deref(), (pods > 1).then_some("water-pods"));
        let all = pod.containers[0].env.clone().unwrap();
        all.into_iter().find(|variable| variable.name == name)?.value
    };
    for (pods, template, hosts) in [
        (1, "localhost", Some("localhost")),
        (2, "water-1-{index}.water-pods", Some("water-1-0.water-pods,water-1-1.water-pods")),
        (65, "water-1-{index}.water-pods", None),
        (1000, "water-1-{index}.water-pods", None),
    ] {
        assert_eq!(variable(pods, "SCAVENGER_POD_COUNT"), Some(pods.to_string()));
        assert_eq!(variable(pods, "SCAVENGER_HOST_TEMPLATE").as_deref(), Some(template), "{pods}");
        assert_eq!(variable(pods, "SCAVENGER_HOSTS").as_deref(), hosts, "{pods}");
    }
    let of_64 = variable(64, "SCAVENGER_HOSTS").unwrap();
    assert_eq!(of_64.split(',').count(), 64);
}

#[test]
fn the_job_of_an_attempt_is_known_by_its_owner_and_number() {
    let made = super::job(&sj(1), 1, 0, &confinement(), None, None);
    assert!(is_of_attempt(&made, "u-1", 1), "whatever pool it was made for");
    assert!(!is_of_attempt(&made, "u-1", 2));
    assert!(!is_of_attempt(&made, "u-2", 1));
}

/// To the nodes of a pool with a selector and a taint, without two of them.
fn confinement() -> Confinement {
    let expression = |key: &str, operator, value: &str| Expression {
        key: key.into(),
        operator,
        values: vec![value.into()],
    };
    let closed = |name| expression("metadata.name", Operator::NotIn, name);
    Confinement {
        attached: Vec::new(),
        nodes: NodeTerm {
            labels: vec![expression("pool", Operator::In, "scavenger")],
            names: vec![closed("n1"), closed("n2")],
        },
        tolerated_taints: vec!["gpu".into()],
    }
}

#[test]
fn pods_are_kept_on_the_nodes_of_the_pool() {
    let mut sj = sj(1);
    sj.spec.node_selector = [("zone".to_owned(), "a".to_owned())].into();
    sj.spec.tolerations = vec![
        serde_json::from_value(serde_json::json!({ "operator": "Exists" })).unwrap(),
        serde_json::from_value(serde_json::json!({ "key": "other", "operator": "Exists" })).unwrap(),
    ];
    let pod = super::job(&sj, 1, 0, &confinement(), None, None).spec.unwrap().template.spec.unwrap();
    assert_eq!(
        serde_json::to_value(pod.affinity).unwrap(),
        serde_json::json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{
                "matchExpressions": [{ "key": "pool", "operator": "In", "values": ["scavenger"] }],
                "matchFields": [
                    { "key": "metadata.name", "operator": "NotIn", "values": ["n1"] },
                    { "key": "metadata.name", "operator": "NotIn", "values": ["n2"] },
                ],
            }],
        } } })
    );
    assert_eq!(pod.node_selector, Some(sj.spec.node_selector));
    let tolerations = pod.tolerations.unwrap();
    assert_eq!(tolerations.len(), 1);
    assert_eq!(tolerations[0].key.as_deref(), Some("gpu"));
    let everywhere = job(&self::sj(1), 1, 0).spec.unwrap().template.spec.unwrap();
    assert_eq!((everywhere.affinity, everywhere.tolerations), (None, None));
}

/// A ScavengerJob that says everything there is to say about the supervisor.
fn watched() -> ScavengerJob {
    let mut sj = sj(1);
    sj.spec.args = vec!["--to=5".to_owned()];
    sj.spec.image_pull_secrets = vec!["own".to_owned()];
    sj.spec.supervisor = Some(
        serde_json::from_value(serde_json::json!({ "signal": { "to": "Leaves", "process": "count$" } }))
            .unwrap(),
    );
    sj.spec.checkpoint = Some(
        serde_json::from_value(serde_json::json!({
            "path": "/out/state*.cpt", "progressPath": "/out/progress",
        }))
        .unwrap(),
    );
    sj
}

/// Its pod under the supervisor.
fn supervised(sj: &ScavengerJob, report_url: Option<&str>) -> PodSpec {
    let supervisor = Supervisor {
        image: "r.io/supervisor:1".into(),
        image_pull_secrets: vec!["own".into(), "pool".into()],
        by_default: true,
    };
    let settings = Settings { report_url: report_url.map(str::to_owned) };
    let job = super::job(sj, 1, 0, &Confinement::default(), Some((&supervisor, &settings)), None);
    job.spec.unwrap().template.spec.unwrap()
}

#[test]
fn the_init_container_of_the_supervisor_asks_for_no_device() {
    let mut sj = watched();
    sj.spec.resources.requests.insert("example.com/gpu".to_owned(), crd::Quantity("1".to_owned()));
    let pod = supervised(&sj, None);
    let names = |container: &Container| {
        let resources = container.resources.clone().unwrap();
        [resources.requests, resources.limits].map(|amounts| amounts.unwrap().into_keys().collect::<Vec<_>>())
    };
    let [requests, limits] = names(&pod.containers[0]);
    assert!(
        requests.contains(&"example.com/gpu".to_owned()) && limits.contains(&"example.com/gpu".to_owned())
    );
    let without = |mut names: Vec<String>| {
        names.retain(|name| name != "example.com/gpu");
        names
    };
    assert_eq!(names(&pod.init_containers.unwrap()[0]), [requests, limits].map(without));
}

#[test]
fn the_supervisor_is_brought_by_an_init_container_and_runs_the_command() {
    let pod = supervised(&watched(), None);
    let [bringer] = &pod.init_containers.as_deref().unwrap() else { panic!("one init container") };
    let main = &pod.containers[0];
    assert_eq!(bringer.resources, main.resources, "the pod stays Guaranteed");
    let context = bringer.security_context.as_ref().unwrap();
    assert_eq!(
        (context.allow_privilege_escalation, context.read_only_root_filesystem),
        (Some(false), Some(true))
    );
    assert_eq!(context.capabilities.as_ref().unwrap().drop.as_deref(), Some(&["ALL".to_owned()][..]));
    assert_eq!(bringer.command.as_ref().unwrap().join(" "), "/scavenger-supervisor copy /.scavenger/bin");
    assert_eq!(
        main.command.as_ref().unwrap().join(" "),
        "/.scavenger/bin/scavenger-supervisor run --signal-to leaves --signal-process count$$ --checkpoint \
         /out/state*.cpt --progress /out/progress -- count"
    );
    assert_eq!(main.args.as_deref(), Some(&["--to=5".to_owned()][..]));
    let mounts = main.volume_mounts.as_ref().unwrap();
    let [mount] = mounts.iter().filter(|mount| mount.name == "scavenger-supervisor").collect::<Vec<_>>()[..]
    else {
        panic!("{mounts:?}")
    };
    assert_eq!((mount.mount_path.as_str(), mount.read_only), ("/.scavenger/bin", Some(true)));
    let volumes = pod.volumes.unwrap();
    assert_eq!(volumes.len(), 3, "its own and those of the spec: {volumes:?}");
    let empty = volumes[2].empty_dir.as_ref().unwrap();
    assert_eq!(empty.size_limit.as_ref().unwrap().0, "8Mi");
    let secrets: Vec<String> =
        pod.image_pull_secrets.unwrap().into_iter().map(|secret| secret.name).collect();
    assert_eq!(secrets, ["own", "pool"]);
}

#[test]
fn its_volume_keeps_no_node_from_the_cluster_autoscaler() {
    let supervisor = Supervisor { image: "r.io/supervisor:1".into(), ..Supervisor::default() };
    let settings = Settings::default();
    let of = |supervision| super::job(&watched(), 1, 0, &Confinement::default(), supervision, None);
    let annotations = |job: BatchJob| job.spec.unwrap().template.metadata.unwrap().annotations;
    let found = annotations(of(Some((&supervisor, &settings)))).unwrap();
    assert_eq!(
        found.get("cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes").map(String::as_str),
        Some("scavenger-supervisor")
    );
    assert_eq!(annotations(of(None)), None);
}

#[test]
fn a_token_and_certificates_are_there_only_if_somebody_receives_reports() {
    let pod = supervised(&watched(), Some("https://operator:8443/report"));
    let volumes = serde_json::to_value(&pod.volumes).unwrap();
    assert_eq!(
        volumes.as_array().unwrap()[3..],
        [
            serde_json::json!({ "name": "scavenger-supervisor-token", "projected": { "sources": [{
                "serviceAccountToken": {
                    "audience": "scavenger.dev/supervisor", "expirationSeconds": 3600, "path": "token" } }] } }),
            serde_json::json!({ "name": "scavenger-supervisor-ca", "configMap": {
                "name": "scavenger-supervisor-ca", "optional": true,
                "items": [{ "key": "ca.crt", "path": "ca.crt" }] } }),
        ]
    );
    let command = pod.containers[0].command.as_ref().unwrap().join(" ");
    let flags = "--report-url https://operator:8443/report --report-token /.scavenger/token/token --report-ca \
                 /.scavenger/ca/ca.crt -- count";
    assert!(command.ends_with(flags), "{command}");
    let mut asked = watched();
    let command = ["sh", "-c", "kill -USR1 $(cat /data/pid)", ""].map(str::to_owned).to_vec();
    for (request, flags) in [
        (
            CheckpointRequest { signal: Some(RequestSignal::USR1), ..CheckpointRequest::default() },
            "--request-signal USR1",
        ),
        (
            CheckpointRequest { command, ..CheckpointRequest::default() },
            "--request-command=sh --request-command=-c --request-command=kill -USR1 $$(cat /data/pid) --request-command=",
        ),
    ] {
        asked.spec.checkpoint.as_mut().unwrap().request = Some(request);
        let pod_that_is_asked = supervised(&asked, Some("https://operator:8443/report"));
        let command = pod_that_is_asked.containers[0].command.as_ref().unwrap().join(" ");
        assert!(command.ends_with(&format!("ca.crt --report-every 10s {flags} -- count")), "{command}");
    }
    let inits = pod.init_containers.unwrap();
    assert_eq!(inits[0].volume_mounts.as_ref().unwrap().len(), 1, "the copy needs no token");
    assert_eq!(pod.automount_service_account_token, Some(false));
}

#[test]
fn without_a_supervisor_or_a_command_a_pod_is_as_it_always_was() {
    let plain = job(&sj(1), 1, 0).spec.unwrap().template.spec.unwrap();
    assert_eq!(plain.init_containers, None);
    let mut silent = sj(1);
    silent.spec.command.clear();
    let without = job(&silent, 1, 0).spec.unwrap().template.spec.unwrap();
    assert_eq!(supervised(&silent, Some("https://operator")), without);
}

#[test]
fn what_is_counted_by_use_requests_next_to_nothing_and_may_use_what_it_asks_for() {
    let mut sj = sj(1);
    sj.spec.termination_grace_period_seconds = 50;
    let settings = Settings::default();
    let supervisor = Supervisor { image: "supervisor:1".into(), ..Supervisor::default() };
    let by_use = ByUse { grace_period: SignedDuration::from_secs(30) };
    let made =
        |by_use| super::job(&sj, 1, 0, &Confinement::default(), Some((&supervisor, &settings)), by_use);
    let template = made(Some(by_use)).spec.unwrap().template;
    let labels = template.metadata.unwrap().labels.unwrap();
    assert_eq!(labels.get("scavenger.dev/accounting").map(String::as_str), Some("Usage"));
    let pod = template.spec.unwrap();
    assert_eq!(pod.termination_grace_period_seconds, Some(30));
    let plain = made(None).spec.unwrap().template;
    assert!(!plain.metadata.unwrap().labels.unwrap().contains_key("scavenger.dev/accounting"));
    let plain = plain.spec.unwrap();
    assert_eq!(plain.termination_grace_period_seconds, Some(50));
    // The init container, too, lest it raise what the pod requests.
    for container in pod.containers.iter().chain(pod.init_containers.iter().flatten()) {
        let resources = container.resources.as_ref().unwrap();
        let requests = resources.requests.as_ref().unwrap();
        assert_eq!((requests["cpu"].0.as_str(), requests["memory"].0.as_str()), ("0", "8Mi"));
        assert_eq!(resources.limits, plain.containers[0].resources.as_ref().unwrap().limits);
    }
    let wait = |pod: &PodSpec| {
        let variables = pod.containers[0].env.clone().unwrap_or_default();
        let wait = variables.into_iter().find(|variable| variable.name == "OMP_WAIT_POLICY");
        wait.and_then(|variable| variable.value)
    };
    assert_eq!((wait(&pod).as_deref(), wait(&plain)), (Some("passive"), None));
}
