//! The verbs of `scavenger-operator` for people, on a machine outside of the cluster: what they print and what they do.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    core::v1::{LimitRange, Node, ResourceQuota},
    networking::v1::NetworkPolicy,
    rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding},
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use scavenger_e2e::{
    World,
    room::{has_reason, status},
    run,
    tool::Tool,
    world::{counter, real_node, until},
};
use scavenger_schema::scavenger_job::{Phase, ScavengerJob};
use scavenger_vocabulary::{Reason, WaitingReason};
use serde_json::{Value, json};

/// A counter that requests more than any node has.
fn too_large(name: &str) -> Value {
    let mut job = counter(name, 10);
    job["spec"]["resources"]["requests"]["cpu"] = json!("1000");
    job
}

fn says(printed: &str, words: &[&str]) -> Result<()> {
    for word in words {
        ensure!(printed.contains(word), "{word:?} is not in:\n{printed}");
    }
    Ok(())
}

/// The lines of `--output json`.
fn lines(printed: &str) -> Result<Vec<Value>> {
    let lines = printed.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().with_context(|| printed.to_owned())
}

/// A user with the role `edit` in the test's namespace and no other right.
async fn tenant(world: &World) -> Result<(String, Tool)> {
    let user = format!("tenant-{}", world.namespace);
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": user },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    });
    world.create::<RoleBinding>(binding).await?;
    let tool = Tool::of(Some(&user))?;
    Ok((user, tool))
}

#[test]
fn check_finds_what_would_go_wrong() {
    run("verb-check", |world| async move {
        let admin = Tool::of(None)?;
        let check = ["check", "--namespace", &world.namespace];
        let printed = admin.good(&check).await?;
        let good = format!("namespace {}: ScavengerJobs can run here", world.namespace);
        says(&printed, &["a ScavengerJob (dry run)", "the API server accepts it", "at work: ", &good])?;
        ensure!(!printed.contains("PROBLEM"), "{printed}");

        world
            .create::<LimitRange>(json!({
                "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": "small" },
                "spec": { "limits": [{ "type": "Container", "min": { "cpu": "250m" } }] },
            }))
            .await?;
        world
            .create::<ResourceQuota>(json!({
                "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "team" },
                "spec": { "hard": { "pods": "0" } },
            }))
            .await?;
        world
            .create::<NetworkPolicy>(json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": { "name": "closed" },
                "spec": { "podSelector": {}, "policyTypes": ["Egress"] },
            }))
            .await?;
        until("check finds the problems", || async {
            let printed = admin.run(&check).await?;
            // The quota counts nothing before its controller has seen it.
            Ok(printed.stdout.contains("team: nothing is left of pods (0 of 0)").then_some(()))
        })
        .await?;
        let found = admin.run(&[&check[..], &["--output", "json"]].concat()).await?;
        ensure!(found.code == Some(1), "{found:?}");
        says(&found.stderr, &["problems in namespace", "docs/operator-cli.md#check has the remedies"])?;
        let findings = lines(&found.stdout)?;
        let problems: Vec<(&str, &str)> = findings
            .iter()
            .filter(|finding| finding["verdict"] == "problem")
            .filter_map(|finding| Some((finding["check"].as_str()?, finding["message"].as_str()?)))
            .collect();
        for (check, words) in [
            ("LimitRange", "small: a Container must request at least 250m of cpu"),
            ("quota", "team: nothing is left of pods (0 of 0)"),
            ("its pod (dry run)", "minimum cpu usage per Container is 250m"),
        ] {
            let is_there = problems.iter().any(|(name, message)| *name == check && message.contains(words));
            ensure!(is_there, "no problem {check}: {words}; only {problems:?}");
        }
        let egress = findings.iter().find(|finding| finding["check"] == "egress");
        ensure!(
            egress.is_none_or(|egress| egress["verdict"] == "warning"),
            "a closed namespace is no surprise: {egress:?}"
        );

        // Who may not look is told so, and finds the problems of the namespace nevertheless.
        let (_, tenant) = tenant(world).await?;
        let printed = tenant.run(&check).await?;
        ensure!(printed.code == Some(1), "{printed:?}");
        says(&printed.stdout, &["unknown", "you may create, change and delete ScavengerJobs", "PROBLEM"])
    });
}

#[test]
fn queue_and_nodes_list_what_waits_and_what_runs() {
    run("verb-queue", |world| async move {
        world.claim("data").await?;
        world.create::<ScavengerJob>(counter("runs", 1_000_000)).await?;
        world.create::<ScavengerJob>(too_large("waits")).await?;
        let mut held = counter("held", 10);
        held["spec"]["suspend"] = json!(true);
        world.create::<ScavengerJob>(held).await?;
        world.phase("runs", Phase::Running).await?;
        let waits = |job: &ScavengerJob| has_reason(job, WaitingReason::NeverFits);
        world.job_until("waits", "judged", waits).await?;
        world.job_until("held", "held", |job| has_reason(job, WaitingReason::Suspended)).await?;

        let admin = Tool::of(None)?;
        let queue = ["queue", "--namespace", &world.namespace];
        let printed = admin.good(&queue).await?;
        says(
            &printed,
            &[
                "RANK",
                "INTERRUPTED",
                &format!("{}/waits", world.namespace),
                "1000 cpu",
                "NeverFits",
                "Suspended",
            ],
        )?;
        for name in ["runs", "held"] {
            let is_listed = printed.contains(&format!("{}/{name} ", world.namespace));
            ensure!(!is_listed, "{name} is in the queue:\n{printed}");
        }
        let rows = lines(&admin.good(&[&queue[..], &["--output", "json"]].concat()).await?)?;
        let row = rows.iter().find(|row| row["name"] == "waits").context("waits is not in the queue")?;
        ensure!(
            row["reason"] == "NeverFits" && row["requests"]["cpu"] == 1_000_000 && row["interruptions"] == 0,
            "{row}"
        );

        let node = real_node(&Api::<Node>::all(world.client.clone())).await?;
        let printed = admin.good(&["nodes", "--pool-only"]).await?;
        let line = printed.lines().find(|line| line.starts_with(&node));
        let line = line.with_context(|| format!("{node} is not in:\n{printed}"))?;
        says(line, &[" cpu ", " pods ", &format!("{}/runs", world.namespace)])
    });
}

#[test]
fn one_scavenger_job_is_interrupted_held_and_released() {
    run("verb-job", |world| async move {
        world.claim("data").await?;
        world.create::<ScavengerJob>(counter("count", 1_000_000)).await?;
        world.phase("count", Phase::Running).await?;
        let admin = Tool::of(None)?;
        let key = format!("{}/count", world.namespace);
        let pod = world.pod("count").await?.metadata.name.context("the pod has a name")?;

        let printed = admin.good(&["interrupt", &key]).await?;
        ensure!(printed == format!("{key} is being interrupted: pod {pod} is evicted\n"), "{printed}");
        let job = world
            .job_until("count", "running again", |job| {
                let status = status(job);
                status.interrupted_count == 1 && status.phase == Some(Phase::Running)
            })
            .await?;
        let attempt = status(&job).attempts.last().cloned().context("the attempt is in the history")?;
        ensure!(attempt.reason == Some(Reason::EvictionByEvictionAPI), "another reason: {attempt:?}");
        ensure!(
            status(&job).counted_interruptions == 0,
            "an interruption by hand advances it: {:?}",
            job.status
        );

        let of_namespace = ["count", "--namespace", &world.namespace];
        let printed = admin.good(&[&["hold"], &of_namespace[..]].concat()).await?;
        says(&printed, &[&format!("{key} is held")])?;
        let job = world
            .job_until("count", "held", |job| {
                has_reason(job, WaitingReason::Suspended) && status(job).phase == Some(Phase::Interrupted)
            })
            .await?;
        ensure!(job.spec.suspend && status(&job).interrupted_count == 2, "{:?}", job.status);
        admin.refused(&["interrupt", &key], &["Interrupted", "there is no attempt to interrupt"]).await?;

        let printed = admin.good(&[&["release"], &of_namespace[..]].concat()).await?;
        says(&printed, &[&format!("{key} is released")])?;
        let job = world.phase("count", Phase::Running).await?;
        ensure!(!job.spec.suspend && status(&job).counted_interruptions == 0, "{:?}", job.status);

        admin
            .refused(&["hold", "nothing", "--namespace", &world.namespace], &["there is no ScavengerJob"])
            .await?;
        // Without the rights nothing happens.
        let nobody = Tool::of(Some("nobody"))?;
        nobody.refused(&["interrupt", &key], &["could not be read"]).await
    });
}

#[test]
fn a_tenant_reads_why_a_scavenger_job_waits() {
    run("verb-explain", |world| async move {
        world.claim("data").await?;
        world.create::<ScavengerJob>(too_large("waits")).await?;
        world.job_until("waits", "judged", |job| has_reason(job, WaitingReason::NeverFits)).await?;
        let (user, tenant) = tenant(world).await?;
        let explain = ["explain", "waits", "--namespace", &world.namespace];
        let printed = tenant.good(&explain).await?;
        let key = format!("{}/waits", world.namespace);
        says(&printed, &[&key, "NeverFits", "cpu 1000", "its status may not be read by this user"])?;

        // As docs/permissions.md shows the pool to everybody, here to one.
        let roles: Api<ClusterRole> = Api::all(world.client.clone());
        let bindings: Api<ClusterRoleBinding> = Api::all(world.client.clone());
        let name = format!("scavengerpools-read-{}", world.namespace);
        let role = json!({
            "metadata": { "name": name },
            "rules": [{ "apiGroups": ["scavenger.dev"], "resources": ["scavengerpools"], "verbs": ["get", "list", "watch"] }],
        });
        let binding = json!({
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
        });
        roles.create(&PostParams::default(), &serde_json::from_value(role)?).await?;
        bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
        let seen = until("the tenant sees the pool", || async {
            let printed = tenant.good(&explain).await?;
            Ok((!printed.contains("may not be read")).then_some(printed))
        })
        .await;
        bindings.delete(&name, &DeleteParams::default()).await?;
        roles.delete(&name, &DeleteParams::default()).await?;
        says(&seen?, &[&key, "free below the threshold; this asks for 1000", " run"])
    });
}
