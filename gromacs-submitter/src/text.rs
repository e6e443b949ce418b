//! What is done to text on its way in or out.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nul_in_a_log_keeps_no_row_from_being_written() {
        assert_eq!(without_nul("a\0b\n".to_owned()), "ab\n");
    }
}
