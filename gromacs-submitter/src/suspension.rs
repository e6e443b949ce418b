//! Whose a suspension of a ScavengerJob is: the submitter's, for the moment in which it goes on with another configuration,
//! or a person's, which lasts for as long as the person wants.

use kube::ResourceExt;
use kube::core::Resource;
use scavenger_schema::names;
use scavenger_schema::scavenger_job::ScavengerJob;
use serde_json::Value;

/// True if the submitter has suspended it. The annotation says so, unless somebody else has set `spec.suspend` since: to
/// false and to true again, for example.
pub(crate) fn is_ours(job: &ScavengerJob) -> bool {
    job.spec.suspend
        && job.annotations().contains_key(names::ANNOTATION_SUSPENDED_TO_GROW)
        && others_who_suspend(job).next().is_none()
}

/// Suspends it in the submitter's name.
pub(crate) fn suspend(job: &mut ScavengerJob) {
    job.spec.suspend = true;
    job.annotations_mut().insert(names::ANNOTATION_SUSPENDED_TO_GROW.to_owned(), "true".to_owned());
}

/// Ends the submitter's suspension.
pub(crate) fn resume(job: &mut ScavengerJob) {
    job.spec.suspend = false;
    forget(job);
}

/// Nobody shall take a later suspension for the submitter's.
pub(crate) fn forget(job: &mut ScavengerJob) {
    job.annotations_mut().remove(names::ANNOTATION_SUSPENDED_TO_GROW);
}

/// Field managers other than the submitter that have set `spec.suspend` last.
fn others_who_suspend(job: &ScavengerJob) -> impl Iterator<Item = &str> {
    let sets = |fields: &Value| fields.pointer("/f:spec/f:suspend").is_some();
    let entries = job.meta().managed_fields.iter().flatten();
    entries
        .filter(move |entry| entry.fields_v1.as_ref().is_some_and(|fields| sets(&fields.0)))
        .filter_map(|entry| entry.manager.as_deref())
        .filter(|manager| *manager != names::SUBMITTER)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::{ladder, manifest_settings, row, terms};
    use crate::manifest::simulation_job;

    fn job() -> ScavengerJob {
        simulation_job(&row(), &ladder()[0], &manifest_settings(), &terms())
    }

    /// As the API server writes down who set it last.
    fn set_by(job: &mut ScavengerJob, manager: &str) {
        let entries = json!([
            { "manager": names::SUBMITTER, "operation": "Update", "fieldsV1": { "f:spec": { "f:args": {} } } },
            { "manager": manager, "operation": "Update", "fieldsV1": { "f:spec": { "f:suspend": {} } } },
            { "manager": names::OPERATOR, "operation": "Update", "fieldsV1": { "f:status": {} } },
        ]);
        job.metadata.managed_fields = Some(serde_json::from_value(entries).expect("should be entries"));
    }

    #[test]
    fn its_own_suspension_is_known_by_the_annotation() {
        let mut job = job();
        assert!(!is_ours(&job));
        suspend(&mut job);
        assert!(job.spec.suspend && is_ours(&job));
        set_by(&mut job, names::SUBMITTER);
        assert!(is_ours(&job));
        resume(&mut job);
        assert!(!job.spec.suspend && !is_ours(&job));
        assert!(!job.annotations().contains_key(names::ANNOTATION_SUSPENDED_TO_GROW));
    }

    #[test]
    fn a_persons_suspension_is_a_persons() {
        let mut held = job();
        held.spec.suspend = true;
        assert!(!is_ours(&held));
        // `scavenger-operator hold` takes it over.
        let mut taken = job();
        suspend(&mut taken);
        forget(&mut taken);
        assert!(taken.spec.suspend && !is_ours(&taken));
        // Somebody resumed it, and suspended it later: the annotation is the old one.
        let mut again = job();
        suspend(&mut again);
        set_by(&mut again, "kubectl-patch");
        assert!(!is_ours(&again));
    }
}
