//! What is done to text on its way in or out.

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
}
