//! Kubernetes quantities (`500m`, `2`, `1.5Gi`, `1e3`) as integers, parsed once at the border.
//!
//! Grammar: <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/>. Fractions of the
//! unit asked for are rounded up, as Kubernetes does: what was asked for is never rounded to less.
//!
//! Written here and not taken from a crate, because amounts are compared exactly: in integers, up to 2^63-1 units.

/// Why a quantity could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuantityError {
    /// No number, or something that is no suffix behind it.
    Malformed(String),
    /// Below zero.
    Negative(String),
    /// More than 2^63-1 units.
    TooLarge(String),
}

impl std::fmt::Display for QuantityError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed(text) => {
                write!(formatter, "{text:?} is not a Kubernetes quantity; write for example 500m, 2 or 1.5Gi")
            }
            Self::Negative(text) => write!(formatter, "quantity {text:?} is negative"),
            Self::TooLarge(text) => write!(formatter, "quantity {text:?} is larger than 2^63-1"),
        }
    }
}

impl std::error::Error for QuantityError {}

/// Reads a quantity in thousandths of its unit, rounded up: `parse_milli("1.5")` is 1500.
///
/// # Errors
/// [`QuantityError`] for text that is no quantity, is negative or does not fit.
pub fn parse_milli(text: &str) -> Result<i64, QuantityError> {
    parse_scaled(text, 3)
}

/// Reads a quantity in whole units, rounded up: `parse_units("1Ki")` is 1024, `parse_units("100m")` is 1.
///
/// # Errors
/// [`QuantityError`] for text that is no quantity, is negative or does not fit.
pub fn parse_units(text: &str) -> Result<i64, QuantityError> {
    parse_scaled(text, 0)
}

/// Writes millicores as Kubernetes does: `2`, `500m`.
#[must_use]
pub fn format_milli(milli: i64) -> String {
    if milli % 1000 == 0 { format!("{}", milli / 1000) } else { format!("{milli}m") }
}

/// Writes bytes with the largest binary suffix that loses nothing: `1536Mi`, `1Gi`, `1000`.
#[must_use]
pub fn format_bytes(bytes: i64) -> String {
    for (suffix, shift) in [("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)] {
        if bytes != 0 && bytes % (1_i64 << shift) == 0 {
            return format!("{}{suffix}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// The value times 10^`decimals`, rounded up.
fn parse_scaled(text: &str, decimals: i32) -> Result<i64, QuantityError> {
    let malformed = || QuantityError::Malformed(shortened(text));
    let too_large = || QuantityError::TooLarge(shortened(text));
    let (negative, rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let number_length = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let (number, suffix) = rest.split_at(number_length);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(malformed());
    }
    let (binary_shift, exponent) = suffix_scale(suffix).ok_or_else(malformed)?;

    // value = digits * 2^binary_shift * 10^ten, exactly, in integers.
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Ok(0);
    }
    if negative {
        return Err(QuantityError::Negative(shortened(text)));
    }
    let dropped = digits.trim_end_matches('0');
    let zeros = digits.len() - dropped.len();
    let fraction_length = i64::try_from(fraction.len()).map_err(|_| too_large())?;
    let ten = i64::from(exponent) + i64::from(decimals) - fraction_length
        + i64::try_from(zeros).unwrap_or(i64::MAX / 2);
    // 2^63 has 19 decimal digits, so 20 of them decide; what follows behind the point only rounds up. 20 digits are
    // 67 bits, and with the largest binary suffix (60 bits) they still fit into 128.
    if dropped.len() > 20 {
        return if ten >= 0 {
            Err(too_large())
        } else {
            round_long(dropped, ten, binary_shift).ok_or_else(too_large)
        };
    }
    let mantissa: u128 = dropped.parse().map_err(|_| malformed())?;
    scale(mantissa, ten, binary_shift).ok_or_else(too_large)
}

/// `mantissa * 2^shift * 10^ten`, rounded up, if it fits into an i64.
fn scale(mantissa: u128, ten: i64, shift: u32) -> Option<i64> {
    if ten >= 0 {
        let factor = 10_u128.checked_pow(u32::try_from(ten).ok()?)?;
        let value = mantissa.checked_mul(factor)?.checked_mul(1_u128 << shift)?;
        return i64::try_from(value).ok();
    }
    match u32::try_from(-ten).ok().and_then(|power| 10_u128.checked_pow(power)) {
        Some(divisor) => i64::try_from(mantissa.checked_mul(1_u128 << shift)?.div_ceil(divisor)).ok(),
        // Less than one unit in 10^38, and more than nothing.
        None => Some(1),
    }
}

/// More than 20 significant digits: the first 20 decide, the rest rounds up.
fn round_long(digits: &str, ten: i64, shift: u32) -> Option<i64> {
    let mantissa: u128 = digits[..20].parse().ok()?;
    scale(mantissa + 1, ten + i64::try_from(digits.len() - 20).ok()?, shift)
}

/// (power of two, power of ten) that a suffix stands for.
fn suffix_scale(suffix: &str) -> Option<(u32, i32)> {
    Some(match suffix {
        "" => (0, 0),
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        "Ki" => (10, 0),
        "Mi" => (20, 0),
        "Gi" => (30, 0),
        "Ti" => (40, 0),
        "Pi" => (50, 0),
        "Ei" => (60, 0),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let exponent: i32 = exponent.parse().ok()?;
            (0, exponent.clamp(-1000, 1000))
        }
    })
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_kubernetes_writes() {
        for (text, milli) in [
            ("0", 0),
            ("1", 1000),
            ("500m", 500),
            ("1.5", 1500),
            (".5", 500),
            ("2.", 2000),
            ("1k", 1_000_000),
            ("1Ki", 1_024_000),
            ("1e3", 1_000_000),
            ("1E-3", 1),
            ("0.0001", 1),
            ("100n", 1),
            ("+1", 1000),
            ("0.5Ki", 512_000),
        ] {
            assert_eq!(parse_milli(text), Ok(milli), "{text}");
        }
        assert_eq!(parse_units("1.5Gi"), Ok(1_610_612_736));
        assert_eq!(parse_units("128974848"), Ok(128_974_848));
        assert_eq!(parse_units("1E"), Ok(1_000_000_000_000_000_000));
        assert_eq!(parse_units("0.123456789123456789Ei"), Ok(142_335_987_070_146_022));
        assert_eq!(parse_units(&format!("1.{}1", "0".repeat(60))), Ok(2));
    }

    #[test]
    fn refuses_what_is_no_quantity() {
        for text in ["", "m", "1 Gi", "1gi", "1.2.3", "abc", "1e", "1e1.5", "NaN", "0x10", "١"] {
            assert!(matches!(parse_milli(text), Err(QuantityError::Malformed(_))), "{text}");
        }
        for text in ["-1", "-0.5Gi"] {
            assert!(matches!(parse_milli(text), Err(QuantityError::Negative(_))), "{text}");
        }
        for text in ["10E", "1e30", "9e999999999", "99999999999999999999999999999999999999"] {
            assert!(
                matches!(parse_units(text), Err(QuantityError::TooLarge(_) | QuantityError::Malformed(_))),
                "{text}"
            );
        }
    }

    #[test]
    fn writes_back() {
        assert_eq!(format_milli(2000), "2");
        assert_eq!(format_milli(500), "500m");
        assert_eq!(format_bytes(1 << 30), "1Gi");
        assert_eq!(format_bytes(1536 << 20), "1536Mi");
        assert_eq!(format_bytes(1000), "1000");
        assert_eq!(format_bytes(0), "0");
    }

    /// What Kubernetes' suffixes stand for, as a fraction.
    const SUFFIXES: [(&str, u128, u128); 14] = [
        ("", 1, 1),
        ("n", 1, 1_000_000_000),
        ("u", 1, 1_000_000),
        ("m", 1, 1_000),
        ("k", 1_000, 1),
        ("M", 1_000_000, 1),
        ("G", 1_000_000_000, 1),
        ("T", 1_000_000_000_000, 1),
        ("Ki", 1 << 10, 1),
        ("Mi", 1 << 20, 1),
        ("Gi", 1 << 30, 1),
        ("Ti", 1 << 40, 1),
        ("e3", 1_000, 1),
        ("E-3", 1, 1_000),
    ];

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(5000) })]

        #[test]
        fn any_text_has_an_answer(text in ".*") {
            let _answer = (parse_milli(&text), parse_units(&text));
        }

        #[test]
        fn it_is_the_number_times_the_suffix_rounded_up(
            whole in 0..1_000_000_000_u128, fraction in 0..1_000_000_000_u128, suffix in 0..SUFFIXES.len(),
        ) {
            let (name, times, by) = SUFFIXES[suffix];
            let text = format!("{whole}.{fraction:09}{name}");
            let exactly = |scale: u128| {
                let billionths = whole * 1_000_000_000 + fraction;
                i64::try_from((billionths * times * scale).div_ceil(1_000_000_000 * by)).ok()
            };
            prop_assert_eq!(parse_units(&text).ok(), exactly(1), "{}", text);
            prop_assert_eq!(parse_milli(&text).ok(), exactly(1000), "{}", text);
        }

        /// As the schema's pattern takes it, however long.
        #[test]
        fn what_the_schema_takes_is_a_quantity(
            text in r"\+?([0-9]{1,30}(\.[0-9]{0,30})?|\.[0-9]{1,30})([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,9})?",
        ) {
            for parsed in [parse_milli(&text), parse_units(&text)] {
                prop_assert!(matches!(parsed, Ok(0..) | Err(QuantityError::TooLarge(_))), "{}: {:?}", text, parsed);
            }
            if let (Ok(milli), Ok(units)) = (parse_milli(&text), parse_units(&text)) {
                let rounded_up = milli / 1000 + i64::from(milli % 1000 > 0);
                prop_assert_eq!(units, rounded_up, "{}", text);
            }
        }

        #[test]
        fn what_is_written_is_read_as_the_same(amount in 0..=i64::MAX, zeros in 0..62_u32) {
            let amount = amount >> zeros << zeros;
            prop_assert_eq!(parse_milli(&format_milli(amount)), Ok(amount));
            prop_assert_eq!(parse_units(&format_bytes(amount)), Ok(amount));
        }
    }
}
