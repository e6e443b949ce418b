//! The queue as a chemist uses it: with the verbs of `gromacs-submitter`, run in the submitter's own pod, where the
//! database can be reached.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::{cluster::Access, install::NAMESPACE};

/// psql in the database's pod; the socket needs no password. The admin uses it once, and people who look around.
pub(super) const PSQL: [&str; 6] =
    ["psql", "--host=/tmp", "--no-psqlrc", "--quiet", "scavenger", "--username"];

/// The admin of the queue.
const ADMIN: &str = "postgres";

/// Who puts the rows into the queue and looks at them.
pub(super) const CHEMIST: &str = "chemist";

/// Most cpu of a simulation, in thousandths of a core: on a large node the story would be another one.
const MOST_CPU: u32 = 2000;

/// The chemist's connection, from a pod of the installation.
const DATABASE_URL: &str = "postgres://chemist:chemist@postgres:5432/scavenger";

/// One row, as `list` prints it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Row {
    pub(super) id: i64,
    pub(super) tpr_path: String,
    pub(super) state: String,
    pub(super) reason: Option<String>,
    pub(super) configuration: Option<String>,
    pub(super) configuration_number: Option<i32>,
    pub(super) configurations: Option<i32>,
    pub(super) step: Option<i64>,
    pub(super) last_step: Option<i64>,
    pub(super) percent: Option<f64>,
    pub(super) ns_per_day: Option<f64>,
    pub(super) interruptions: i64,
    pub(super) lost_seconds: Option<i64>,
}

/// One attempt that ran, as `show` prints it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Attempt {
    pub(super) row_id: i64,
    pub(super) first_step: Option<i64>,
    pub(super) last_step: Option<i64>,
    pub(super) outcome: Option<String>,
    pub(super) reason: Option<String>,
}

/// What became of a file, as `add` prints it.
#[derive(Debug, Deserialize)]
struct Added {
    tpr_path: String,
    id: Option<i64>,
    reason: Option<String>,
}

/// The queue of a cluster.
pub(super) struct Queue<'a> {
    access: &'a Access,
}

impl<'a> Queue<'a> {
    pub(super) fn new(access: &'a Access) -> Self {
        Self { access }
    }

    /// What a verb prints.
    fn submitter(&self, arguments: &[&str]) -> Result<String> {
        let mut command = vec!["exec", "--namespace", NAMESPACE, "deployment/gromacs-submitter"];
        command.extend(["--container", "submitter", "--", "gromacs-submitter"]);
        command.extend(arguments);
        command.extend(["--database-url", DATABASE_URL]);
        self.access.kubectl_output(&command)
    }

    fn json<T: serde::de::DeserializeOwned>(&self, arguments: &[&str]) -> Result<T> {
        let text = self.submitter(&[arguments, &["--output", "json"]].concat())?;
        serde_json::from_str(&text)
            .with_context(|| format!("gromacs-submitter {} printed {text:?}", arguments.join(" ")))
    }

    /// What an admin does once for a chemist: a role to log in with, and the namespace that its rows may name.
    pub(super) fn add_tenant(&self, namespace: &str) -> Result<()> {
        let statement = format!(
            "create role {CHEMIST} login password 'chemist' in role gromacs_chemist; \
             insert into gromacs_tenant (database_role, namespace, max_cpu_millicores) \
             values ('{CHEMIST}', '{namespace}', {MOST_CPU})"
        );
        let mut command =
            vec!["exec", "--namespace", NAMESPACE, "postgres-0", "--container", "postgres", "--"];
        command.extend(PSQL);
        command.extend([ADMIN, "--set=ON_ERROR_STOP=1", "--command", &statement]);
        self.access.kubectl_output(&command).map(drop)
    }

    /// `add`: puts rows into the queue and returns their numbers.
    pub(super) fn add(&self, namespace: &str, claim: &str, paths: &[&str]) -> Result<Vec<i64>> {
        let options = ["--namespace", namespace, "--pvc", claim, "--interruption-after", "60s"];
        let added: Vec<Added> = self.json(&[&["add"], &options[..], paths].concat())?;
        let id = |added: &Added| {
            added.id.with_context(|| format!("{} was not added: {:?}", added.tpr_path, added.reason))
        };
        added.iter().map(id).collect()
    }

    /// `list`: the rows as people see them.
    pub(super) fn rows(&self, ids: &[i64]) -> Result<Vec<Row>> {
        let mut rows: Vec<Row> = self.json(&["list"])?;
        rows.retain(|row| ids.contains(&row.id));
        rows.sort_by_key(|row| row.id);
        Ok(rows)
    }

    /// `show`: the attempts that ran, in their order.
    pub(super) fn attempts(&self, ids: &[i64]) -> Result<Vec<Attempt>> {
        let mut attempts = Vec::new();
        for id in ids {
            let mut story: Value = self.json(&["show", &id.to_string()])?;
            let all = story["attempts"].take();
            let ran = all.as_array().into_iter().flatten().filter(|attempt| !attempt["start_time"].is_null());
            for attempt in ran {
                attempts.push(Attempt::deserialize(attempt).context("show printed another kind of attempt")?);
            }
        }
        Ok(attempts)
    }

    /// `list` and `report`: what came of the rows.
    pub(super) fn summary(&self) -> Result<String> {
        let mut text = String::new();
        for verb in [&["list"][..], &["report", "--since", "1h"]] {
            text += &format!("$ gromacs-submitter {}\n{}\n", verb.join(" "), self.submitter(verb)?);
        }
        Ok(text)
    }
}
