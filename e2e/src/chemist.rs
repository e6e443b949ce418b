//! A chemist who uses the submitter's command line on a machine outside of the cluster, with a database role and a
//! kubeconfig, and no right beyond those.

use std::{collections::BTreeMap, path::Path, process::Stdio};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{core::v1::Secret, rbac::v1::RoleBinding};
use kube::Api;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    World,
    forward::forward,
    local::{Printed, program},
    postgres::{Database, NAMESPACE},
    tool::kubeconfig,
};

/// A chemist with a machine outside of the cluster.
pub struct Chemist {
    environment: BTreeMap<String, String>,
    /// What is deleted with the chemist.
    _kubeconfig: Option<tempfile::NamedTempFile>,
}

impl Chemist {
    /// A chemist with a database role that may use the test's namespace, and in Kubernetes with the role `edit` there, or
    /// with no right at all. `name` is one of the test's own.
    ///
    /// # Errors
    /// What psql, kubectl or the API server says.
    pub async fn new(world: &World, database: &Database, name: &str, may_edit: bool) -> Result<Self> {
        let user = format!("{name}-{}", world.namespace);
        let role = user.replace('-', "_");
        database
            .sql(&format!(
                "create role {role} login password 'chemist' in role gromacs_chemist;
                 insert into gromacs_tenant (database_role, namespace) values ('{role}', '{}')",
                world.namespace
            ))
            .await?;
        if may_edit {
            let binding = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": user },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit" },
                "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
            });
            world.create::<RoleBinding>(binding).await?;
        }
        let kubeconfig = kubeconfig(Some(&user))?;
        let address = forward(&world.client, NAMESPACE, "postgres-0", 5432).await?;
        Ok(Self::at(world, format!("postgres://{role}:chemist@{address}/scavenger"), kubeconfig))
    }

    /// The admin of cluster and database, who calls the same program.
    ///
    /// # Errors
    /// If the database has no password.
    pub async fn admin(world: &World) -> Result<Self> {
        let secrets: Api<Secret> = Api::namespaced(world.client.clone(), NAMESPACE);
        let data = secrets.get("postgres").await?.data.unwrap_or_default();
        let password = String::from_utf8(data.get("password").context("there is no password")?.0.clone())?;
        let address = forward(&world.client, NAMESPACE, "postgres-0", 5432).await?;
        let url = format!("postgres://postgres:{password}@{address}/scavenger");
        Ok(Self::at(world, url, kubeconfig(None)?))
    }

    fn at(world: &World, url: String, kubeconfig: tempfile::NamedTempFile) -> Self {
        let variables = [
            ("DATABASE_URL", url),
            ("KUBECONFIG", kubeconfig.path().to_string_lossy().into_owned()),
            ("SCAVENGER_SUBMITTER_NAMESPACE", world.namespace.clone()),
            ("SCAVENGER_SUBMITTER_PVC", "simulations".to_owned()),
        ];
        let environment = variables.map(|(name, value)| (name.to_owned(), value)).into();
        Self { environment, _kubeconfig: Some(kubeconfig) }
    }

    /// Somebody who sets the variables of a card (`tenant card --output json`), and has the password in a file.
    ///
    /// # Errors
    /// If the card has no variables.
    pub fn of_card(card: &Value, password_file: &Path) -> Result<Self> {
        let mut environment: BTreeMap<String, String> =
            serde_json::from_value(card["environment"].clone())
                .with_context(|| format!("no variables are on {card}"))?;
        environment.insert("PGPASSFILE".to_owned(), password_file.to_string_lossy().into_owned());
        Ok(Self { environment, _kubeconfig: None })
    }

    /// The command line, with nothing in its environment but what the documentation asks for.
    ///
    /// # Errors
    /// If it was not built.
    pub fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(program("gromacs-submitter")?);
        command
            .args(arguments)
            .env_clear()
            .envs(&self.environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        Ok(command)
    }

    /// Runs a verb to its end.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn run(&self, arguments: &[&str]) -> Result<Printed> {
        let output = self.command(arguments)?.output().await.context("the submitter does not start")?;
        Ok(output.into())
    }

    /// What a verb prints when all is well.
    ///
    /// # Errors
    /// What it complains about.
    pub async fn good(&self, arguments: &[&str]) -> Result<String> {
        let printed = self.run(arguments).await?;
        ensure!(printed.code == Some(0), "{arguments:?}: {printed:?}");
        Ok(printed.stdout)
    }

    /// The same as JSON.
    ///
    /// # Errors
    /// What it complains about.
    pub async fn json(&self, arguments: &[&str]) -> Result<Value> {
        let printed = self.good(&[arguments, &["--output", "json"]].concat()).await?;
        serde_json::from_str(&printed).with_context(|| format!("{arguments:?}: {printed}"))
    }

    /// Checks that a verb does not do it, and that its message contains every one of `words`.
    ///
    /// # Errors
    /// If it was done, or a word is missing.
    pub async fn refused(&self, arguments: &[&str], words: &[&str]) -> Result<()> {
        let printed = self.run(arguments).await?;
        ensure!(printed.code.is_some_and(|code| code > 0), "{arguments:?}: {printed:?}");
        for word in words {
            ensure!(printed.stderr.contains(word), "{arguments:?}: {word:?} is not in: {printed:?}");
        }
        Ok(())
    }
}
