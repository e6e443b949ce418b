//! Why a ScavengerJob waits, with the numbers that its message tells.

use super::Waiting;

/// Why a ScavengerJob waits, as its status is to say it.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The reason and the message.
    pub waiting: Waiting,
    /// The shortage whose numbers the message tells, if it does.
    pub shortage: Option<Shortage>,
}

impl From<Waiting> for Explanation {
    fn from(waiting: Waiting) -> Self {
        Self { waiting, shortage: None }
    }
}

/// Why a demand cannot be placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    /// The resource that lacks, if it is one.
    pub resource: Option<String>,
    /// What is there: of that resource, or else the number of pods for which there is a node.
    pub left: i64,
    /// What it is a part of: of that resource, or else the number of nodes that were looked at.
    pub whole: i64,
    /// The same as a message for people.
    pub message: String,
}

impl Shortage {
    /// True if it is worth telling to somebody who was told the other: about another resource, or with a number that
    /// differs by more than a quarter.
    pub(crate) fn is_news_after(&self, other: &Self) -> bool {
        let differs = |a: i64, b: i64| a.abs_diff(b) > a.max(b).unsigned_abs() / 4;
        self.resource != other.resource || differs(self.left, other.left) || differs(self.whole, other.whole)
    }
}
