//! All tests on a cluster, in one program: what they share is compiled and linked once. `cargo xtask test` runs each module
//! as a process of its own, so that settings, limits and global state belong to a module, and one that does not end can be ended
//! alone.

mod bench;
mod by_use;
mod calibration;
mod cron;
mod decides;
mod drain;
mod faults;
mod gromacs_by_use;
mod gromacs_systems;
mod growth;
mod guard;
mod idle;
mod kills;
mod kinds_of_nodes;
mod limits;
mod maintenance;
mod memory;
mod moldable;
mod mpirun;
mod node_agent;
mod nodes;
mod outages;
mod overlap;
mod owners;
mod preemption;
mod refusals;
mod resize;
mod stored;
mod submitters;
mod supervised;
mod together;
mod uninstall;
mod unsupervised;
mod upgrade;
