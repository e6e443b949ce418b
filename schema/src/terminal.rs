//! Text that others wrote, as it may be printed.

/// Text as it may stand on a terminal. Control characters would move the cursor or worse, and signs that turn the
/// direction of writing would show a name other than the one that is there: both come from files and logs that anybody
/// can write.
#[must_use]
pub fn shown(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' => ' ',
            _ if is_unsafe(character) => '\u{fffd}',
            _ => character,
        })
        .collect()
}

/// True for a character that must not reach a terminal as it is.
#[must_use]
pub fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_moves_no_cursor_and_forges_no_line() {
        assert_eq!(shown("exit 1\n\u{1b}[31mpod\tevil\u{202e}"), "exit 1 \u{fffd}[31mpod evil\u{fffd}");
        assert_eq!(shown("água, 水 (12 s)"), "água, 水 (12 s)");
    }
}
