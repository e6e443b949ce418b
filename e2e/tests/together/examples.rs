//! The README's first five minutes: the files of deploy/examples, applied with kubectl as they are.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::DeleteParams};
use scavenger_e2e::{
    World,
    kubectl::{apply_example, kubectl},
    run,
    world::{resumed_at, until},
};
use scavenger_schema::scavenger_job::Phase;

/// The pod that keeps the checkpoint: the only one, or the first of a gang.
async fn keeper(world: &World, job: &str) -> Result<String> {
    let pods = world.pods(job).await?;
    let index = |pod: &Pod| pod.annotations().get("batch.kubernetes.io/job-completion-index").cloned();
    let keeper = pods.iter().find(|pod| index(pod).is_none_or(|index| index == "0"));
    Ok(keeper.context("the ScavengerJob has no pod")?.name_any())
}

/// Applies an example, takes a pod away once it has counted for a while, and follows it to its end.
async fn interrupt(world: &World, name: &str) -> Result<()> {
    apply_example(&world.namespace, &format!("{name}.yaml")).await?;
    world.phase(name, Phase::Running).await?;
    let pod = keeper(world, name).await?;
    world.log_until(&pod, "a checkpoint", |line| line.starts_with("checkpoint ")).await?;
    // What the README shows: the columns a person sees.
    let table = kubectl(&["get", "scavengerjob", name, "--namespace", &world.namespace]).await?;
    let all = ["PHASE", "PROGRESS", "INTERRUPTIONS", "AGE", "MESSAGE", "Running", "attempt 1 is running"];
    for word in all {
        ensure!(table.contains(word), "{word:?} is not in:\n{table}");
    }
    world.api::<Pod>().delete(&pod, &DeleteParams::default()).await?;
    let interrupted = world
        .job_until(name, "interrupted", |job| {
            job.status.as_ref().is_some_and(|status| status.interrupted_count == 1)
        })
        .await?;
    ensure!(
        interrupted.status.and_then(|status| status.finish_time).is_none(),
        "{name} ended although it was interrupted"
    );
    let job = world.phase(name, Phase::Completed).await?;
    ensure!(job.status.is_some_and(|status| status.attempts.len() == 2), "{name} was not resumed once");
    let log = world.log_until(&keeper(world, name).await?, "the end", |line| line == "done 600").await?;
    ensure!(resumed_at(&log)? > 0, "{name} did not resume from its checkpoint: {log}");
    Ok(())
}

/// `cargo xtask ci` compares the file with what README shows.
#[test]
fn the_manifest_of_the_readme_resumes() {
    run("example-readme", |world| interrupt(world, "first"));
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn counter_resumes() {
    run("example", |world| interrupt(world, "counter"));
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn counter_that_saves_and_exits_0_resumes() {
    run("example-exit-0", |world| interrupt(world, "counter-saves-on-sigterm"));
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn counter_that_does_not_save_resumes_from_its_last_checkpoint() {
    run("example-no-save", |world| interrupt(world, "counter-no-save"));
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn counter_of_three_pods_resumes() {
    run("example-gang", |world| interrupt(world, "counter-gang"));
}

/// Every whole manifest of ours that a page shows.
fn manifests_of_pages() -> Result<Vec<(String, String)>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).context("docs/ cannot be listed")? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let page =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
        let ours = blocks.filter(|block| block.starts_with("apiVersion: scavenger.dev/"));
        found.extend(ours.map(|block| (path.display().to_string(), block.to_owned())));
    }
    Ok(found)
}

/// As dry runs: the images do not exist.
#[test]
fn the_manifests_of_the_pages_are_accepted() {
    run("example-pages", |world| async move {
        let manifests = manifests_of_pages()?;
        ensure!(manifests.len() >= 7, "only {} manifests were found", manifests.len());
        for (page, manifest) in manifests {
            let file = tempfile::NamedTempFile::new()?;
            std::fs::write(file.path(), &manifest)?;
            let path = file.path().to_string_lossy().into_owned();
            let apply = ["apply", "--server-side", "--force-conflicts"];
            // The pool is there. Applied, it would keep what other tests have set; as it stands on the page, it is whole.
            let how = if manifest.contains("kind: ScavengerPool") { &["replace"][..] } else { &apply[..] };
            let what = ["--dry-run=server", "--namespace", &*world.namespace, "-f", &*path];
            let answer = kubectl(&[how, &what[..]].concat()).await;
            answer.with_context(|| format!("{page} shows what is refused:\n{manifest}"))?;
        }
        Ok(())
    });
}

#[test]
fn each_illegal_counter_is_refused_with_the_name_of_its_field() {
    run("example-illegal", |world| async move {
        let error = apply_example(&world.namespace, "counter-illegal.yaml")
            .await
            .err()
            .context("kubectl accepted it")?;
        let message = format!("{error:#}");
        for field in [
            "spec.resources.limits",
            "spec.podCount",
            "spec.persistentVolumeClaims[0].mountPath",
            "spec.persistentVolumeClaims[0].claimName",
        ] {
            ensure!(message.contains(field), "{field} is not named in: {message}");
        }
        until("nothing was made", || async {
            let made =
                kubectl(&["get", "scavengerjobs", "--namespace", &world.namespace, "-o", "name"]).await?;
            Ok(made.is_empty().then_some(()))
        })
        .await
    });
}
