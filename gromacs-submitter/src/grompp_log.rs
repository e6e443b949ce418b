//! What grompp complains of. It counts errors and warnings in its last message, and says above what they are.

/// What stands in front of the number of a complaint.
const ERROR: &str = "ERROR ";
const WARNING: &str = "WARNING ";

/// So many complaints are quoted; the log has them all.
const QUOTED: usize = 3;

/// What editors of Windows put in front of a text; grompp takes it for a part of the first word.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The errors or warnings that grompp counts in `message`, the last one of its output `text`; none if it counts none there.
#[must_use]
pub fn complaints(text: &str, message: &str) -> Option<String> {
    let kind = if message.starts_with("Too many warnings (") {
        WARNING
    } else if message.starts_with("There w") && message.contains("in input file") {
        ERROR
    } else {
        return None;
    };
    let lines: Vec<&str> = text.split(['\n', '\r']).map(str::trim).collect();
    let mut found: Vec<String> = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let is_one = line
            .strip_prefix(kind)
            .is_some_and(|rest| rest.starts_with(|sign: char| sign.is_ascii_digit()) && rest.ends_with(':'));
        if !is_one {
            continue;
        }
        let below = lines[number + 1..].iter().take_while(|line| !line.is_empty());
        let complaint = std::iter::once(line).chain(below).copied().collect::<Vec<_>>().join(" ");
        // The beginning and the end of a log may overlap.
        if !found.contains(&complaint) {
            found.push(complaint);
        }
    }
    if found.is_empty() {
        return None;
    }
    let more = match found.len().saturating_sub(QUOTED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    found.truncate(QUOTED);
    let mut said = format!("{}{more}", found.join("; "));
    if said.contains(BYTE_ORDER_MARK) {
        said = said.replace(BYTE_ORDER_MARK, "<byte order mark>");
        said.push_str(
            "; the file begins with a byte order mark, which an editor put there: save it without one",
        );
    }
    Some(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mdrun_log::error_message;

    /// Ends of the standard error of `gmx grompp` 2022.5 (Debian), each provoked.
    const SEEN: &str = include_str!("../tests/fixtures/grompp-complaints.txt");

    fn of(text: &str) -> Option<String> {
        complaints(text, &error_message(text)?)
    }

    fn seen(name: &str) -> String {
        let behind = SEEN.split_once(&format!("=== {name}\n")).expect("should be in the file").1;
        behind.split("=== ").next().unwrap_or_default().to_owned()
    }

    #[test]
    fn the_warning_is_said_and_not_how_many_there_are() {
        assert_eq!(
            of(&seen("an option with a typing error")).as_deref(),
            Some("WARNING 1 [file nvt-typo.mdp, line 20]: Unknown left-hand 'rcolomb' in parameter file")
        );
        let marked = of(&seen("a byte order mark")).expect("it should be found");
        assert!(marked.contains("Unknown left-hand '<byte order mark>integrator'"), "{marked}");
        assert!(marked.ends_with("save it without one"), "{marked}");
    }

    #[test]
    fn errors_are_said_wherever_they_stand_and_warnings_are_not() {
        let errors = of(&seen("two errors")).expect("they should be found");
        assert!(errors.starts_with("ERROR 1 [file two-errors.mdp"), "{errors}");
        assert!(errors.contains("; ERROR 2 [file two-errors.mdp") && !errors.contains("WARNING"), "{errors}");
        let far = seen("two errors").replace("Fatal error:", &format!("{}Fatal error:", "x\n".repeat(9000)));
        assert_eq!(of(&far), Some(errors.clone()));
        assert_eq!(of(&format!("{}{}", seen("two errors"), seen("two errors"))), Some(errors), "said once");
    }

    #[test]
    fn many_are_counted_and_what_counts_nothing_is_left_as_it_is() {
        let one = |number: usize| format!("WARNING {number} [file a.mdp]:\n  wrong {number}\n  and more\n\n");
        let all: String = (1..=5).map(one).collect();
        let said = complaints(&all, "Too many warnings (5).").expect("they should be found");
        assert!(said.starts_with("WARNING 1 [file a.mdp]: wrong 1 and more; WARNING 2"), "{said}");
        assert!(said.ends_with("; and 2 more"), "{said}");
        assert_eq!(complaints(&all, "No such moleculetype SOL"), None);
        assert_eq!(complaints("WARNING: something else\n", "Too many warnings (1)."), None);
    }
}
