//! Other people on the cluster: the tests' own admin impersonates them.

use std::{collections::BTreeSet, fmt::Debug};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SelfSubjectRulesReview,
    SelfSubjectRulesReviewSpec,
};
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};

/// The kubeconfig of the tests' own admin.
///
/// # Errors
/// If the tests have no cluster.
pub fn kubeconfig() -> Result<Kubeconfig> {
    let path = std::env::var_os(crate::KUBECONFIG).context("the tests have no cluster")?;
    Kubeconfig::read_from(path).context("the kubeconfig cannot be read")
}

/// How the tests' own admin reaches the cluster.
///
/// # Errors
/// If the kubeconfig of the tests cannot be used.
pub async fn admin() -> Result<Config> {
    Ok(Config::from_custom_kubeconfig(kubeconfig()?, &KubeConfigOptions::default()).await?)
}

/// A connection as somebody else. The API server adds the groups that follow from the name.
///
/// # Errors
/// If the kubeconfig of the tests cannot be used.
pub async fn client(user: &str) -> Result<Client> {
    let mut config = admin().await?;
    config.auth_info.impersonate = Some(user.to_owned());
    Ok(Client::try_from(config)?)
}

/// User name of a service account.
#[must_use]
pub fn service_account(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// What somebody may do: API group, resource (with a subresource behind a slash) and verb.
pub type Right = (String, String, String);

/// All that a user may do in a namespace, rights for the whole cluster included. Rights to single named objects and to
/// paths of the API server are left out.
///
/// # Errors
/// What the API server says.
pub async fn rights(client: &Client, namespace: &str) -> Result<BTreeSet<Right>> {
    let review = SelfSubjectRulesReview {
        spec: SelfSubjectRulesReviewSpec { namespace: Some(namespace.to_owned()) },
        ..SelfSubjectRulesReview::default()
    };
    let review = Api::all(client.clone()).create(&PostParams::default(), &review).await?;
    let status = review.status.context("the review has no answer")?;
    ensure!(!status.incomplete, "the API server does not know all rights: {:?}", status.evaluation_error);
    let mut rights = BTreeSet::new();
    for rule in status.resource_rules {
        if rule.resource_names.is_some_and(|names| !names.is_empty()) {
            continue;
        }
        for group in rule.api_groups.as_deref().unwrap_or_default() {
            for resource in rule.resources.as_deref().unwrap_or_default() {
                for verb in &rule.verbs {
                    rights.insert((group.clone(), resource.clone(), verb.clone()));
                }
            }
        }
    }
    Ok(rights)
}

/// True if a user may do something in a namespace, or in the whole cluster without one.
///
/// # Errors
/// What the API server says.
pub async fn may(client: &Client, namespace: Option<&str>, right: (&str, &str, &str)) -> Result<bool> {
    let (group, resource, verb) = right;
    let (resource, subresource) =
        resource.split_once('/').map_or((resource, None), |(resource, sub)| (resource, Some(sub.to_owned())));
    let attributes = ResourceAttributes {
        namespace: namespace.map(str::to_owned),
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource,
        verb: Some(verb.to_owned()),
        ..ResourceAttributes::default()
    };
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let review = Api::all(client.clone()).create(&PostParams::default(), &review).await?;
    Ok(review.status.is_some_and(|status| status.allowed))
}

/// Checks that something was refused, and that the API server's sentence contains every one of `words`.
///
/// # Errors
/// If it was accepted, or a word is missing.
pub fn refused<T: Debug>(what: &str, answer: kube::Result<T>, words: &[&str]) -> Result<()> {
    let message = match answer {
        Err(kube::Error::Api(status)) => status.message,
        Err(error) => return Err(error).with_context(|| what.to_owned()),
        Ok(accepted) => anyhow::bail!("{what} was accepted: {accepted:?}"),
    };
    for word in words {
        ensure!(message.contains(word), "{what}: {word:?} is not in: {message}");
    }
    Ok(())
}
