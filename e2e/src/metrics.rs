//! The operator's metrics.

use std::fmt::{self, Display};

use anyhow::Result;

use crate::{postgres::NAMESPACE, world::World};

/// The text that a replica serves.
#[derive(Debug, Clone)]
pub struct Metrics(String);

impl Metrics {
    /// Reads those of the leader.
    ///
    /// # Errors
    /// If nobody leads, or it does not answer.
    pub async fn read(world: &World) -> Result<Self> {
        let operator = world.leader().await?;
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{operator}:8080/proxy/metrics");
        Ok(Self(world.client.request_text(http::Request::get(path).body(Vec::new())?).await?))
    }

    /// The value of a metric, as the text has its name and labels; 0 if it is not there, as for a counter that nothing has
    /// counted yet.
    #[must_use]
    pub fn value(&self, name: &str) -> f64 {
        let value = self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.trim().parse().ok()).unwrap_or(0.0)
    }

    /// The largest value of a metric with this label, whatever its others are; 0 if it is not there.
    #[must_use]
    pub fn largest(&self, name: &str, label: &str) -> f64 {
        let with_label = |line: &&str| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{') && rest.contains(label))
        };
        let values =
            self.0.lines().filter(with_label).filter_map(|line| line.rsplit_once(' ')?.1.parse().ok());
        values.fold(0.0, f64::max)
    }

    /// The sum of a metric over all its labels.
    #[must_use]
    pub fn sum(&self, name: &str) -> f64 {
        let with_labels = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'));
        let values = self
            .0
            .lines()
            .filter(with_labels)
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
        values.sum()
    }

    /// How much a counter rose since `before`. That of another process, which leads by now, began at 0.
    #[must_use]
    pub fn increase(&self, before: &Self, name: &str) -> f64 {
        let began = |metrics: &Self| metrics.value("process_start_time_seconds").to_bits();
        let now = self.value(name);
        if began(self) == began(before) { now - before.value(name) } else { now }
    }
}

impl From<String> for Metrics {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
