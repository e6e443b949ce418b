//! Two chemists with database roles of their own, who use nothing but SQL.

use anyhow::{Context, Result, ensure};
use scavenger_e2e::{
    World,
    postgres::Database,
    queue::{is_complete, prepare, row, state},
    run,
    world::until,
};

/// What an admin does once for a chemist.
async fn chemist(database: &Database, role: &str, namespaces: &[&str]) -> Result<()> {
    database.sql(&format!("create role {role} login in role gromacs_chemist")).await?;
    for namespace in namespaces {
        let insert = "insert into gromacs_tenant (database_role, namespace, max_cpu_millicores)";
        database.sql(&format!("{insert} values ('{role}', '{namespace}', 500)")).await?;
    }
    Ok(())
}

/// What a chemist does.
async fn insert(database: &Database, role: &str, namespace: &str) -> Result<i64> {
    let id = database
        .sql_as(
            role,
            &format!(
                "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path) \
                 values ('{namespace}', 'simulations', 'water/water.tpr') returning id"
            ),
        )
        .await?;
    id.parse().with_context(|| format!("psql returned no id but {id:?}"))
}

async fn refused(database: &Database, role: &str, statement: &str, words: &str) -> Result<()> {
    let answer = database.sql_as(role, statement).await;
    let error = answer.err().with_context(|| format!("{role} may: {statement}"))?;
    ensure!(format!("{error:#}").contains(words), "{statement}: {words:?} is not in: {error:#}");
    Ok(())
}

async fn story(world: &World, database: &Database, alice: &str, bob: &str, unbound: &str) -> Result<()> {
    chemist(database, alice, &[&world.namespace, unbound]).await?;
    chemist(database, bob, &[&world.namespace]).await?;
    let lost = insert(database, alice, unbound).await?;
    let hers = insert(database, alice, &world.namespace).await?;
    let his = insert(database, bob, &world.namespace).await?;

    // A right may be missing for a moment: the row waits, and says what an admin does.
    let remedy = format!("kubectl apply --server-side -k deploy/tenant --namespace {unbound}");
    let waits = until("the row in the namespace that is not bound says what it waits for", || async {
        let row = row(database, lost).await?;
        Ok(Some(row).filter(|row| row.reason.as_deref().is_some_and(|reason| reason.contains(&remedy))))
    })
    .await?;
    ensure!(waits.state != "failed", "{waits:?}");
    println!("row {lost}: {}", waits.reason.unwrap_or_default());

    let foreign = format!(
        "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path) \
        values ('{unbound}', 'simulations', 'water/water.tpr')"
    );
    refused(database, bob, &foreign, "is not one of yours").await?;
    refused(database, bob, "update gromacs_to_tune set state = 'completed'", "permission denied").await?;
    let theft = format!("update gromacs_to_tune set cancel_requested = true where id = {hers} returning id");
    ensure!(database.sql_as(bob, &theft).await?.is_empty(), "one chemist cancelled the other's row");
    let seen = database.sql_as(bob, "select string_agg(id::text, ' ') from gromacs_queue").await?;
    ensure!(seen == his.to_string(), "{bob} sees rows {seen}, not {his} alone");

    for (role, id) in [(alice, hers), (bob, his)] {
        is_complete(&state(database, id, "completed").await?)?;
        let told = database
            .sql_as(role, &format!("select state || ' by ' || owner from gromacs_queue where id = {id}"))
            .await?;
        ensure!(told == format!("completed by {role}"), "{told}");
        database.sql_as(role, &format!("delete from gromacs_to_tune where id = {id}")).await?;
    }
    Ok(())
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn chemists_share_a_queue_and_keep_their_rows_to_themselves() {
    run("tenants", |world| async move {
        let database = prepare(world).await?;
        let suffix = world.namespace.replace('-', "_");
        let (alice, bob) = (format!("alice_{suffix}"), format!("bob_{suffix}"));
        // There is no such namespace: for the submitter that is the same as one that nobody bound.
        let unbound = format!("{}-unbound", world.namespace);
        story(world, &database, &alice, &bob, &unbound).await
    });
}
