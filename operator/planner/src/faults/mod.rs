//! Whose fault a failure is, by what the kubelet, a registry or the API server says of it.

pub(crate) mod creation;
pub mod refusal;
