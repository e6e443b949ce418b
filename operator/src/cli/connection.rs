//! Which cluster is asked, and which object is meant.

use std::path::PathBuf;

use anyhow::{Context, bail};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use scavenger_planner::values::Key;

use super::Unusable;

/// Which cluster is asked, and as whom.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct Connection {
    /// The kubeconfig file; $KUBECONFIG or ~/.kube/config unless given
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig; its current one unless given
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl Connection {
    /// Where the API server is and who asks. Without a kubeconfig it is the pod's own service account.
    pub(super) async fn config(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let config = match (&self.kubeconfig, &self.context) {
            (None, None) => return super::config().await,
            (Some(path), _) => match Kubeconfig::read_from(path) {
                Ok(kubeconfig) => Config::from_custom_kubeconfig(kubeconfig, &options).await,
                Err(error) => Err(error),
            },
            (None, Some(_)) => Config::from_kubeconfig(&options).await,
        };
        config.with_context(|| {
            let flags = match (&self.kubeconfig, &self.context) {
                (Some(_), Some(_)) => "are --kubeconfig and --context",
                (Some(_), None) => "is --kubeconfig",
                _ => "is --context",
            };
            Unusable(format!("no connection to the Kubernetes API could be set up; {flags} right?"))
        })
    }

    pub(super) async fn connect(&self) -> anyhow::Result<Client> {
        super::connected(Client::try_from(self.config().await?))
    }
}

/// The namespace of a command, as kubectl takes it.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct Namespace {
    /// The namespace; that of the kubeconfig's context unless given
    #[arg(short, long, value_name = "NAMESPACE", value_parser = super::namespace)]
    namespace: Option<String>,
}

/// A ScavengerJob, as kubectl would name it or with its namespace in front.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Target {
    /// The ScavengerJob
    #[arg(value_name = "[NAMESPACE/]NAME", value_parser = parse)]
    sj: (Option<String>, String),

    #[command(flatten)]
    namespace: Namespace,
}

fn parse(text: &str) -> Result<(Option<String>, String), String> {
    let (namespace, name) = match text.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, text),
    };
    if name.is_empty() || name.contains('/') || namespace.is_some_and(str::is_empty) {
        return Err("write NAME or NAMESPACE/NAME, for example chem/water-1".to_owned());
    }
    Ok((namespace.map(str::to_owned), name.to_owned()))
}

impl Target {
    /// The ScavengerJob, if the command line names its namespace.
    ///
    /// # Errors
    /// If it names two.
    pub(super) fn named(&self) -> anyhow::Result<Option<Key>> {
        let (in_front, name) = &self.sj;
        let namespace = match (in_front, &self.namespace.namespace) {
            (Some(one), Some(other)) if one != other => {
                bail!(Unusable(format!("{one}/{name} is not in namespace {other:?} (--namespace)")))
            }
            (one, other) => one.as_ref().or(other.as_ref()),
        };
        Ok(namespace.map(|namespace| Key::new(&**namespace, &**name)))
    }

    /// The ScavengerJob; in the namespace of the context if the command line names none.
    pub(super) fn key(&self, client: &Client) -> anyhow::Result<Key> {
        Ok(self.named()?.unwrap_or_else(|| Key::new(client.default_namespace(), &*self.sj.1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(sj: &str, namespace: Option<&str>) -> Target {
        Target { sj: parse(sj).unwrap(), namespace: Namespace { namespace: namespace.map(str::to_owned) } }
    }

    #[test]
    fn a_scavenger_job_is_named_as_kubectl_names_it_or_with_its_namespace() {
        assert_eq!(target("chem/water", None).named().unwrap(), Some(Key::new("chem", "water")));
        assert_eq!(target("water", Some("chem")).named().unwrap(), Some(Key::new("chem", "water")));
        assert_eq!(target("chem/water", Some("chem")).named().unwrap(), Some(Key::new("chem", "water")));
        assert_eq!(target("water", None).named().unwrap(), None);
        let error = target("chem/water", Some("lab")).named().unwrap_err();
        assert!(error.is::<Unusable>());
        assert_eq!(error.to_string(), "chem/water is not in namespace \"lab\" (--namespace)");
        for bad in ["/water", "chem/", "a/b/c", ""] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
