//! Log-normal predictive intervals.

use scavenger_schema::tuning::Interval;

/// Standard normal quantile of 0.9.
pub const Z90: f64 = 1.281_551_565_544_6;

/// The interval of a log-normal with this median and standard deviation of the logarithm.
#[must_use]
pub fn log_normal(median: f64, sigma: f64) -> Interval {
    let factor = (Z90 * sigma).exp();
    Interval { p10: median / factor, p50: median, p90: median * factor }
}

/// Standard deviations of independent parts of an error, put together.
#[must_use]
pub fn combine(sigmas: &[f64]) -> f64 {
    sigmas.iter().map(|sigma| sigma * sigma).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_width_of_the_interval_is_what_sigma_says() {
        let interval = log_normal(10.0, 1.35_f64.ln() / Z90);
        assert!((interval.p90 - 13.5).abs() < 1e-9);
        assert!((interval.p10 - 10.0 / 1.35).abs() < 1e-9);
    }
}
