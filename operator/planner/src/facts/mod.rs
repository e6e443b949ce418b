//! What was seen and reported of ScavengerJobs, their Jobs, pods, volumes and RuntimeClasses, and what is remembered of
//! each. Facts know only values and whose fault a failure is; no rule stands here.

mod avoided;
pub(crate) mod evidence;
pub(crate) mod leaving;
pub(crate) mod live;
pub(crate) mod runtime_classes;
pub(crate) mod seen;
pub(crate) mod tracked;
pub(crate) mod volumes;
#[cfg(test)]
mod volumes_tests;
