//! `scavenger-operator guard`: frees capacity for pending ordinary pods while no operator works.

use std::{io::Write, time::Duration};

use anyhow::{Context, bail};
use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{Client, ResourceExt};
use scavenger_planner::{
    guard::{Help, Leaving},
    values::{Key, PreemptionMode},
};
use scavenger_program::objects::Objects;
use scavenger_schema::{names, terminal::shown};
use scavenger_vocabulary::number_of;
use tokio::time::Instant;

use super::{LeaseOptions, snapshot::Snapshot};
use crate::evict::{Evictor, Gone};

/// A leader renews the Lease every 2 s: one that has not changed for this long has no leader, whatever its stamp and
/// the clock of this machine say.
const STILL: Duration = Duration::from_secs(6);

/// A Lease lasts 15 s, after which another replica takes it over; in between it is stale, and nobody is missing.
const LEAST_STALE: SignedDuration = SignedDuration::from_secs(20);

/// Longer than this nobody wants to wait.
const MOST_STALE: SignedDuration = SignedDuration::from_hours(24);

/// Pods that are interrupted at the same time.
const AT_ONCE: usize = 16;

/// Longest time for one pod.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Lines about single pods: one screen.
const LINES: usize = 40;

/// Free capacity for pending pods once, if no operator is at work
///
/// In preemption mode `Operator` kube-scheduler preempts nobody for pods with `preemptionPolicy: Never`: the operator
/// frees capacity for them. This command stands in for it. If the operator's Lease is stale while such pods are pending
/// and unschedulable, it interrupts ScavengerJobs on the nodes where that helps: those that lose least, as the operator
/// would, by the time since their last promised checkpoint. It evicts their pods, or, where a PodDisruptionBudget or an
/// admission webhook stands against that, marks and deletes them. It starts nothing and writes no status; the next
/// operator sees how they ended.
///
/// While an operator is at work, in mode `Scheduler`, and with no such pod it does nothing. deploy/preemption-operator
/// runs it every minute.
///
/// Exit status: 0 what was to be done is done (maybe nothing), 1 something could not be read or interrupted, 2 a flag or
/// the connection cannot be used.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Act if the Lease was not renewed for this long (20s to 24h)
    #[arg(long, default_value = "2m", value_name = "DURATION")]
    #[arg(value_parser = stale_after, help_heading = "Safety")]
    stale_after: SignedDuration,

    /// Say what would be interrupted, and interrupt nothing
    #[arg(long, help_heading = "Safety")]
    dry_run: bool,

    #[command(flatten)]
    lease: LeaseOptions,
}

fn stale_after(text: &str) -> Result<SignedDuration, String> {
    super::duration_within(text, LEAST_STALE, MOST_STALE, "between 20s and 24h, for example 2m")
}

pub(super) async fn exec(options: &Options) -> anyhow::Result<()> {
    let config = super::config().await?;
    let client = super::connected(Client::try_from(config.clone()))?;
    let evictor = Evictor::new(super::without_retries(config)?, names::GUARD);
    let (namespace, name) = (options.lease.namespace(&client), &options.lease.lease_name);
    let leases: Objects<Lease> = Objects::namespaced(client.clone(), &namespace);
    let read = || async {
        leases
            .get_opt(name)
            .await
            .with_context(|| format!("the Lease {name:?} in namespace {namespace:?} could not be read"))
    };
    let looked = Instant::now();
    let lease = read().await?;
    let state = State::of(lease.as_ref().and_then(|lease| lease.spec.as_ref()), options.stale_after, now());
    say(&format!(
        "operator      {}: Lease {namespace}/{name} {}\n",
        state.verdict(),
        shown(&state.describe())
    ))?;
    if !state.is_stale() {
        return Ok(());
    }

    let snapshot = Snapshot::take(&client).await?;
    let planner = snapshot.planner();
    match planner.settings() {
        Err(reason) => bail!("{reason}"),
        Ok(settings) if settings.preemption_mode != PreemptionMode::Operator => {
            return say("pending pods  kube-scheduler's own: the pool is in preemption mode Scheduler\n");
        }
        Ok(_) => {}
    }
    let helped = planner.relieve(snapshot.time);
    say(&pending(&helped))?;
    let leaving: Vec<&Leaving> = helped.iter().flat_map(|(_, help)| leaving(help)).collect();
    if leaving.is_empty() || options.dry_run {
        return say(&table(&helped, |_| "would be interrupted".to_owned()));
    }

    // An operator may have come back, or this machine's clock may be wrong.
    tokio::time::sleep_until(looked + STILL).await;
    let version = |lease: &Option<Lease>| lease.as_ref().map(|lease| (lease.uid(), lease.resource_version()));
    if version(&read().await?) != version(&lease) {
        return say("operator      at work again: the Lease was renewed meanwhile; nothing is interrupted\n");
    }
    let pods: Vec<(Key, String)> = leaving
        .iter()
        .flat_map(|leaving| &leaving.pods)
        .map(|(pod, uid)| (pod.clone(), uid.to_string()))
        .collect();
    let interrupted: Vec<(Key, Result<Gone, String>)> = futures::stream::iter(&pods)
        .map(|(pod, uid)| async {
            let gone = match tokio::time::timeout(TIMEOUT, evictor.evict(pod, uid)).await {
                Ok(gone) => gone.map_err(|failure| failure.to_string()),
                Err(_) => Err(format!("no answer within {} s", TIMEOUT.as_secs())),
            };
            (pod.clone(), gone)
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    let became = |pod: &Key| match interrupted.iter().find(|(other, _)| other == pod) {
        Some((_, Ok(Gone::Evicted))) => "evicted".to_owned(),
        Some((_, Ok(Gone::Deleted(against)))) => format!("deleted, since {against}"),
        Some((_, Ok(Gone::Before))) => "gone already".to_owned(),
        Some((_, Err(error))) => format!("NOT interrupted: {error}"),
        None => "not tried".to_owned(),
    };
    say(&table(&helped, became))?;
    let mut failed = interrupted.iter().filter_map(|(pod, gone)| Some((pod, gone.as_ref().err()?)));
    if let Some((pod, error)) = failed.next() {
        let count = 1 + failed.count();
        bail!(
            "{count} of {} could not be interrupted, the first {pod}: {}; the next run tries again",
            number_of(pods.len(), "pod"),
            shown(error)
        );
    }
    Ok(())
}

/// What the Lease says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// There is none.
    Missing,
    /// It was never renewed.
    NeverRenewed,
    /// Last renewed so long ago, by whom.
    Renewed { ago: SignedDuration, holder: Option<String>, stale: bool },
}

impl State {
    fn of(lease: Option<&LeaseSpec>, stale_after: SignedDuration, now: Timestamp) -> Self {
        let Some(lease) = lease else { return Self::Missing };
        let Some(renewed) = &lease.renew_time else { return Self::NeverRenewed };
        let ago = now.duration_since(renewed.0);
        let holder = lease.holder_identity.clone().filter(|holder| !holder.is_empty());
        Self::Renewed { ago, holder, stale: ago >= stale_after }
    }

    fn is_stale(&self) -> bool {
        !matches!(self, Self::Renewed { stale: false, .. })
    }

    fn verdict(&self) -> &'static str {
        if self.is_stale() { "none at work" } else { "at work" }
    }

    fn describe(&self) -> String {
        match self {
            Self::Missing => "does not exist".to_owned(),
            Self::NeverRenewed => "was never renewed".to_owned(),
            Self::Renewed { ago, holder, .. } => {
                // A stamp in the future is another machine's clock.
                let ago = SignedDuration::from_secs(ago.as_secs().max(0));
                let holder = holder.as_deref().unwrap_or("nobody");
                format!("was renewed {ago:#} ago and is held by {holder}")
            }
        }
    }
}

fn pending(helped: &[(Key, Help)]) -> String {
    match helped.len() {
        0 => "pending pods  none that kube-scheduler frees no capacity for\n".to_owned(),
        1 => "pending pods  1 that kube-scheduler frees no capacity for\n".to_owned(),
        many => format!("pending pods  {many} that kube-scheduler frees no capacity for\n"),
    }
}

fn leaving(help: &Help) -> &[Leaving] {
    match help {
        Help::Room { victims, .. } => victims,
        Help::Nothing | Help::Unjudged(_) => &[],
    }
}

/// What was done for each pending pod, and what became of the pods that were in the way.
fn table(helped: &[(Key, Help)], became: impl Fn(&Key) -> String) -> String {
    let mut lines = Vec::new();
    for (pod, help) in helped {
        match help {
            Help::Room { node, victims } if victims.is_empty() => {
                lines.push(format!(
                    "{pod}: node {node} has capacity, or will have it once terminating pods are gone"
                ));
            }
            Help::Room { node, victims } => {
                lines.push(format!("{pod}: capacity on node {node}"));
                for (sj, pods) in victims.iter().map(|leaving| (&leaving.sj, &leaving.pods)) {
                    let of_sj = |(pod, _): &(Key, _)| {
                        format!("  ScavengerJob {sj}, pod {}: {}", pod.name, became(pod))
                    };
                    lines.extend(pods.iter().map(of_sj));
                }
            }
            Help::Nothing => {
                lines.push(format!("{pod}: no node would have capacity, even without its ScavengerJobs"));
            }
            Help::Unjudged(constraints) => lines.push(format!(
                "{pod}: its constraints cannot be judged ({}); give it a PriorityClass that preempts",
                constraints.join(", ")
            )),
        }
    }
    if lines.len() > LINES {
        let more = lines.len() - LINES;
        lines.truncate(LINES);
        lines.push(format!("and {more} more lines"));
    }
    // Refusals and names of constraints are others' words.
    lines.into_iter().map(|line| shown(&line) + "\n").collect()
}

fn say(text: &str) -> anyhow::Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("could not write to standard output")
}

#[expect(clippy::disallowed_methods, reason = "the edge: how old the Lease is")]
fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

    use super::*;

    fn renewed(second: i64) -> LeaseSpec {
        let time = Timestamp::from_second(second).unwrap();
        LeaseSpec {
            holder_identity: Some("pod_1".to_owned()),
            renew_time: Some(MicroTime(time)),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn a_lease_is_stale_when_nobody_renewed_it_for_so_long() {
        let now = Timestamp::from_second(1000).unwrap();
        let after = SignedDuration::from_secs(120);
        let state = |lease: Option<&LeaseSpec>| State::of(lease, after, now);
        assert!(state(None).is_stale());
        assert!(state(Some(&LeaseSpec::default())).is_stale());
        assert!(state(Some(&renewed(880))).is_stale());
        for fresh in [881, 1000, 1060] {
            assert!(!state(Some(&renewed(fresh))).is_stale(), "{fresh}");
        }
        assert_eq!(state(Some(&renewed(700))).describe(), "was renewed 5m ago and is held by pod_1");
        let given_back = LeaseSpec { holder_identity: Some(String::new()), ..renewed(1060) };
        assert_eq!(state(Some(&given_back)).describe(), "was renewed 0s ago and is held by nobody");
    }

    #[test]
    fn a_limit_that_a_hand_over_would_reach_is_refused() {
        assert_eq!(stale_after("2m"), Ok(SignedDuration::from_mins(2)));
        for bad in ["", "120", "-2m", "19s", "25h", "soon"] {
            assert!(stale_after(bad).unwrap_err().contains("20s and 24h"), "{bad}");
        }
    }

    #[test]
    fn a_refusal_moves_no_cursor_and_forges_no_line() {
        let victims = vec![Leaving {
            sj: Key::new("chem", "water"),
            pods: vec![(Key::new("chem", "water-1"), "uid".into())],
        }];
        let helped = [(Key::new("web", "api"), Help::Room { node: "n1".into(), victims })];
        let text = table(&helped, |_| "NOT interrupted: evil\u{1b}[2J\nforged".to_owned());
        assert_eq!(
            text.lines().nth(1),
            Some("  ScavengerJob chem/water, pod water-1: NOT interrupted: evil\u{fffd}[2J forged")
        );
    }

    #[test]
    fn one_screen_tells_what_was_done() {
        let pod = |name: &str| (Key::new("chem", name), "uid".into());
        let leaving = |sj: &str, pods: &[&str]| Leaving {
            sj: Key::new("chem", sj),
            pods: pods.iter().map(|name| pod(name)).collect(),
        };
        let room = |victims| Help::Room { node: "n1".into(), victims };
        let helped = [
            (
                Key::new("web", "shop"),
                room(vec![leaving("water", &["water-1-0-x"]), leaving("gang", &["g-0", "g-1"])]),
            ),
            (Key::new("web", "second"), room(Vec::new())),
            (Key::new("web", "huge"), Help::Nothing),
            (Key::new("web", "odd"), Help::Unjudged(vec!["hostPort".into()])),
        ];
        let became = |pod: &Key| if &*pod.name == "g-1" { "gone already" } else { "evicted" }.to_owned();
        assert_eq!(
            table(&helped, became),
            "web/shop: capacity on node n1\n  \
               ScavengerJob chem/water, pod water-1-0-x: evicted\n  \
               ScavengerJob chem/gang, pod g-0: evicted\n  \
               ScavengerJob chem/gang, pod g-1: gone already\n\
             web/second: node n1 has capacity, or will have it once terminating pods are gone\n\
             web/huge: no node would have capacity, even without its ScavengerJobs\n\
             web/odd: its constraints cannot be judged (hostPort); give it a PriorityClass that preempts\n"
        );
        let many: Vec<_> =
            (0..90).map(|number| (Key::new("web", number.to_string()), Help::Nothing)).collect();
        for (pods, lines, more) in
            [(40, 40, None), (41, 41, Some("and 1 more lines")), (90, 41, Some("and 50 more lines"))]
        {
            let text = table(&many[..pods], became);
            assert_eq!(text.lines().count(), lines, "{pods}");
            assert_eq!(text.lines().find(|line| line.starts_with("and ")), more, "{pods}");
        }
        assert_eq!(pending(&many), "pending pods  90 that kube-scheduler frees no capacity for\n");
    }
}
