//! What was asked for a row, as `show` says it.

use serde_json::Value;

use super::text::{cores, short, stretch};

/// How the configurations are chosen, as far as `of` has it: the columns of a row, or what counted for it.
pub(super) fn chosen(of: &Value) -> Vec<String> {
    let by = |name: &str| of["set_by"][name].as_str().map(|by| format!(" ({by})")).unwrap_or_default();
    let mut parts = Vec::new();
    parts.extend(of["min_efficiency"].as_f64().map(|share| {
        let share = short(share * 100.0);
        format!(
            "first configuration with at least {share} % of the best speed per price{}",
            by("min_efficiency")
        )
    }));
    parts.extend(of["max_configurations"].as_i64().map(|most| match most {
        1 => format!("at most 1 configuration{}", by("max_configurations")),
        most => format!("at most {most} configurations{}", by("max_configurations")),
    }));
    for (name, what) in [("gpu_price", "a GPU"), ("memory_price", "a GiB of memory")] {
        parts.extend(
            of[name].as_f64().map(|price| format!("{what} counted as {}{}", cores(price * 1000.0), by(name))),
        );
    }
    parts
}

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
    parts.extend(simulation["max_gpus"].as_i64().map(|most| match most {
        1 => "at most 1 GPU".to_owned(),
        most => format!("at most {most} GPUs"),
    }));
    let least = |name: &str| simulation[name].as_f64().filter(|least| *least > 0.0);
    parts.extend(least("min_cpu_millicores").map(|least| format!("at least {}", cores(least))));
    parts.extend(least("min_ns_per_day").map(|least| format!("at least {} ns/day", short(least))));
    parts.extend(chosen(simulation));
    parts.extend(
        simulation["interruption_after_seconds"]
            .as_i64()
            .filter(|_| simulation["command"].is_null())
            .map(|seconds| format!("a checkpoint every {}", stretch(seconds))),
    );
    parts.join(", ")
}
