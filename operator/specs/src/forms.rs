//! The forms of the names, keys and values in a ScavengerJob. The API server asks for them when one is made; what was stored
//! before it did is found here, before any of it becomes part of a request.

use std::{collections::BTreeMap, fmt};

use scavenger_schema::{
    form::{self, Form},
    scavenger_job::{EnvVar, KeyRef, ScavengerJobSpec},
};
use thiserror::Error;

/// Something has another form than Kubernetes asks for.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{field} {text:?} must be {description}")]
pub struct FormError {
    field: String,
    text: String,
    description: &'static str,
}

type Checked = Result<(), FormError>;

/// Checks the name of a ScavengerJob.
pub fn check_name(name: &str) -> Checked {
    fits(&form::SCAVENGER_JOB, format_args!("metadata.name"), name)
}

/// Checks what a spec names, in the order of its fields.
pub fn check(spec: &ScavengerJobSpec) -> Checked {
    fits(&form::IMAGE, format_args!("spec.image"), &spec.image)?;
    each(&spec.image_pull_secrets, |index, name| {
        fits(&form::NAME, format_args!("spec.imagePullSecrets[{index}]"), name)
    })?;
    each(&spec.env, check_variable)?;
    check_keys(&form::RESOURCE, "spec.resources.requests", &spec.resources.requests)?;
    if let Some(limits) = &spec.resources.limits {
        check_keys(&form::RESOURCE, "spec.resources.limits", limits)?;
    }
    check_mounts(spec)?;
    check_labels(&form::KEY, "spec.nodeSelector", &spec.node_selector)?;
    each(&spec.tolerations, |index, toleration| {
        let (key, value) = (toleration.key.as_deref(), toleration.value.as_deref());
        let key = key.unwrap_or_default();
        fits(&form::KEY_OR_NOTHING, format_args!("spec.tolerations[{index}].key"), key)?;
        let value = value.unwrap_or_default();
        fits(&form::LABEL_VALUE, format_args!("spec.tolerations[{index}].value"), value)
    })?;
    if let Some(name) = &spec.runtime_class_name {
        fits(&form::NAME, format_args!("spec.runtimeClassName"), name)?;
    }
    if let Some(name) = &spec.service_account_name {
        fits(&form::NAME, format_args!("spec.serviceAccountName"), name)?;
    }
    if let Some(metadata) = &spec.pod_metadata {
        check_labels(&form::KEY, "spec.podMetadata.labels", &metadata.labels)?;
        check_keys(&form::ANNOTATION_KEY, "spec.podMetadata.annotations", &metadata.annotations)?;
    }
    Ok(())
}

fn check_mounts(spec: &ScavengerJobSpec) -> Checked {
    each(&spec.persistent_volume_claims, |index, claim| {
        fits(&form::NAME, format_args!("spec.persistentVolumeClaims[{index}].claimName"), &claim.claim_name)
    })?;
    each(&spec.config_maps, |index, map| {
        fits(&form::NAME, format_args!("spec.configMaps[{index}].name"), &map.name)
    })?;
    each(&spec.secrets, |index, secret| {
        fits(&form::NAME, format_args!("spec.secrets[{index}].secretName"), &secret.secret_name)
    })
}

fn check_variable(index: usize, variable: &EnvVar) -> Checked {
    let Some(source) = &variable.value_from else { return Ok(()) };
    let check_ref = |kind: &str, of: &KeyRef| {
        let field = format!("spec.env[{index}].valueFrom.{kind}");
        fits(&form::NAME, format_args!("{field}.name"), &of.name)?;
        fits(&form::DATA_KEY, format_args!("{field}.key"), &of.key)
    };
    if let Some(of) = &source.config_map_key_ref {
        check_ref("configMapKeyRef", of)?;
    }
    if let Some(of) = &source.secret_key_ref {
        check_ref("secretKeyRef", of)?;
    }
    if let Some(of) = &source.field_ref {
        let field = format_args!("spec.env[{index}].valueFrom.fieldRef.fieldPath");
        fits(&form::FIELD_PATH, field, &of.field_path)?;
    }
    Ok(())
}

/// Checks labels that the pods or their nodes have.
pub fn check_labels(key: &Form, field: &str, labels: &BTreeMap<String, String>) -> Checked {
    check_keys(key, field, labels)?;
    labels.iter().try_for_each(|(key, value)| fits(&form::LABEL_VALUE, format_args!("{field}[{key}]"), value))
}

fn check_keys<T>(form: &Form, field: &str, map: &BTreeMap<String, T>) -> Checked {
    map.keys().try_for_each(|key| fits(form, format_args!("{field}: key"), key))
}

fn each<T>(list: &[T], check: impl Fn(usize, &T) -> Checked) -> Checked {
    list.iter().enumerate().try_for_each(|(index, item)| check(index, item))
}

/// The name of the field is written only if there is something to say: specs are read again with every change of a status.
fn fits(form: &Form, field: fmt::Arguments<'_>, text: &str) -> Checked {
    if form.fits(text) {
        return Ok(());
    }
    Err(FormError { field: field.to_string(), text: text.to_owned(), description: form.description })
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use scavenger_schema::scavenger_job::ScavengerJob;
    use serde_json::{Value, json};

    use super::*;

    /// Every field of a spec that names something.
    fn full() -> Value {
        let variables = json!([
            { "name": "A", "valueFrom": { "configMapKeyRef": { "name": "settings", "key": "a.conf" } } },
            { "name": "B", "valueFrom": { "secretKeyRef": { "name": "login", "key": "password" } } },
            { "name": "C", "valueFrom": { "fieldRef": { "fieldPath": "metadata.labels['team']" } } },
        ]);
        json!({
            "image": "registry.example/counter:1", "imagePullSecrets": ["login"], "env": variables,
            "resources": {
                "requests": { "cpu": 1, "memory": "1Gi", "nvidia.com/gpu": 1 },
                "limits": { "cpu": 1, "memory": "1Gi", "nvidia.com/gpu": 1 },
            },
            "interruptionAfter": "10m",
            "persistentVolumeClaims": [{ "claimName": "data", "mountPath": "/data", "subPath": "a" }],
            "configMaps": [{ "name": "settings", "mountPath": "/settings" }],
            "secrets": [{ "secretName": "login", "mountPath": "/login" }],
            "nodeSelector": { "kubernetes.io/arch": "amd64" },
            "tolerations": [{ "key": "nvidia.com/gpu", "value": "yes" }],
            "runtimeClassName": "nvidia", "serviceAccountName": "default",
            "podMetadata": {
                "labels": { "team": "chem" }, "annotations": { "sidecar.istio.io/inject": "false" },
            },
        })
    }

    fn check(spec: Value) -> Checked {
        super::check(&serde_json::from_value(spec).expect("should be a spec"))
    }

    /// Forms that are older than this check, and are asked for by the API server alone: where one does not fit, the Job is
    /// refused.
    fn is_older(path: &str) -> bool {
        ["/mountPath", "/subPath", "/workingDir", "/path", "/progressPath"]
            .iter()
            .any(|end| path.ends_with(end))
            || path == "/env/0/name"
    }

    /// Where the definition asks for a form: of a value (true) or of a map's keys.
    fn asked(path: &str, schema: &Value, found: &mut Vec<(String, bool)>) {
        if schema["pattern"].is_string() {
            found.push((path.to_owned(), true));
        }
        let rules = schema["x-kubernetes-validations"].as_array();
        let of_keys =
            |rule: &Value| rule["rule"].as_str().is_some_and(|rule| rule.starts_with("self.all(k, k.size()"));
        if rules.is_some_and(|rules| rules.iter().any(of_keys)) {
            found.push((path.to_owned(), false));
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            asked(&format!("{path}/{name}"), property, found);
        }
        if schema["items"].is_object() {
            asked(&format!("{path}/0"), &schema["items"], found);
        }
    }

    fn asked_of_specs() -> Vec<(String, bool)> {
        let crd = serde_json::to_value(ScavengerJob::crd()).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut found = Vec::new();
        asked("", &schema["properties"]["spec"], &mut found);
        found.retain(|(path, _)| !is_older(path));
        found
    }

    /// `/env/0/name` as a message has it: `spec.env[0].name`.
    fn field(path: &str) -> String {
        path.split('/').skip(1).fold("spec".to_owned(), |field, part| match part.parse::<usize>() {
            Ok(index) => format!("{field}[{index}]"),
            Err(_) => format!("{field}.{part}"),
        })
    }

    /// Where in [`full`] it is: each kind of variable has an entry of its own.
    fn place(path: &str) -> String {
        let entry =
            |kind: &str| ["configMapKeyRef", "secretKeyRef", "fieldRef"].iter().position(|one| *one == kind);
        let kind = path.strip_prefix("/env/0/valueFrom/").and_then(|rest| rest.split('/').next());
        match kind.and_then(entry) {
            Some(index) => path.replacen("/env/0/", &format!("/env/{index}/"), 1),
            None => path.to_owned(),
        }
    }

    #[test]
    fn what_has_its_form_is_taken() {
        check(full()).unwrap();
        let least = json!({ "image": "a", "resources": { "requests": { "cpu": 1, "memory": 1 } }, "interruptionAfter": "1m" });
        check(least).unwrap();
        for key in [Value::Null, json!("")] {
            let mut every = full();
            every["tolerations"][0] = json!({ "key": key, "operator": "Exists" });
            check(every).unwrap();
        }
    }

    #[test]
    fn each_form_that_the_definition_asks_for_is_asked_for_here() {
        let fields = asked_of_specs();
        assert_eq!(fields.len(), 19, "{fields:?}");
        for (path, is_value) in &fields {
            let place = place(path);
            for wrong in ["../x", "A B", "a?b=c", "a#b", "a%2fb", "a\n"] {
                // An image may have all but blanks.
                if path == "/image" && !wrong.contains([' ', '\n']) {
                    continue;
                }
                let mut spec = full();
                let value =
                    spec.pointer_mut(&place).unwrap_or_else(|| panic!("{place} is not in the example"));
                if *is_value {
                    *value = wrong.into();
                } else {
                    let first = value.as_object().unwrap().values().next().unwrap().clone();
                    value.as_object_mut().unwrap().insert(wrong.to_owned(), first);
                }
                let said = check(spec).unwrap_err().to_string();
                let named = field(&place) + if *is_value { "" } else { ": key" };
                assert!(said.starts_with(&format!("{named} {wrong:?} must be ")), "{place}: {said}");
            }
        }
    }

    #[test]
    fn values_of_labels_are_looked_at() {
        for place in ["/nodeSelector", "/podMetadata/labels"] {
            let mut spec = full();
            *spec.pointer_mut(place).unwrap() = json!({ "disk": "A B" });
            let said = check(spec).unwrap_err().to_string();
            assert!(said.starts_with(&format!("{}[disk] \"A B\" must be", field(place))), "{said}");
        }
    }

    #[test]
    fn the_name_of_a_scavenger_job_leaves_space_for_those_of_its_pods() {
        check_name("gromacs-7-1").unwrap();
        for name in ["1a", "a.b", &"a".repeat(46)] {
            let said = check_name(name).unwrap_err().to_string();
            assert!(said.starts_with(&format!("metadata.name {name:?} must be a DNS-1035 label")), "{said}");
        }
    }
}
