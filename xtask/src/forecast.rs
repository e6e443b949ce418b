//! What a long task will do, and how long that takes: nobody shall wonder for a quarter of an hour whether anything happens.
//! Minutes are those of a machine with two cores that does nothing else; one that is busy is told how much longer it takes.

use std::{fs, ops::RangeInclusive, thread::available_parallelism};

use anyhow::Result;

use crate::{
    cluster,
    images::{self, Image},
    packages,
};

/// At least and at most so many.
type Minutes = RangeInclusive<u32>;

/// What a long task will do.
#[derive(Debug, Default)]
pub(crate) struct Forecast(Vec<Part>);

#[derive(Debug)]
struct Part {
    what: String,
    /// None if nobody can say.
    minutes: Option<Minutes>,
    /// When it takes so long: once, for example.
    when: &'static str,
}

impl Forecast {
    /// What a cluster and these images need, and this machine does not have yet. `wanted` are Debian packages.
    pub(crate) fn of_missing(options: &cluster::Options, images: &[Image], wanted: &[&str]) -> Result<Self> {
        let mut forecast = Self::default();
        let missing = packages::missing(&[wanted, &images::packages()].concat())?;
        if !missing.is_empty() {
            let what = format!("the Debian packages {} are installed", missing.join(", "));
            forecast.add(what, 1..=2, ", once");
        }
        let programs = cluster::missing(options)?;
        if !programs.is_empty() {
            forecast.add(format!("{} are built from their sources", programs.join(", ")), 5..=15, ", once");
        }
        let images = images::missing_layers(images)?;
        if !images.is_empty() {
            let names = images.join(", ");
            let what = format!("the Debian packages of the images {names} are fetched and unpacked");
            forecast.add(what, 1..=2, ", once");
        }
        Ok(forecast)
    }

    /// Adds a part that follows. `when` stands behind its minutes.
    pub(crate) fn add(&mut self, what: impl Into<String>, minutes: Minutes, when: &'static str) {
        self.0.push(Part { what: what.into(), minutes: Some(minutes), when });
    }

    /// Adds a part that takes as long as it takes.
    pub(crate) fn add_open(&mut self, what: impl Into<String>) {
        self.0.push(Part { what: what.into(), minutes: None, when: "" });
    }

    /// Prints it, and then installs what is missing. Where nothing may be installed, what is missing is an error of one line,
    /// and nothing comes before it.
    pub(crate) fn print_before(&self, installs: bool, ensure: impl FnOnce() -> Result<()>) -> Result<()> {
        let text = self.text(slowdown());
        if installs {
            eprintln!("{text}");
        }
        ensure()?;
        if !installs {
            eprintln!("{text}");
        }
        Ok(())
    }

    fn text(&self, slowdown: f64) -> String {
        let mut text = "What happens now, with times for two cores that do nothing else:".to_owned();
        for (number, Part { what, minutes, when }) in self.0.iter().enumerate() {
            let minutes = minutes.as_ref().map(|minutes| format!(": {}{when}", said(minutes)));
            text.push_str(&format!("\n  {}. {what}{}", number + 1, minutes.unwrap_or_default()));
        }
        let known: Vec<&Minutes> = self.0.iter().filter_map(|part| part.minutes.as_ref()).collect();
        if known.len() == self.0.len() {
            let sum = |of: fn(&Minutes) -> u32| known.iter().map(|minutes| of(minutes)).sum::<u32>();
            let all = said(&(sum(|minutes| *minutes.start())..=sum(|minutes| *minutes.end())));
            text.push_str(&format!("\nTogether {all}, and less where an earlier run has built something."));
        }
        if slowdown >= NOTABLE {
            text.push_str(&format!("\nThis machine is busy: expect about {slowdown:.1} times as long."));
        }
        text
    }
}

/// What is less is lost in the ranges of the minutes.
const NOTABLE: f64 = 1.3;

/// How many times as long everything takes beside what the machine does already. A task that could use every core shares them
/// with what waited for one or used one during the last minute.
fn slowdown() -> f64 {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or_default();
    1.0 + load / available_parallelism().map_or(1.0, |cores| cores.get() as f64)
}

/// `3 minutes`, or `5 to 15 minutes`.
fn said(minutes: &Minutes) -> String {
    match (minutes.start(), minutes.end()) {
        (1, 1) => "1 minute".to_owned(),
        (least, most) if least == most => format!("{most} minutes"),
        (least, most) => format!("{least} to {most} minutes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_numbered_and_added_up() {
        let mut forecast = Forecast::default();
        forecast.add("one", 1..=1, ", once");
        forecast.add("two", 5..=15, " the first time");
        let expected = "What happens now, with times for two cores that do nothing else:\n  1. one: 1 minute, once\n  \
                        2. two: 5 to 15 minutes the first time\n\
                        Together 6 to 16 minutes, and less where an earlier run has built something.";
        assert_eq!(forecast.text(1.2), expected);
        let busy = format!("{expected}\nThis machine is busy: expect about 2.5 times as long.");
        assert_eq!(forecast.text(2.5), busy);
        assert!(slowdown() >= 1.0);
    }

    #[test]
    fn there_is_no_sum_of_what_nobody_knows() {
        let mut forecast = Forecast::default();
        forecast.add("one", 2..=2, "");
        forecast.add_open("two");
        let expected =
            "What happens now, with times for two cores that do nothing else:\n  1. one: 2 minutes\n  2. two";
        assert_eq!(forecast.text(1.0), expected);
    }

    #[test]
    fn what_is_missing_is_named_before_what_follows() {
        // Nothing of Debian is in the supervisor's image.
        assert!(images::missing_layers(&[Image::Supervisor]).unwrap().is_empty());
    }
}
