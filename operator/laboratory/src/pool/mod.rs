//! The pool of a file, as the operator would read it from the API server.

mod definition;

use std::{fs, path::Path};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use kube::CustomResourceExt as _;
use scavenger_planner::values::{PreemptionMode, Settings};
use scavenger_program::exit::Unusable;
use scavenger_schema::{
    names,
    scavenger_pool::{ScavengerPool, ScavengerPoolSpec},
};
use serde_json::Value;

/// A pool, and what it is called.
#[derive(Debug, Clone)]
pub struct Pool {
    /// The file without its ending; none if it has all defaults.
    pub name: Option<String>,
    /// What the planner follows.
    pub settings: Settings,
}

impl Pool {
    /// The pool that has everything as it is by default, in this mode.
    ///
    /// # Panics
    /// If the defaults cannot be used, which a test excludes.
    #[must_use]
    pub fn usual(mode: PreemptionMode) -> Self {
        let settings = scavenger_specs::settings(&ScavengerPoolSpec::default(), None);
        let settings = settings.expect("the defaults of a pool should be usable");
        Self { name: None, settings: Settings { preemption_mode: mode, ..settings } }
    }

    /// Reads a pool.
    ///
    /// # Errors
    /// [`Unusable`] with what the definition of the pool would say.
    pub fn read(path: &Path) -> Result<Self, Unusable> {
        let document = Document::read(path)?;
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let pool = document.pool().map_err(|what| Unusable(format!("{}: {what}", path.display())))?;
        Ok(Self { name, ..pool })
    }
}

impl Pool {
    /// The same, if it counts by requests.
    ///
    /// # Errors
    /// If it counts by use: why that is not played, as the end of a sentence.
    pub fn by_requests(self, why: &str) -> Result<Self, Unusable> {
        if self.settings.places_by_use() {
            let name = self.name.as_deref().unwrap_or(names::DEFAULT_POOL);
            return Err(Unusable(format!("spec.accounting of the pool {name} is Usage, and {why}")));
        }
        Ok(self)
    }
}

/// A pool as it is written. Nothing has looked yet whether it can be used.
#[derive(Debug, Clone)]
pub struct Document(Value);

impl Default for Document {
    /// With all defaults.
    fn default() -> Self {
        Self(serde_json::json!({
            "apiVersion": "scavenger.dev/v1alpha1",
            "kind": "ScavengerPool",
            "metadata": { "name": names::DEFAULT_POOL },
            "spec": {},
        }))
    }
}

impl Document {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Unusable`] if it cannot be read or is no YAML.
    pub fn read(path: &Path) -> Result<Self, Unusable> {
        let wrong = |what: String| Unusable(format!("{}: {what}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
        yaml(&text).map(Self).map_err(wrong)
    }

    /// All defaults but what is in this spec.
    ///
    /// # Errors
    /// As [`Self::with`].
    pub fn of_spec(spec: &str) -> Result<Self, String> {
        Self::default().with(spec)
    }

    /// The same with these fields of its spec, written as YAML.
    ///
    /// # Errors
    /// If they are no YAML, or no fields.
    pub fn with(&self, spec: &str) -> Result<Self, String> {
        let Value::Object(fields) = yaml(spec)? else {
            return Err(format!("{spec:?} must be fields of a spec"));
        };
        let mut whole = self.0.clone();
        let Some(of) = whole.as_object_mut() else { return Err("the pool must be an object".to_owned()) };
        let spec = of.entry("spec").or_insert_with(|| serde_json::json!({}));
        let Some(spec) = spec.as_object_mut() else { return Err("spec must be an object".to_owned()) };
        spec.extend(fields);
        Ok(Self(whole))
    }

    /// What the operator would make of it.
    ///
    /// # Errors
    /// What the definition of the pool would say.
    pub fn pool(&self) -> Result<Pool, String> {
        settings(self.0.clone()).map(|settings| Pool { name: None, settings })
    }
}

fn first_line(error: &str) -> String {
    error.lines().next().unwrap_or_default().to_owned()
}

fn yaml(text: &str) -> Result<Value, String> {
    serde_saphyr::from_str(text).map_err(|error| first_line(&error.to_string()))
}

fn settings(value: Value) -> Result<Settings, String> {
    let definition = ScavengerPool::crd();
    let schema = definition.spec.versions.first().and_then(|version| version.schema.as_ref());
    let refused = schema.and_then(|schema| schema.open_api_v3_schema.as_ref());
    // These are of every kind, and none of the definition's fields.
    let refused = refused.map(|schema| {
        let properties = schema.properties.iter().flatten().map(|(name, of)| (name.clone(), of.clone()));
        let every_kind =
            ["apiVersion", "kind", "metadata"].map(|name| (name.to_owned(), JSONSchemaProps::default()));
        let properties = Some(properties.chain(every_kind).collect());
        definition::refused("", &value, &JSONSchemaProps { properties, ..schema.clone() })
    });
    if let Some(refused) = refused.flatten() {
        return Err(refused);
    }
    let pool: ScavengerPool =
        serde_json::from_value(value).map_err(|error| first_line(&error.to_string()))?;
    if pool.metadata.name.as_deref() != Some(names::DEFAULT_POOL) {
        return Err(format!("metadata.name must be {:?}", names::DEFAULT_POOL));
    }
    let settings =
        scavenger_specs::settings(&pool.spec, pool.metadata.generation).map_err(|error| error.to_string())?;
    // A pool that only tries out accounting by use counts by requests.
    let usage = settings.usage.clone().filter(|rules| !rules.dry_run);
    Ok(Settings { usage, ..settings })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings, String> {
        settings(yaml(text)?)
    }

    fn pool(spec: &str) -> Result<Settings, String> {
        parse(&format!(
            "apiVersion: scavenger.dev/v1alpha1\nkind: ScavengerPool\nmetadata: {{ name: default }}\nspec: {spec}\n"
        ))
    }

    #[test]
    fn a_pool_is_what_the_operator_would_read() {
        let read = pool("{ startThreshold: 0.8, preemptionMode: Operator }").unwrap();
        assert_eq!(read.start_thresholds.default.to_string(), "80%");
        assert_eq!(read.preemption_mode, PreemptionMode::Operator);
        assert_eq!(pool("{}").unwrap(), Pool::usual(PreemptionMode::Scheduler).settings);
        assert_eq!(pool("{ accounting: Usage, usage: { dryRun: true } }").unwrap(), pool("{}").unwrap());
    }

    #[test]
    fn fields_replace_those_of_a_pool() {
        let tight = Document::of_spec("{ startThreshold: 0.8, interruptThreshold: 0.95 }").unwrap();
        let settings = tight.with("{ startThreshold: 0.5 }").unwrap().pool().unwrap().settings;
        assert_eq!(settings.start_thresholds.default.to_string(), "50%");
        assert_eq!(settings.headroom.interrupt_threshold.unwrap().to_string(), "95%");
        assert_eq!(
            Document::default().pool().unwrap().settings,
            Pool::usual(PreemptionMode::Scheduler).settings
        );
        assert!(tight.with("[]").unwrap_err().contains("must be fields of a spec"));
        assert!(tight.with("{ a: ").is_err());
    }

    #[test]
    fn a_pool_that_cannot_be_used_is_refused_in_one_line() {
        for (spec, said) in [
            ("{ startThreshold: 0.95 }", "spec.headroomTarget of cpu must be at least its start threshold"),
            ("{ startThreshold: lots }", "spec.startThreshold is \"lots\", and must be of type number"),
            ("{ startThreshold: 1.5 }", "spec.startThreshold is 1.5, and must be at most 1"),
            ("{ prioritySteps: 0 }", "spec.prioritySteps is 0, and must be at least 1"),
            ("{ startTreshold: 0.5 }", "spec.startTreshold is unknown"),
            ("{ preemptionMode: Both }", "spec.preemptionMode is \"Both\", and must be one of"),
            ("{ weights: { cpu: -1 } }", "spec.weights.cpu is -1, and must be at least 0"),
            ("{ nodeSelector: { \"a b\": c } }", "spec.nodeSelector: key \"a b\" must be"),
        ] {
            let error = pool(spec).unwrap_err();
            assert!(error.contains(said) && !error.contains('\n'), "{spec}: {error}");
        }
        let other =
            "apiVersion: scavenger.dev/v1alpha1\nkind: ScavengerPool\nmetadata: { name: x }\nspec: {}\n";
        assert_eq!(parse(other).unwrap_err(), "metadata.name must be \"default\"");
    }
}
