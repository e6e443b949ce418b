//! The pure planner of ScavengerJobs: what is seen goes in, actions come out.
//!
//! [`Planner::observe`] takes in one thing that was seen, [`Planner::plan`] says what is to be done now. There is no
//! I/O, no clock, no randomness and no concurrency in here, so the same code runs in the operator, in tests and in the
//! simulator. Each rule stands in one place:
//!
//! | question | file | function |
//! |---|---|---|
//! | What is next for a ScavengerJob? | `lifecycle/mod.rs` | `next` |
//! | What keeps a ScavengerJob from starting, apart from capacity? | `lifecycle/waiting.rs` | `next` |
//! | Why does a ScavengerJob in the queue wait? | `queue/lines.rs` | `Queue::waiting` |
//! | Which ScavengerJob starts next? | `queue/walk.rs` | `Queue::walk` |
//! | Which tenant comes first? | `queue/shares.rs` | `Shares::stand` |
//! | In which order do ScavengerJobs wait? | `queue/lines.rs` | `Queue::in_order` |
//! | In which namespaces are starts refused, and which ScavengerJob tries again? | `backoff/blocked.rs` | `Blocked::settle` |
//! | For which ScavengerJob is capacity reserved? | `queue/reservation.rs` | `Queue::reservations` |
//! | Which ScavengerJobs can never start in this pool? | `queue/lines.rs` | `Queue::decide_who_never_fits` |
//! | Is there capacity for a ScavengerJob? | `capacity/questions.rs` | `Capacity::fits` |
//! | What is missing where no node fits? | `capacity/missing.rs` | `Capacity::why_none_admits` |
//! | Which part of the pool can a ScavengerJob reach? | `capacity/nodes.rs` | `Capacity::set_reach` |
//! | Does a node take ScavengerJobs, and why not? | `capacity/state.rs` | `NodeState::of` |
//! | Which ScavengerJobs may start on a node that leaves the pool? | `facts/leaving.rs` | `LeavingNodes::avoided_by` |
//! | Which thresholds hold now? | `values/settings.rs` | `Settings::at` |
//! | Which nodes belong to the pool? | `values/settings.rs` | `Settings::lacks` |
//! | What are ordinary pods of a node expected to use? | `node_use/mod.rs` | `NodeUse::account` |
//! | How is a node counted by use? | `capacity/nodes.rs` | `Capacity::counted_on` |
//! | When is a node no longer counted by use? | `node_use/breaker.rs` | `Breaker::see` |
//! | Did its node or its own limit kill an ordinary container? | `node_use/breaker.rs` | `Breaker::judge` |
//! | On which nodes does a Job keep its pods? | `values/confinement.rs` | `Confinement::to_pool` |
//! | Which nodes must a new pod of a ScavengerJob not go to? | `capacity/nodes.rs` | `Capacity::kept_off` |
//! | Which nodes do the volumes of a ScavengerJob allow? | `facts/volumes.rs` | `Volumes::place_sj` |
//! | What does a RuntimeClass add to a ScavengerJob? | `values/runtime_class.rs` | `RuntimeClass::added_to` |
//! | Which RuntimeClasses does the pool refuse? | `values/settings.rs` | `Settings::refuses` |
//! | When does a ScavengerJob wait for a volume that is in use? | `facts/volumes.rs` | `Volumes::keeps_waiting` |
//! | How long does a ScavengerJob wait after an interruption? | `backoff/mod.rs` | `after_interruption` |
//! | When does the planner look again although nothing is seen? | `backoff/mod.rs` | `Agenda::wake_at` |
//! | What keeps an attempt from starting, and whose fault is that? | `lifecycle/starting.rs` | `next` |
//! | Whose fault is it that a container is not created? | `faults/kubelet.rs` | `fault` |
//! | Did the workload end an attempt, or was the attempt taken away? | `lifecycle/verdict.rs` | `judge` |
//! | When is a gang interrupted? | `lifecycle/verdict.rs` | `judge` |
//! | Did a workload outgrow its limit, or had its node no memory left? | `lifecycle/out_of_memory.rs` | `judge` |
//! | Did a deletion or an end come first? | `facts/evidence.rs` | `Evidence::note` |
//! | Which nodes start nothing, or is the command wrong? | `backoff/start_failures.rs` | `StartFailures::see` |
//! | What does the status say after a step? | `lifecycle/transition.rs` | `apply` |
//! | For which causes are ScavengerJobs interrupted, and which comes first? | `causes/mod.rs` | `Causes::by_urgency` |
//! | Which ScavengerJobs are interrupted when the pool is drained? | `causes/drain.rs` | `concerns` |
//! | Which are interrupted when a node reports pressure? | `causes/node_pressure.rs` | `order` |
//! | Which are interrupted when a node uses too much, or its ordinary pods use what ScavengerJobs hold? | `causes/short_nodes.rs` | `order` |
//! | Which are interrupted for a pending ordinary pod? | `causes/pending_pod.rs` | `choose` |
//! | Which are interrupted for an ordinary pod that is to grow? | `causes/pending_resize.rs` | `choose` |
//! | Which pending ordinary pods hold capacity? | `capacity/pending.rs` | `holds_capacity` |
//! | Which are interrupted before ordinary pods need the capacity? | `causes/headroom.rs` | `choose` |
//! | Which are interrupted when a node leaves the pool, and when before a time that is announced? | `causes/left_pool.rs` | `order` |
//! | Which are asked for a checkpoint although nobody interrupts them? | `lifecycle/interruption.rs` | `request_before_its_node_leaves` |
//! | Which goes on elsewhere, since it gets no processor time where it is? | `causes/starved.rs` | `order` |
//! | How many are interrupted at once for a cause that can wait? | `causes/rounds.rs` | `Rounds::allowance` |
//! | Which ScavengerJobs lose least together? | `causes/least_loss.rs` | `choose` |
//! | What would an interruption throw away? | `lifecycle/loss.rs` | `Loss::of` |
//! | Does an attempt run under the supervisor? | `lifecycle/attempt.rs` | `supervision` |
//! | Why was the supervisor not started? | `faults/supervisor.rs` | `not_started` |
//! | What do supervisors report of running workloads? | `facts/live.rs` | `Live::overlay` |
//! | What did an attempt lose, and does its workload save? | `lifecycle/attempt.rs` | `work_of_ended` |
//! | What does an attempt really use, and is that less than it requests? | `facts/live.rs` | `AttemptUsage::advice` |
//! | On which hardware did an attempt run? | `lifecycle/attempt.rs` | `hardware` |
//! | How is an attempt interrupted? | `lifecycle/interruption.rs` | `next` |
//! | How high is the running priority? | `lifecycle/priority.rs` | `step` |
//! | What frees capacity while no operator works? | `plan/guard.rs` | `relieve` |
//! | What does a refusal by the API server mean? | `faults/refusal.rs` | `judge` |
//! | What becomes of a start that admission refuses? | `lifecycle/starting.rs` | `denied` |
//! | Which status is written first, when many only inform? | `report/mod.rs` | `Informing::next` |
//! | Which action is carried out first while many wait? | `values/action.rs` | `Urgency::of` |
//!
//! The state has owners, each with private fields: what was seen (`facts/`), capacity and what is promised to starts in
//! flight (`capacity/`), what is looked at next and what is tried again later (`backoff/`), the queue (`queue/`), and what each
//! cause of interruptions knows (`causes/`). `plan/` alone has the planner: `plan/observe.rs` brings an observation to those
//! whose state it changes, `plan/answers.rs` an answer, and `plan/known.rs` gathers what the rules about one ScavengerJob may know.
//! docs/contributing/planner.md says which folder may know which, docs/contributing/architecture.md has the map and the
//! invariants.
//!
//! Work is proportional to what changed: a plan looks at ScavengerJobs about which something was seen, at timers that
//! are due, and at the heads of the queue's lines. At most one action per ScavengerJob is under way; until its result
//! is observed nothing else is planned for it, so a stale view cannot make the planner act twice.

mod backoff;
mod capacity;
mod causes;
mod facts;
mod faults;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
mod lifecycle;
pub mod node_use;
mod plan;
mod queue;
pub mod report;
pub mod values;

pub use capacity::NodeStanding;
pub use causes::pending_pod::uid_of_preemptor;
pub use faults::refusal;
pub use lifecycle::loss;
pub use plan::{Plan, Planner, check, guard};
pub use values::{Closed, Counts, action, resources};

/// Rules and state, for tests of their own. Other crates read reports.
#[cfg(any(test, feature = "fixtures"))]
pub mod internals {
    pub use crate::{
        capacity::{
            Capacity,
            promises::{Ledger, Promises},
        },
        causes::{headroom, least_loss::Candidate, pending_pod},
        facts::evidence::Evidence,
        lifecycle::verdict::{Case, JobState, Verdict, judge},
        queue::{Context, Queue, Shares, Starting},
    };
}
