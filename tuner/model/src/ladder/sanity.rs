//! Where a prediction is worth less than that of an ordinary system: a sentence for the user.
//!
//! The model was fitted to solvated systems of ordinary size. What is far from them is not refused, since it may run,
//! but it must not look as certain as the rest: its interval is wider.

use scavenger_schema::tuning::{Build, SystemDescription};

use crate::error::FieldError;
use crate::model::{Job, Model};
use crate::system::{MEASURED_ATOMS, SPARSE_COARSE};
use crate::text::{thousands, three_digits};

/// Sizes beyond those that were measured by less than this factor need no sentence.
const FAR_FROM_MEASURED: f64 = 2.0;
/// Atoms per nm³ that no ordinary matter at room temperature exceeds: diamond has 176.
const DENSE: f64 = 200.0;
/// Hours of a year.
const YEAR_HOURS: f64 = 8766.0;

/// A job, and what makes its prediction doubtful.
pub(crate) struct Sane {
    /// What is predicted.
    pub(crate) job: Job,
    /// Sentences for the user.
    pub(crate) notes: Vec<String>,
}

impl Sane {
    /// Checks the system of a request and looks at it as an expert would.
    pub(crate) fn new(
        model: &Model,
        system: &SystemDescription,
        gromacs_version: Option<&str>,
        build: &Build,
    ) -> Result<Self, FieldError> {
        let job = Job::new(system, gromacs_version, build)?;
        let mut sane = Self { notes: Vec::new(), job };
        sane.look_at_cutoff();
        sane.look_at_density();
        // A run of this very system says more of it than its size does.
        if !model.has_run(&sane.job) {
            sane.look_at_size();
        }
        Ok(sane)
    }

    fn look_at_density(&mut self) {
        let density = self.job.system.density;
        if density > DENSE {
            self.notes.push(format!(
                "the box holds {density:.0} atoms per nm³, water has 100; check that boxNm is in nm"
            ));
        } else if let Some(filled) = self.job.filled() {
            self.job = filled;
            self.notes.push(format!(
                "the box holds {} atoms per nm³, water has 100; the speeds are for a droplet or a slab of ordinary \
                 density, and atoms spread evenly would be faster",
                three_digits(density)
            ));
        } else if density < SPARSE_COARSE {
            self.notes.push(format!(
                "the box holds {} beads per nm³, coarse-grained water has 8; a droplet or a slab is slower than predicted",
                three_digits(density)
            ));
        }
    }

    fn look_at_cutoff(&mut self) {
        let system = &self.job.system;
        let shortest = system.shortest_edge();
        if 2.0 * system.cutoff_nm > shortest {
            self.notes.push(format!(
                "the cut-off of {} nm is more than half of the shortest edge of the box, {} nm; mdrun refuses this in a \
                 periodic box",
                three_digits(system.cutoff_nm),
                three_digits(shortest)
            ));
        }
    }

    fn look_at_size(&mut self) {
        let atoms = self.job.system.atoms;
        if self.job.system.beyond_measured() < FAR_FROM_MEASURED {
            return;
        }
        let measured = if atoms < MEASURED_ATOMS.min {
            format!("fewer than the {} of the smallest", thousands(MEASURED_ATOMS.min))
        } else {
            format!("more than the {} of the largest", thousands(MEASURED_ATOMS.max))
        };
        // Below a thousand atoms it is worth a sentence of its own why.
        let why = if atoms < 1000.0 { "; start-up and waiting decide, not the atoms" } else { "" };
        self.notes.push(format!(
            "{} atoms are {measured} measured system, so the intervals are wider{why}",
            thousands(atoms)
        ));
    }

    /// A sentence if `what` takes so many hours that it is not for this life.
    pub(crate) fn note_on_hours(what: &str, fastest: Option<f64>) -> Option<String> {
        let hours = fastest.filter(|hours| *hours > YEAR_HOURS)?;
        Some(format!(
            "{what} takes {} years; fewer steps or more simulations side by side may help",
            three_digits(hours / YEAR_HOURS)
        ))
    }
}

#[cfg(test)]
mod tests {
    use scavenger_schema::tuning::Interval;

    use super::*;
    use crate::ladder::build;
    use crate::ladder::fixtures::{labelled, node, request, water};
    use crate::model::Model;

    fn sane(spoil: impl FnOnce(&mut SystemDescription)) -> Sane {
        let mut system = water(100_000);
        spoil(&mut system);
        Sane::new(&Model::prior(), &system, None, &Build::default()).expect("the system should be accepted")
    }

    fn first(spoil: impl FnOnce(&mut SystemDescription)) -> (Interval, Vec<String>) {
        let mut system = water(100_000);
        spoil(&mut system);
        let reply = build(
            &Model::prior(),
            &request(
                system,
                vec![labelled(
                    &node(16_000, 1024),
                    &[("node.kubernetes.io/instance-type", "hpc6a.48xlarge")],
                    0,
                )],
            ),
        );
        let reply = reply.expect("there should be a ladder");
        (reply.rungs[0].ns_per_day, reply.notes)
    }

    fn width(interval: Interval) -> f64 {
        interval.p90 / interval.p10
    }

    #[test]
    fn ordinary_systems_have_no_doubts() {
        for atoms in [20_000, 100_000, 3_000_000, 20_000_000] {
            let ordinary = sane(|system| system.atoms = atoms);
            assert_eq!(ordinary.notes, Vec::<String>::new(), "{atoms}");
            assert_eq!(ordinary.job.doubt(), 0.0, "{atoms}");
        }
        let membrane = sane(|system| system.box_nm = Some([10.0, 10.0, 11.5]));
        assert!(membrane.notes.is_empty());
    }

    #[test]
    fn a_droplet_in_a_large_box_is_as_fast_as_water() {
        let (filled, _) = first(|_| {});
        let (droplet, notes) = first(|system| system.box_nm = Some([40.0, 40.0, 40.0]));
        assert!((droplet.p50 / filled.p50 - 1.0).abs() < 0.2, "{droplet:?} {filled:?}");
        assert!(droplet.p90 > 1.5 * filled.p90, "{droplet:?} {filled:?}");
        assert!(notes.iter().any(|note| note.contains("1.56 atoms per nm³")), "{notes:?}");
    }

    #[test]
    fn coarse_grained_systems_fill_their_box() {
        let martini = |density: f64| {
            let edge = (100_000.0 / density).cbrt();
            sane(|system| {
                system.dt_ps = 0.02;
                system.box_nm = Some([edge; 3]);
            })
        };
        assert!(martini(8.3).notes.is_empty());
        assert!(martini(1.0).notes[0].contains("beads") && martini(1.0).job.doubt() > 1.0);
    }

    #[test]
    fn a_cutoff_above_half_the_box_is_told() {
        let (_, notes) = first(|system| {
            system.atoms = 30_000;
            system.box_nm = Some([1.9, 12.0, 13.2]);
        });
        assert!(notes.iter().any(|note| note.contains("cut-off of 1 nm")), "{notes:?}");
        let (_, notes) = first(|system| system.atoms = 30_000);
        assert!(!notes.iter().any(|note| note.contains("cut-off")), "{notes:?}");
    }

    #[test]
    fn sizes_that_were_never_measured_are_less_certain() {
        let (ordinary, _) = first(|_| {});
        let (few, notes) = first(|system| system.atoms = 30);
        assert!(width(few) > 1.5 * width(ordinary), "{few:?} {ordinary:?}");
        assert!(notes.iter().any(|note| note.contains("30 atoms are fewer than the 14,235")), "{notes:?}");
        let (many, notes) = first(|system| system.atoms = 100_000_000);
        assert!(width(many) > width(ordinary));
        assert!(notes.iter().any(|note| note.contains("100,000,000 atoms are more than")), "{notes:?}");
    }

    #[test]
    fn a_ladder_of_years_says_so() {
        let (_, notes) = first(|system| system.nsteps = 50_000_000_000);
        assert!(notes.iter().any(|note| note.contains("years")), "{notes:?}");
        let (_, notes) = first(|system| system.nsteps = 50_000);
        assert!(!notes.iter().any(|note| note.contains("years")), "{notes:?}");
    }
}
