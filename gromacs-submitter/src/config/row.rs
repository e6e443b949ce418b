//! Options of `add` and `edit` that give a column its value: the table of columns says which.

use clap::builder::{
    BoolValueParser, PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser, ValueParser,
};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use scavenger_schema::quantity::{parse_milli, parse_units};
use scavenger_schema::row::{self, Check, Column, Edit, Kind, Labels, NewRow, Value};

use super::written::{deadline, label};
use crate::gmx_options::OptionError;
use crate::grompp_options;
use crate::mdrun_options::MdrunOptions;
use crate::text::duration;

/// What `add` says of all its rows.
#[derive(Debug, Clone, Default)]
pub struct AddColumns(pub NewRow);

/// What `edit` changes.
#[derive(Debug, Clone, Default)]
pub struct EditColumns(pub Edit);

/// Lets `clap` fill a type from options of columns.
macro_rules! options {
    ($type:ident, $columns:expr, $arguments:expr) => {
        impl Args for $type {
            fn augment_args(command: Command) -> Command {
                $columns.into_iter().fold(command, |command, column| command.args($arguments(column)))
            }

            fn augment_args_for_update(command: Command) -> Command {
                Self::augment_args(command)
            }
        }

        impl FromArgMatches for $type {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
                let mut given = Self::default();
                given.update_from_arg_matches(matches)?;
                Ok(given)
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                for column in $columns {
                    if let Some(value) = value(column, matches) {
                        self.0.set(column.name, value);
                    }
                }
                Ok(())
            }
        }
    };
}
options!(AddColumns, row::added(), of_add);
options!(EditColumns, row::edited(), of_edit);

/// The options of `edit`, by their names.
pub(super) fn names_of_edit() -> Vec<&'static str> {
    let clear = |column: &Column| column.flag.clear.map(|(long, _)| long);
    row::edited().iter().flat_map(|column| [Some(column.flag.long), clear(column)]).flatten().collect()
}

/// Reads the option of a column that is taken back, also by the name of the column; the column's name.
pub(super) fn unset() -> impl TypedValueParser<Value = &'static str> {
    let names = row::can_be_unset().map(|column| {
        PossibleValue::new(column.flag.long).aliases((column.name != column.flag.long).then_some(column.name))
    });
    PossibleValuesParser::new(names).map(|name| {
        let found = row::can_be_unset().find(|column| column.flag.long == name || column.name == name);
        found.map_or("", |column| column.name)
    })
}

fn of_add(column: &Column) -> Vec<Arg> {
    let flag = &column.flag;
    let mut argument = argument(column, flag.add).conflicts_with_all(flag.conflicts);
    if let Some(letter) = flag.short {
        argument = argument.short(letter);
    }
    if let Some(alias) = flag.alias {
        argument = argument.visible_alias(alias);
    }
    if let Some(env) = flag.env {
        argument = argument.env(env);
    }
    vec![argument]
}

fn of_edit(column: &Column) -> Vec<Arg> {
    let flag = &column.flag;
    let mut arguments = vec![argument(column, flag.edit)];
    arguments.extend(flag.clear.map(|(long, help)| {
        let switch = Arg::new(long).long(long).help(help).action(ArgAction::SetTrue);
        switch.help_heading(flag.heading).conflicts_with(flag.long)
    }));
    arguments
}

/// The first paragraph of the help is the short one.
fn argument(column: &Column, help: &'static str) -> Arg {
    let flag = &column.flag;
    let argument = Arg::new(flag.long).long(flag.long).help_heading(flag.heading);
    let argument = match help.split_once("\n\n") {
        Some((short, _)) => argument.help(short).long_help(help),
        None => argument.help(help),
    };
    if flag.value.is_empty() {
        return argument.action(ArgAction::SetTrue);
    }
    let argument =
        argument.value_name(flag.value).allow_hyphen_values(flag.takes_hyphens).value_parser(parser(column));
    match column.kind {
        Kind::Labels | Kind::Integers | Kind::Bigints | Kind::Reals => {
            argument.action(ArgAction::Append).value_delimiter(',')
        }
        _ => argument,
    }
}

/// Reads what is said in one place; lists and labels are said in several.
fn parser(column: &Column) -> ValueParser {
    let name = column.name;
    let range = match column.check {
        Some(Check::Range { min, max, is_at_once: true, .. }) => Some((min, max)),
        _ => None,
    };
    match (column.kind, range) {
        (Kind::Text, _) => StringValueParser::new().map(Value::Text).into(),
        (Kind::Integer, _) if column.flag.is_stretch => {
            ValueParser::new(|text: &str| duration(text).map(seconds))
        }
        (Kind::Integer, _) if column.flag.is_quantity => {
            ValueParser::new(|text: &str| parse_milli(text).map(millicores))
        }
        (Kind::Bigint, _) if column.flag.is_quantity => {
            ValueParser::new(|text: &str| parse_units(text).map(Value::Bigint))
        }
        (Kind::Integer, Some((min, max))) => {
            value_parser!(i32).range(min as i64..=max as i64).map(Value::Integer).into()
        }
        (Kind::Integer, None) => value_parser!(i32).map(Value::Integer).into(),
        (Kind::Bigint, _) => value_parser!(i64).map(Value::Bigint).into(),
        (Kind::Real, Some((min, max))) => {
            ValueParser::new(move |text: &str| number(text, min, max).map(Value::Real))
        }
        (Kind::Real, None) => ValueParser::new(|text: &str| text.parse().map(Value::Real)),
        (Kind::Boolean, _) => BoolValueParser::new().map(Value::Boolean).into(),
        (Kind::Texts, _) => ValueParser::new(move |text: &str| texts(name, text).map(Value::Texts)),
        (Kind::Integers, _) => value_parser!(i32).map(|number| Value::Integers(vec![number])).into(),
        (Kind::Bigints, _) => value_parser!(i64).map(|number| Value::Bigints(vec![number])).into(),
        (Kind::Reals, _) => {
            ValueParser::new(|text: &str| text.parse().map(|number| Value::Reals(vec![number])))
        }
        (Kind::Labels, _) => {
            ValueParser::new(|text: &str| label(text).map(|pair| Value::Labels(Labels([pair].into()))))
        }
        (Kind::Time, _) => ValueParser::new(|text: &str| deadline(text).map(Value::Time)),
    }
}

/// What the options say of a column.
fn value(column: &Column, matches: &ArgMatches) -> Option<Value> {
    let flag = &column.flag;
    let is_on = |long| matches.try_get_one::<bool>(long).ok().flatten() == Some(&true);
    if flag.clear.is_some_and(|(long, _)| is_on(long)) {
        return Some(match column.kind {
            Kind::Labels => Value::Labels(Labels::default()),
            Kind::Bigints => Value::Bigints(Vec::new()),
            _ => Value::Null,
        });
    }
    if flag.value.is_empty() {
        return is_on(flag.long).then_some(Value::Boolean(true));
    }
    matches.get_many::<Value>(flag.long)?.cloned().reduce(together)
}

/// What was said twice.
fn together(one: Value, other: Value) -> Value {
    match (one, other) {
        (Value::Labels(mut all), Value::Labels(more)) => {
            all.0.extend(more.0);
            Value::Labels(all)
        }
        (Value::Integers(all), Value::Integers(more)) => Value::Integers([all, more].concat()),
        (Value::Bigints(all), Value::Bigints(more)) => Value::Bigints([all, more].concat()),
        (Value::Reals(all), Value::Reals(more)) => Value::Reals([all, more].concat()),
        (_, last) => last,
    }
}

/// Words of a column, such as `-dlb yes -plumed meta/plumed.dat` or `sim0 sim1 sim2`. Those of a command may be quoted as in a
/// shell.
pub(crate) fn texts(column: &str, text: &str) -> Result<Vec<String>, String> {
    let of_options = |words: Result<_, OptionError>| words.map_err(|error| error.to_string());
    match column {
        "mdrun_options" => of_options(MdrunOptions::words(text)),
        "grompp_options" => of_options(grompp_options::words(text)),
        "command" => words(text),
        _ => Ok(text.split_whitespace().map(ToOwned::to_owned).collect()),
    }
}

/// Words that are quoted as in a shell.
pub(crate) fn words(text: &str) -> Result<Vec<String>, String> {
    shlex::split(text).ok_or_else(|| "it ends inside quotes, or with a backslash".to_owned())
}

/// Too long for the column is too long for its rule, which has the better sentence.
fn seconds(time: std::time::Duration) -> Value {
    Value::Integer(i32::try_from(time.as_secs()).unwrap_or(i32::MAX))
}

/// As [`seconds`].
fn millicores(amount: i64) -> Value {
    Value::Integer(i32::try_from(amount).unwrap_or(i32::MAX))
}

/// Reads a number between two others.
fn number(text: &str, min: f64, max: f64) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "must be a number".to_owned())?;
    if number >= min && number <= max { Ok(number) } else { Err(format!("must be between {min} and {max}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tuner_would_refuse_is_refused_at_once() {
        let read = |column: &str, text: &str| {
            let column = row::column(column).expect("should be a column");
            let command =
                Command::new("add").arg(argument(column, column.flag.add).allow_hyphen_values(true));
            let matches = command.try_get_matches_from(["add", &format!("--{}", column.flag.long), text]);
            matches.ok().and_then(|matches| value(column, &matches))
        };
        assert_eq!(read("min_efficiency", "0.5"), Some(Value::Real(0.5)));
        assert_eq!(read("gpu_price", "0"), Some(Value::Real(0.0)));
        assert_eq!(read("max_configurations", "32"), Some(Value::Integer(32)));
        for text in ["0", "1.1", "NaN", "x", ""] {
            assert_eq!(read("min_efficiency", text), None, "{text:?}");
        }
        for text in ["-1", "inf", "NaN", "1e7"] {
            assert_eq!(read("gpu_price", text), None, "{text:?}");
        }
        for text in ["0", "33", "1.5"] {
            assert_eq!(read("max_configurations", text), None, "{text:?}");
        }
    }
}
