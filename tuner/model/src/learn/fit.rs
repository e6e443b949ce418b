//! The linear algebra of the update.
//!
//! Not by a crate: the matrix is factorised while its elements are calculated, in half the memory, and sums are added in one
//! order on every machine.

use super::kernel::{Direction, covariance};
use super::sigma;

/// A fit of the parameters to residuals, in the space of the runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Fit {
    /// Lower triangle of the Cholesky factor, by rows.
    factor: Vec<f64>,
    /// The inverse covariance times the residuals.
    pub(super) weights: Vec<f64>,
}

impl Fit {
    /// `owners` are whose the runs are, `pairs` the variances of the parameters that each pair of runs shares, row by row.
    pub(super) fn new(
        owners: &[u64],
        pairs: &[Direction],
        directions: &[Direction],
        noises: &[f64],
        values: &[f64],
    ) -> Self {
        let mut fit = Self { factor: cholesky(owners, pairs, directions, noises), weights: Vec::new() };
        fit.weights = fit.solve(values);
        fit
    }

    /// (L L^T)^-1 b
    pub(super) fn solve(&self, b: &[f64]) -> Vec<f64> {
        let mut x: Vec<f64> = Vec::with_capacity(b.len());
        for (row, value) in b.iter().enumerate() {
            let start = row * (row + 1) / 2;
            let known: f64 = self.factor[start..start + row].iter().zip(&x).map(|(l, x)| l * x).sum();
            x.push((value - known) / self.factor[start + row]);
        }
        for row in (0..x.len()).rev() {
            let start = row * (row + 1) / 2;
            x[row] /= self.factor[start + row];
            let value = x[row];
            for (known, l) in x[..row].iter_mut().zip(&self.factor[start..start + row]) {
                *known -= l * value;
            }
        }
        x
    }

    /// (L L^T)^-1, row by row.
    pub(super) fn inverse(&self) -> Vec<f64> {
        let size = self.weights.len();
        let mut inverse = Vec::with_capacity(size * size);
        for row in 0..size {
            let mut unit = vec![0.0; size];
            unit[row] = 1.0;
            inverse.extend(self.solve(&unit));
        }
        inverse
    }
}

/// Lower triangle of the Cholesky factor of the covariance plus noise, by rows. The noise is positive, so the
/// matrix is positive definite.
fn cholesky(owners: &[u64], pairs: &[Direction], directions: &[Direction], noises: &[f64]) -> Vec<f64> {
    let size = owners.len();
    let mut factor: Vec<f64> = Vec::with_capacity(size * (size + 1) / 2);
    for (row, noise) in noises.iter().enumerate() {
        let start = factor.len();
        for column in 0..=row {
            let other = column * (column + 1) / 2;
            let known: f64 = (0..column).map(|k| factor[start + k] * factor[other + k]).sum();
            let owner = if owners[row] == owners[column] { sigma::OWNER.powi(2) } else { 0.0 };
            let pair = &pairs[row * size + column];
            let value = covariance(pair, &directions[row], &directions[column]) + owner - known;
            factor.push(if row == column {
                (value + noise).max(1e-9).sqrt()
            } else {
                value / factor[other + column]
            });
        }
    }
    factor
}
