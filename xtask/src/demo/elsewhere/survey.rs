//! What is looked at before anything is changed: the cluster, the rights in it, what is there already, and the registry.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{
    super::{VALUES, stage::LABEL},
    CRDS, Elsewhere,
    nodes::{self, Node, Share},
};
use crate::{
    chart,
    cluster::Access,
    install::{self, NAMESPACE},
    shell::ROOT,
};

/// The oldest release of Kubernetes 1 that the project supports.
const OLDEST_MINOR: u32 = 31;

/// Verb and resource of each right that the demo needs in the whole cluster.
const RIGHTS: [(&str, &str); 12] = [
    ("create", "namespaces"),
    ("delete", "namespaces"),
    ("create", "customresourcedefinitions.apiextensions.k8s.io"),
    ("delete", "customresourcedefinitions.apiextensions.k8s.io"),
    ("create", "clusterroles.rbac.authorization.k8s.io"),
    ("create", "clusterrolebindings.rbac.authorization.k8s.io"),
    ("create", "validatingadmissionpolicies.admissionregistration.k8s.io"),
    ("create", "priorityclasses.scheduling.k8s.io"),
    ("patch", "nodes"),
    ("list", "pods"),
    ("create", "pods"),
    ("create", "secrets"),
];

/// All that the demo knows of the cluster before it begins.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) server: String,
    pub(super) context: String,
    pub(super) version: String,
    pub(super) node: Node,
    pub(super) share: Share,
    /// StorageClass of the claims.
    pub(super) storage_class: String,
    /// True if the definitions are there, without anything else of the project.
    pub(super) has_definitions: bool,
    /// True if the registry wanted to know who pushes.
    pub(super) asks_for_login: bool,
}

impl Survey {
    /// Looks, and changes nothing.
    pub(super) fn of(access: &Access, place: &Place, arguments: &Elsewhere) -> Result<Self> {
        let Place { server, context } = place;
        let get = |resource: &str| -> Result<Value> {
            let text = access.kubectl_output(&["get", resource, "--all-namespaces", "--output", "json"])?;
            serde_json::from_str(&text).with_context(|| format!("kubectl printed no JSON for {resource}"))
        };
        let version = version(access, server)?;
        ensure_rights(access)?;
        let has_definitions = ensure_nothing_is_there(access, &get("namespaces")?, arguments)?;
        let ours = requested_by_us()?;
        let list = Node::read(&get("nodes")?, &get("pods")?)?;
        let node = nodes::choose(&list, arguments.node.as_deref(), ours)?.clone();
        let storage_class = storage_class(&get("storageclasses")?, arguments.storage_class.as_deref())?;
        let registry = arguments.registry.as_ref().context("the demo needs --registry")?;
        let asks_for_login = registry
            .check()
            .with_context(|| format!("images cannot be pushed to the registry {}", registry.prefix()))?;
        Ok(Self {
            server: server.clone(),
            context: context.clone(),
            version,
            share: node.share(ours),
            node,
            storage_class,
            has_definitions,
            asks_for_login,
        })
    }
}

/// Where a kubeconfig leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) server: String,
    pub(super) context: String,
}

impl Place {
    /// Reads what `kubectl config view --minify` printed.
    pub(super) fn read(config: &Value, kubeconfig: &Path) -> Result<Self> {
        let text = |value: &Value, what: &str| -> Result<String> {
            let text = value.as_str().filter(|text| !text.is_empty());
            text.map(str::to_owned).with_context(|| format!("{} names no {what}", kubeconfig.display()))
        };
        Ok(Self {
            server: text(&config["clusters"][0]["cluster"]["server"], "server of a cluster")?,
            context: text(&config["current-context"], "current context; choose one with --context")?,
        })
    }
}

fn version(access: &Access, server: &str) -> Result<String> {
    let text = access.kubectl_output(&["version", "--output=json", "--request-timeout=20s"]);
    let text = text.with_context(|| format!("the API server {server} does not answer"))?;
    let all: Value = serde_json::from_str(&text).context("kubectl version printed no JSON")?;
    supported(&all["serverVersion"])
}

/// The version of a server, if it is supported.
fn supported(version: &Value) -> Result<String> {
    let name = version["gitVersion"].as_str().unwrap_or("unknown").trim_start_matches('v').to_owned();
    // Some providers write 31+.
    let minor = version["minor"].as_str().unwrap_or_default().trim_end_matches('+');
    let minor: u32 = minor.parse().with_context(|| format!("{name} is no version of Kubernetes"))?;
    ensure!(
        minor >= OLDEST_MINOR,
        "the cluster runs Kubernetes {name}; ScavengerJobs need 1.{OLDEST_MINOR} or newer"
    );
    Ok(name)
}

fn ensure_rights(access: &Access) -> Result<()> {
    let mut missing = Vec::new();
    for (verb, resource) in RIGHTS {
        let question = ["auth", "can-i", verb, resource, "--all-namespaces"];
        let output = access.kubectl(&question).output().context("cannot run kubectl")?;
        let answer = String::from_utf8_lossy(&output.stdout);
        match answer.trim() {
            "yes" => {}
            "" => bail!(
                "kubectl {} failed: {}",
                question.join(" "),
                String::from_utf8_lossy(&output.stderr).trim()
            ),
            _ => missing.push(format!("{verb} {resource}")),
        }
    }
    ensure!(
        missing.is_empty(),
        "the user of the kubeconfig may not: {}; the demo installs an operator, and that takes a cluster administrator",
        missing.join(", ")
    );
    Ok(())
}

/// Refuses a cluster on which the project, or an earlier demo, is installed. True if only the definitions are there.
fn ensure_nothing_is_there(access: &Access, namespaces: &Value, arguments: &Elsewhere) -> Result<bool> {
    if !labelled(namespaces).is_empty() {
        bail!("an earlier demo is still on this cluster; remove it with\n  {}", arguments.clean_up_command());
    }
    let (definitions, others): (Vec<String>, Vec<String>) =
        install::left(access)?.into_iter().partition(|name| name.starts_with("customresourcedefinition"));
    let has_namespace = name_list(namespaces).contains(&NAMESPACE);
    if !others.is_empty() || has_namespace {
        let what = others.first().cloned().unwrap_or_else(|| format!("namespace/{NAMESPACE}"));
        bail!(
            "ScavengerJobs are installed on this cluster already ({what} is there); the demo would get in their way, so it \
             leaves them alone: use another cluster"
        );
    }
    if definitions.is_empty() {
        return Ok(false);
    }
    for kind in ["scavengerjobs", "scavengerpools"] {
        // One of the two may be missing.
        let objects = access.kubectl_output(&["get", kind, "--all-namespaces", "--output=name"]);
        if objects.is_ok_and(|objects| !objects.trim().is_empty()) {
            bail!(
                "there are {kind} on this cluster already; the demo leaves them alone: use another cluster"
            );
        }
    }
    let path = format!("{ROOT}/{CRDS}");
    let diff = access.kubectl(&["diff", "--server-side", "--force-conflicts", "-f", &path]).output();
    ensure!(
        diff.context("cannot run kubectl")?.status.success(),
        "the CustomResourceDefinitions on this cluster are of another version; if nothing needs them, delete them with\n  \
         kubectl delete crd scavengerjobs.scavenger.dev scavengerpools.scavenger.dev"
    );
    Ok(true)
}

fn name_list(list: &Value) -> Vec<&str> {
    list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect()
}

/// Names of the objects of a list that carry the demo's label.
pub(super) fn labelled(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().into_iter().flatten();
    let ours = items.filter(|item| !item["metadata"]["labels"][LABEL].is_null());
    ours.filter_map(|item| item["metadata"]["name"].as_str()).collect()
}

/// The class that is named, or the cluster's default.
fn storage_class(classes: &Value, named: Option<&str>) -> Result<String> {
    let names = name_list(classes);
    if let Some(name) = named {
        ensure!(
            names.contains(&name),
            "there is no StorageClass {name} (--storage-class); there are: {}",
            names.join(", ")
        );
        return Ok(name.to_owned());
    }
    let mut classes = classes["items"].as_array().into_iter().flatten();
    let default = classes.find(|class| {
        class["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true"
    });
    match default {
        Some(class) => Ok(class["metadata"]["name"].as_str().unwrap_or_default().to_owned()),
        None if names.is_empty() => {
            bail!("the cluster has no StorageClass, so nothing would provide the demo's two volumes")
        }
        None => bail!(
            "the cluster has no default StorageClass; choose one with --storage-class: {}",
            names.join(", ")
        ),
    }
}

/// Cpu that the pods of the demo's installation request, in thousandths of a core.
fn requested_by_us() -> Result<i64> {
    let path = format!("{ROOT}/{VALUES}/values.yaml");
    let values = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let mut sum = 0;
    for part in chart::render(&values)? {
        for object in chart::documents(&part.text)? {
            if let Some(replicas) = object["spec"]["replicas"].as_i64() {
                sum += replicas * nodes::requests(&object["spec"]["template"]["spec"])?.cpu;
            }
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_old_kubernetes_is_refused() {
        let version = |minor: &str| json!({ "gitVersion": format!("v1.{minor}.4-eks"), "minor": minor });
        assert_eq!(supported(&version("31+")).unwrap(), "1.31+.4-eks");
        let error = supported(&version("30")).unwrap_err().to_string();
        assert_eq!(error, "the cluster runs Kubernetes 1.30.4-eks; ScavengerJobs need 1.31 or newer");
    }

    #[test]
    fn a_kubeconfig_without_a_context_is_refused() {
        let config = |context: &str| json!({ "clusters": [{ "cluster": { "server": "https://a:6443" } }], "current-context": context });
        let place = Place::read(&config("admin"), Path::new("file")).unwrap();
        assert_eq!(place, Place { server: "https://a:6443".into(), context: "admin".into() });
        let error = Place::read(&config(""), Path::new("file")).unwrap_err().to_string();
        assert_eq!(error, "file names no current context; choose one with --context");
    }

    #[test]
    fn claims_need_a_class() {
        let class = |name: &str, is_default: &str| {
            json!({ "metadata": {
                "name": name, "annotations": { "storageclass.kubernetes.io/is-default-class": is_default },
            }})
        };
        let some = json!({ "items": [class("slow", "false"), class("fast", "true")] });
        assert_eq!(storage_class(&some, None).unwrap(), "fast");
        assert_eq!(storage_class(&some, Some("slow")).unwrap(), "slow");
        assert!(storage_class(&some, Some("other")).unwrap_err().to_string().ends_with("slow, fast"));
        let none = json!({ "items": [class("slow", "false")] });
        assert!(storage_class(&none, None).unwrap_err().to_string().contains("--storage-class: slow"));
        assert!(storage_class(&json!({ "items": [] }), None).is_err());
    }

    #[test]
    fn what_the_demo_made_is_found_by_its_label() {
        let list = json!({ "items": [
            { "metadata": { "name": "a", "labels": { LABEL: "true" } } },
            { "metadata": { "name": "b", "labels": {} } },
            { "metadata": { "name": "c" } },
        ]});
        assert_eq!(labelled(&list), ["a"]);
    }
}
