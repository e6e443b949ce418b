//! Values that tests of the store share.

#![allow(dead_code, reason = "not every program uses all of it")]

use std::collections::BTreeMap;

use gromacs_submitter::store::ClaimOptions;
use scavenger_schema::simulation::LadderRung;
use scavenger_schema::tuning::Layout;
use sqlx::types::Json;

/// At most so many of the rows that are due.
pub fn any(limit: usize) -> ClaimOptions {
    ClaimOptions { limit, except: Vec::new(), max_waiting: 1000, early: false }
}

/// A configuration.
pub fn rung(rung: i32, cpu_millicores: i32) -> LadderRung {
    LadderRung {
        rung,
        cpu_millicores,
        memory_bytes: 314_572_800,
        gpus: 0,
        node_labels: Json(BTreeMap::new()),
        layout: Json(Layout::cpu(1, 1)),
        ns_per_day_p10: 30.0,
        ns_per_day_p50: 40.0,
        ns_per_day_p90: 50.0,
        hours_to_finish: Some(1.0),
        efficiency: 0.9,
        predicted_memory_bytes: 100_000_000,
        hardware_class: "unknown".to_owned(),
        fits_now: true,
        reason: "largest that pays".to_owned(),
        model_version: "1".to_owned(),
        replaced: false,
    }
}
