//! What the submitter sees of a ScavengerJob and of the pool, as plain values. Read once, at the border.

mod job;
mod limits;
mod node;
mod pool;
mod pool_node;

pub use job::{AttemptView, JobView};
pub use limits::PoolLimits;
pub use node::NodeView;
pub use pool::PoolView;
pub use pool_node::PoolNode;
