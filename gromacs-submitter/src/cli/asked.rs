//! What was asked for a row, as `show` says it.

use serde_json::Value;

use super::text::{cores, short, stretch};

/// Image, user, priority and limits, as far as they are given.
pub(super) fn asked(simulation: &Value) -> String {
    let mut parts = Vec::new();
    parts.extend(simulation["image"].as_str().map(|image| format!("image {image}")));
    parts.extend(simulation["run_as_user"].as_i64().map(|user| format!("user {user}")));
    parts.extend(simulation["run_as_group"].as_i64().map(|group| format!("group {group}")));
    parts.extend(
        simulation["priority"].as_i64().filter(|priority| *priority != 0).map(|it| format!("priority {it}")),
    );
    parts.extend(simulation["max_cpu_millicores"].as_f64().map(|most| format!("at most {}", cores(most))));
    parts.extend(simulation["max_memory_bytes"].as_i64().map(|most| format!("at most {} MiB", most >> 20)));
    parts.extend(simulation["max_gpus"].as_i64().map(|most| format!("at most {most} GPUs")));
    let least = |name: &str| simulation[name].as_f64().filter(|least| *least > 0.0);
    parts.extend(least("min_cpu_millicores").map(|least| format!("at least {}", cores(least))));
    parts.extend(least("min_ns_per_day").map(|least| format!("at least {} ns/day", short(least))));
    parts.extend(
        simulation["interruption_after_seconds"]
            .as_i64()
            .map(|seconds| format!("a checkpoint every {}", stretch(seconds))),
    );
    parts.join(", ")
}
