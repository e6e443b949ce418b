//! What each part of the model brings: on its own, on a model without any of them, and as what is missed without it.

use std::collections::BTreeMap;

use scavenger_tuner_model::learn::{Known, Learning};
use scavenger_tuner_model::performance::Constants;

use super::data::{self, Row};
use super::fitted::Terms;
use super::{CPU_REGIMES, Fold, Outcome, Regime, SplitLoss, regime, split_losses};
use super::{components, folds_of, other_system, same_system, unmeasured};
use super::{settings, widening::widenings};

/// A part of the model that can be taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// M0: the fit knows runs on parts of a node (one-node.csv).
    OneNode,
    /// M1: the vector instructions of the build are known.
    Build,
    /// Two factors of each class that the files have.
    Classes,
    /// Pairs are counted as md.log counts them.
    Radius,
    /// Cores are faster where others are idle.
    Boost,
    /// Traffic to and from memory.
    Traffic,
    /// M2: a parameter for each part of a step.
    ByPart,
    /// M3: the fit sees the tables of md.log.
    Tables,
    /// M4: Student's t, a second linearisation, and widening by surprise.
    Robust,
    /// M5: intervals are calibrated on machines that were left out.
    Calibration,
    /// M6: ranks for PME by mdrun's own rule.
    PmeRanks,
}

impl Piece {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::OneNode,
        Self::Build,
        Self::Classes,
        Self::Radius,
        Self::Boost,
        Self::Traffic,
        Self::ByPart,
        Self::Tables,
        Self::Robust,
        Self::Calibration,
        Self::PmeRanks,
    ];

    /// What it is, for a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OneNode => "M0: rows on parts of a node in the fit",
            Self::Build => "M1: vector instructions of the build",
            Self::Classes => "two factors of each measured class",
            Self::Radius => "pairs as far as md.log counts them (0.43 nm, without it 0.25 nm)",
            Self::Boost => "the boost of the clock",
            Self::Traffic => "traffic to and from memory",
            Self::ByPart => "M2: a parameter per part of a step",
            Self::Tables => "M3: tables of md.log in the fit",
            Self::Robust => "M4: Student's t, second linearisation, widening by surprise",
            Self::Calibration => "M5: calibrated intervals",
            Self::PmeRanks => "M6: PME ranks by mdrun's own rule",
        }
    }
}

/// Which parts a model is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pieces([bool; Piece::ALL.len()]);

impl Pieces {
    const ALL: Self = Self([true; Piece::ALL.len()]);
    const NONE: Self = Self([false; Piece::ALL.len()]);

    fn has(self, piece: Piece) -> bool {
        self.0[piece as usize]
    }

    fn with(mut self, piece: Piece, has: bool) -> Self {
        self.0[piece as usize] = has;
        self
    }
}

/// A model and how its three regimes on one node came out.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// What it is made of.
    pub name: String,
    /// The part alone, on a model without any of the others.
    pub alone: Option<Vec<Regime>>,
    /// All parts but this one.
    pub without: Vec<Regime>,
}

/// What each part brings.
#[derive(Clone, Debug, PartialEq)]
pub struct Brought {
    /// All parts, none, and each alone and left out.
    pub regimes: Vec<Tried>,
    /// M7: the loss by the model's best split, and by the better of its two best, once both were measured. On one node.
    pub splits: [SplitLoss; 2],
    /// M8: settings that no row has: how many of how many measured runs lie within the interval, and the median error,
    /// with the settings counted and with all of them ignored.
    pub settings: [(usize, usize, f64); 2],
}

/// Fits and validates a model for each part twice; `rounds` bounds the effort of each fit.
#[must_use]
pub fn run(rounds: usize) -> Brought {
    let rows = data::load();
    let all = validated(&rows, Pieces::ALL, rounds);
    let none = validated(&rows, Pieces::NONE, rounds);
    let mut regimes = vec![
        Tried { name: "all of it".to_owned(), alone: None, without: all.regimes },
        Tried { name: "none of it".to_owned(), alone: None, without: none.regimes },
    ];
    regimes.extend(Piece::ALL.into_iter().map(|piece| Tried {
        name: piece.name().to_owned(),
        alone: Some(validated(&rows, Pieces::NONE.with(piece, true), rounds).regimes),
        without: validated(&rows, Pieces::ALL.with(piece, false), rounds).regimes,
    }));
    let of_settings = |compared: &[settings::Compared]| {
        let errors: Vec<(f64, f64)> = compared.iter().map(|one| (one.ratio().ln().abs(), 1.0)).collect();
        let median = super::fit::weighted_quantile(&errors, 0.5).exp() - 1.0;
        (compared.iter().filter(|one| one.is_covered()).count(), compared.len(), median)
    };
    Brought {
        regimes,
        splits: all.splits,
        settings: [of_settings(&settings::compared()), of_settings(&settings::ignored())],
    }
}

/// How a model came out.
struct Validated {
    regimes: Vec<Regime>,
    splits: [SplitLoss; 2],
}

fn validated(rows: &[Row], pieces: Pieces, rounds: usize) -> Validated {
    let rows: Vec<Row> = rows.iter().map(|row| without(row.clone(), pieces)).collect();
    let cpu: Vec<&Row> = rows.iter().filter(|row| !row.on_gpu()).collect();
    let one_node: Vec<&Row> = cpu.iter().copied().filter(|row| row.place.nodes < 1.5).collect();
    let logs = if pieces.has(Piece::Tables) { components::load(&rows) } else { Vec::new() };
    let mut off = Vec::new();
    if !pieces.has(Piece::Boost) {
        off.push("boost");
    }
    if !pieces.has(Piece::Traffic) {
        off.extend(["traffic_atom", "traffic_point"]);
    }
    debug_assert!(off.iter().all(|name| Constants::NAMES.contains(name)));
    let terms = Terms { classes: pieces.has(Piece::Classes), off: &off };
    let is_fitted = |row: &Row| pieces.has(Piece::OneNode) || !data::is_of_one_node(row);
    // Only what is asked about here is judged.
    let folds: Vec<Fold<'_>> = folds_of(&cpu, &one_node, &logs, rounds, &terms, &is_fitted);
    let outcomes =
        [unmeasured(&folds, &one_node), other_system(&folds, &one_node), same_system(&folds, &one_node)];
    let regimes =
        CPU_REGIMES.iter().zip(&outcomes).zip(Known::ALL).map(|(((name, goal), of_regime), known)| {
            let widenings =
                if pieces.has(Piece::Calibration) { widenings(known, &outcomes) } else { BTreeMap::new() };
            let of_regime: Vec<&Outcome<'_>> = of_regime.iter().collect();
            regime(name, *goal, &of_regime, &widenings)
        });
    let regimes = regimes.collect();
    let splits = [1, 2].map(|tried| SplitLoss::of(&split_losses(&folds, &one_node, tried).0));
    Validated { regimes, splits }
}

/// A row as a model without some parts sees it.
fn without(mut row: Row, pieces: Pieces) -> Row {
    let learning = Learning { by_part: pieces.has(Piece::ByPart), robust: pieces.has(Piece::Robust) };
    row.job = row.job.learned_by(learning);
    if !pieces.has(Piece::Build) {
        row.job = row.job.built_for(None);
    }
    if !pieces.has(Piece::Radius) {
        let cutoff = row.job.system.cutoff_nm;
        row.job.work.pairs *= ((cutoff + 0.25) / (cutoff + 0.43)).powi(3);
    }
    if !pieces.has(Piece::PmeRanks) && row.npme_guessed {
        row.place.npme = 0.0;
    }
    row
}
