//! What the pool adds to where the pods of an attempt may go.
//!
//! What a ScavengerJob asks for says where its pods may go, and the pool says which nodes ScavengerJobs may use.
//! kube-scheduler knows only what the Job says, so the Job says both.

use serde::{Deserialize, Serialize};

use super::{Expression, Name, NodeTerm, Operator, Placement, Settings, Toleration, placement::may_tolerate};

/// What the pool adds to where the pods of an attempt may go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Required node affinity, in addition to the ScavengerJob's own; every node matches if it is empty.
    pub nodes: NodeTerm,
    /// The nodes to which a volume of the pods is attached that can be mounted nowhere else, or the one that the planner
    /// chose; every node if empty.
    #[serde(default)]
    pub attached: Vec<Name>,
    /// Keys of the taints that the pods may tolerate, as far as their ScavengerJob does.
    pub tolerated_taints: Vec<Name>,
}

impl Confinement {
    /// To the nodes of the pool without those that are closed to new pods.
    pub fn to_pool<'a>(settings: &Settings, closed: impl IntoIterator<Item = &'a Name>) -> Self {
        let expression = |key: &Name, operator, value: &Name| Expression {
            key: key.clone(),
            operator,
            values: vec![value.clone()],
        };
        let selector = settings.node_selector.iter();
        // The API server takes exactly one value in a requirement about a field (ValidateNodeFieldSelectorRequirement
        // in pkg/apis/core/validation of Kubernetes, with In and NotIn alike), so each name has a requirement of its own.
        let name = Name::from("metadata.name");
        let nodes = NodeTerm {
            labels: selector.map(|(key, value)| expression(key, Operator::In, value)).collect(),
            names: closed.into_iter().map(|node| expression(&name, Operator::NotIn, node)).collect(),
        };
        Self { nodes, attached: Vec::new(), tolerated_taints: settings.tolerated_taints.clone() }
    }

    /// The keys that are left of a toleration: its own, if the pool tolerates such taints, and all that the pool tolerates
    /// if the toleration is for every key. Affinity says nothing about taints: without this a toleration would open nodes
    /// outside the pool.
    #[must_use]
    pub fn keys<'a>(&'a self, key: Option<&'a str>) -> Vec<&'a str> {
        match key.filter(|key| !key.is_empty()) {
            None => self.tolerated_taints.iter().map(|tolerated| &**tolerated).collect(),
            Some(key) if may_tolerate(&self.tolerated_taints, key) => vec![key],
            Some(_) => Vec::new(),
        }
    }

    /// Where pods may go that might go to `placement`, as their Job says it.
    #[must_use]
    pub fn confine(&self, placement: &Placement) -> Placement {
        let mut confined = placement.clone();
        // Where its volume is attached the Job says, not what the planner believes.
        confined.attached = (!self.attached.is_empty()).then(|| NodeTerm::nodes(self.attached.clone()));
        confined.tolerations = placement
            .tolerations
            .iter()
            .flat_map(|toleration| {
                let keys = self.keys(toleration.key.as_deref()).into_iter();
                keys.map(|key| Toleration { key: Some(key.into()), ..toleration.clone() })
            })
            .collect();
        if self.nodes == NodeTerm::default() {
            return confined;
        }
        // A term is met if all of its expressions are, and one term is enough.
        if confined.affinity.is_empty() {
            confined.affinity.push(NodeTerm::default());
        }
        for term in &mut confined.affinity {
            term.labels.extend(self.nodes.labels.iter().cloned());
            term.names.extend(self.nodes.names.iter().cloned());
        }
        confined
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{node, settings};

    fn pool() -> Settings {
        Settings {
            node_selector: [("pool".into(), "scavenger".into())].into(),
            tolerated_taints: vec!["gpu".into(), "spot".into()],
            ..settings()
        }
    }

    #[test]
    fn each_own_term_gets_the_expressions_of_the_pool() {
        let own = |zone: &str| NodeTerm {
            labels: vec![Expression {
                key: "zone".into(),
                operator: Operator::In,
                values: vec![zone.into()],
            }],
            names: Vec::new(),
        };
        let own = Placement { affinity: vec![own("a"), own("b")], ..Placement::default() };
        let closed = ["n3".into(), "n4".into()];
        let confined = Confinement::to_pool(&pool(), &closed).confine(&own);
        let inside = |name| node(name, 1000).labelled("pool", "scavenger");
        for (node, admitted) in [
            (inside("n1").labelled("zone", "a"), true),
            (inside("n2").labelled("zone", "b"), true),
            (inside("n2").labelled("zone", "c"), false),
            (node("n1", 1000).labelled("zone", "a"), false),
            (inside("n3").labelled("zone", "a"), false),
            (inside("n4").labelled("zone", "b"), false),
        ] {
            assert_eq!(confined.admits(&node), admitted, "{node:?}");
        }
        assert!(confined.affinity[0].names.iter().all(|expression| expression.values.len() == 1));
    }

    #[test]
    fn a_pool_of_every_node_adds_no_affinity() {
        let confined = Confinement::to_pool(&settings(), []).confine(&Placement::default());
        assert_eq!(confined, Placement::default(), "a term without expressions would match no node");
    }

    #[test]
    fn tolerations_are_those_that_the_pool_has_too() {
        let confinement = Confinement::to_pool(&pool(), []);
        assert_eq!(confinement.keys(Some("gpu")), ["gpu"]);
        assert_eq!(confinement.keys(Some("node.kubernetes.io/not-ready")), ["node.kubernetes.io/not-ready"]);
        assert!(confinement.keys(Some("node-role.kubernetes.io/control-plane")).is_empty());
        for every in [None, Some("")] {
            assert_eq!(confinement.keys(every), ["gpu", "spot"]);
        }
    }
}
