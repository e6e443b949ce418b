//! A fit of constants to rows. Not by a crate: only the table of accuracy needs them, and it must be the same on every
//! machine.

/// Minimises the sum of squares of `residuals` from `start` by the method of Levenberg and Marquardt, with a gradient
/// from differences. The same on every machine.
pub fn least_squares(start: &[f64], rounds: usize, residuals: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    let size = start.len();
    let cost = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>();
    let mut best = start.to_vec();
    let mut values = residuals(&best);
    let mut damping = 1e-2;
    for _ in 0..rounds {
        let slopes: Vec<Vec<f64>> = (0..size)
            .map(|axis| {
                let mut moved = best.clone();
                moved[axis] += STEP;
                residuals(&moved).iter().zip(&values).map(|(there, here)| (there - here) / STEP).collect()
            })
            .collect();
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let normal: Vec<Vec<f64>> =
            slopes.iter().map(|a| slopes.iter().map(|b| product(a, b)).collect()).collect();
        let gradient: Vec<f64> = slopes.iter().map(|slope| -product(slope, &values)).collect();
        let before = cost(&values);
        let mut found = false;
        while damping < 1e6 {
            let mut damped = normal.clone();
            for (axis, row) in damped.iter_mut().enumerate() {
                row[axis] *= 1.0 + damping;
            }
            let step = solve(damped, gradient.clone());
            let moved: Vec<f64> =
                best.iter().zip(&step).map(|(value, step)| value + step.clamp(-0.5, 0.5)).collect();
            let there = residuals(&moved);
            if cost(&there) < before {
                (best, values, found) = (moved, there, true);
                damping = (damping / 5.0_f64).max(1e-8);
                break;
            }
            damping *= 4.0;
        }
        if !found || before - cost(&values) < 1e-7 * before {
            break;
        }
    }
    best
}

/// Step of the differences that a gradient is made of.
const STEP: f64 = 1e-5;

/// Solves a system of equations with a positive definite matrix by elimination.
fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let size = right.len();
    for column in 0..size {
        let pivot = matrix[column][column].max(1e-12);
        for row in column + 1..size {
            let factor = matrix[row][column] / pivot;
            let (above, below) = matrix.split_at_mut(row);
            for (value, upper) in below[0][column..].iter_mut().zip(&above[column][column..]) {
                *value -= factor * upper;
            }
            right[row] -= factor * right[column];
        }
    }
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|column| matrix[row][column] * right[column]).sum();
        right[row] = (right[row] - known) / matrix[row][row].max(1e-12);
    }
    right
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
    fn least_squares_find_the_parameters_of_a_curve() {
        let points: Vec<(f64, f64)> =
            (0..20).map(|n| (f64::from(n), 3.0 * (-0.2 * f64::from(n)).exp())).collect();
        let found = least_squares(&[1.0, -1.0], 100, |x| {
            points.iter().map(|(t, y)| x[0] * (x[1] * t).exp() - y).collect()
        });
        assert!((found[0] - 3.0).abs() < 1e-3 && (found[1] + 0.2).abs() < 1e-3, "{found:?}");
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
