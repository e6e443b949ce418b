//! Numbers for people.

/// Three significant digits, without an exponent up to a million.
#[must_use]
pub fn three_digits(value: f64) -> String {
    let digits = (2 - value.abs().max(1e-6).log10().floor() as i32).clamp(0, 8);
    let text = format!("{value:.*}", digits.unsigned_abs() as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A whole number with separators.
#[must_use]
pub fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let with_commas = digits.char_indices().flat_map(|(place, digit)| {
        let comma = (place > 0 && (digits.len() - place).is_multiple_of(3)).then_some(',');
        comma.into_iter().chain(Some(digit))
    });
    with_commas.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(three_digits(1.5625), "1.56");
        assert_eq!(three_digits(1234.5), "1234");
        assert_eq!(three_digits(0.000_123_4), "0.000123");
        assert_eq!(three_digits(0.0), "0");
        assert_eq!(thousands(100_000_000.0), "100,000,000");
        assert_eq!(thousands(30.0), "30");
    }
}
