//! The lines in which the emulated machine reports, one fact a line, fields apart by tabs.

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A table begins.
    Table {
        /// Its name on the command line.
        name: String,
        /// What it shows.
        title: String,
        /// Its columns.
        head: Vec<String>,
    },
    /// A row of the table that began last.
    Row(Vec<String>),
    /// What must be so for the measurements to count, and whether it is.
    Check {
        /// It is so.
        passed: bool,
        /// What was expected, and what was found.
        text: String,
    },
    /// Something for people to read beside the tables.
    Note(String),
    /// All that was asked for has been measured.
    Done,
}

impl Line {
    /// The line, with its end.
    #[must_use]
    pub fn text(&self) -> String {
        let fields: Vec<&str> = match self {
            Self::Table { name, title, head } => ["table", name.as_str(), title.as_str()]
                .into_iter()
                .chain(head.iter().map(String::as_str))
                .collect(),
            Self::Row(cells) => ["row"].into_iter().chain(cells.iter().map(String::as_str)).collect(),
            Self::Check { passed, text } => {
                vec!["check", if *passed { "passed" } else { "failed" }, text.as_str()]
            }
            Self::Note(text) => vec!["note", text.as_str()],
            Self::Done => vec!["done"],
        };
        let fields: Vec<String> =
            fields.into_iter().map(|field| field.replace(['\t', '\n', '\r'], " ")).collect();
        fields.join("\t") + "\n"
    }

    /// Reads a line; none if it is of somebody else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.trim_end_matches(['\n', '\r']).split('\t');
        let kind = fields.next()?;
        let mut rest: Vec<String> = fields.map(str::to_owned).collect();
        match (kind, rest.len()) {
            ("table", 3..) => {
                let head = rest.split_off(2);
                let title = rest.pop()?;
                Some(Self::Table { name: rest.pop()?, title, head })
            }
            ("row", 1..) => Some(Self::Row(rest)),
            ("check", 2) => {
                let text = rest.pop()?;
                Some(Self::Check { passed: rest.pop()? == "passed", text })
            }
            ("note", 1) => rest.pop().map(Self::Note),
            ("done", 0) => Some(Self::Done),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
        for line in [
            Line::Table { name: "deaths".into(), title: "who dies".into(), head: words("a b c") },
            Line::Row(words("1 2 3")),
            Line::Row(vec![String::new()]),
            Line::Check { passed: true, text: "0.98 is at least 0.9".into() },
            Line::Check { passed: false, text: "x".into() },
            Line::Note("one".into()),
            Line::Done,
        ] {
            let text = line.text();
            assert_eq!(Line::parse(&text).as_ref(), Some(&line), "{text:?}");
            // The terminal of the machine ends lines in its own way.
            assert_eq!(Line::parse(&text.replace('\n', "\r\n")), Some(line));
        }
    }

    #[test]
    fn a_line_stays_one_and_others_are_nobodys() {
        assert_eq!(Line::Note("one\ntwo\tthree".into()).text(), "note\tone two three\n");
        for other in
            ["", "row", "check\tpassed", "[    0.000000] Linux version 6.1", "done\tx", "table\ta\tb"]
        {
            assert_eq!(Line::parse(other), None, "{other:?}");
        }
    }
}
