//! What a probe says once it has ended.

use scavenger_schema::simulation::GromacsToTune;
use scavenger_vocabulary::Reason;

use super::seen::{Input, Log};
use super::words::{last_line, said};
use crate::faults::{End, Fault, Meaning, of_gromacs, of_kubelet, remedy};
use crate::grompp_log::complaints;
use crate::probe::ProbeError;
use crate::view::JobView;

/// What the inspection's script says of a file that is missing.
pub(super) const NO_FILE: &str = "there is no file ";

/// How the scripts end where gmx failed that they had started. With any other code they have refused something, and say so.
const GMX_FAILED: [i32; 2] = [7, 8];

/// So often a probe is made again that its node may have ended.
const MOST_CRASHES: i32 = 3;

/// What a probe said: its last words in the status, else its log.
pub(super) fn answer<T>(
    probe: &JobView,
    log: &Log,
    parse: impl Fn(&str) -> Result<T, ProbeError>,
) -> Result<T, ProbeError> {
    match parse(message_of(probe)) {
        Err(ProbeError::FindAnswer(_)) => parse(log.text()),
        read => read,
    }
}

/// Why a probe failed, in GROMACS's or the script's own words where there are any, and what to do.
pub(super) fn probe_failure(probe: &JobView, input: &Input<'_>, what: &str) -> String {
    let (row, log) = (input.row, input.log().text());
    if probe.failure_reason != Some(Reason::ContainerFailed) {
        let said = said(probe);
        let remedy = match probe.failure_reason {
            Some(Reason::ReferenceMissing) => Some("make it, and retry".to_owned()),
            _ => remedy(of_kubelet(&said), false, row),
        };
        return remedy
            .map_or_else(|| format!("{what}: {said}"), |remedy| format!("{what}: {said}; {remedy}"));
    }
    let end = End::read(log, message_of(probe), false);
    let message = end.words.filter(|_| end.is_message);
    // Of grompp's complaints the last message has but the number.
    let complained = message.as_deref().and_then(|message| complaints(log, message));
    let words = complained.or(message).or_else(|| last_line(log)).unwrap_or_else(|| said(probe));
    match what_to_do(&words, row) {
        Some(remedy) => format!("{what}: {words}; {remedy}"),
        None => format!("{what}: {words}"),
    }
}

/// What to do about the words with which an inspection failed; none where they say it, or where another rule does.
fn what_to_do(words: &str, row: &GromacsToTune) -> Option<String> {
    if let Some(remedy) = remedy(of_gromacs(words), false, row) {
        return Some(remedy);
    }
    if words.contains("retry") || (words.contains(NO_FILE) && !row.after.is_empty()) {
        return None;
    }
    if words.contains(NO_FILE) {
        return Some("put it there, and retry".to_owned());
    }
    let mend = if row.grompp_options.is_empty() {
        format!("mend {}", row.tpr_path)
    } else {
        "mend what it names".to_owned()
    };
    Some(format!("{mend}, and retry (gromacs-submitter logs {} prints all that was said)", row.id))
}

/// The words with which a probe failed, and what they mean, if that goes by without the row's user: a volume that is full or
/// away, a node that does not run it, or a registry that is in trouble with an image that the row has run in.
pub(super) fn passing(probe: &JobView, input: &Input<'_>) -> Option<(String, Meaning)> {
    let status = &input.row.status;
    let ran = status.start_time.is_some();
    match probe.failure_reason.as_ref()? {
        Reason::ContainerFailed => {
            let end = End::read(input.log().text(), message_of(probe), false);
            let passes = match end.meaning.fault() {
                Fault::Passing => true,
                // What GROMACS itself says of a file that it reads is the file's.
                Fault::Node if end.meaning == Meaning::Unknown => {
                    let is_silent =
                        !end.is_message && end.exit_code.is_some_and(|code| GMX_FAILED.contains(&code));
                    is_silent && status.private.start_failures < MOST_CRASHES
                }
                Fault::Node => status.private.start_failures < MOST_CRASHES,
                Fault::Row | Fault::Configuration | Fault::Cluster => false,
            };
            let words = end.words.or_else(|| last_line(input.log().text()));
            passes.then(|| (words.unwrap_or_else(|| said(probe)), end.meaning))
        }
        // It was tried before, so that the image is not misspelt.
        Reason::ContainerNotCreated
            if ran && (input.row.pinned_image.is_some() || status.private.start_failures > 0) =>
        {
            Some((said(probe), of_kubelet(&said(probe))))
        }
        Reason::ReferenceMissing | Reason::Refused if ran => Some((said(probe), Meaning::Unknown)),
        Reason::Unknown => Some((said(probe), Meaning::Unknown)),
        _ => None,
    }
}

fn message_of(probe: &JobView) -> &str {
    probe.last_attempt().and_then(|attempt| attempt.message.as_deref()).unwrap_or_default()
}
