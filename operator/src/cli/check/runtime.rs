//! The RuntimeClass of a ScavengerJob: is it there, and does the pool allow it?

use kube::ResourceExt;
use scavenger_schema::scavenger_job::ScavengerJob;

use super::{Finding, Verdict, read::Seen};
use crate::observe::convert;

/// Nothing for a ScavengerJob that names none.
pub(super) fn finding(seen: &Seen, example: &ScavengerJob) -> Option<Finding> {
    const CHECK: &str = "RuntimeClass";
    let name = example.spec.runtime_class_name.as_ref()?;
    let classes = match &seen.runtime_classes {
        Err(why) => return Some(Finding::new(CHECK, Verdict::Unknown, why.clone())),
        Ok(classes) => classes,
    };
    let Some(class) = classes.iter().find(|class| class.name_any() == *name) else {
        return Some(Finding::problem(CHECK, format!("{name:?} does not exist")));
    };
    // What is wrong with the pool is another row's.
    let pool = seen.pool.as_ref().ok()?.as_ref()?;
    let settings = scavenger_specs::settings(&pool.spec, pool.metadata.generation).ok()?;
    Some(match settings.refuses(&convert::runtime_class(class)) {
        Some(why) => Finding::problem(CHECK, why),
        None => Finding::ok(CHECK, format!("{name:?} exists, and the pool allows it")),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::trial::small, *};

    #[test]
    fn a_class_that_is_not_there_or_not_allowed_is_a_problem() {
        let mut example = small();
        let mut seen = Seen::nothing();
        let pool = json!({ "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerPool",
                           "metadata": { "name": "default" }, "spec": {} });
        seen.pool = Ok(Some(serde_json::from_value(pool).unwrap()));
        assert_eq!(finding(&seen, &example), None);
        example.spec.runtime_class_name = Some("gvisor".to_owned());
        let said = |seen: &Seen| {
            let finding = finding(seen, &example).unwrap();
            (finding.verdict, finding.message)
        };
        assert_eq!(said(&seen), (Verdict::Problem, "\"gvisor\" does not exist".to_owned()));
        let class = json!({ "metadata": { "name": "gvisor" }, "handler": "gvisor",
                            "scheduling": { "nodeSelector": { "sandbox": "yes" } } });
        seen.runtime_classes = Ok(vec![serde_json::from_value(class).unwrap()]);
        let (verdict, message) = said(&seen);
        assert_eq!(verdict, Verdict::Problem);
        assert!(message.contains("does not allow RuntimeClass \"gvisor\""), "{message}");
        seen.runtime_classes = Err("this user may not read runtimeclasses".to_owned());
        assert_eq!(said(&seen).0, Verdict::Unknown);
    }
}
