//! `scavenger-operator maintain`: until when a node is in the pool.

use anyhow::{Context, bail};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Client,
    api::{Patch, PatchParams},
};
use scavenger_planner::{
    NodeStanding, Planner,
    values::{Name, Observation, ScavengerJob},
};
use scavenger_program::objects::Objects;
use scavenger_schema::names;
use serde_json::{Value, json};

use super::{
    Unusable,
    connection::Connection,
    nodes::open_until,
    snapshot::Snapshot,
    text::{age, print, table},
};

/// Clear a node of ScavengerJobs by a time, and let nothing start there that cannot save before
///
/// Sets the annotation `scavenger.dev/until` of the node, with the rights of the kubeconfig's user: it needs `patch` on nodes, and to
/// list what `scavenger-operator nodes` lists. Prints the ScavengerJobs on the node, and what each would lose if it were interrupted now.
/// They are asked for a checkpoint two minutes before, and are then interrupted in the order of least loss, as
/// `spec.disruptionBudgets` of the pool allow it. Ordinary pods stay.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The node
    #[arg(value_name = "NODE", value_parser = super::object_name)]
    node: String,

    #[command(flatten)]
    when: When,

    /// Only print what is on the node
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    connection: Connection,
}

/// When the node is to be clear.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct When {
    /// When the node is to be clear, for example 2027-01-31T08:00:00Z or 2027-01-31T09:00:00+01:00
    #[arg(long, value_name = "TIME", value_parser = time)]
    at: Option<Timestamp>,

    /// The same as a time from now, for example 2h or 90m
    #[arg(long = "in", value_name = "DURATION", value_parser = duration)]
    after: Option<SignedDuration>,

    /// Take the time back: the node stays in the pool
    #[arg(long)]
    cancel: bool,
}

impl When {
    /// None if it is taken back.
    ///
    /// # Errors
    /// If the time is over.
    fn time(&self, now: Timestamp) -> anyhow::Result<Option<Timestamp>> {
        let until = match (self.at, self.after) {
            (Some(at), _) => at,
            (None, Some(after)) => now.saturating_add(after).unwrap_or(Timestamp::MAX),
            (None, None) => return Ok(None),
        };
        if until <= now {
            bail!(Unusable(format!("{until:.0} is over: write a time to come, or `--in 5m` (--at)")));
        }
        Ok(Some(until))
    }
}

fn time(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| "write a time with its zone, for example 2027-01-31T08:00:00Z".to_owned())
}

fn duration(text: &str) -> Result<SignedDuration, String> {
    let (least, most) = (SignedDuration::from_mins(1), SignedDuration::from_hours(24 * 365));
    super::duration_within(text, least, most, "between 1m and 8760h, for example 2h")
}

pub(super) async fn exec(options: &Options) -> anyhow::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "the edge: what is over is refused")]
    let until = options.when.time(Timestamp::now())?;
    let client = options.connection.connect().await?;
    let node = &*options.node;
    let Some(until) = until else {
        if options.dry_run {
            return print(&format!("node {node} would stay in the pool\n"));
        }
        announce(&client, node, None).await?;
        return print(&format!("node {node} stays in the pool\n"));
    };
    let snapshot = Snapshot::take(&client).await?;
    print(&there(&snapshot, node)?)?;
    if options.dry_run {
        return Ok(());
    }
    announce(&client, node, Some(until)).await?;
    print(&format!(
        "node {node}: {}\n`scavenger-operator maintain {node} --cancel` takes that back, and lets ScavengerJobs start again afterwards\n",
        open_until(until)
    ))
}

/// Sets the annotation of a node, or takes it away.
async fn announce(client: &Client, node: &str, until: Option<Timestamp>) -> anyhow::Result<()> {
    let nodes: Objects<Node> = Objects::all(client.clone());
    match nodes.patch(node, &PatchParams::default(), &Patch::Merge(annotation(until))).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(error)) if error.is_not_found() => bail!(missing(node)),
        Err(error) => Err(error).with_context(|| format!("node {node} could not be changed")),
    }
}

fn annotation(until: Option<Timestamp>) -> Value {
    let text = until.map(|until| format!("{until:.0}"));
    json!({ "metadata": { "annotations": { names::ANNOTATION_UNTIL: text } } })
}

fn missing(node: &str) -> String {
    format!("there is no node {node:?}")
}

/// What is on a node of the pool, as a table.
///
/// # Errors
/// If there is no such node, or it does not belong to the pool: its time would mean nothing.
fn there(snapshot: &Snapshot, node: &str) -> anyhow::Result<String> {
    let mut planner = snapshot.planner();
    planner.plan(snapshot.time);
    let name = Name::from(node);
    match planner.node_standing(&name) {
        None => bail!(missing(node)),
        Some(NodeStanding::Outside(why)) => bail!("node {node} does not belong to the pool: {why}"),
        Some(_) => {}
    }
    let there = snapshot.owners_by_node().remove(&name).unwrap_or_default();
    let mut rows: Vec<[String; 3]> = Vec::new();
    for observation in snapshot.observations() {
        if let Observation::ScavengerJob(sj) = observation
            && there.contains(&sj.uid)
        {
            rows.push(row(&planner, sj, snapshot.time));
        }
    }
    rows.sort_unstable();
    if rows.is_empty() {
        return Ok(format!("no ScavengerJob is on node {node}\n"));
    }
    Ok(table(["SCAVENGERJOB", "WOULD LOSE NOW", "SAVES"], &rows))
}

fn row(planner: &Planner, sj: &ScavengerJob, now: Timestamp) -> [String; 3] {
    let loss = planner.expected_loss(&sj.key, now).map_or_else(|| "nothing".to_owned(), age);
    let saves = match &sj.spec {
        _ if sj.saves_on_sigterm() => "when it is stopped".to_owned(),
        Ok(spec) if spec.supervision.can_be_asked => "when it is asked".to_owned(),
        Ok(spec) => format!("every {}", age(spec.checkpoint_every())),
        Err(_) => "nobody knows when".to_owned(),
    };
    [sj.key.to_string(), loss, saves]
}

#[cfg(test)]
mod tests {
    use scavenger_planner::{
        fixtures::{at, node, pod, settings, sj},
        values::{Attempt, Phase},
    };

    use super::*;

    fn running(name: &str, change: impl FnOnce(ScavengerJob) -> ScavengerJob) -> Observation {
        let mut sj = change(sj(name));
        let demand = sj.spec.as_ref().unwrap().demand.clone();
        sj.status.phase = Phase::Running;
        sj.status.attempt =
            Some(Box::new(Attempt { start_time: Some(at(0)), ..Attempt::first(demand, at(0)) }));
        Observation::ScavengerJob(Box::new(sj))
    }

    fn of(name: &str, on: &str) -> Observation {
        let pod = pod(&format!("{name}-1-0"), 1000).of(&format!("uid-of-{name}"), 1).on(on).running();
        Observation::Pod(Box::new(pod))
    }

    #[test]
    fn what_is_on_the_node_is_told_with_what_it_would_lose() {
        let mut pool = settings();
        pool.tolerated_taints = Vec::new();
        let observations = vec![
            Observation::Node(node("n1", 10_000)),
            Observation::Node(node("n2", 10_000)),
            Observation::Node(node("n3", 10_000).tainted("control-plane")),
            Observation::Pool(Box::new(Ok(pool))),
            running("a", |sj| sj),
            running("b", ScavengerJob::saving),
            running("c", ScavengerJob::that_can_be_asked),
            running("elsewhere", |sj| sj),
            of("a", "n1"),
            of("b", "n1"),
            of("c", "n1"),
            of("elsewhere", "n2"),
        ];
        let snapshot = Snapshot::new(at(45), observations);
        assert_eq!(
            there(&snapshot, "n1").unwrap(),
            "SCAVENGERJOB  WOULD LOSE NOW  SAVES\n\
             lab/a         45s             every 60s\n\
             lab/b         0s              when it is stopped\n\
             lab/c         45s             when it is asked\n"
        );
        let outside = there(&snapshot, "n3").unwrap_err().to_string();
        assert_eq!(outside, "node n3 does not belong to the pool: it has taint control-plane:NoSchedule");
        assert_eq!(there(&snapshot, "n4").unwrap_err().to_string(), "there is no node \"n4\"");
    }

    #[test]
    fn times_that_are_over_are_refused() {
        let when = |at: Option<Timestamp>, after| When { at, after, cancel: at.is_none() };
        let error = when(Some(at(0)), None).time(at(0)).unwrap_err();
        assert!(error.is::<Unusable>());
        assert_eq!(
            error.to_string(),
            "2027-01-15T08:00:00Z is over: write a time to come, or `--in 5m` (--at)"
        );
        assert_eq!(when(Some(at(1)), None).time(at(0)).unwrap(), Some(at(1)));
        assert_eq!(when(None, Some(SignedDuration::from_mins(2))).time(at(0)).unwrap(), Some(at(120)));
        assert_eq!(when(None, None).time(at(0)).unwrap(), None);
        assert!(time("tomorrow").is_err() && time("2027-01-31T08:00:00").is_err(), "a time has a zone");
        assert!(
            time("2027-01-31T09:00:00+01:00").is_ok_and(|time| time.to_string() == "2027-01-31T08:00:00Z")
        );
        assert!(duration("30s").is_err() && duration("2h").is_ok());
    }

    #[test]
    fn the_annotation_is_taken_away_with_null() {
        let text = annotation(Some(at(0)));
        assert_eq!(text["metadata"]["annotations"]["scavenger.dev/until"], "2027-01-15T08:00:00Z");
        assert!(annotation(None)["metadata"]["annotations"]["scavenger.dev/until"].is_null());
    }
}
