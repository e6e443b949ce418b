//! What a long task will do, and how long that takes: nobody shall wonder for a quarter of an hour whether anything happens.
//! Minutes are those of a machine with two cores.

use anyhow::Result;

use crate::{
    cluster,
    images::{self, Image},
};

/// What a long task will do.
#[derive(Debug, Default)]
pub(crate) struct Forecast(Vec<String>);

impl Forecast {
    /// What a cluster and these images need, and the cache does not have yet.
    pub(crate) fn of_missing(options: &cluster::Options, images: &[Image]) -> Result<Self> {
        let mut forecast = Self::default();
        let programs = cluster::missing(options)?;
        if !programs.is_empty() {
            forecast
                .add(format!("{} are built from their sources: 5 to 15 minutes, once", programs.join(", ")));
        }
        let images = images::missing_layers(images)?;
        if !images.is_empty() {
            forecast.add(format!(
                "the Debian packages of the images {} are fetched and unpacked: 1 to 2 minutes, once",
                images.join(", ")
            ));
        }
        Ok(forecast)
    }

    /// Adds a part that follows.
    pub(crate) fn add(&mut self, part: impl Into<String>) {
        self.0.push(part.into());
    }

    /// Prints it, numbered.
    pub(crate) fn print(&self) {
        eprintln!("{}", self.text());
    }

    fn text(&self) -> String {
        let parts = self.0.iter().enumerate().map(|(number, part)| format!("\n  {}. {part}", number + 1));
        format!("What happens now, with times for two cores:{}", parts.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_numbered() {
        let mut forecast = Forecast::default();
        forecast.add("one: 1 minute");
        forecast.add("two".to_owned());
        let expected = "What happens now, with times for two cores:\n  1. one: 1 minute\n  2. two";
        assert_eq!(forecast.text(), expected);
    }

    #[test]
    fn what_is_missing_is_named_before_what_follows() {
        // Nothing of Debian is in the supervisor's image.
        assert!(images::missing_layers(&[Image::Supervisor]).unwrap().is_empty());
    }
}
