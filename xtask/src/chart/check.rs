//! What `cargo xtask ci` asks of the chart.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value};

use super::{
    Files, NAMESPACE, bases::TENANT, folder, helm, identity, kustomize, objects, pool_schema, reference,
    render, render_in,
};

/// Values under which each value of the chart is changed at least once.
const CASES: [(&str, &str); 4] = [
    ("everything", include_str!("cases/everything.yaml")),
    ("least", include_str!("cases/least.yaml")),
    ("mirror", include_str!("cases/mirror.yaml")),
    ("unsupervised", include_str!("cases/unsupervised.yaml")),
];

/// Values that the schema refuses, and what the refusal names.
const REFUSED: [(&str, &str); 13] = [
    ("operater: {replicas: 1}", "operater"),
    ("operator: {replica: 1}", "replica"),
    ("operator: {replicas: 0}", "/operator/replicas"),
    ("pool: {spec: {startTreshold: 0.6}}", "startTreshold"),
    ("pool: {spec: {usage: {dryrun: true}}}", "dryrun"),
    ("pool: {spec: {accounting: Used}}", "/pool/spec/accounting"),
    ("record: {maxSize: 512}", "/record/maxSize"),
    ("preemption: {mode: Both}", "/preemption/mode"),
    ("nodeAgent: {kubepods: /}", "/nodeAgent/kubepods"),
    ("priorityClasses: {lowest: 0}", "/priorityClasses/lowest"),
    ("tenants: [Chem]", "/tenants/0"),
    ("submitter: {env: {lower: x}}", "'lower' does not match"),
    ("tuner: {image: {digest: latest}}", "/tuner/image/digest"),
];

/// Kustomizations with the operator in them, and the values that install the same.
const WHOLE: [(&str, &str); 3] = [
    ("deploy/operator", "namespace: {create: true}"),
    ("deploy/preemption-operator", "{namespace: {create: true}, preemption: {mode: Operator}}"),
    (
        "deploy/all",
        "{namespace: {create: true}, tuner: {enabled: true}, submitter: {enabled: true}, postgres: {enabled: true}}",
    ),
];

/// Kustomizations of a part, and the values that install it beside the operator, which is in the chart always.
const PARTS: [(&str, &str); 8] = [
    ("deploy/node-agent", "nodeAgent: {enabled: true}"),
    ("deploy/record", "record: {enabled: true}"),
    ("deploy/tuner", "{tuner: {enabled: true, learning: false}}"),
    ("deploy/submitter", "submitter: {enabled: true}"),
    ("deploy/submitter-cron", "submitter: {enabled: true, mode: CronJob}"),
    ("deploy/postgres", "postgres: {enabled: true}"),
    (
        "deploy/prometheus-operator",
        "monitoring: {podMonitor: {enabled: true}, prometheusRule: {enabled: true}}",
    ),
    ("deploy/tenant", "tenants: [any-tenant]"),
];

/// A kustomization that adds to what is installed already, the values that install both, and those without it.
const ADDED: (&str, &str, &str) = (
    "deploy/network-policies",
    "{submitter: {enabled: true}, postgres: {enabled: true}, \
     networkPolicies: {operator: true, submitter: true, postgres: true}}",
    "{submitter: {enabled: true}, postgres: {enabled: true}}",
);

/// Lints and renders the chart, and compares it with its schema, the kustomizations and itself.
pub(crate) fn check() -> Result<()> {
    helm(&["lint", "--strict", "--quiet", "."], &folder(), "").context("`helm lint` refuses the chart")?;
    let chart = read("Chart.yaml")?;
    for key in ["version", "appVersion"] {
        let found = chart[key].as_str().unwrap_or_default();
        ensure!(found == env!("CARGO_PKG_VERSION"), "Chart.yaml: {key} is {found}, the workspace's another");
    }
    values_are_described()?;
    every_value_counts()?;
    for (values, named) in REFUSED {
        match render(values) {
            Ok(_) => bail!("the chart takes the values {values}"),
            Err(error) => {
                let said = format!("{error:#}");
                ensure!(said.contains(named), "the refusal of {values} does not name {named}: {said}");
            }
        }
    }
    for (kustomization, values) in WHOLE {
        same(kustomization, values, None)?;
    }
    for (kustomization, values) in PARTS {
        same(kustomization, values, Some(""))?;
    }
    let (kustomization, values, without) = ADDED;
    same(kustomization, values, Some(without))?;
    let demo = include_str!("../../../deploy/demo/values.yaml");
    same("deploy/demo", &format!("{demo}namespace: {{create: true}}\n"), None)?;
    files_install_the_operator_and_the_queue()?;
    another_namespace()
}

fn read(name: &str) -> Result<Value> {
    let path = folder().join(name);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("{} is not YAML", path.display()))
}

/// All objects of a rendering.
fn rendered(values: &str) -> Result<Vec<Value>> {
    let text: Vec<String> = render(values)?.into_iter().map(|part| part.text).collect();
    objects(&text.join("---\n"))
}

/// Names of the settings in values.yaml.
fn setting_paths() -> Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(folder().join("values.yaml")).context("cannot read values.yaml")?;
    Ok(reference::settings(&text)?.into_iter().map(|setting| setting.path).collect())
}

/// values.yaml and values.schema.json name the same settings.
fn values_are_described() -> Result<()> {
    let schema = read("values.schema.json")?;
    let mut described = BTreeSet::new();
    describe(&schema, &schema, "", &mut described);
    // Helm sets it in every chart.
    described.remove("global");
    let named = setting_paths()?;
    let differ: Vec<_> = named.symmetric_difference(&described).collect();
    ensure!(differ.is_empty(), "values.yaml and values.schema.json differ in {differ:?}");
    Ok(())
}

/// Collects the paths of what has no named parts, or whose parts are described elsewhere: the pool's.
fn describe(root: &Value, schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    let reference = schema["$ref"].as_str();
    let target = reference.and_then(|reference| root.pointer(reference.trim_start_matches('#')));
    let properties = target.unwrap_or(schema)["properties"].as_object();
    let Some(properties) = properties.filter(|_| reference != Some(pool_schema::REFERENCE)) else {
        found.insert(path.to_owned());
        return;
    };
    for (name, part) in properties {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        describe(root, part, &path, found);
    }
}

/// Every setting is changed by one of the cases, and each change of a case changes what is rendered.
fn every_value_counts() -> Result<()> {
    let settings = setting_paths()?;
    let mut changed = BTreeSet::new();
    for (name, case) in CASES {
        let values: Value =
            serde_saphyr::from_str(case).with_context(|| format!("case {name} is not YAML"))?;
        let all = rendered(case).with_context(|| format!("case {name}"))?;
        for path in settings.iter().filter(|path| values.pointer(&pointer(path)).is_some()) {
            let mut without = values.clone();
            remove(&mut without, path);
            let others =
                rendered(&without.to_string()).with_context(|| format!("case {name} without {path}"))?;
            ensure!(all != others, "case {name}: the chart renders the same without {path}");
            changed.insert(path.clone());
        }
    }
    let never: Vec<_> = settings.difference(&changed).collect();
    ensure!(never.is_empty(), "no case in xtask/src/chart/cases sets {never:?}");
    Ok(())
}

fn pointer(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}

fn remove(values: &mut Value, path: &str) {
    let (parent, key) = path.rsplit_once('.').unwrap_or(("", path));
    let parent = if parent.is_empty() { Some(values) } else { values.pointer_mut(&pointer(parent)) };
    parent.and_then(Value::as_object_mut).map(|map: &mut Map<String, Value>| map.remove(key));
}

/// `kubectl delete` of what installs the operator must not take the definitions, since every ScavengerJob goes with them.
fn ensure_no_definition(name: &str, objects: &[Value]) -> Result<()> {
    let definition = objects.iter().find(|object| object["kind"] == "CustomResourceDefinition");
    if let Some(definition) = definition {
        bail!("no CustomResourceDefinition may be in {name}, but {} is", identity(definition));
    }
    Ok(())
}

/// A kustomization has the objects of the chart, but for those that the chart has `without` it.
fn same(kustomization: &str, values: &str, without: Option<&str>) -> Result<()> {
    let mut chart = rendered(values)?;
    let kustomized = objects(&kustomize(kustomization)?)?;
    ensure_no_definition(kustomization, &kustomized)?;
    if let Some(without) = without {
        let others: BTreeSet<String> = rendered(without)?.iter().map(identity).collect();
        chart.retain(|object| !others.contains(&identity(object)));
    }
    // `kubectl --namespace` names the tenant's.
    for metadata in chart.iter_mut().filter_map(|object| object["metadata"].as_object_mut()) {
        if metadata.get("namespace").is_some_and(|namespace| namespace == TENANT) {
            metadata.remove("namespace");
        }
    }
    let names = |objects: &[Value]| objects.iter().map(identity).collect::<BTreeSet<_>>();
    let (left, right) = (names(&chart), names(&kustomized));
    let differ: Vec<_> = left.symmetric_difference(&right).collect();
    ensure!(differ.is_empty(), "{kustomization} and the chart with {values} differ in {differ:?}");
    for (left, right) in chart.iter().zip(&kustomized) {
        ensure!(left == right, "{kustomization} and the chart with {values} differ in {}", identity(left));
    }
    Ok(())
}

/// install.yaml and pool.yaml together are `deploy/operator`, without the definitions; with queue.yaml and postgres.yaml
/// they are `deploy/all`.
fn files_install_the_operator_and_the_queue() -> Result<()> {
    let Files { install, pool, queue, postgres, node_agent, record } =
        super::files("scavenger.dev", "postgres")?;
    let both = objects(&format!("{install}---\n{pool}"))?;
    let expected = objects(&kustomize("deploy/operator")?)?;
    ensure_no_definition("install.yaml and pool.yaml", &both)?;
    ensure!(both == expected, "install.yaml and pool.yaml are not what deploy/operator installs");
    let all = objects(&format!("{install}{pool}{queue}{postgres}"))?;
    ensure!(
        all == objects(&kustomize("deploy/all")?)?,
        "the files of a release are not what deploy/all installs"
    );
    ensure!(
        objects(&node_agent)? == objects(&kustomize("deploy/node-agent")?)?,
        "node-agent.yaml is not what deploy/node-agent installs"
    );
    ensure!(
        objects(&record)? == objects(&kustomize("deploy/record")?)?,
        "record.yaml is not what deploy/record installs"
    );
    let pool = objects(&pool)?;
    ensure!(pool.len() == 1 && pool[0]["kind"] == "ScavengerPool", "pool.yaml is not the pool alone");
    Ok(())
}

/// What names the namespace of the installation: everything but what other namespaces get.
const EVERYTHING: &str = "{namespace: {create: true}, nodeAgent: {enabled: true}, record: {enabled: true}, \
    tuner: {enabled: true}, submitter: {enabled: true}, postgres: {enabled: true}, \
    monitoring: {podMonitor: {enabled: true}, prometheusRule: {enabled: true}, dashboard: {enabled: true}}}";

/// In another namespace nothing refers to the usual one.
fn another_namespace() -> Result<()> {
    let parts = render_in(EVERYTHING, "elsewhere")?;
    let wrong: Vec<_> = parts.iter().filter(|part| part.text.contains(NAMESPACE)).collect();
    ensure!(wrong.is_empty(), "rendered for another namespace, these still name {NAMESPACE}: {wrong:?}");
    let pool =
        parts.iter().find(|part| part.template == "operator/pool.yaml").context("no pool is rendered")?;
    let submitter = "system:serviceaccount:elsewhere:gromacs-submitter";
    ensure!(pool.text.contains(submitter), "in another namespace the pool does not trust its own submitter");
    let rules = parts
        .iter()
        .find(|part| part.template == "monitoring/prometheus-rule.yaml")
        .context("no alert rules are rendered")?;
    let watched = "namespace=\"elsewhere\"";
    ensure!(rules.text.contains(watched), "in another namespace the alerts watch the usual one");
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_setting_is_removed_from_values() {
        let mut values = json!({"a": {"b": 1, "c": 2}, "d": 3});
        remove(&mut values, "a.b");
        remove(&mut values, "d");
        assert_eq!(values, json!({"a": {"c": 2}}));
    }

    #[test]
    fn a_schema_names_its_settings() {
        let schema = json!({
            "properties": {"image": {"$ref": "#/$defs/image"}, "env": {"additionalProperties": {}}},
            "$defs": {"image": {"properties": {"tag": {"type": "string"}}}},
        });
        let mut found = BTreeSet::new();
        describe(&schema, &schema, "", &mut found);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["env", "image.tag"]);
    }
}
