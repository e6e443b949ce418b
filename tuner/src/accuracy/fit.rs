//! Fits of constants to rows.

/// Minimises `cost` from `start` by moving one coordinate at a time, with steps that grow where it helps and
/// shrink where it does not. Slow and sure, and the same on every machine.
pub fn minimise(start: &[f64], rounds: usize, mut cost: impl FnMut(&[f64]) -> f64) -> Vec<f64> {
    let mut best = start.to_vec();
    let mut lowest = cost(&best);
    let mut steps = vec![0.2; start.len()];
    for _ in 0..rounds {
        for axis in 0..best.len() {
            let mut moved = false;
            for direction in [1.0, -1.0] {
                let kept = best[axis];
                best[axis] = kept + direction * steps[axis];
                let found = cost(&best);
                if found < lowest {
                    lowest = found;
                    moved = true;
                    break;
                }
                best[axis] = kept;
            }
            steps[axis] = if moved { (steps[axis] * 1.6_f64).min(1.0) } else { steps[axis] * 0.6 };
        }
        if steps.iter().all(|step| *step < 1e-3) {
            break;
        }
    }
    best
}

/// The value below which `share` of the weight of (value, weight) lies; 0 of nothing.
#[must_use]
pub fn weighted_quantile(values: &[(f64, f64)], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = sorted.iter().map(|(_, weight)| weight).sum();
    let mut below = 0.0;
    for (value, weight) in &sorted {
        below += weight;
        if below >= share * total {
            return *value;
        }
    }
    sorted.last().map_or(0.0, |(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_bottom_of_a_bowl() {
        let found = minimise(&[0.0, 0.0], 200, |x| (x[0] - 1.3).powi(2) + 3.0 * (x[1] + 0.7).powi(2));
        assert!((found[0] - 1.3).abs() < 0.01 && (found[1] + 0.7).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn quantiles_go_by_weight() {
        let values = [(3.0, 1.0), (1.0, 1.0), (2.0, 1.0)];
        assert_eq!(weighted_quantile(&values, 0.5), 2.0);
        assert_eq!(weighted_quantile(&[(1.0, 9.0), (2.0, 1.0)], 0.9), 1.0);
        assert_eq!(weighted_quantile(&[(1.0, 9.0), (2.0, 1.0)], 0.95), 2.0);
        assert_eq!(weighted_quantile(&[], 0.9), 0.0);
    }
}
