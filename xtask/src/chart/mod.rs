//! The Helm chart `deploy/chart`, from which the kustomizations in `deploy/` are rendered.
//!
//! The chart is the one source: it can say everything that an installation varies, and a kustomization only what its
//! patches vary. Rendered with fixed values, its templates are the YAML of the kustomizations, comments included. So
//! those who use kustomize read and patch plain YAML, and the two cannot differ.

mod bases;
mod check;
mod pool_schema;
mod reference;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

pub(crate) use self::{check::check, pool_schema::render as values_schema};
use crate::{cluster, generate::File, shell::ROOT};

/// Namespace of the kustomizations, and of the chart in every example.
pub(crate) const NAMESPACE: &str = "scavenger-system";

/// Name of the release in every example.
pub(crate) const RELEASE: &str = "scavengerjobs";

/// The chart's folder.
pub(crate) fn folder() -> PathBuf {
    Path::new(ROOT).join("deploy/chart")
}

/// One template's part of what was rendered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rendered {
    /// The template, relative to `templates/`.
    pub(crate) template: String,
    /// Its documents, each but the first behind `---`.
    pub(crate) text: String,
}

/// Renders the chart with a YAML text of values. The templates are in the order of their names.
pub(crate) fn render(values: &str) -> Result<Vec<Rendered>> {
    render_in(values, NAMESPACE)
}

/// As [`render`], for a release in another namespace.
fn render_in(values: &str, namespace: &str) -> Result<Vec<Rendered>> {
    let folder = folder();
    let arguments = ["template", RELEASE, ".", "--namespace", namespace, "--values", "-"];
    let text = helm(&arguments, &folder, values).with_context(|| format!("with the values\n{values}"))?;
    Ok(by_template(&text))
}

/// Runs helm in a folder and returns what it printed.
pub(crate) fn helm(arguments: &[&str], folder: &Path, input: &str) -> Result<String> {
    // Neither settings nor repositories of the user's are read.
    let home = tempfile::tempdir().context("cannot create a temporary folder for helm")?;
    let mut command = Command::new(cluster::tool("helm")?);
    for variable in ["HELM_CONFIG_HOME", "HELM_CACHE_HOME", "HELM_DATA_HOME"] {
        command.env(variable, home.path());
    }
    command.env_remove("KUBECONFIG").args(arguments).current_dir(folder);
    output(&mut command, input)
}

/// Builds a kustomization, given relative to the checkout.
fn kustomize(folder: &str) -> Result<String> {
    let mut command = Command::new(cluster::tool("kustomize")?);
    output(command.arg("build").arg(folder).current_dir(ROOT), "")
}

fn output(command: &mut Command, input: &str) -> Result<String> {
    use std::io::Write as _;
    let line = format!("{command:?}");
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().with_context(|| format!("cannot run {line}"))?;
    // Values fit into the pipe's buffer, and a program that ended without reading them says why.
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().with_context(|| format!("cannot read what {line} prints"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{line} ended with {}: {}", output.status, said.trim());
    }
    String::from_utf8(output.stdout).context("the output is not UTF-8")
}

/// Splits what `helm template` printed: each document begins with a comment that names its template.
fn by_template(text: &str) -> Vec<Rendered> {
    let mut parts: Vec<Rendered> = Vec::new();
    for document in text.split("---\n# Source: ").skip(1) {
        let (source, body) = document.split_once('\n').unwrap_or((document, ""));
        let template = source.split_once("/templates/").map_or(source, |(_, template)| template);
        let body = format!("{}\n", body.trim());
        match parts.iter_mut().find(|part| part.template == template) {
            Some(part) => {
                part.text.push_str("---\n");
                part.text.push_str(&body);
            }
            None => parts.push(Rendered { template: template.to_owned(), text: body }),
        }
    }
    parts.sort_by(|left, right| left.template.cmp(&right.template));
    parts
}

/// The objects of a YAML text, as they are.
pub(crate) fn documents(text: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).context("this is not YAML")?;
    Ok(documents.into_iter().filter(|object| !object.is_null()).collect())
}

/// The objects of a YAML text, sorted by what identifies them. So are lists of what has a name, since a patch of kustomize
/// puts what it adds first, and whole numbers have no fraction, since kustomize writes 1.0 as 1.
fn objects(text: &str) -> Result<Vec<Value>> {
    let mut objects = documents(text)?;
    objects.iter_mut().for_each(normalise);
    objects.sort_by_key(identity);
    Ok(objects)
}

fn normalise(value: &mut Value) {
    match value {
        Value::Object(map) => map.values_mut().for_each(normalise),
        Value::Array(list) => {
            list.iter_mut().for_each(normalise);
            if list.iter().all(|part| part["name"].is_string()) {
                list.sort_by_key(|part| part["name"].to_string());
            }
        }
        Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0) {
                *value = Value::from(float as i64);
            }
        }
        _ => {}
    }
}

/// Kind, namespace and name.
fn identity(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    format!("{} {}/{}", text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}

/// Files that the chart contains although they are at home elsewhere, since a chart holds no link out of its folder.
pub(crate) fn copies() -> Result<Vec<File>> {
    let copy = |from: &str, to: &str| -> Result<File> {
        let content = fs::read_to_string(Path::new(ROOT).join(from));
        Ok(File::new(to, content.with_context(|| format!("cannot read {from}"))?))
    };
    Ok(vec![
        copy("deploy/monitoring/rules.yaml", "deploy/chart/files/rules.yaml")?,
        copy("deploy/monitoring/dashboard.json", "deploy/chart/files/dashboard.json")?,
    ])
}

/// The YAML of the kustomizations, and the reference of the chart's values.
pub(crate) fn generated() -> Result<Vec<File>> {
    let mut files = bases::render()?;
    let values = folder().join("values.yaml");
    let values = fs::read_to_string(&values).with_context(|| format!("cannot read {}", values.display()))?;
    files.push(File::new("docs/chart.md", reference::page(&values)?));
    Ok(files)
}

/// What kubectl applies instead of Helm: each part of an installation in one file.
///
/// The definitions are in none: kubectl looks up the kind of every object before it creates the first, and `kubectl
/// delete` of the operator must not take them.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// The operator.
    pub(crate) install: String,
    /// The pool, which is edited before it is applied.
    pub(crate) pool: String,
    /// Tuner and submitter, which read the database's passwords from a Secret.
    pub(crate) queue: String,
    /// The small Postgres.
    pub(crate) postgres: String,
    /// The node agent.
    pub(crate) node_agent: String,
    /// The recorder, which needs nothing of the others.
    pub(crate) record: String,
}

/// Renders the files of a release for kubectl, with images of `registry` and the database at `database_host`.
pub(crate) fn files(registry: &str, database_host: &str) -> Result<Files> {
    let on = serde_json::json!({ "enabled": true });
    let values = serde_json::json!({
        "namespace": { "create": true }, "image": { "registry": registry },
        "nodeAgent": on, "record": on, "tuner": on, "submitter": on, "postgres": on, "database": { "host": database_host },
    });
    let mut files = Files::default();
    let mut parts = render(&values.to_string())?;
    // kubectl creates objects in the order in which they stand, and none before its namespace.
    parts.sort_by_key(|part| !part.text.contains("kind: Namespace\n"));
    for part in parts {
        let folder = part.template.split('/').next().unwrap_or_default();
        let target = match (folder, part.template.as_str()) {
            (_, "operator/pool.yaml") => &mut files.pool,
            ("tuner" | "submitter", _) => &mut files.queue,
            ("postgres", _) => &mut files.postgres,
            ("node-agent", _) => &mut files.node_agent,
            ("record", _) => &mut files.record,
            _ => &mut files.install,
        };
        target.push_str("---\n");
        target.push_str(&part.text);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_objects_are_equal_however_they_are_written() {
        let ours = objects("kind: B\n---\nkind: A\nlist: [{name: x}, {name: w, most: 1.0}]\n").unwrap();
        let others = objects("kind: A\nlist: [{name: w, most: 1}, {name: x}]\n---\nkind: B\n---\n").unwrap();
        assert_eq!(ours, others);
        assert_ne!(
            ours,
            objects("kind: A\nlist: [{name: w, most: 1.5}, {name: x}]\n---\nkind: B\n").unwrap()
        );
    }

    #[test]
    fn documents_are_put_together_by_template() {
        let text = "---\n# Source: chart/templates/b.yaml\n# why\nkind: B\n---\n# Source: chart/templates/a.yaml\nkind: A\n\
                    ---\n# Source: chart/templates/b.yaml\nkind: C\n";
        let part = |template: &str, text: &str| Rendered { template: template.into(), text: text.into() };
        let expected = [part("a.yaml", "kind: A\n"), part("b.yaml", "# why\nkind: B\n---\nkind: C\n")];
        assert_eq!(by_template(text), expected);
    }
}
