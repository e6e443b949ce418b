//! From a ScavengerJob to the planner's value.

use kube::ResourceExt;
use scavenger_planner::values::{self, Observation, Stretch};
use scavenger_schema::{names, scavenger_job::ScavengerJob};

use super::convert::{creation_time, key, resource_version, uid};
use crate::status;

/// A ScavengerJob.
pub(crate) fn sj(object: &ScavengerJob) -> values::ScavengerJob {
    values::ScavengerJob {
        key: key(object),
        uid: uid(object),
        resource_version: resource_version(object),
        generation: object.metadata.generation.unwrap_or(0),
        creation_time: creation_time(object),
        deleting: object.metadata.deletion_timestamp.is_some(),
        has_finalizer: object.finalizers().iter().any(|finalizer| finalizer == names::FINALIZER),
        folder: object.labels().get(names::LABEL_FOLDER).map(|folder| folder.as_str().into()),
        spec_hash: scavenger_specs::container_hash::of_all(&object.spec),
        controls: scavenger_specs::controls(&object.spec),
        spec: scavenger_specs::sj(object).map_err(|error| error.to_string()),
        status: status::from_crd(object.status.as_ref()),
    }
}

/// Attempts in its history that ended before the one that its status speaks of; none if it has none.
pub(crate) fn ended_attempts(object: &ScavengerJob) -> Option<Observation> {
    let status = object.status.as_ref()?;
    let last = status.attempt.as_ref().map(|attempt| attempt.number);
    let ended = status.attempts.iter().filter(|attempt| Some(attempt.number) != last);
    let ended: Vec<_> = ended.map(|attempt| Stretch::of(&status::attempt(attempt))).collect();
    (!ended.is_empty()).then(|| Observation::EndedAttempts(key(object), uid(object), ended))
}

/// A ScavengerJob of which only the metadata can be read.
pub(crate) fn undecodable_sj<K: kube::Resource>(object: &K, error: String) -> values::ScavengerJob {
    values::ScavengerJob {
        key: key(object),
        uid: uid(object),
        resource_version: resource_version(object),
        generation: object.meta().generation.unwrap_or(0),
        creation_time: creation_time(object),
        deleting: object.meta().deletion_timestamp.is_some(),
        has_finalizer: object.finalizers().iter().any(|finalizer| finalizer == names::FINALIZER),
        folder: object.labels().get(names::LABEL_FOLDER).map(|folder| folder.as_str().into()),
        spec_hash: 0,
        controls: values::Controls::default(),
        spec: Err(error),
        status: values::ScavengerJobStatus::default(),
    }
}
