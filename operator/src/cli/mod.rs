//! The command line.

mod check;
mod connection;
mod crd;
mod explain;
mod guard;
mod job;
mod maintain;
mod nodes;
mod plan;
mod pool;
mod queue;
mod record;
mod run;
mod snapshot;
mod tenants;
mod text;

use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand};
use jiff::SignedDuration;
use kube::{Client, Config};
use scavenger_program::{completions, exit::Unusable, output};
use scavenger_schema::names;

/// Run ScavengerJobs on the capacity a Kubernetes cluster has left
#[derive(Debug, Parser)]
#[command(name = "scavenger-operator", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Options),
    Guard(guard::Options),
    Check(check::Options),
    Queue(queue::Options),
    Nodes(nodes::Options),
    Tenants(tenants::Options),
    Explain(explain::Options),
    Interrupt(job::Interrupt),
    Hold(job::Hold),
    Release(job::Release),
    Maintain(maintain::Options),
    Pause(pool::Pause),
    Resume(pool::Resume),
    Drain(pool::Drain),
    Plan(plan::Options),
    Snapshot(snapshot::Options),
    Record(record::Options),
    Crd(crd::Options),
    /// Print the completions of a shell
    ///
    /// For bash, for example: `source <(scavenger-operator completions bash)`.
    Completions(completions::Options),
}

/// Where the Lease is.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Leader election")]
struct LeaseOptions {
    /// Namespace of the Lease by which replicas elect the one that works; the operator's own unless given
    #[arg(long, env = "SCAVENGER_OPERATOR_LEASE_NAMESPACE", value_name = "NAMESPACE", value_parser = namespace)]
    lease_namespace: Option<String>,

    /// Name of that Lease
    #[arg(long, env = "SCAVENGER_OPERATOR_LEASE_NAME", default_value = names::OPERATOR, value_name = "NAME")]
    #[arg(value_parser = object_name)]
    lease_name: String,
}

impl LeaseOptions {
    fn namespace(&self, client: &Client) -> String {
        self.lease_namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned())
    }
}

/// The command line as clap knows it, for tests that hold for every flag.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Parses the command line and does what it says.
///
/// # Errors
/// One sentence: what did not work, and on which object; [`Unusable`] if it was not even tried.
pub async fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Run(options) => run::exec(options).await,
        Command::Guard(options) => guard::exec(&options).await,
        Command::Check(options) => Box::pin(check::exec(&options)).await,
        Command::Queue(options) => queue::exec(&options).await,
        Command::Nodes(options) => nodes::exec(&options).await,
        Command::Tenants(options) => tenants::exec(&options).await,
        Command::Explain(options) => explain::exec(&options).await,
        Command::Interrupt(options) => job::interrupt(&options).await,
        Command::Hold(options) => job::hold(&options).await,
        Command::Release(options) => job::release(&options).await,
        Command::Maintain(options) => maintain::exec(&options).await,
        Command::Pause(options) => pool::exec(pool::Order::Pause, &options.connection).await,
        Command::Resume(options) => pool::exec(pool::Order::Resume, &options.connection).await,
        Command::Drain(options) => pool::exec(pool::Order::Drain, &options.connection).await,
        Command::Plan(options) => plan::exec(&options).await,
        Command::Snapshot(options) => snapshot::exec(&options).await,
        Command::Record(options) => Box::pin(record::exec(options)).await,
        Command::Crd(options) => crd::exec(&options),
        Command::Completions(options) => output::print(&options.script(Arguments::command())),
    }
}

/// The name of a namespace.
fn namespace(text: &str) -> Result<String, String> {
    if is_label(text) {
        return Ok(text.to_owned());
    }
    Err("write the name of a namespace: lower case letters, digits and '-', at most 63, for example scavenger-system"
        .to_owned())
}

/// The name of an object.
fn object_name(text: &str) -> Result<String, String> {
    if text.len() <= 253 && text.split('.').all(is_label) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "write the name of a Kubernetes object: lower case letters, digits, '-' and '.', for example {}",
        names::OPERATOR
    ))
}

/// What Kubernetes calls a label of RFC 1123.
fn is_label(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inside)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// A duration with its unit, within limits that `hint` names.
fn duration_within(
    text: &str,
    least: SignedDuration,
    most: SignedDuration,
    hint: &str,
) -> Result<SignedDuration, String> {
    match text.parse::<SignedDuration>() {
        Ok(duration) if (least..=most).contains(&duration) => Ok(duration),
        _ => Err(format!("write a duration with its unit {hint}")),
    }
}

/// Where the API server is and who asks: $KUBECONFIG, ~/.kube/config, or the pod's own service account.
async fn config() -> anyhow::Result<Config> {
    let unusable = "no connection to the Kubernetes API could be set up; is $KUBECONFIG right?";
    Config::infer().await.context(Unusable(unusable.to_owned()))
}

/// A client that sends each request once. It takes 429 for an answer: that is how a PodDisruptionBudget refuses an
/// eviction, and the other client would ask again until the task's time is over. Nor does it send a Job again after the
/// Lease was looked at.
fn without_retries(mut config: Config) -> anyhow::Result<Client> {
    config.default_retry = false;
    connected(Client::try_from(config))
}

fn connected(client: kube::Result<Client>) -> anyhow::Result<Client> {
    client.context(Unusable("no connection to the Kubernetes API could be set up".to_owned()))
}

#[cfg(test)]
pub(crate) use run::default_max_watch_age;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_flags_are_in_each_others_way() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn names_are_those_that_the_api_server_takes() {
        for name in ["scavenger-operator", "a", "1", "a.b-c.d"] {
            assert_eq!(object_name(name).as_deref(), Ok(name));
        }
        for name in ["", "Bad Name", "a..b", ".a", "a.", "-a", "a-", "a_b", "ä", &"a".repeat(254)] {
            assert!(object_name(name).is_err(), "{name:?}");
            assert!(namespace(name).is_err(), "{name:?}");
        }
        assert_eq!(namespace("scavenger-system").as_deref(), Ok("scavenger-system"));
        assert!(namespace("a.b").is_err(), "a namespace has no dots");
    }

    #[test]
    fn durations_have_units_and_limits() {
        let within = |text| {
            let (least, most) = (SignedDuration::from_secs(90), SignedDuration::from_hours(24));
            duration_within(text, least, most, "between 90s and 24h")
        };
        assert_eq!(within("90s"), Ok(SignedDuration::from_secs(90)));
        assert_eq!(within("24h"), Ok(SignedDuration::from_hours(24)));
        for text in ["89s", "24h 1s", "-3m", "180", "", "3 parsecs", "99999999999999999999h"] {
            assert!(within(text).is_err_and(|hint| hint.contains("between 90s and 24h")), "{text:?}");
        }
    }
}
