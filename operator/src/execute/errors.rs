//! What it means that the API server did not do what it was asked.

use scavenger_planner::{
    action::Failure,
    refusal::{self, Refusal},
};
use scavenger_program::objects::wrong_name;

#[expect(clippy::needless_pass_by_value, reason = "made for map_err")]
pub(crate) fn failure(error: kube::Error) -> Failure {
    if let Some(why) = wrong_name(&error) {
        return Failure::Refused(why.to_owned());
    }
    match &error {
        kube::Error::Api(status) if status.is_not_found() => Failure::Gone,
        kube::Error::Api(status) if status.is_conflict() => Failure::Conflict,
        kube::Error::Api(status) => Failure::Transient(status.message.clone()),
        other => Failure::Transient(other.to_string()),
    }
}

/// Why the API server did not take a change of the ScavengerJob itself. What it finds invalid there stays so until somebody
/// changes it.
pub(super) fn invalidity(error: kube::Error) -> Failure {
    let kube::Error::Api(status) = &error else { return failure(error) };
    let is_found_invalid =
        status.code == 400 || status.code == 422 && status.message.contains(" is invalid: ");
    // The rule behind a webhook may be wrong.
    match is_found_invalid && !refusal::is_by_webhook(&status.message) {
        true => Failure::Refused(status.message.clone()),
        false => failure(error),
    }
}

/// Why the API server did not take an object; what its sentence means is the planner's to know.
pub(super) fn refusal(error: kube::Error) -> Failure {
    let kube::Error::Api(status) = &error else { return failure(error) };
    match refusal::judge(&status.message) {
        Refusal::Quota => Failure::QuotaExceeded(status.message.clone()),
        Refusal::Denied => Failure::Refused(status.message.clone()),
        _ if status.code == 400 => Failure::Refused(status.message.clone()),
        Refusal::Reference | Refusal::Passing | Refusal::Terminating => failure(error),
    }
}
