//! Limits of the pool that would be in other tests' way: which images and service accounts ScavengerJobs may have.

use anyhow::{Context, Result, ensure};
use kube::api::PostParams;
use scavenger_e2e::{
    World,
    room::patch_pool,
    world::{played, run_within, until},
};
use scavenger_schema::scavenger_job::ScavengerJob;
use serde_json::{Value, json};

/// Sends a ScavengerJob with this image and account without having it stored.
async fn try_out(world: &World, image: &str, account: Option<&str>) -> kube::Result<ScavengerJob> {
    let mut job = played("tried", "10m");
    job["spec"]["image"] = json!(image);
    if let Some(account) = account {
        job["spec"]["serviceAccountName"] = json!(account);
    }
    let job = serde_json::from_value(job).map_err(kube::Error::SerdeError)?;
    world.api().create(&PostParams { dry_run: true, ..PostParams::default() }, &job).await
}

/// Checks that the API server refuses it for exactly this reason.
async fn refused(world: &World, image: &str, account: Option<&str>, expected: &str) -> Result<()> {
    match try_out(world, image, account).await {
        Err(kube::Error::Api(error)) => {
            ensure!(error.message.contains(expected), "{image}, {account:?}: {}", error.message);
            Ok(())
        }
        answer => anyhow::bail!("{image}, {account:?}: {answer:?}"),
    }
}

async fn keep_to_the_limits(world: &World, limits: &Value) -> Result<()> {
    // One that was there before goes on.
    let mut earlier = played("earlier", "10m");
    earlier["spec"]["serviceAccountName"] = json!("another");
    earlier["spec"]["suspend"] = json!(true);
    world.create::<ScavengerJob>(earlier).await?;
    patch_pool(world, &json!({ "limits": limits })).await?;
    until("the limits count", || async { Ok(try_out(world, "played", None).await.is_err().then_some(())) })
        .await?;
    for (image, account) in [
        ("e2e.example/exactly:1", None),
        ("e2e.example/exactly:1", Some("simulations")),
        ("e2e.example/chem/gromacs:2027", None),
        ("e2e.example/chem/deep/er@sha256:00", None),
        ("e2e.example/tagged:7", None),
    ] {
        try_out(world, image, account).await.with_context(|| format!("{image}, {account:?}"))?;
    }
    let allowed = "the ScavengerPool allows e2e.example/exactly:1, e2e.example/chem/*, e2e.example/tagged:* (limits.allowedImages)";
    for image in [
        "e2e.example/exactly:12",
        "e2e.example/exactly",
        "e2e.example/chemistry:1",
        "e2e.example/chem",
        "evil.example/e2e.example/chem/a",
        "e2e.example/tagged",
    ] {
        refused(world, image, None, &format!("spec.image is {image}; {allowed}")).await?;
    }
    let said = "spec.serviceAccountName is another; the ScavengerPool allows simulations (limits.allowedServiceAccounts)";
    refused(world, "e2e.example/exactly:1", Some("another"), said).await?;

    let kept = json!({ "spec": { "activeDeadlineSeconds": 1000 } });
    let sjs = world.api::<ScavengerJob>();
    let merge = kube::api::Patch::Merge(&kept);
    sjs.patch("earlier", &kube::api::PatchParams::default(), &merge)
        .await
        .context("another field changes")?;
    let other = json!({ "spec": { "image": "e2e.example/other" } });
    let merge = kube::api::Patch::Merge(&other);
    let moved = sjs.patch("earlier", &kube::api::PatchParams::default(), &merge).await;
    ensure!(
        moved.is_err_and(|error| error.to_string().contains("limits.allowedImages")),
        "it moves further out"
    );

    patch_pool(world, &json!({ "limits": { "allowedServiceAccounts": [] } })).await?;
    until("no account is allowed", || async {
        Ok(try_out(world, "e2e.example/exactly:1", Some("simulations")).await.is_err().then_some(()))
    })
    .await?;
    let said = "the ScavengerPool allows none (limits.allowedServiceAccounts)";
    refused(world, "e2e.example/exactly:1", Some("simulations"), said).await?;
    try_out(world, "e2e.example/exactly:1", None).await.context("without an account")?;
    Ok(())
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn images_and_service_accounts_are_those_that_the_pool_allows() {
    run_within(std::time::Duration::from_secs(600), "allowed-images", |world| async move {
        // Played ScavengerJobs tolerate the taint of played nodes.
        patch_pool(world, &json!({ "toleratedTaints": ["kwok.x-k8s.io/node"] })).await?;
        until("the pool lets its tolerations in", || async {
            Ok(try_out(world, "played", None).await.ok().map(|_| ()))
        })
        .await?;
        let images = ["e2e.example/exactly:1", "e2e.example/chem/*", "e2e.example/tagged:*"];
        let limits = json!({ "allowedImages": images, "allowedServiceAccounts": ["simulations"] });
        let result = keep_to_the_limits(world, &limits).await;
        let nothing = json!({ "allowedImages": null, "allowedServiceAccounts": null });
        patch_pool(world, &json!({ "limits": nothing, "toleratedTaints": null })).await?;
        result
    });
}
