//! Which templates of the chart, with which values, are which files of the kustomizations.

use anyhow::{Context, Result};

use crate::generate::File;

/// One rendering, and the files that are taken from it.
struct Base {
    /// The values that differ from the defaults.
    values: &'static str,
    /// The folder of the files.
    folder: &'static str,
    /// A template's folder and its files.
    templates: &'static [(&'static str, &'static [&'static str])],
}

/// A tenant's namespace, which the kustomization leaves to `kubectl --namespace`.
pub(super) const TENANT: &str = "any-tenant";

const BASES: &[Base] = &[
    Base {
        values: "namespace: {create: true}",
        folder: "deploy/operator",
        templates: &[(
            "operator",
            &[
                "namespace.yaml",
                "priority-classes.yaml",
                "pool.yaml",
                "rbac.yaml",
                "roles.yaml",
                "policies.yaml",
                "policies-limits.yaml",
                "policies-operator.yaml",
                "deployment.yaml",
                "service.yaml",
            ],
        )],
    },
    Base {
        values: "preemption: {mode: Operator}",
        folder: "deploy/preemption-operator",
        templates: &[("preemption", &["guard.yaml", "priority-class.yaml"])],
    },
    Base {
        // Where the tuner learns is a component of its own, deploy/tuner/learning.
        values: "tuner: {enabled: true, learning: false}",
        folder: "deploy/tuner",
        templates: &[("tuner", &["deployment.yaml", "network-policy.yaml"])],
    },
    Base {
        values: "nodeAgent: {enabled: true}",
        folder: "deploy/node-agent",
        templates: &[("node-agent", &["namespace.yaml", "daemonset.yaml", "network-policy.yaml"])],
    },
    Base {
        values: "record: {enabled: true}",
        folder: "deploy/record",
        templates: &[("record", &["rbac.yaml", "deployment.yaml"])],
    },
    Base {
        values: "submitter: {enabled: true}",
        folder: "deploy/submitter",
        templates: &[("submitter", &["rbac.yaml", "deployment.yaml"])],
    },
    Base {
        values: "submitter: {enabled: true, mode: CronJob}",
        folder: "deploy/submitter-cron",
        templates: &[("submitter", &["cronjob.yaml"])],
    },
    Base {
        values: "postgres: {enabled: true}",
        folder: "deploy/postgres",
        templates: &[("postgres", &["statefulset.yaml"])],
    },
    Base {
        values: "networkPolicies: {operator: true}",
        folder: "deploy/network-policies/operator",
        templates: &[("operator", &["network-policy.yaml"])],
    },
    Base {
        values: "{networkPolicies: {submitter: true}, submitter: {enabled: true}}",
        folder: "deploy/network-policies/submitter",
        templates: &[("submitter", &["network-policy.yaml"])],
    },
    Base {
        values: "{networkPolicies: {postgres: true}, postgres: {enabled: true}}",
        folder: "deploy/network-policies/postgres",
        templates: &[("postgres", &["network-policy.yaml"])],
    },
    Base {
        values: "monitoring: {podMonitor: {enabled: true}, prometheusRule: {enabled: true}}",
        folder: "deploy/prometheus-operator",
        templates: &[("monitoring", &["pod-monitor.yaml", "prometheus-rule.yaml"])],
    },
    Base {
        values: "tenants: [any-tenant]",
        folder: "deploy/tenant",
        templates: &[("", &["role-binding.yaml"])],
    },
];

/// Stands above every generated file.
const HEAD: &str = "# Rendered by `cargo xtask generate` from deploy/chart: change it there.\n";

/// Every generated file of the kustomizations.
pub(super) fn render() -> Result<Vec<File>> {
    let mut files = Vec::new();
    for base in BASES {
        let rendered = super::render(base.values)?;
        for (templates, names) in base.templates {
            for name in *names {
                let template =
                    if templates.is_empty() { (*name).to_owned() } else { format!("{templates}/{name}") };
                let part = rendered.iter().find(|part| part.template == template);
                let part = part.with_context(|| format!("the chart renders nothing for {template}"))?;
                let text = part.text.replace(&format!("  namespace: {TENANT}\n"), "");
                files.push(File::new(&format!("{}/{name}", base.folder), format!("{HEAD}{text}")));
            }
        }
    }
    Ok(files)
}
