//! Small systems of many kinds go through the whole pipeline: free energy, virtual sites, vacuum, no mesh, velocity
//! Verlet, stochastic dynamics, energy groups, multiple time steps, restraints, pulling, minimisations. Each completes, or
//! is refused with a sentence that says what to do.
//!
//! gromacs-submitter/tests/systems has their settings, and the script that makes their run inputs where they run.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::{batch::v1::Job, core::v1::ConfigMap};
use scavenger_e2e::{
    World,
    postgres::Database,
    queue::{Row, insert, prepare_with, row},
    world::{run_within, until, until_within},
};
use serde_json::json;

/// Three or four run at a time on half a core each, and each takes some seconds.
const PATIENCE: Duration = Duration::from_secs(1800);

/// What becomes of a system: none if it completes, else a part of the sentence with which it is refused.
type Expected = BTreeMap<String, Option<String>>;

/// The files of the systems, and what becomes of each.
fn systems() -> Result<(BTreeMap<String, String>, Expected)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gromacs-submitter/tests/systems");
    let (mut files, mut expected) = (BTreeMap::new(), BTreeMap::new());
    for entry in fs::read_dir(&folder).with_context(|| format!("{} cannot be read", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).context("a file has no name")?.to_owned();
        let text = fs::read_to_string(&path)?;
        if let Some(system) = name.strip_suffix(".mdp") {
            let then = text.lines().nth(2).and_then(|line| line.strip_prefix("; then: "));
            let fate = match then.and_then(|then| then.split_once(' ').or(Some((then, "")))) {
                Some(("completes", "")) => None,
                Some(("refused", words)) if !words.is_empty() => Some(words.to_owned()),
                _ => bail!("{name}: the third line must say what becomes of it"),
            };
            expected.insert(system.to_owned(), fate);
        }
        files.insert(name, text);
    }
    Ok((files, expected))
}

/// Makes the run inputs on the claim `simulations`, in /data/systems.
async fn make(world: &World, files: &BTreeMap<String, String>) -> Result<()> {
    let map =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "systems" }, "data": files });
    world.create::<ConfigMap>(map).await?;
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "make-systems" },
        "spec": { "backoffLimit": 0, "template": { "spec": {
            "restartPolicy": "Never",
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000,
                "seccompProfile": { "type": "RuntimeDefault" },
            },
            "containers": [{
                "name": "make", "image": "scavenger.dev/gromacs:2022.5", "imagePullPolicy": "IfNotPresent",
                "command": ["sh", "/systems/make.sh", "/data/systems"],
                "resources": { "requests": { "cpu": "10m" } },
                "volumeMounts": [
                    { "name": "data", "mountPath": "/data" },
                    { "name": "systems", "mountPath": "/systems" },
                ],
            }],
            "volumes": [
                { "name": "data", "persistentVolumeClaim": { "claimName": "simulations" } },
                { "name": "systems", "configMap": { "name": "systems" } },
            ],
        } } },
    });
    world.create::<Job>(job).await?;
    let jobs = world.api::<Job>();
    until("the run inputs of the systems are made", || async {
        let status = jobs.get("make-systems").await?.status.unwrap_or_default();
        ensure!(status.failed.unwrap_or(0) == 0, "make.sh failed; its pod says why");
        Ok((status.succeeded.unwrap_or(0) > 0).then_some(()))
    })
    .await
}

/// Waits until each row has ended.
async fn ended(database: &Database, rows: &BTreeMap<String, i64>) -> Result<BTreeMap<String, Row>> {
    until_within(PATIENCE, "every system has ended", || async {
        let mut found = BTreeMap::new();
        for (name, id) in rows {
            let row = row(database, *id).await?;
            if !matches!(row.state.as_str(), "completed" | "failed" | "cancelled") {
                return Ok(None);
            }
            found.insert(name.clone(), row);
        }
        Ok(Some(found))
    })
    .await
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn each_completes_or_is_refused_with_a_sentence_that_says_what_to_do() {
    run_within(PATIENCE + Duration::from_secs(600), "systems", |world| async move {
        let (files, expected) = systems()?;
        ensure!(expected.len() >= 30, "only {} systems", expected.len());
        let database = prepare_with(world, 100, "").await?;
        make(world, &files).await?;
        let mut rows = BTreeMap::new();
        for name in expected.keys() {
            let path = format!("systems/{name}/{name}.tpr");
            let id = insert(world, &database, &path, &[("max_cpu_millicores", "500")]).await?;
            rows.insert(name.clone(), id);
        }
        let mut wrong = Vec::new();
        for (name, row) in ended(&database, &rows).await? {
            let reason = row.reason.clone().unwrap_or_default();
            let is_right = match &expected[&name] {
                None => row.state == "completed",
                Some(words) => row.state == "failed" && reason.contains(words.as_str()),
            };
            println!("{name}: {} {reason}", row.state);
            if !is_right {
                wrong.push(format!("{name}: {row:?}"));
            }
        }
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(())
    });
}
