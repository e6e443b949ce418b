//! What the user of the kubeconfig may do in the namespace.

use scavenger_schema::names;

use super::{Finding, Verdict, read::Seen};

/// A right, as RBAC writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Right {
    pub(super) verb: &'static str,
    pub(super) group: &'static str,
    pub(super) resource: &'static str,
    pub(super) subresource: &'static str,
    /// What cannot be done without it.
    pub(super) serves: &'static str,
    /// True if nothing works without it.
    pub(super) is_needed: bool,
}

const fn right(
    verb: &'static str,
    (group, resource): (&'static str, &'static str),
    subresource: &'static str,
    serves: &'static str,
    is_needed: bool,
) -> Right {
    Right { verb, group, resource, subresource, serves, is_needed }
}

const JOBS: (&str, &str) = (names::GROUP, "scavengerjobs");

/// What someone needs who runs ScavengerJobs.
pub(super) const OF_USER: [Right; 8] = [
    right("create", JOBS, "", "submit", true),
    right("get", JOBS, "", "look", true),
    right("list", JOBS, "", "look", true),
    right("patch", JOBS, "", "hold and release", false),
    right("delete", JOBS, "", "cancel", false),
    // A policy of ours: who may create ScavengerJobs without it creates none.
    right("create", ("batch", "jobs"), "", "submit", true),
    right("get", ("", "pods"), "log", "read logs", false),
    right("create", ("", "pods"), "eviction", "interrupt", false),
];

pub(super) fn findings(seen: &Seen) -> Vec<Finding> {
    const CHECK: &str = "your rights";
    let missing: Vec<&Right> = seen.rights.iter().filter(|(_, has)| !has).map(|(right, _)| right).collect();
    if missing.is_empty() {
        return vec![Finding::ok(
            CHECK,
            "you may create, change and delete ScavengerJobs, and read their logs",
        )];
    }
    let describe = |right: &Right| {
        let resource = match right.subresource {
            "" => right.resource.to_owned(),
            subresource => format!("{}/{subresource}", right.resource),
        };
        let group = if right.group.is_empty() { String::new() } else { format!(".{}", right.group) };
        format!("{} {resource}{group} ({})", right.verb, right.serves)
    };
    let verdict =
        if missing.iter().any(|right| right.is_needed) { Verdict::Problem } else { Verdict::Warning };
    let list: Vec<String> = missing.into_iter().map(describe).collect();
    let message =
        format!("you may not {}; the role edit has these rights (docs/permissions.md)", list.join(", "));
    vec![Finding::new(CHECK, verdict, message)]
}
