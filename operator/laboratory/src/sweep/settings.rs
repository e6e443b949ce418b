//! The settings that have a sweep of their own, with the values that are tried.

/// A setting of the pool.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// What it is called: a field of the pool, or what several of them do together.
    pub name: &'static str,
    /// What the pool has beside it, as its spec.
    pub pool: &'static str,
    /// Values of the field, or several fields in braces.
    pub values: &'static [&'static str],
}

impl Setting {
    /// True if its values name several fields.
    #[must_use]
    pub fn has_several(&self) -> bool {
        [HEADROOM, ACCOUNTING].contains(&self.name)
    }
}

/// Both thresholds of headroom together.
const HEADROOM: &str = "headroom";

/// How capacity is counted, and by which rules.
const ACCOUNTING: &str = "accounting";

/// A pool in which there is much to interrupt: ordinary pods soon meet the interrupt threshold.
const TIGHT: &str = "{ startThreshold: 0.7, headroomTarget: 0.72, interruptThreshold: 0.75 }";

/// All of them.
pub const SWEEPS: [Setting; 12] = [
    Setting {
        name: "startThreshold",
        pool: "{}",
        values: &["0.5", "0.6", "0.65", "0.7", "0.75", "0.8", "0.85"],
    },
    Setting {
        name: "headroomTarget",
        pool: "{}",
        values: &["0.7", "0.75", "0.8", "0.83", "0.85", "0.87", "0.89"],
    },
    Setting { name: "interruptThreshold", pool: "{}", values: &["0.86", "0.88", "0.9", "0.92", "0.95", "1"] },
    Setting {
        name: HEADROOM,
        pool: "{}",
        values: &[
            "{ headroomTarget: 0.75, interruptThreshold: 0.8 }",
            "{ headroomTarget: 0.8, interruptThreshold: 0.85 }",
            "{ headroomTarget: 0.85, interruptThreshold: 0.9 }",
            "{ headroomTarget: 0.9, interruptThreshold: 0.95 }",
            "{ interruptThreshold: 1 }",
        ],
    },
    Setting { name: "prioritySteps", pool: TIGHT, values: &["1", "2", "3", "5", "10"] },
    Setting { name: "interruptionBackoff", pool: "{}", values: &["1s", "10s", "30s", "2m", "10m"] },
    Setting {
        name: "disruptionBudgets",
        pool: TIGHT,
        values: &[
            "[]",
            "[{ jobs: 1 }]",
            "[{ jobs: 5 }]",
            "[{ jobs: 5% }]",
            "[{ jobs: 100% }]",
            "[{ jobs: 10, period: 1m }]",
        ],
    },
    Setting { name: "minimumRun", pool: TIGHT, values: &["0s", "1m", "5m", "10m", "30m"] },
    Setting { name: "reserveAfter", pool: "{}", values: &["1m", "10m", "1h", "6h"] },
    Setting { name: "maxConcurrentStarts", pool: "{}", values: &["1", "3", "10", "30", "100"] },
    Setting {
        name: ACCOUNTING,
        pool: "{}",
        values: &[
            "{ accounting: Requests }",
            "{ accounting: Usage, usage: {} }",
            "{ accounting: Usage, usage: { percentile: 90 } }",
            "{ accounting: Usage, usage: { percentile: 100 } }",
            "{ accounting: Usage, usage: { halfLife: 10m } }",
            "{ accounting: Usage, usage: { halfLife: 3h } }",
            "{ accounting: Usage, usage: { marginPercent: 0 } }",
        ],
    },
    Setting { name: "pendingTimeout", pool: "{}", values: &["10s", "30s", "60s", "5m"] },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::values;

    #[test]
    fn every_setting_can_be_swept_and_one_of_its_values_is_the_one_of_the_pool() {
        for setting in SWEEPS {
            let values = values(setting.name, &[], None).unwrap();
            assert_eq!(values.len(), setting.values.len(), "{}", setting.name);
            let usual = values.iter().filter(|value| value.is_usual).count();
            assert_eq!(
                usual,
                1,
                "{}: {:?}",
                setting.name,
                values.iter().map(|v| v.is_usual).collect::<Vec<_>>()
            );
        }
    }
}
