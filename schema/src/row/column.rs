//! How a column is described.

use super::value::Kind;

/// The migration that makes the table.
pub(crate) const FIRST: i64 = 18;

/// Before other options of the same heading.
pub(super) const EARLY: i8 = -1;

/// Behind other options of the same heading.
pub(super) const LATE: i8 = 1;

/// A column of `gromacs_to_tune`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// What it means, with its unit.
    pub comment: &'static str,
    /// The migration that adds it.
    pub since: i64,
    /// What it holds if nobody says it, as SQL; null without any.
    pub default: Option<&'static str>,
    /// An INSERT must give it.
    pub is_required: bool,
    /// It asks for something to be done with a row that is there.
    pub is_request: bool,
    /// A trigger fills it from the tenant where it is null.
    pub is_of_tenant: bool,
    /// Which values it may hold.
    pub check: Option<Check>,
    /// What was said of it before, if a later migration changes that.
    pub before: Option<Before>,
    /// When the owner of the row may change it.
    pub update: Update,
    /// The option of the command line.
    pub flag: Flag,
}

/// What earlier migrations say of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Before {
    /// The migration that changes it.
    pub until: i64,
    /// What the column meant.
    pub comment: &'static str,
    /// The condition of its check.
    pub condition: &'static str,
}

/// When the owner of a row may change a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// Never.
    Never,
    /// While the row is queued or has ended.
    AtRest,
    /// In every state: nothing is stopped for it.
    Always,
}

/// Which values a column may hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Check {
    /// From the first to the second.
    Range {
        /// The least.
        min: f64,
        /// The most.
        max: f64,
        /// What stands behind the numbers in the message.
        unit: &'static str,
        /// The command line refuses others, too.
        is_at_once: bool,
    },
    /// None below 0.
    NotNegative,
    /// What SQL says.
    Sql {
        /// The condition.
        condition: &'static str,
        /// The same for a person.
        message: &'static str,
    },
}

/// An option of the command line that gives a column its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flag {
    /// Its name, without the dashes; empty if there is none.
    pub long: &'static str,
    /// Its name of one letter.
    pub short: Option<char>,
    /// Another name.
    pub alias: Option<&'static str>,
    /// The variable that says it, too.
    pub env: Option<&'static str>,
    /// What stands for its value in the help; a switch if empty.
    pub value: &'static str,
    /// The heading above it in the help.
    pub heading: Option<&'static str>,
    /// Its value may begin with a hyphen.
    pub takes_hyphens: bool,
    /// Its value is a stretch of time, the column's one in seconds.
    pub is_stretch: bool,
    /// Its value is a quantity of Kubernetes, the column's one in thousandths of a core or in bytes.
    pub is_quantity: bool,
    /// Options of `add` that exclude it.
    pub conflicts: &'static [&'static str],
    /// Help of `add`; empty if it is none of its options.
    pub add: &'static str,
    /// Where it stands among those.
    pub add_place: i8,
    /// Help of `edit`; empty if it is none of its options.
    pub edit: &'static str,
    /// Where it stands among those.
    pub edit_place: i8,
    /// The option of `edit` that empties the column, and its help.
    pub clear: Option<(&'static str, &'static str)>,
}

/// A column that means `comment`.
pub(super) const fn column(comment: &'static str) -> Column {
    Column {
        name: "",
        kind: Kind::Text,
        comment,
        since: FIRST,
        default: None,
        is_required: false,
        is_request: false,
        is_of_tenant: false,
        check: None,
        before: None,
        update: Update::AtRest,
        flag: Flag {
            long: "",
            short: None,
            alias: None,
            env: None,
            value: "",
            heading: None,
            takes_hyphens: false,
            is_stretch: false,
            is_quantity: false,
            conflicts: &[],
            add: "",
            add_place: 0,
            edit: "",
            edit_place: 0,
            clear: None,
        },
    }
}

/// Makes methods that set fields.
macro_rules! setters {
    ($($method:ident($($argument:ident: $type:ty),*) = $($(. $field:ident)+ = $value:expr),+;)*) => {
        $(pub(super) const fn $method(mut self $(, $argument: $type)*) -> Self {
            $(self $(.$field)+ = $value;)+
            self
        })*
    };
}

impl Column {
    setters! {
        of(name: &'static str, kind: Kind) = .name = name, .kind = kind;
        required() = .is_required = true, .update = Update::Never;
        request() = .is_request = true, .update = Update::Always;
        of_tenant() = .is_of_tenant = true;
        default(sql: &'static str) = .default = Some(sql);
        not_negative() = .check = Some(Check::NotNegative);
        valid(condition: &'static str, message: &'static str) = .check = Some(Check::Sql { condition, message });
        range(min: f64, max: f64, unit: &'static str) = .check = Some(Check::Range { min, max, unit, is_at_once: false });
        range_at_once(min: f64, max: f64, unit: &'static str) = .check = Some(Check::Range { min, max, unit, is_at_once: true });
        since(migration: i64) = .since = migration;
        before(until: i64, comment: &'static str, condition: &'static str) = .before = Some(Before { until, comment, condition });
        fixed() = .update = Update::Never;
        always() = .update = Update::Always;
        flag(long: &'static str, value: &'static str) = .flag.long = long, .flag.value = value;
        short(letter: char) = .flag.short = Some(letter);
        alias(name: &'static str) = .flag.alias = Some(name);
        env(name: &'static str) = .flag.env = Some(name);
        heading(heading: &'static str) = .flag.heading = Some(heading);
        hyphens() = .flag.takes_hyphens = true;
        stretch() = .flag.is_stretch = true;
        quantity() = .flag.is_quantity = true;
        conflicts(options: &'static [&'static str]) = .flag.conflicts = options;
        add(help: &'static str) = .flag.add = help;
        edit(help: &'static str) = .flag.edit = help;
        both(help: &'static str) = .flag.add = help, .flag.edit = help;
        clear(long: &'static str, help: &'static str) = .flag.clear = Some((long, help));
        place_in_add(place: i8) = .flag.add_place = place;
        place_in_edit(place: i8) = .flag.edit_place = place;
    }

    /// The column as a migration says it.
    #[must_use]
    pub(super) fn at(&self, migration: i64) -> Self {
        match self.before.filter(|before| migration < before.until) {
            Some(Before { comment, condition, .. }) => {
                Self { comment, check: Some(Check::Sql { condition, message: "" }), ..*self }
            }
            None => *self,
        }
    }

    /// The condition of its check.
    #[must_use]
    pub fn condition(&self) -> Option<String> {
        let name = self.name;
        Some(match self.check? {
            Check::Range { min, max, .. } => format!("{name} between {min} and {max}"),
            Check::NotNegative => format!("{name} >= 0"),
            Check::Sql { condition, .. } => condition.to_owned(),
        })
    }

    /// What a person must change so that its check holds.
    #[must_use]
    pub fn message(&self) -> Option<String> {
        let name = self.name;
        Some(match self.check? {
            Check::Range { min, max, unit, .. } => format!("{name} must be between {min} and {max}{unit}"),
            Check::NotNegative => format!("{name} must not be negative"),
            Check::Sql { message, .. } => message.to_owned(),
        })
    }
}
