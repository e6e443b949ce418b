//! Removes the demo from a cluster. What is there is read from the cluster, so that this works after any end of the demo,
//! and in another process.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{super::stage::LABEL, survey::labelled};
use crate::{cluster::Access, install, progress::Task};

/// Removes everything that carries the demo's label, and what belongs to it.
pub(super) fn clean_up(access: &Access) -> Result<()> {
    let task = Task::start("removing the demo from the cluster");
    let get = |what: &[&str]| -> Result<Value> {
        let text = access.kubectl_output(&[&["get"], what, &["--output=json"]].concat())?;
        serde_json::from_str(&text).with_context(|| format!("kubectl get {} printed no JSON", what.join(" ")))
    };
    let namespaces = get(&["namespaces"])?;
    let namespaces = labelled(&namespaces);
    let definitions = get(&["customresourcedefinitions"])?;
    let has_jobs = definitions["items"]
        .as_array()
        .is_some_and(|all| all.iter().any(|one| one["metadata"]["name"] == "scavengerjobs.scavenger.dev"));
    let is_installed = namespaces.contains(&install::NAMESPACE);
    if has_jobs && is_installed {
        let jobs = get(&["scavengerjobs", "--all-namespaces"])?;
        let others = of_others(&jobs, &namespaces);
        if !others.is_empty() {
            bail!(
                "ScavengerJobs that are not the demo's were created meanwhile, and only its operator can end them: delete {}",
                others.join(", ")
            );
        }
    }
    if is_installed {
        // It would only create further ones.
        let submitter = ["delete", "deployment", "gromacs-submitter", "--ignore-not-found", "--timeout=60s"];
        access.kubectl_output(&[&submitter[..], &["--namespace", install::NAMESPACE]].concat())?;
    }
    if has_jobs {
        for namespace in &namespaces {
            delete_jobs(access, namespace)?;
        }
    }
    if is_installed {
        task.detail("uninstalling the chart's release");
        install::uninstall(access)?;
    }
    if !namespaces.is_empty() {
        task.detail("deleting the namespaces");
        let delete = ["delete", "namespaces", "--selector", LABEL, "--timeout=180s"];
        access.kubectl_output(&delete)?;
    }
    access.kubectl_output(&["delete", "priorityclasses", "--selector", LABEL])?;
    access.kubectl_output(&["delete", "customresourcedefinitions", "--selector", LABEL, "--timeout=60s"])?;
    let nodes = get(&["nodes"])?;
    for node in labelled(&nodes) {
        access.kubectl_output(&["label", "node", node, &format!("{LABEL}-")])?;
    }
    // The definitions that were there before the demo stay.
    let ours = |name: &String| is_installed && !name.starts_with("customresourcedefinition");
    let left: Vec<String> = install::left(access)?.into_iter().filter(ours).collect();
    if !left.is_empty() {
        bail!("these are left: {}", left.join(", "));
    }
    task.done(if namespaces.is_empty() && labelled(&nodes).is_empty() {
        "no demo was on the cluster"
    } else {
        "the demo is removed: its namespaces, its definitions, the installation and the node's label are gone"
    });
    let volumes = get(&["persistentvolumes"])?;
    let kept = kept(&volumes, &namespaces);
    if !kept.is_empty() {
        eprintln!("their StorageClass keeps these volumes, which held the demo's files: {}", kept.join(", "));
    }
    Ok(())
}

/// Deletes the ScavengerJobs of a namespace: by the operator if it is at work, else as docs/uninstall.md says.
fn delete_jobs(access: &Access, namespace: &str) -> Result<()> {
    let of = ["--namespace", namespace];
    let delete = ["delete", "scavengerjobs", "--all", "--timeout=90s"];
    if access.kubectl_output(&[&delete[..], &of].concat()).is_ok() {
        return Ok(());
    }
    let jobs =
        ["delete", "jobs", "--selector", "scavenger.dev/job", "--cascade=foreground", "--timeout=120s"];
    access.kubectl_output(&[&jobs[..], &of].concat())?;
    let pods = ["wait", "pods", "--selector", "scavenger.dev/job", "--for=delete", "--timeout=120s"];
    access.kubectl_output(&[&pods[..], &of].concat())?;
    let names = access.kubectl_output(&[&["get", "scavengerjobs", "--output=name"][..], &of].concat())?;
    for name in names.lines() {
        let patch = ["patch", name, "--type=merge", "--patch", r#"{"metadata":{"finalizers":null}}"#];
        access.kubectl_output(&[&patch[..], &of].concat())?;
    }
    Ok(())
}

/// ScavengerJobs outside the demo's namespaces.
fn of_others(jobs: &Value, namespaces: &[&str]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let items = jobs["items"].as_array().into_iter().flatten();
    let names = items.map(|job| (text(&job["metadata"]["namespace"]), text(&job["metadata"]["name"])));
    let others = names.filter(|(namespace, _)| !namespaces.contains(&namespace.as_str()));
    others.map(|(namespace, name)| format!("{namespace}/{name}")).collect()
}

/// Volumes that a claim of the demo was bound to, and that no provisioner deletes.
fn kept<'a>(volumes: &'a Value, namespaces: &[&str]) -> Vec<&'a str> {
    let items = volumes["items"].as_array().into_iter().flatten();
    let kept = items.filter(|volume| {
        let namespace = volume["spec"]["claimRef"]["namespace"].as_str().unwrap_or_default();
        namespaces.contains(&namespace) && volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    });
    kept.filter_map(|volume| volume["metadata"]["name"].as_str()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scavenger_jobs_of_others_are_named() {
        let job = |namespace: &str| json!({ "metadata": { "namespace": namespace, "name": "a" } });
        let jobs = json!({ "items": [job("scavenger-demo-chem"), job("prod")] });
        assert_eq!(of_others(&jobs, &["scavenger-demo-chem"]), ["prod/a"]);
    }

    #[test]
    fn volumes_that_stay_are_named() {
        let volume = |name: &str, namespace: &str, policy: &str| {
            let claim = json!({ "namespace": namespace });
            json!({
                "metadata": { "name": name },
                "spec": { "claimRef": claim, "persistentVolumeReclaimPolicy": policy },
            })
        };
        let volumes = json!({ "items": [volume("a", "x", "Retain"), volume("b", "x", "Delete"), volume("c", "y", "Retain")] });
        assert_eq!(kept(&volumes, &["x"]), ["a"]);
    }
}
