//! How far the limit of a tenant is from what a ScavengerJob asks for.

use crate::values::{
    Name, Shortage,
    resources::{Amount, Share},
};

/// A tenant would hold more than it may.
#[derive(Debug)]
pub(super) struct Beyond {
    pub(super) tenant: Name,
    pub(super) most: Share,
    pub(super) resource: Name,
    pub(super) asked: i64,
    pub(super) held: i64,
    pub(super) usable: i64,
}

impl Beyond {
    /// The same as what lacks.
    pub(super) fn shortage(&self) -> Shortage {
        let Self { tenant, most, resource, asked, held, usable } = self;
        let amount = |amount| Amount(resource, amount);
        let limit = most.of(*usable);
        let remedy = match *asked > limit {
            true => "ask for less, or have an admin raise maxShare in spec.tenants of the ScavengerPool",
            false => "waits until ScavengerJobs of this tenant end",
        };
        let message = format!(
            "needs {}, but tenant {tenant} holds {} and may hold {}: {most} (maxShare) of the {} that ScavengerJobs may \
             use now; {remedy}",
            amount(*asked),
            amount(*held),
            amount(limit),
            amount(*usable),
        );
        let left = limit.saturating_sub(*held).max(0);
        Shortage { resource: Some(resource.to_string()), left, whole: *usable, message }
    }
}
