//! Figures of many values.

/// The value below which this share of the values lies; 0 if there are none.
#[must_use]
pub fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a place among the values"
    )]
    let place = (last as f64 * share).round() as usize;
    sorted.get(place.min(last)).copied().unwrap_or_default()
}

/// A ratio as a table shows it.
#[must_use]
pub fn ratio(value: f64, alone: f64) -> String {
    if alone > 0.0 { format!("{:.2}", value / alone) } else { "-".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let values = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|share| percentile(&values, share)), [1.0, 3.0, 5.0, 5.0]);
        assert_eq!(percentile(&[], 0.5), 0.0);
        assert_eq!([ratio(1.0, 3.0), ratio(1.0, 0.0)], ["0.33", "-"]);
    }
}
