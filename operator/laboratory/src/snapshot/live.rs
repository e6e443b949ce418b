//! The snapshot of a live cluster, as far as it can be played.

use std::{fs::File, io::BufReader, path::Path};

use jiff::{SignedDuration, Timestamp};
use scavenger_planner::values::Observation;
use scavenger_program::exit::Unusable;
use scavenger_specs::snapshot::{self, VERSION};

/// A cluster as an operator saw it.
#[derive(Debug)]
pub(super) struct Live {
    /// When.
    pub(super) time: Timestamp,
    /// What it saw.
    pub(super) observations: Vec<Observation>,
}

/// The time must leave this much to come.
const TO_COME: SignedDuration = SignedDuration::from_hours(24 * 366);

/// Reads a file that `scavenger-operator snapshot` wrote.
///
/// # Errors
/// If it is none, or of another version, or of a pool that cannot be played.
pub(super) fn read(path: &Path) -> Result<Live, Unusable> {
    let wrong = |what: String| Unusable(format!("{}: {what}", path.display()));
    let file = File::open(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let (header, observations) =
        snapshot::read(BufReader::new(file)).map_err(|error| wrong(error.to_string()))?;
    let version = header.operator_version;
    if version != VERSION {
        return Err(wrong(format!(
            "scavenger-operator {version} wrote it, whose rules this laboratory ({VERSION}) does not have; take the laboratory \
             of that version"
        )));
    }
    let time = header.snapshot_time;
    if time.checked_add(TO_COME).is_err() {
        return Err(wrong(format!("snapshotTime {time} is too late")));
    }
    let mut live = Live { time, observations };
    live.count_by_requests().map_err(wrong)?;
    Ok(live)
}

impl Live {
    /// A pool that only tries out accounting by use counts by requests.
    ///
    /// # Errors
    /// If it counts by use: one look at a cluster measures nothing.
    fn count_by_requests(&mut self) -> Result<(), String> {
        for observation in &mut self.observations {
            if let Observation::Pool(pool) = observation
                && let Ok(settings) = &mut **pool
            {
                if settings.places_by_use() {
                    return Err("spec.accounting of its ScavengerPool is Usage, which the laboratory does not play yet; it plays \
                                Requests"
                        .to_owned());
                }
                settings.usage = None;
            }
        }
        Ok(())
    }
}
