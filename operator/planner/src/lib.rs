//! The pure planner of ScavengerJobs: what is seen goes in, actions come out.
//!
//! [`Planner::observe`] takes in one thing that was seen, [`Planner::plan`] says what is to be done now. There is no
//! I/O, no clock, no randomness and no concurrency in here, so the same code runs in the operator, in tests and in the
//! simulator. Each rule stands in one place:
//!
//! | question | file | function |
//! |---|---|---|
//! | What is next for a ScavengerJob? | `lifecycle/mod.rs` | `next` |
//! | What does it wait for, apart from capacity? | `lifecycle/waiting.rs` | `next` |
//! | Why does this one wait in the queue? | `queue/waiting.rs` | `Queue::waiting` |
//! | Who starts next? | `queue/walk.rs` | `Queue::walk` |
//! | In which order does the queue stand? | `queue/list.rs` | `Queue::in_order` |
//! | Which namespaces and claims are held, and who probes there? | `queue/held.rs` | `Queue::settle_holds` |
//! | To whom is lent what is kept, and who gives it back? | `queue/rank.rs` | `may_borrow` |
//! | For whom is capacity kept? | `queue/reservation.rs` | `Queue::reservations` |
//! | Which of them can never fit? | `queue/never.rs` | `Queue::decide_who_never_fits` |
//! | Is there capacity for it? | `capacity/questions.rs` | `Capacity::fits` |
//! | Which part of the pool can it reach? | `capacity/groups.rs` | `Capacity::set_reach` |
//! | Which thresholds hold now? | `values/thresholds.rs` | `Settings::at` |
//! | What are ordinary pods of a node expected to use? | `node_use/mod.rs` | `NodeUse::account` |
//! | How is a node counted by use? | `capacity/account.rs` | `counted` |
//! | When is a node no longer counted by use? | `node_use/breaker.rs` | `Breaker::see` |
//! | Which nodes belong to the pool? | `values/settings.rs` | `Settings::lacks` |
//! | On which nodes does the pool keep its pods? | `values/confinement.rs` | `Confinement::to_pool` |
//! | Which nodes of the pool must a new pod not go to now? | `capacity/borders.rs` | `Capacity::nodes_to_avoid` |
//! | Which nodes do its volumes allow? | `facts/volumes.rs` | `Volumes::place_sj` |
//! | When does it wait for a volume that is in use? | `facts/volumes.rs` | `Volumes::hold` |
//! | How long does it wait after an interruption? | `backoff/mod.rs` | `after_interruption` |
//! | What keeps an attempt from starting, and whose fault is that? | `lifecycle/starting.rs` | `next` |
//! | Whose fault is it that a container is not created? | `faults/creation.rs` | `fault` |
//! | Did the workload end an attempt, or was it taken away? | `lifecycle/verdict.rs` | `judge` |
//! | When is a gang interrupted? | `lifecycle/verdict.rs` | `judge` |
//! | Did a workload outgrow its limit, or had its node no memory left? | `lifecycle/out_of_memory.rs` | `judge` |
//! | Did a deletion or an end come first? | `facts/evidence.rs` | `Evidence::note` |
//! | Which nodes start no containers, or is it the command? | `backoff/start_failures.rs` | `StartFailures::see` |
//! | What becomes of the status? | `lifecycle/transition.rs` | `apply` |
//! | Who must go, and for which cause first? | `causes/mod.rs` | `Causes::by_urgency` |
//! | Who goes when the pool is drained? | `causes/drain.rs` | `concerns` |
//! | Who goes when a node is under pressure? | `causes/node_pressure.rs` | `order` |
//! | Who goes when a node really uses too much memory? | `causes/short_nodes.rs` | `MeasuredMemory::relieve` |
//! | Who goes when ordinary pods use what ScavengerJobs hold? | `causes/short_nodes.rs` | `relieve_used` |
//! | Who goes for a pending ordinary pod? | `causes/pending_pod.rs` | `choose` |
//! | Who goes for an ordinary pod that is to grow? | `causes/pending_resize.rs` | `choose` |
//! | Which pending ordinary pods hold capacity? | `capacity/pending.rs` | `holds_capacity` |
//! | Who goes before others need the capacity? | `causes/headroom.rs` | `choose` |
//! | Who goes when a node leaves the pool? | `causes/left_pool.rs` | `order` |
//! | Who loses least? | `causes/least_loss.rs` | `choose` |
//! | What would an interruption throw away? | `lifecycle/loss.rs` | `Loss::of` |
//! | Does an attempt run under the supervisor? | `lifecycle/supervision.rs` | `of_start` |
//! | Why was the supervisor not started? | `faults/supervisor.rs` | `not_started` |
//! | What do supervisors report of running workloads? | `facts/live.rs` | `Live::overlay` |
//! | What did an attempt lose, and does its workload save? | `lifecycle/lost_work.rs` | `of_ended` |
//! | What does an attempt really use, and is that less than it requests? | `facts/usage.rs` | `AttemptUsage::advice` |
//! | On which hardware did an attempt run? | `lifecycle/hardware.rs` | `of_attempt` |
//! | How is an attempt interrupted? | `lifecycle/interruption.rs` | `next` |
//! | How high is the running priority? | `lifecycle/priority.rs` | `step` |
//! | Who makes room while no operator works? | `plan/guard.rs` | `relieve` |
//! | What does a refusal by the API server mean? | `faults/refusal.rs` | `judge` |
//! | What becomes of a start that admission refuses? | `lifecycle/starting.rs` | `denied` |
//! | Which action goes first while many wait? | `values/urgency.rs` | `Urgency::of` |
//!
//! The state has owners, each with private fields: what was seen (`facts/`), capacity and what is promised to starts in
//! flight (`capacity/`), what is looked at next and what is tried again later (`backoff/`), the queue (`queue/`), who is told
//! why it waits (`report/inform.rs`), and what each cause of interruptions knows (`causes/`). `plan/observe.rs` brings an
//! observation to those whose state it changes, `plan/answers.rs` an answer. docs/contributing/planner.md says which folder
//! may know which, docs/contributing/architecture.md has the map and the invariants.
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

pub use faults::refusal;
pub use lifecycle::loss;
pub use plan::{Plan, Planner, check, guard};
pub use values::{Counts, action, resources};

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
        queue::{Queue, Room, Starting},
    };
}
