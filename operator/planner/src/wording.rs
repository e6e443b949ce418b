//! When a message that tells numbers of the moment has grown old.

/// Share by which a number must change before it is worth a write.
const MUCH: f64 = 0.25;

/// True if `new` says something else than `old`, or tells a number that differs by more than a quarter.
#[must_use]
pub fn has_grown_old(old: &str, new: &str) -> bool {
    let (mut old, mut new) = (pieces(old), pieces(new));
    loop {
        match (old.next(), new.next()) {
            (None, None) => return false,
            (Some(old), Some(new)) if old == new => {}
            (Some(old), Some(new)) => match (old.parse::<f64>(), new.parse::<f64>()) {
                (Ok(old), Ok(new)) if (old - new).abs() <= MUCH * old.max(new) => {}
                _ => return true,
            },
            _ => return true,
        }
    }
}

/// The text in turns of numbers and what is between them.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let numeric = |c: char| c.is_ascii_digit() || c == '.';
        let first = rest.chars().next()?;
        let end = rest.find(|c| numeric(c) != numeric(first)).unwrap_or(rest.len());
        let (piece, left) = rest.split_at(end);
        rest = left;
        // A full stop belongs to the sentence.
        Some(if piece == "." { piece } else { piece.trim_end_matches('.') })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_words_and_numbers_that_changed_much_are_news() {
        let old = "needs 3 cpu, but only 2 cpu are left below the threshold of 70%.";
        assert!(!has_grown_old(old, old));
        assert!(!has_grown_old(old, "needs 3 cpu, but only 1.5 cpu are left below the threshold of 70%."));
        assert!(has_grown_old(old, "needs 3 cpu, but only 1.4 cpu are left below the threshold of 70%."));
        assert!(has_grown_old(old, "needs 3 cpu, but only 2 GiB are left below the threshold of 70%."));
        assert!(has_grown_old(old, "no node has room for 3 cpu now"));
        assert!(has_grown_old(old, ""));
        assert!(has_grown_old("0 left", "1 left"));
    }
}
