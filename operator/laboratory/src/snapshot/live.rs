//! The snapshot of a live cluster, as far as it can be played.

use std::{fs::File, io::BufReader, path::Path};

use jiff::{SignedDuration, Timestamp};
use scavenger_planner::values::{Observation, ScavengerJob};
use scavenger_program::exit::Unusable;
use scavenger_schema::limits::MAX_POD_COUNT;
use scavenger_specs::snapshot::{self, VERSION};

/// A cluster as an operator saw it.
#[derive(Debug)]
pub(super) struct Live {
    /// When.
    pub(super) time: Timestamp,
    /// What it saw.
    pub(super) observations: Vec<Observation>,
}

/// Why accounting by use is not played from a snapshot on.
pub(super) const MEASURES_NOTHING: &str =
    "one look at a cluster does not say what its pods will use; only Requests is played";

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
    live.check_pod_counts().map_err(wrong)?;
    live.count_by_requests().map_err(wrong)?;
    Ok(live)
}

impl Live {
    /// The model has an object for each pod, so more of them than the definition allows could be more than fit into memory.
    ///
    /// # Errors
    /// The ScavengerJob that has too many, now or in its attempt.
    fn check_pod_counts(&self) -> Result<(), String> {
        let counts = |sj: &ScavengerJob| {
            let asked = sj.spec.as_ref().map(|spec| spec.demand.pod_count);
            let attempt = sj.status.attempt.as_deref().map(|attempt| attempt.demand.pod_count);
            asked.into_iter().chain(attempt).max().unwrap_or(0)
        };
        let too_many = self.observations.iter().find_map(|observation| match observation {
            Observation::ScavengerJob(sj) => {
                Some((&sj.key, counts(sj))).filter(|(_, pods)| *pods > MAX_POD_COUNT.unsigned_abs())
            }
            _ => None,
        });
        match too_many {
            Some((key, pods)) => {
                Err(format!("ScavengerJob {key} has {pods} pods, and {MAX_POD_COUNT} are the most"))
            }
            None => Ok(()),
        }
    }

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
                    return Err(format!(
                        "spec.accounting of its ScavengerPool is Usage, and {MEASURES_NOTHING}"
                    ));
                }
                settings.usage = None;
            }
        }
        Ok(())
    }
}
