//! What is done to text on its way in or out.

use std::collections::BTreeMap;
use std::time::Duration;

/// The innermost cause says what is wrong (connection refused, timed out); the outer ones only say where.
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Text of Postgres can hold any character but this one, and a program may print it.
pub(crate) fn without_nul(mut text: String) -> String {
    text.retain(|character| character != '\0');
    text
}

/// Kubernetes replaces `$(NAME)` in commands and arguments by variables of the container; `$$` stands for `$`.
pub(crate) fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

/// Words as a person would type them to a shell.
pub(crate) fn command_line(words: &[String]) -> String {
    // Only a NUL cannot be written, which no text of Postgres and no argument holds.
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
}

/// Reads `90s`, `10m`, `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let parsed: kube::core::Duration =
        text.parse().map_err(|error| format!("{error}; write for example 90s, 10m or 1h30m"))?;
    let duration = Duration::from(parsed);
    if parsed.is_negative() || duration.is_zero() {
        return Err("must be greater than 0; write for example 90s, 10m or 1h30m".to_owned());
    }
    Ok(duration)
}

/// A speed with three digits that count.
pub(crate) fn speed(ns_per_day: f64) -> String {
    let digits = if ns_per_day >= 100.0 {
        0
    } else if ns_per_day >= 10.0 {
        1
    } else {
        2
    };
    format!("{ns_per_day:.digits$}")
}

/// `500000` as `500,000`.
pub(crate) fn count(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    format!("{}{}", if number < 0 { "-" } else { "" }, groups.join(","))
}

/// `1 core`, `0.5 cores`.
pub(crate) fn cores(millicores: f64) -> String {
    format!("{} {}", millicores / 1000.0, if millicores == 1000.0 { "core" } else { "cores" })
}

/// `1 row`, `2 rows`.
pub(crate) fn number_of(number: usize, one: &str) -> String {
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    format!("{} {one}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Labels as people write them: `T=310`.
pub(crate) fn pairs(labels: &BTreeMap<String, String>) -> Vec<String> {
    labels.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nul_in_a_log_keeps_no_row_from_being_written() {
        assert_eq!(without_nul("a\0b\n".to_owned()), "ab\n");
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        assert!(duration("10").is_err());
        assert!(duration("-1s").is_err());
        assert!(duration("0s").is_err());
    }

    #[test]
    fn amounts_have_units() {
        assert_eq!([0.123, 9.876, 12.34, 123.4].map(speed), ["0.12", "9.88", "12.3", "123"]);
        assert_eq!([0, 999, 1000, -1_234_567].map(count), ["0", "999", "1,000", "-1,234,567"]);
        assert_eq!([500.0, 1000.0].map(cores), ["0.5 cores", "1 core"]);
        assert_eq!(number_of(1, "row") + &number_of(2, "row"), "1 row2 rows");
    }
}
