//! RuntimeClasses, as far as they have a say in where pods go and what these take.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Demand, Name, Placement, Toleration, resources::Resources};

/// A RuntimeClass: what the API server adds to the pods that name it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeClass {
    /// Name.
    pub name: Name,
    /// What a pod takes of its node beside what its containers request.
    pub overhead: Resources,
    /// Labels that the node must have, too.
    pub node_selector: BTreeMap<Name, Name>,
    /// Taints that are tolerated, too.
    pub tolerations: Vec<Toleration>,
}

impl RuntimeClass {
    /// True if it has a say in where its pods go.
    pub(crate) fn has_scheduling(&self) -> bool {
        !self.node_selector.is_empty() || !self.tolerations.is_empty()
    }

    /// A label for which a pod requires another value than the class does: the API server refuses such a pod.
    pub(crate) fn contradicts(&self, placement: &Placement) -> Option<&Name> {
        let asked = |key: &Name| placement.node_selector.get(key);
        self.node_selector
            .iter()
            .find(|(key, value)| asked(key).is_some_and(|asked| asked != *value))
            .map(|(key, _)| key)
    }

    /// What pods ask for that name this class.
    #[must_use]
    pub fn added_to(&self, demand: &Demand) -> Demand {
        let mut whole = demand.clone();
        whole.per_pod.add(&self.overhead);
        let labels = self.node_selector.iter().map(|(key, value)| (key.clone(), value.clone()));
        whole.placement.node_selector.extend(labels);
        whole.placement.tolerations.extend(self.tolerations.iter().cloned());
        whole
    }
}
