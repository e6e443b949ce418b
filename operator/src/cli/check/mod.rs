//! `scavenger-operator check`: what would go wrong in a namespace, before the first ScavengerJob is there.
//!
//! Each question is a function from what was read to findings, without I/O; `read` is the only place that asks the API
//! server. What may not be read is a finding, too.

mod cluster;
mod locks;
mod namespace;
mod network;
mod read;
mod rights;
mod runtime;
mod trial;

use std::path::PathBuf;

use anyhow::{Context, bail};
use scavenger_schema::scavenger_job::ScavengerJob;
use serde::Serialize;

use super::{
    Unusable,
    connection::Connection,
    text::{Output, json_lines, print, table},
};

/// Check whether ScavengerJobs can run in a namespace, before the first one is there
///
/// Looks at the installation (API, pool, operator, policies, PriorityClasses) and at the namespace (Pod Security level,
/// LimitRanges, quotas, pull secrets, claims, file locks, NetworkPolicies, rights), and asks the API server to accept a ScavengerJob and
/// a pod like the operator's, both as dry runs: nothing is created. What the user of the kubeconfig may not read is
/// reported as unknown.
///
/// Exit status: 0 nothing is wrong (there may be warnings), 1 something is, 2 a flag or the connection cannot be used.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The namespace; that of the kubeconfig's context unless given
    #[arg(short, long, value_name = "NAMESPACE", value_parser = super::namespace)]
    namespace: Option<String>,

    /// A manifest whose ScavengerJob is tried, instead of a small one
    #[arg(short, long, value_name = "FILE")]
    filename: Option<PathBuf>,

    /// Namespace of the operator
    #[arg(long, value_name = "NAMESPACE", default_value = "scavenger-system", value_parser = super::namespace)]
    operator_namespace: String,

    /// How to print the findings
    #[arg(short, long, default_value = "text", value_name = "FORMAT")]
    output: Output,

    #[command(flatten)]
    connection: Connection,
}

/// What a check came to; the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
enum Verdict {
    Ok,
    /// It could not be read.
    Unknown,
    /// It works, and may surprise.
    Warning,
    /// ScavengerJobs would not run.
    Problem,
}

/// The answer to one question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    message: String,
}

impl Finding {
    fn new(check: &'static str, verdict: Verdict, message: impl Into<String>) -> Self {
        Self { check, verdict, message: message.into() }
    }

    fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(check, Verdict::Ok, message)
    }

    fn warning(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(check, Verdict::Warning, message)
    }

    fn problem(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(check, Verdict::Problem, message)
    }
}

pub(super) async fn exec(options: &Options) -> anyhow::Result<()> {
    let example = options.filename.as_deref().map(trial::from_file).transpose()?;
    let client = options.connection.connect().await?;
    let namespace =
        match (&options.namespace, example.as_ref().and_then(|sj| sj.metadata.namespace.as_ref())) {
            (Some(one), Some(other)) if one != other => {
                bail!(Unusable(format!("the manifest names namespace {other:?}, and --namespace {one:?}")))
            }
            (one, other) => one.as_ref().or(other).map_or_else(|| client.default_namespace(), |name| &**name),
        }
        .to_owned();
    let example: ScavengerJob = example.unwrap_or_else(trial::small);
    let seen = read::everything(&client, &namespace, &options.operator_namespace)
        .await
        .with_context(|| format!("namespace {namespace:?} could not be checked"))?;
    let mut findings = cluster::findings(&seen, &options.operator_namespace);
    findings.extend(namespace::findings(&seen, &example));
    findings.extend(runtime::finding(&seen, &example));
    findings.extend(locks::findings(&seen.volumes));
    findings.extend(network::finding(&seen, &example, &options.operator_namespace));
    findings.extend(rights::findings(&seen));
    let supervisor = seen.supervisor_of(&example);
    findings.extend(trial::findings(&client, &namespace, example, supervisor.as_ref(), seen.by_use()).await?);
    print(&match options.output {
        Output::Text => text(&namespace, &findings),
        Output::Json => json_lines(&findings)?,
    })?;
    match findings.iter().filter(|finding| finding.verdict == Verdict::Problem).count() {
        0 => Ok(()),
        1 => bail!("1 problem in namespace {namespace:?}; docs/operator-cli.md#check has the remedies"),
        count => {
            bail!("{count} problems in namespace {namespace:?}; docs/operator-cli.md#check has the remedies")
        }
    }
}

fn text(namespace: &str, findings: &[Finding]) -> String {
    let rows: Vec<_> = findings
        .iter()
        .map(|finding| {
            let verdict = match finding.verdict {
                Verdict::Ok => "ok",
                Verdict::Unknown => "unknown",
                Verdict::Warning => "warning",
                Verdict::Problem => "PROBLEM",
            };
            [finding.check.to_owned(), verdict.to_owned(), finding.message.clone()]
        })
        .collect();
    let summary = match findings.iter().map(|finding| finding.verdict).max() {
        Some(Verdict::Problem) => "ScavengerJobs would not run here as they should",
        Some(Verdict::Warning) => "ScavengerJobs can run here; read the warnings",
        Some(Verdict::Unknown) => "nothing wrong was found; some checks could not be made",
        _ => "ScavengerJobs can run here",
    };
    format!("{}namespace {namespace}: {summary}\n", table(["CHECK", "RESULT", "MESSAGE"], &rows))
}
