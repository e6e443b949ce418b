//! How programs on nodes speak with the operator: the supervisor in each pod, and the agent of a node. Neither has an async
//! runtime.
//!
//! | module | holds | I/O |
//! |---|---|---|
//! | [`flags`] | the flags that say where the operator is, and durations | no |
//! | [`client`] | one request over HTTPS, to the replica that leads | network |
//! | [`schedule`] | when the next request is due | no |
//! | [`random`] | what keeps many programs from doing the same thing at once | no |
//! | `testing` | a server that plays the operator; feature `testing` | network |

pub mod client;
pub mod flags;
pub mod random;
pub mod schedule;
#[cfg(feature = "testing")]
pub mod testing;
