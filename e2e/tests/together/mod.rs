//! Tests that share the cluster: each has a namespace of its own and leaves nodes, pool and programs as they are. What
//! needs the cluster to itself stands in a file beside this folder.

mod brought;
mod card;
mod commands;
mod confinement;
mod equilibration;
mod examples;
mod lifecycle;
mod mpi;
mod multidir;
mod operator;
mod operator_verbs;
mod pipeline;
mod policies;
mod pool_rules;
mod quotas;
mod record;
mod registry;
mod results;
mod row_life;
mod row_options;
mod sidecar;
mod tenants;
mod usage;
mod verbs;
