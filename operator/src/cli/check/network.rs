//! Whether the pods of ScavengerJobs may reach the operator, to which their supervisors report.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::networking::v1::{NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyPeer, NetworkPolicyPort},
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};
use kube::ResourceExt;
use scavenger_schema::{names, scavenger_job::ScavengerJob};

use super::{Finding, Verdict, read::Seen};

/// The port of the operator's endpoint for reports.
const PORT: i32 = 8443;

/// The port of every DNS server.
const DNS_PORT: i32 = 53;

const CHECK: &str = "egress";

pub(super) fn finding(seen: &Seen, example: &ScavengerJob, operator_namespace: &str) -> Option<Finding> {
    // Without a supervisor nobody reports.
    seen.supervisor_of(example)?;
    let policies = match &seen.network_policies {
        Err(why) => return Some(Finding::new(CHECK, Verdict::Unknown, why.clone())),
        Ok(policies) => policies,
    };
    let name = ("kubernetes.io/metadata.name".to_owned(), operator_namespace.to_owned());
    let namespace = seen.operator_namespace.as_ref().ok().and_then(Option::as_ref);
    let labels = namespace.map(|namespace| namespace.labels().clone()).unwrap_or_else(|| [name].into());
    Some(judge(policies, &labels, operator_namespace))
}

fn judge(policies: &[NetworkPolicy], operator: &BTreeMap<String, String>, namespace: &str) -> Finding {
    let closing: Vec<&NetworkPolicy> = policies.iter().filter(|policy| closes(policy)).collect();
    if closing.is_empty() {
        return Finding::ok(CHECK, "no NetworkPolicy keeps pods of ScavengerJobs from reaching the operator");
    }
    let rules =
        || closing.iter().flat_map(|policy| &policy.spec).flat_map(|spec| spec.egress.iter().flatten());
    let policies: Vec<String> = closing.iter().map(|policy| policy.name_any()).collect();
    let policies = policies.join(", ");
    if rules().any(|rule| leads_to(rule, operator)) {
        if rules().any(|rule| may_lead_to_dns(rule, operator)) {
            let message = format!("the NetworkPolicies let pods reach {namespace} on port {PORT}, and DNS");
            return Finding::ok(CHECK, message);
        }
        let message = format!(
            "NetworkPolicy {policies} lets pods reach {namespace} on port {PORT}, but no DNS, so supervisors do not find it and \
             checkpoints are not seen; allow egress on port {DNS_PORT} (UDP and TCP)"
        );
        return Finding::warning(CHECK, message);
    }
    if rules().any(by_address) {
        let message =
            format!("NetworkPolicy {policies} allows by address; port {PORT} of {namespace} must be in it");
        return Finding::new(CHECK, Verdict::Unknown, message);
    }
    Finding::warning(
        CHECK,
        format!(
            "NetworkPolicy {policies} keeps supervisors from reporting, so checkpoints are not seen; allow egress to namespace \
             {namespace} on port {PORT}, and to DNS"
        ),
    )
}

/// True if a policy forbids pods of every ScavengerJob all egress that no rule allows. Which labels of their own they will
/// have is not known.
fn closes(policy: &NetworkPolicy) -> bool {
    let Some(spec) = &policy.spec else { return false };
    let types = spec.policy_types.iter().flatten();
    let is_egress = types.clone().any(|kind| kind == "Egress") || types.count() == 0 && spec.egress.is_some();
    let selector = spec.pod_selector.clone().unwrap_or_default();
    let of_ours = |key: &str| matches!(key, names::LABEL_JOB | names::LABEL_JOB_UID | names::LABEL_ATTEMPT);
    let expressions = selector.match_expressions.unwrap_or_default();
    let selects = selector.match_labels.unwrap_or_default().is_empty()
        && expressions.iter().all(|expression| match &*expression.operator {
            "Exists" => of_ours(&expression.key),
            "DoesNotExist" | "NotIn" => !of_ours(&expression.key),
            _ => false,
        });
    is_egress && selects
}

fn leads_to(rule: &NetworkPolicyEgressRule, operator: &BTreeMap<String, String>) -> bool {
    let to = |peer: &NetworkPolicyPeer| {
        let pods = [("app.kubernetes.io/name".to_owned(), names::OPERATOR.to_owned())].into();
        peer.namespace_selector.as_ref().is_some_and(|selector| selects(selector, operator))
            && peer.pod_selector.as_ref().is_none_or(|selector| selects(selector, &pods))
    };
    allows_port(rule, PORT, "TCP")
        && rule.to.as_ref().is_none_or(|peers| peers.is_empty() || peers.iter().any(to))
}

/// True if a rule allows DNS of some peer that need not be the operator. Where the cluster's DNS is, nobody says.
fn may_lead_to_dns(rule: &NetworkPolicyEgressRule, operator: &BTreeMap<String, String>) -> bool {
    let system = [("kubernetes.io/metadata.name".to_owned(), "kube-system".to_owned())].into();
    let to = |peer: &NetworkPolicyPeer| {
        let elsewhere = |selector: &LabelSelector| selects(selector, &system) || !selects(selector, operator);
        peer.ip_block.is_some() || peer.namespace_selector.as_ref().is_some_and(elsewhere)
    };
    allows_port(rule, DNS_PORT, "UDP")
        && rule.to.as_ref().is_none_or(|peers| peers.is_empty() || peers.iter().any(to))
}

/// True if some address is allowed on the port: whether the operator has it, nobody can say.
fn by_address(rule: &NetworkPolicyEgressRule) -> bool {
    allows_port(rule, PORT, "TCP") && rule.to.iter().flatten().any(|peer| peer.ip_block.is_some())
}

fn allows_port(rule: &NetworkPolicyEgressRule, number: i32, protocol: &str) -> bool {
    let matches = |port: &NetworkPolicyPort| {
        let is_port = match &port.port {
            None => true,
            Some(IntOrString::Int(first)) => (*first..=port.end_port.unwrap_or(*first)).contains(&number),
            Some(IntOrString::String(name)) => {
                matches!((number, &**name), (PORT, "reports") | (DNS_PORT, "dns"))
            }
        };
        port.protocol.as_deref().unwrap_or("TCP") == protocol && is_port
    };
    rule.ports.as_ref().is_none_or(|ports| ports.is_empty() || ports.iter().any(matches))
}

fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let exact = selector.match_labels.iter().flatten();
    let mut expressions = selector.match_expressions.iter().flatten();
    exact.into_iter().all(|(key, value)| labels.get(key) == Some(value))
        && expressions.all(|expression| {
            let value = labels.get(&expression.key);
            let listed =
                || value.is_some_and(|value| expression.values.iter().flatten().any(|one| one == value));
            match &*expression.operator {
                "In" => listed(),
                "NotIn" => !listed(),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn said(specs: &[Value]) -> (Verdict, String) {
        let policies: Vec<NetworkPolicy> = specs
            .iter()
            .map(|spec| {
                serde_json::from_value(json!({ "metadata": { "name": "closed" }, "spec": spec })).unwrap()
            })
            .collect();
        let labels = [("kubernetes.io/metadata.name".to_owned(), "scavenger-system".to_owned())].into();
        let finding = judge(&policies, &labels, "scavenger-system");
        (finding.verdict, finding.message)
    }

    fn egress(rules: &Value) -> Value {
        json!({ "podSelector": {}, "policyTypes": ["Egress"], "egress": rules })
    }

    #[test]
    fn a_policy_that_closes_egress_is_named_unless_a_rule_leads_to_the_operator() {
        assert_eq!(said(&[]).0, Verdict::Ok);
        assert_eq!(said(&[json!({ "podSelector": {}, "policyTypes": ["Ingress"] })]).0, Verdict::Ok);
        let (verdict, message) = said(&[egress(&json!([]))]);
        assert_eq!(verdict, Verdict::Warning);
        assert!(message.starts_with("NetworkPolicy closed keeps supervisors from reporting"), "{message}");
        let other = json!({ "podSelector": { "matchLabels": { "app": "web" } }, "policyTypes": ["Egress"] });
        assert_eq!(said(&[other]).0, Verdict::Ok, "it selects no pods of ScavengerJobs");

        let peer = json!({ "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "scavenger-system" } } });
        let leads = egress(&json!([{ "to": [peer], "ports": [{ "port": 8443 }] }]));
        let (verdict, message) = said(&[egress(&json!([])), leads.clone()]);
        assert!(verdict == Verdict::Warning && message.contains("but no DNS"), "{message}");
        let dns = json!({ "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "kube-system" } } });
        for dns in [
            json!({ "to": [dns], "ports": [{ "port": 53, "protocol": "UDP" }] }),
            json!({ "ports": [{ "port": 53, "protocol": "UDP" }] }),
            json!({ "to": [{ "namespaceSelector": {} }] }),
        ] {
            let found = said(&[egress(&json!([dns])), leads.clone()]);
            assert_eq!(found.0, Verdict::Ok, "rules of all policies count together: {}", found.1);
        }
        let tcp = egress(&json!([{ "ports": [{ "port": 53 }] }]));
        assert_eq!(said(&[tcp, leads]).0, Verdict::Warning);
        let another_port = egress(&json!([{ "to": [peer], "ports": [{ "port": 443 }] }]));
        assert_eq!(said(&[another_port]).0, Verdict::Warning);
        let range = egress(
            &json!([{ "ports": [{ "port": 8000, "endPort": 9000 }, { "port": 53, "protocol": "UDP" }] }]),
        );
        assert_eq!(said(&[range]).0, Verdict::Ok);
        let within = egress(&json!([{ "to": [{ "podSelector": {} }] }]));
        assert_eq!(said(&[within]).0, Verdict::Warning, "pods of its own namespace alone");
        let address = egress(&json!([{ "to": [{ "ipBlock": { "cidr": "10.0.0.0/8" } }] }]));
        assert_eq!(said(&[address]).0, Verdict::Unknown);
    }
}
