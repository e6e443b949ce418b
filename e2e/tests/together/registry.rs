//! Images from a registry that asks for a password, that does not have the image, and that is in trouble for a while.

use anyhow::{Context, Result, ensure};
use scavenger_e2e::{
    World,
    registry::{Front, Registry},
    room::status,
    run,
    world::counter_beside,
};
use scavenger_schema::scavenger_job::{Phase, ScavengerJob};
use scavenger_vocabulary::Reason;
use serde_json::{Value, json};

/// A ScavengerJob that counts to 10, with its image from the registry at each start.
fn pulling(name: &str, image: &str, secret: Option<&str>) -> Value {
    let mut sj = counter_beside(name, 10);
    sj["spec"]["image"] = json!(image);
    sj["spec"]["imagePullPolicy"] = json!("Always");
    if let Some(secret) = secret {
        sj["spec"]["imagePullSecrets"] = json!([secret]);
    }
    sj
}

/// Waits until it has failed because its image cannot be pulled, and returns the message.
async fn fails(world: &World, name: &str) -> Result<String> {
    let sj = status(&world.phase(name, Phase::Failed).await?);
    let attempt = sj.attempts.last().with_context(|| format!("{name} had no attempt"))?;
    ensure!(attempt.reason == Some(Reason::ContainerNotCreated), "{name}: {sj:?}");
    ensure!(sj.start_times.is_empty(), "{name} has run: {sj:?}");
    sj.message.with_context(|| format!("{name} says nothing"))
}

#[test]
fn an_image_is_pulled_with_a_secret_and_without_one_the_message_names_the_remedy() {
    run("pull-secret", |world| async move {
        let registry = Registry::of_the_cluster()?;
        world.claim("data").await?;
        registry.secret(world, "login", true).await?;
        registry.secret(world, "outdated", false).await?;
        let image = registry.counter();
        world.create::<ScavengerJob>(pulling("pulls", &image, Some("login"))).await?;
        let wrong = [("none", None), ("forgotten", Some("no-such-secret")), ("outdated", Some("outdated"))];
        for (name, secret) in wrong {
            world.create::<ScavengerJob>(pulling(name, &image, secret)).await?;
        }
        world.phase("pulls", Phase::Completed).await?;
        for (name, _) in wrong {
            let message = fails(world, name).await?;
            println!("{name}: {message}");
            ensure!(
                message.contains(&image) && message.contains("spec.imagePullSecrets"),
                "{name}: {message}"
            );
        }
        Ok(())
    });
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn an_image_that_the_registry_does_not_have_fails_it_after_the_deadline() {
    run("no-such-image", |world| async move {
        let registry = Registry::of_the_cluster()?;
        world.claim("data").await?;
        registry.secret(world, "login", true).await?;
        let image = format!("{}-never-made", registry.counter());
        let began = std::time::Instant::now();
        world.create::<ScavengerJob>(pulling("nothing", &image, Some("login"))).await?;
        let message = fails(world, "nothing").await?;
        println!("after {:.0} s: {message}", began.elapsed().as_secs_f64());
        ensure!(message.contains(&format!("{image}: not found")), "{message}");
        ensure!(message.contains("spec.image"), "{message}");
        ensure!(!message.contains("imagePullSecrets"), "{message}");
        // A registry may get the image a moment later: startDeadline is 15 s.
        ensure!(began.elapsed().as_secs() >= 14, "it failed before the deadline");
        Ok(())
    });
}

/// The registry's trouble is never final, however often the pull fails.
#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_registry_that_answers_503_and_recovers_costs_only_time() {
    run("registry-503", |world| async move {
        let registry = Registry::of_the_cluster()?;
        world.claim("data").await?;
        registry.secret(world, "login", true).await?;
        let front = Front::in_trouble(&registry).await?;
        let image = registry.counter_behind_front();
        world.create::<ScavengerJob>(pulling("patient", &image, Some("login"))).await?;
        let sj = world
            .job_until("patient", "withdrawn", |sj| {
                status(sj).attempts.iter().any(|attempt| attempt.end_time.is_some())
            })
            .await?;
        let attempts = status(&sj).attempts;
        let attempt = attempts.first().context("no attempt was recorded")?;
        ensure!(attempt.reason == Some(Reason::ContainerNotCreated), "{attempt:?}");
        let message = attempt.message.clone().unwrap_or_default();
        println!("in trouble: {message}");
        ensure!(message.contains("503 Service Unavailable"), "{message}");
        front.recover();
        let sj = status(&world.phase("patient", Phase::Completed).await?);
        ensure!(sj.interrupted_count == 0, "{sj:?}");
        ensure!(sj.start_times.len() == 1, "{sj:?}");
        Ok(())
    });
}
