//! Lengths of time, as a flag takes them.

use std::time::Duration;

/// Reads `90s`, `10m`, `1h30m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let parsed: kube::core::Duration =
        text.parse().map_err(|error| format!("{error}; write for example 90s, 10m or 1h30m"))?;
    let duration = Duration::from(parsed);
    if parsed.is_negative() || duration.is_zero() {
        return Err("must be greater than 0; write for example 90s, 10m or 1h30m".to_owned());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        assert!(duration("10").is_err());
        assert!(duration("-1s").is_err());
        assert!(duration("0s").is_err());
    }
}
