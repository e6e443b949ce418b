//! Leader election: of several replicas one plans and writes, the others stand by.
//!
//! The same rules as client-go's: the leader renews a Lease; a replica takes it over only when it has not seen the Lease
//! change for as long as the Lease says it lasts, by its own clock, so clocks that differ between machines do no harm.
//! A leader that could not renew in time stops before anyone else may begin. Every write carries the resourceVersion
//! that was read, so of two replicas that reach for the Lease one gets it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Client,
    api::{ObjectMeta, PostParams},
};
use scavenger_program::objects::Objects;
use tokio::{sync::watch, task::JoinHandle, time::Instant};
use tracing::{info, warn};

/// A leader that could not renew gives up so long before the Lease may be taken over: what it has sent by then gets there
/// before the next leader begins.
const MARGIN: Duration = Duration::from_secs(5);

/// How often the Lease is renewed, or looked at.
const RETRY: Duration = Duration::from_secs(2);

/// What a replica is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leadership {
    /// The Lease could not be read yet, or not at the last look.
    Unknown,
    /// Another replica leads, or nobody yet: this one could.
    Standby,
    /// This one leads, until then at least. A renewal moves the time on.
    Leader { until: Instant },
    /// This one led and must not write any more.
    Lost,
}

impl Leadership {
    /// True while no other replica can lead. The clock is asked as well: a process that was frozen does not know yet that
    /// its Lease ran out. (Where the whole machine slept, this clock slept with it.)
    pub(crate) fn holds(self, now: Instant) -> bool {
        matches!(self, Self::Leader { until } if now < until)
    }
}

/// Where the Lease is and who asks for it.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) namespace: String,
    /// Name of the Lease.
    pub(crate) lease: String,
    /// The Lease may be taken over when it was not renewed for this long: whole seconds, 10 s at least.
    pub(crate) duration: Duration,
    /// Differs between any two processes that ever run.
    pub(crate) identity: String,
}

impl Candidate {
    /// A leader that could not renew for this long gives up.
    fn renew_deadline(&self) -> Duration {
        self.duration.saturating_sub(MARGIN)
    }
}

/// A running election.
#[derive(Debug)]
pub(crate) struct Election {
    /// What this replica is.
    pub(crate) state: watch::Receiver<Leadership>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Election {
    /// Takes part in the election until [`Self::resign`].
    pub(crate) fn start(client: &Client, candidate: Candidate) -> Self {
        let api = Objects::namespaced(client.clone(), &candidate.namespace);
        let (sender, state) = watch::channel(Leadership::Unknown);
        let (stop, stopped) = watch::channel(false);
        let campaign = Campaign { api, candidate, seen: None, renewed: None };
        let task = tokio::spawn(campaign.run(sender, stopped));
        Self { state, stop, task }
    }

    /// Ends taking part. A leader gives the Lease back, so that the next one need not wait for its end.
    pub(crate) async fn resign(self) {
        // The task may have ended by itself.
        let _ended = self.stop.send(true);
        if let Err(error) = self.task.await {
            warn!(%error, "the election did not end well");
        }
    }
}

struct Campaign {
    api: Objects<Lease>,
    candidate: Candidate,
    /// The Lease as it was seen last, and since when it is so, by this machine's clock.
    seen: Option<(LeaseSpec, Instant)>,
    /// When this replica, as the leader, sent the last renewal that succeeded.
    renewed: Option<Instant>,
}

/// What is to be done about the Lease.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// Another replica leads.
    Wait,
    /// Write this.
    Write(LeaseSpec),
}

impl Campaign {
    async fn run(mut self, state: watch::Sender<Leadership>, mut stopped: watch::Receiver<bool>) {
        loop {
            let sent = Instant::now();
            // A leader must know in time that an answer does not come.
            let deadline = self.renewed.map_or(sent, |renewed| renewed) + self.candidate.renew_deadline();
            let looked = tokio::time::timeout_at(deadline, self.turn(sent)).await;
            let was_read = matches!(looked, Ok(Ok(_)));
            let leads = match looked {
                Ok(Ok(Some(leads))) => {
                    self.renewed = leads.then_some(sent);
                    leads
                }
                // Somebody else wrote it meanwhile, maybe only a label: the next look tells who holds it.
                Ok(Ok(None)) => self.renewed.is_some(),
                Ok(Err(error)) => {
                    warn!(%error, lease = %self.candidate.lease, "the Lease could not be read or written");
                    self.renewed.is_some()
                }
                Err(_) => false,
            };
            let renewed = self.renewed.filter(|_| leads);
            let until = renewed.map(|renewed| renewed + self.candidate.renew_deadline());
            let now = next(*state.borrow(), was_read, until, Instant::now());
            let changed = state.send_if_modified(|old| {
                // A renewal is no change that anybody must be woken for.
                let changed = std::mem::discriminant(old) != std::mem::discriminant(&now);
                *old = now;
                changed
            });
            if changed {
                info!(identity = %self.candidate.identity, state = ?now, "leadership changed");
            }
            if now == Leadership::Lost {
                return;
            }
            let resigns = async {
                let _stopped = stopped.wait_for(|stopped| *stopped).await;
            };
            if tokio::time::timeout(RETRY, resigns).await.is_ok() {
                if matches!(now, Leadership::Leader { .. }) {
                    self.release().await;
                }
                return;
            }
        }
    }

    /// Reads the Lease and takes or renews it if that is right. True if this replica leads now, none if somebody else
    /// wrote the Lease at the same time.
    async fn turn(&mut self, now: Instant) -> kube::Result<Option<bool>> {
        let Some(lease) = self.api.get_opt(&self.candidate.lease).await? else {
            let spec = taken(&LeaseSpec::default(), &self.candidate, clock());
            let lease = Lease {
                metadata: ObjectMeta { name: Some(self.candidate.lease.clone()), ..ObjectMeta::default() },
                spec: Some(spec),
            };
            return won(self.api.create(&PostParams::default(), &lease).await);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let since = match &self.seen {
            Some((seen, since)) if *seen == spec => *since,
            _ => now,
        };
        self.seen = Some((spec.clone(), since));
        match step(&spec, now.duration_since(since), &self.candidate, clock()) {
            Step::Wait => Ok(Some(false)),
            Step::Write(spec) => {
                // It carries the resourceVersion that was read.
                let lease = Lease { spec: Some(spec), ..lease };
                won(self.api.replace(&self.candidate.lease, &PostParams::default(), &lease).await)
            }
        }
    }

    async fn release(&self) {
        let released = async {
            let mut lease = self.api.get(&self.candidate.lease).await?;
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_ref() == Some(&self.candidate.identity) {
                spec.holder_identity = None;
                spec.renew_time = Some(MicroTime(clock()));
                self.api.replace(&self.candidate.lease, &PostParams::default(), &lease).await?;
            }
            Ok::<(), kube::Error>(())
        };
        match tokio::time::timeout(self.candidate.renew_deadline(), released).await {
            Ok(Ok(())) => info!(identity = %self.candidate.identity, "gave the Lease back"),
            Ok(Err(error)) => warn!(%error, "the Lease was not given back; it runs out on its own"),
            Err(_) => warn!("the Lease was not given back in time; it runs out on its own"),
        }
    }
}

/// What a replica is after it looked at the Lease: `until` is when its last renewal ends, if it leads.
fn next(before: Leadership, was_read: bool, until: Option<Instant>, now: Instant) -> Leadership {
    let until = until.filter(|until| now < *until);
    match (before, until) {
        (Leadership::Leader { .. }, Some(until)) => Leadership::Leader { until },
        (Leadership::Unknown | Leadership::Standby, Some(until)) => Leadership::Leader { until },
        (Leadership::Unknown | Leadership::Standby, None) if was_read => Leadership::Standby,
        (Leadership::Unknown | Leadership::Standby, None) => Leadership::Unknown,
        (Leadership::Leader { .. }, None) | (Leadership::Lost, _) => Leadership::Lost,
    }
}

/// Of two replicas that write, one is told that the Lease changed.
fn won(written: kube::Result<Lease>) -> kube::Result<Option<bool>> {
    match written {
        Ok(_) => Ok(Some(true)),
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => Ok(None),
        Err(error) => Err(error),
    }
}

/// What is to be done about a Lease that has not changed for `unchanged`.
fn step(spec: &LeaseSpec, unchanged: Duration, candidate: &Candidate, clock: Timestamp) -> Step {
    match spec.holder_identity.as_deref().filter(|holder| !holder.is_empty()) {
        Some(holder) if holder == candidate.identity => {
            Step::Write(LeaseSpec { renew_time: Some(MicroTime(clock)), ..spec.clone() })
        }
        Some(_) => {
            // As long as its holder says, whatever this replica was given.
            let lasts = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
            if unchanged < lasts.map_or(candidate.duration, Duration::from_secs) {
                Step::Wait
            } else {
                Step::Write(taken(spec, candidate, clock))
            }
        }
        None => Step::Write(taken(spec, candidate, clock)),
    }
}

/// The Lease in the hands of `candidate`.
fn taken(spec: &LeaseSpec, candidate: &Candidate, clock: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(candidate.identity.clone()),
        acquire_time: Some(MicroTime(clock)),
        renew_time: Some(MicroTime(clock)),
        lease_duration_seconds: Some(i32::try_from(candidate.duration.as_secs()).unwrap_or(i32::MAX)),
        lease_transitions: Some(spec.lease_transitions.unwrap_or(0).saturating_add(1)),
        ..spec.clone()
    }
}

/// For people who read the Lease; no decision depends on it.
#[expect(clippy::disallowed_methods, reason = "the edge: stamps of the Lease")]
fn clock() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn candidate(identity: &str) -> Candidate {
        let (namespace, lease) = ("scavenger-system".to_owned(), "scavenger-operator".to_owned());
        Candidate { namespace, lease, identity: identity.to_owned(), duration: 15 * SECOND }
    }

    fn held(holder: &str) -> LeaseSpec {
        taken(&LeaseSpec::default(), &candidate(holder), Timestamp::UNIX_EPOCH)
    }

    fn writes(step: &Step) -> Option<&str> {
        match step {
            Step::Wait => None,
            Step::Write(spec) => spec.holder_identity.as_deref(),
        }
    }

    #[test]
    fn a_free_lease_is_taken_at_once() {
        let free = LeaseSpec { holder_identity: Some(String::new()), ..held("other") };
        for spec in [LeaseSpec::default(), free] {
            assert_eq!(writes(&step(&spec, Duration::ZERO, &candidate("me"), clock())), Some("me"));
        }
    }

    #[test]
    fn the_own_lease_is_renewed_and_nothing_else_of_it_changes() {
        let mine = held("me");
        let later = Timestamp::from_second(100).unwrap();
        let renewed = LeaseSpec { renew_time: Some(MicroTime(later)), ..mine.clone() };
        assert_eq!(step(&mine, 100 * SECOND, &candidate("me"), later), Step::Write(renewed));
    }

    #[test]
    fn that_of_another_is_taken_only_when_it_has_not_changed_for_its_duration() {
        let other = LeaseSpec { lease_duration_seconds: Some(40), ..held("other") };
        assert_eq!(step(&other, 39 * SECOND, &candidate("me"), clock()), Step::Wait);
        let Step::Write(spec) = step(&other, 40 * SECOND, &candidate("me"), clock()) else {
            panic!("it should be taken")
        };
        assert_eq!(spec.holder_identity.as_deref(), Some("me"));
        assert_eq!(spec.lease_transitions, Some(2));
        assert_eq!(spec.lease_duration_seconds, Some(15), "its own from now on");
    }

    #[test]
    fn a_leader_holds_the_lease_for_ten_seconds_after_a_renewal() {
        let sent = Instant::now();
        let until = sent + candidate("me").renew_deadline();
        let leader = next(Leadership::Standby, true, Some(until), sent + SECOND);
        assert_eq!(leader, Leadership::Leader { until: sent + 10 * SECOND });
        assert!(leader.holds(sent + 9 * SECOND));
        assert!(!leader.holds(sent + 10 * SECOND));
        let renewed = next(leader, true, Some(until + 2 * SECOND), sent + 2 * SECOND);
        assert!(renewed.holds(sent + 11 * SECOND));
        // Frozen for longer than that: nobody has said so yet, but the clock does.
        assert!(!renewed.holds(sent + 60 * SECOND));
        assert_eq!(next(renewed, true, Some(until + 2 * SECOND), sent + 60 * SECOND), Leadership::Lost);
        assert_eq!(next(Leadership::Lost, true, Some(until), sent), Leadership::Lost, "once lost, lost");
        assert!(!Leadership::Standby.holds(sent) && !Leadership::Lost.holds(sent));
    }

    #[test]
    fn a_replica_stands_by_while_it_can_read_the_lease() {
        let now = Instant::now();
        assert_eq!(next(Leadership::Unknown, false, None, now), Leadership::Unknown);
        assert_eq!(next(Leadership::Unknown, true, None, now), Leadership::Standby);
        assert_eq!(next(Leadership::Standby, true, None, now), Leadership::Standby);
        assert_eq!(next(Leadership::Standby, false, None, now), Leadership::Unknown, "it could not lead now");
        let until = now + 10 * SECOND;
        let leader = Leadership::Leader { until };
        assert_eq!(next(Leadership::Unknown, true, Some(until), now), leader);
        assert_eq!(next(leader, false, Some(until), now + SECOND), leader, "one look may fail");
    }

    #[test]
    fn a_leader_gives_up_before_another_may_begin() {
        for seconds in 10..=60 {
            let candidate = Candidate { duration: seconds * SECOND, ..candidate("me") };
            assert!(candidate.renew_deadline() + RETRY < candidate.duration);
            assert!(RETRY < candidate.renew_deadline() / 2, "one renewal may fail");
        }
    }
}
