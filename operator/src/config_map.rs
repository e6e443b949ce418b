//! The ConfigMaps that the operator writes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    ResourceExt as _,
    api::{ObjectMeta, PostParams},
};
use scavenger_program::objects::Objects;
use scavenger_schema::names;

/// Label on everything that the operator makes besides Jobs, with [`names::OPERATOR`] as its value.
pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Kube(#[from] kube::Error),
    #[error(
        "a ConfigMap without the label {MANAGED_BY}={} is in its place; delete or rename it",
        names::OPERATOR
    )]
    NotOurs,
}

/// Writes a ConfigMap, unless it is there and right. One that is somebody else's is left alone.
pub(crate) async fn bring(
    api: &Objects<ConfigMap>,
    name: &str,
    data: BTreeMap<String, String>,
) -> Result<(), Error> {
    let Some(mut map) = api.get_opt(name).await? else {
        let labels = BTreeMap::from([(MANAGED_BY.to_owned(), names::OPERATOR.to_owned())]);
        let metadata =
            ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
        let map = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
        return Ok(api.create(&PostParams::default(), &map).await.map(drop)?);
    };
    if !is_ours(&map) {
        return Err(Error::NotOurs);
    }
    let data = Some(data);
    if map.data == data && map.binary_data.is_none() {
        return Ok(());
    }
    (map.data, map.binary_data) = (data, None);
    // With the version that was read.
    Ok(api.replace(name, &PostParams::default(), &map).await.map(drop)?)
}

/// True if the operator made it.
pub(crate) fn is_ours(map: &ConfigMap) -> bool {
    map.labels().get(MANAGED_BY).map(String::as_str) == Some(names::OPERATOR)
}
