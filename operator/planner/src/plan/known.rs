//! What the rules about one ScavengerJob are given: the one place that gathers it.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;

use super::Planner;
use crate::{
    backoff::{needs::Needs, start_failures::Doubt},
    facts::{
        tracked::{Attachments, Tracked},
        volumes::ClaimWait,
    },
    faults::supervisor,
    lifecycle::{interruption, known::Known},
    values::{CheckpointRequest, Key, Phase, Pod, ScavengerJob},
};

impl Planner {
    /// True while neither the pool nor the cluster keeps a ScavengerJob from starting, but its user: it is suspended, or others
    /// work in its folder or with its volume. That is no time for which it has waited for capacity.
    pub(super) fn is_held_back(&self, key: &Key) -> bool {
        let Some(sj) = self.seen.get(key).map(Tracked::sj) else { return false };
        let is_held = || self.folders.user_beside(key).is_some() || self.claim_wait(key).is_some();
        sj.status.active_attempt().is_none() && (sj.controls.suspend || is_held())
    }

    fn claim_wait(&self, key: &Key) -> Option<ClaimWait> {
        self.seen.claim_wait(key, self.promises.starting(), self.promises.is_made(key))
    }

    /// What speaks against the nodes on which pods of a start wait.
    fn doubt(&self, sj: &ScavengerJob, attachments: &Attachments, now: Timestamp) -> Doubt {
        let attempt = sj.status.attempt.as_ref().filter(|_| sj.status.phase == Phase::Starting);
        let Some((attempt, needs)) = attempt.zip(Needs::of(sj)) else { return Doubt::None };
        let of_supervisor = Needs::of_supervisor(&sj.key.namespace);
        let waiting = attachments.pods.values().filter(|pod| pod.is_of(attempt.number) && pod.waits());
        let of_pod = |pod: &Arc<Pod>| {
            let needs = if supervisor::not_created(pod).is_some() { &of_supervisor } else { &needs };
            Some(self.start_failures.doubt(pod.node.as_ref()?, needs, now))
        };
        waiting.filter_map(of_pod).max().unwrap_or(Doubt::None)
    }

    /// Since when one that has these pods is to have saved.
    fn saves_from(&self, attachments: &Attachments, now: Timestamp) -> Option<Timestamp> {
        if self.seen.leaving().is_empty() {
            return None;
        }
        let since = |node| self.capacity.node(node)?.node.saves_from();
        attachments.bound().filter_map(|(node, _)| since(node)).min().filter(|since| *since <= now)
    }

    /// The checkpoint that is asked for without an interruption, if one is.
    pub(super) fn asked_before_its_node_leaves(
        &self,
        key: &Key,
        now: Timestamp,
    ) -> Option<CheckpointRequest> {
        if self.seen.leaving().is_empty() {
            return None;
        }
        interruption::request_before_its_node_leaves(&self.known(key, now)?)
    }

    /// What is known of a ScavengerJob at `now`.
    pub(crate) fn known(&self, key: &Key, now: Timestamp) -> Option<Known<'_>> {
        let tracked = self.seen.get(key)?;
        let attachments = self.seen.attachments(key).unwrap_or(Attachments::none());
        let sj = tracked.sj();
        let alive = attachments.pods.values().filter(|pod| !pod.phase.is_terminal());
        let evidence = attachments.evidence(sj.status.attempt.as_deref());
        let runs = sj.status.active_attempt().is_some() && evidence.container_started;
        let has_run = runs || sj.has_run_as_specified();
        Some(Known {
            sj,
            jobs: &attachments.jobs,
            unwatched_job: attachments.unwatched_job.as_ref(),
            pods: &attachments.pods,
            evidence,
            memory: &tracked.memory,
            has_reservation: self.promises.is_made(key)
                && sj.ongoing_attempt().is_none()
                && sj.spec.as_ref().is_ok_and(|spec| tracked.promise.is_for(&spec.demand)),
            chosen_node: sj
                .spec
                .as_ref()
                .is_ok_and(|spec| self.capacity.chooses_node(&spec.demand))
                .then(|| self.promises.ledger().reserved_for(key).find_map(|(node, _)| node))
                .flatten(),
            promised_nodes: match &sj.spec {
                Ok(spec) if self.capacity.are_too_many(&spec.demand.placement) => {
                    self.promises.ledger().reserved_for(key).filter_map(|(node, _)| node).collect()
                }
                _ => BTreeSet::new(),
            },
            folder_user: self.folders.user_beside(key),
            lost_node: alive.filter_map(|pod| pod.node.as_ref()).find(|node| !self.capacity.is_ready(node)),
            capacity: &self.capacity,
            claim_wait: self.claim_wait(key),
            paused_tenant: self.shares.paused(&key.namespace),
            is_counted: self.shares.is_counted(key),
            runtime_class: self.seen.runtime_class(sj),
            has_run,
            is_to_blame: !has_run
                && self.start_failures.blames(&sj.uid, |node| {
                    let placement = sj.spec.as_ref().map(|spec| &spec.demand.placement);
                    // One that is cordoned, closed or not ready may be its node later.
                    let mut others = self.capacity.all_pool_nodes().filter(|other| other.name != *node);
                    !others.any(|other| placement.is_ok_and(|placement| placement.admits_when_ready(other)))
                }),
            doubt: self.doubt(sj, attachments, now),
            no_supervisor: self.supervisors.why_without(&key.namespace, now),
            has_news: tracked.has_news(),
            is_heard: tracked.is_heard(),
            saves_from: self.saves_from(attachments, now),
            node_agents: self.node_use.agents(),
            written: tracked.reported.time,
            order: tracked.ordered(),
            settings: self.settings.as_ref().map_err(String::as_str),
            now,
        })
    }
}
