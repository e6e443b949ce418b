//! An admin hands out the card of a tenant. With what is on it a person brings a file, has a row computed and brings its results
//! home, and can do nothing else in the cluster.

use std::{fs, io::Write as _, os::unix::fs::PermissionsExt as _, path::Path};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{PersistentVolumeClaim, Pod, Secret, ServiceAccount},
    rbac::v1::RoleBinding,
};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use scavenger_e2e::{
    World,
    chemist::Chemist,
    queue::{prepare_with, state},
    run,
    world::until,
};
use scavenger_schema::scavenger_job::ScavengerJob;
use serde_json::{Value, json};

/// For a row that only has to end.
const FEW_STEPS: u32 = 300;

const IMAGE: [&str; 2] = ["--image", "scavenger.dev/gromacs:2022.5"];

/// A card, and what must not be on it.
async fn card(admin: &Chemist, role: &str, namespace: &str, file: &str) -> Result<Value> {
    let ask = ["tenant", "card", role, namespace, "--pvc", "simulations", "--write-kubeconfig", file];
    let would = admin.json(&[&ask[..], &["--dry-run"]].concat()).await?;
    ensure!(would["kubeconfig"]["expiry_time"].is_null() && !Path::new(file).exists(), "{would}");
    let card = admin.json(&[&ask[..], &["--expires-in", "1h"]].concat()).await?;
    ensure!(fs::metadata(file)?.permissions().mode() & 0o777 == 0o600, "others can read {file}");
    ensure!(card["kubeconfig"]["expiry_time"].is_string(), "{card}");
    admin.refused(&ask, &["is there already", "--overwrite"]).await?;
    let printed = admin.good(&[&ask[..], &["--expires-in", "1h", "--overwrite"]].concat()).await?;
    println!("{printed}");
    let kubeconfig: Value = serde_json::to_value(Kubeconfig::read_from(file)?)?;
    let token = kubeconfig["users"][0]["user"]["token"].as_str().context("no token")?;
    for said in [&printed, &card.to_string()] {
        ensure!(!said.contains(token) && !said.contains("chemist@"), "a secret is on {said}");
    }
    Ok(card)
}

/// What the person does.
async fn works(world: &World, person: &Chemist, home: &Path) -> Result<i64> {
    let root = home.to_str().context("the folder's path is no text")?;
    fs::write(home.join("notes.txt"), "of Monday")?;
    let put = [&["put", "--root", root, "notes.txt", "--to", "carol"][..], &IMAGE].concat();
    let brought = person.good(&put).await?;
    ensure!(brought.contains("copied carol/notes.txt"), "{brought}");
    let added = person.json(&["add", "water/water.tpr", "--max-cpu-millicores", "500"]).await?;
    let row = added[0]["id"].as_i64().with_context(|| added.to_string())?;
    let database = scavenger_e2e::postgres::Database::new(&world.client);
    state(&database, row, "completed").await?;
    let results = home.join("results");
    let to = results.to_str().context("the folder's path is no text")?;
    let fetched = person.good(&["fetch", &row.to_string(), "*.gro", "--to", to]).await?;
    ensure!(fetched.contains("copied 1 file") && results.join("confout.gro").is_file(), "{fetched}");
    let listed = person.good(&["files", &row.to_string()]).await?;
    ensure!(listed.contains("md.log"), "{listed}");
    let log = person.good(&["logs", &row.to_string(), "--mdrun", "--lines", "3"]).await?;
    ensure!(!log.is_empty(), "the log is empty");
    Ok(row)
}

/// The API server's answer to what is not on the card.
fn forbidden<T>(what: &str, answer: kube::Result<T>) -> Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
        Err(error) => bail!("{what}: {error}"),
        Ok(_) => bail!("{what} was done"),
    }
}

async fn can_do_nothing_else(world: &World, file: &str) -> Result<()> {
    let config =
        Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let namespace = &world.namespace;
    let all = ListParams::default();
    let create = PostParams { dry_run: true, ..PostParams::default() };
    let container = json!({ "name": "main", "image": "scavenger.dev/gromacs:2022.5" });
    let job: Job = serde_json::from_value(json!({
        "metadata": { "name": "mine" },
        "spec": { "template": { "spec": { "restartPolicy": "Never", "containers": [container] } } },
    }))?;
    let scavenger_job: ScavengerJob = serde_json::from_value(json!({
        "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "metadata": { "name": "mine" },
        "spec": { "image": "scavenger.dev/gromacs:2022.5", "resources": { "requests": { "cpu": "100m", "memory": "64Mi" } },
            "interruptionAfter": "60s" },
    }))?;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let jobs: Api<Job> = Api::namespaced(client.clone(), namespace);
    let scavenger_jobs: Api<ScavengerJob> = Api::namespaced(client.clone(), namespace);
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), namespace);
    let elsewhere: Api<Pod> = Api::namespaced(client.clone(), "scavenger-system");
    let everywhere: Api<Pod> = Api::all(client);
    forbidden("a list of Secrets", secrets.list(&all).await)?;
    forbidden("a Job", jobs.create(&create, &job).await)?;
    forbidden("a ScavengerJob", scavenger_jobs.create(&create, &scavenger_job).await)?;
    forbidden(
        "a deletion of the claim",
        claims.delete("simulations", &DeleteParams::default().dry_run()).await,
    )?;
    forbidden("a list of RoleBindings", bindings.list(&all).await)?;
    forbidden("a list of pods elsewhere", elsewhere.list(&all).await)?;
    forbidden("a list of all pods", everywhere.list(&all).await)
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn the_kubeconfig_of_a_card_is_enough_and_no_more() {
    run("card", |world| async move {
        let database = prepare_with(world, FEW_STEPS, "").await?;
        let role = format!("carol_{}", world.namespace.replace('-', "_"));
        database.sql(&format!("create role {role} login password 'chemist'")).await?;
        let admin = Chemist::admin(world).await?;
        admin.good(&["tenant", "add", &role, &world.namespace]).await?;
        let home = tempfile::tempdir()?;
        let path = home.path().join("kubeconfig.yaml");
        let file = path.to_str().context("the folder's path is no text")?;
        let card = card(&admin, &role, &world.namespace, file).await?;

        // In a file that nobody else can read, as the card says.
        let mut passwords = tempfile::NamedTempFile::new()?;
        writeln!(passwords, "*:*:*:{role}:chemist")?;
        let person = Chemist::of_card(&card, passwords.path())?;
        let row = works(world, &person, home.path()).await?;
        can_do_nothing_else(world, file).await?;

        let account = card["kubeconfig"]["service_account"].as_str().context("no account")?;
        world.api::<ServiceAccount>().delete(account, &DeleteParams::default()).await?;
        until("the rights have ended with the account", || async {
            Ok(world.api::<RoleBinding>().get_opt(account).await?.is_none().then_some(()))
        })
        .await?;
        // The API server remembers for seconds whose a token was; by then it has no rights.
        until("the token has ended with the account", || async {
            let printed = person.run(&["files", &row.to_string()]).await?;
            ensure!(printed.code == Some(2), "{printed:?}");
            Ok(printed.stderr.contains("ask your admin for a new one").then_some(()))
        })
        .await
    });
}
