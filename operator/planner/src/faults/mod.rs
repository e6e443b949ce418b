//! Whose fault a failure is, by what the kubelet, a registry or the API server says of it.

pub(crate) mod creation;
pub(crate) mod kubelet;
pub mod refusal;
pub(crate) mod supervisor;
