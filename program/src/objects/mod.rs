//! Objects of Kubernetes by name. The client writes a name into the path of a request as it is: with `../x` it would ask for
//! another object, with `x/status` or `x?dryRun=All` for something else. Here alone names become parts of paths, each of them
//! one segment. `cargo xtask ci` checks that the programs make requests through nothing else.

use std::fmt::Debug;

use k8s_openapi::api::{
    authentication::v1::TokenRequest,
    core::v1::{Pod, ServiceAccount},
};
use kube::{
    Api, Client, Resource,
    api::{
        DeleteParams, EvictParams, GetParams, ListParams, LogParams, ObjectList, PartialObjectMeta, Patch,
        PatchParams, PostParams,
    },
    core::{DynamicResourceScope, NamespaceResourceScope, Status, request},
};
use serde::{Serialize, de::DeserializeOwned};

/// What a name may have beside letters and digits in a path. What follows `%` would be read as another character.
const ALSO: &[u8] = b"-._~!$&'()*+,;=:@";

/// No object of the programs has a longer name.
const LONGEST: usize = 253;

/// A name as one segment of a path.
fn segment<'a>(kind: &str, name: &'a str) -> kube::Result<&'a str> {
    let is_segment = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || ALSO.contains(&byte));
    if is_segment && !["", ".", ".."].contains(&name) && name.len() <= LONGEST {
        return Ok(name);
    }
    Err(kube::Error::BuildRequest(request::Error::Validation(format!(
        "{kind} {name:?} cannot exist: use at most {LONGEST} letters, digits, '-' and '.'"
    ))))
}

/// Why no request was made, if a name is to blame: no other try will make one.
#[must_use]
pub fn wrong_name(error: &kube::Error) -> Option<&str> {
    match error {
        kube::Error::BuildRequest(request::Error::Validation(why)) => Some(why),
        _ => None,
    }
}

/// The objects of one kind, of a namespace or of the cluster.
#[derive(Clone, Debug)]
pub struct Objects<K> {
    api: Api<K>,
    kind: String,
}

impl<K: Resource> Objects<K> {
    /// Those of the cluster.
    #[must_use]
    pub fn all(client: Client) -> Self
    where
        K::DynamicType: Default,
    {
        Self { api: Api::all(client), kind: K::kind(&K::DynamicType::default()).into_owned() }
    }

    /// Those of a namespace.
    #[must_use]
    pub fn namespaced(client: Client, namespace: &str) -> Self
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        let kind = K::kind(&K::DynamicType::default()).into_owned();
        Self { api: Api::namespaced(client, namespace), kind }
    }

    /// Those of a namespace, of a kind without a type.
    #[must_use]
    pub fn namespaced_with(client: Client, namespace: &str, kind: &K::DynamicType) -> Self
    where
        K: Resource<Scope = DynamicResourceScope>,
    {
        Self { api: Api::namespaced_with(client, namespace, kind), kind: K::kind(kind).into_owned() }
    }
}

impl<K: Resource> Objects<K> {
    /// For requests whose path has no name but that of the namespace, a watch among them.
    ///
    /// # Errors
    /// If the namespace has no name.
    pub fn unnamed(&self) -> kube::Result<&Api<K>> {
        if let Some(namespace) = self.api.namespace() {
            segment("Namespace", namespace)?;
        }
        Ok(&self.api)
    }

    /// For requests about one object.
    fn named<'a>(&self, name: &'a str) -> kube::Result<(&Api<K>, &'a str)> {
        Ok((self.unnamed()?, segment(&self.kind, name)?))
    }
}

impl<K: Resource + Clone + DeserializeOwned + Debug> Objects<K> {
    /// As [`Api::get`].
    ///
    /// # Errors
    /// Those of the client, and [`wrong_name`].
    pub async fn get(&self, name: &str) -> kube::Result<K> {
        let (api, name) = self.named(name)?;
        api.get(name).await
    }

    /// As [`Api::get_with`].
    ///
    /// # Errors
    /// Those of the client, and [`wrong_name`].
    pub async fn get_with(&self, name: &str, parameters: &GetParams) -> kube::Result<K> {
        let (api, name) = self.named(name)?;
        api.get_with(name, parameters).await
    }

    /// As [`Api::get_opt`].
    ///
    /// # Errors
    /// Those of the client, and [`wrong_name`].
    pub async fn get_opt(&self, name: &str) -> kube::Result<Option<K>> {
        let (api, name) = self.named(name)?;
        api.get_opt(name).await
    }

    /// As [`Api::get_metadata`].
    ///
    /// # Errors
    /// Those of the client, and [`wrong_name`].
    pub async fn get_metadata(&self, name: &str) -> kube::Result<PartialObjectMeta<K>> {
        let (api, name) = self.named(name)?;
        api.get_metadata(name).await
    }

    /// As [`Api::get_metadata_opt`].
    ///
    /// # Errors
    /// Those of the client, and [`wrong_name`].
    pub async fn get_metadata_opt(&self, name: &str) -> kube::Result<Option<PartialObjectMeta<K>>> {
        let (api, name) = self.named(name)?;
        api.get_metadata_opt(name).await
    }

    /// As [`Api::get_metadata_opt_with`].
    ///
    /// # Errors
    /// Those of the client, and [`wrong_name`].
    pub async fn get_metadata_opt_with(
        &self,
        name: &str,
        parameters: &GetParams,
    ) -> kube::Result<Option<PartialObjectMeta<K>>> {
        let (api, name) = self.named(name)?;
        api.get_metadata_opt_with(name, parameters).await
    }

    /// As [`Api::list`].
    ///
    /// # Errors
    /// Those of the client, and [`wrong_name`].
    pub async fn list(&self, parameters: &ListParams) -> kube::Result<ObjectList<K>> {
        self.unnamed()?.list(parameters).await
    }

    /// As [`Api::list_metadata`].
    ///
    /// # Errors
    /// Those of the client, and [`wrong_name`].
    pub async fn list_metadata(
        &self,
        parameters: &ListParams,
    ) -> kube::Result<ObjectList<PartialObjectMeta<K>>> {
        self.unnamed()?.list_metadata(parameters).await
    }

    /// As [`Api::create`].
    ///
    /// # Errors
    /// Those of the client, and [`wrong_name`].
    pub async fn create(&self, parameters: &PostParams, object: &K) -> kube::Result<K>
    where
        K: Serialize,
    {
        self.unnamed()?.create(parameters, object).await
    }

    /// As [`Api::replace`].
    ///
    /// # Errors
    /// Those of the client, and [`wrong_name`].
    pub async fn replace(&self, name: &str, parameters: &PostParams, object: &K) -> kube::Result<K>
    where
        K: Serialize,
    {
        let (api, name) = self.named(name)?;
        api.replace(name, parameters, object).await
    }

    /// As [`Api::replace_status`].
    ///
    /// # Errors
    /// Those of the client, and [`wrong_name`].
    pub async fn replace_status(&self, name: &str, parameters: &PostParams, object: &K) -> kube::Result<K>
    where
        K: Serialize,
    {
        let (api, name) = self.named(name)?;
        api.replace_status(name, parameters, object).await
    }

    /// As [`Api::patch`].
    ///
    /// # Errors
    /// Those of the client, and [`wrong_name`].
    pub async fn patch<P: Serialize + Debug>(
        &self,
        name: &str,
        parameters: &PatchParams,
        patch: &Patch<P>,
    ) -> kube::Result<K> {
        let (api, name) = self.named(name)?;
        api.patch(name, parameters, patch).await
    }

    /// As [`Api::patch_metadata`].
    ///
    /// # Errors
    /// Those of the client, and [`wrong_name`].
    pub async fn patch_metadata<P: Serialize + Debug>(
        &self,
        name: &str,
        parameters: &PatchParams,
        patch: &Patch<P>,
    ) -> kube::Result<PartialObjectMeta<K>> {
        let (api, name) = self.named(name)?;
        api.patch_metadata(name, parameters, patch).await
    }

    /// As [`Api::patch_status`].
    ///
    /// # Errors
    /// Those of the client, and [`wrong_name`].
    pub async fn patch_status<P: Serialize + Debug>(
        &self,
        name: &str,
        parameters: &PatchParams,
        patch: &Patch<P>,
    ) -> kube::Result<K> {
        let (api, name) = self.named(name)?;
        api.patch_status(name, parameters, patch).await
    }

    /// As [`Api::delete`]: that it is on its way is all that is told.
    ///
    /// # Errors
    /// Those of the client, and [`wrong_name`].
    pub async fn delete(&self, name: &str, parameters: &DeleteParams) -> kube::Result<()> {
        let (api, name) = self.named(name)?;
        api.delete(name, parameters).await.map(drop)
    }
}

impl Objects<Pod> {
    /// As [`Api::evict`].
    ///
    /// # Errors
    /// Those of the client, and [`wrong_name`].
    pub async fn evict(&self, name: &str, parameters: &EvictParams) -> kube::Result<Status> {
        let (api, name) = self.named(name)?;
        api.evict(name, parameters).await
    }

    /// As [`Api::log_stream`]. There is nothing like [`Api::logs`], which refuses what is not UTF-8: a program prints what it likes.
    ///
    /// # Errors
    /// Those of the client, and [`wrong_name`].
    pub async fn log_stream(
        &self,
        name: &str,
        parameters: &LogParams,
    ) -> kube::Result<impl futures::AsyncBufRead + use<>> {
        let (api, name) = self.named(name)?;
        api.log_stream(name, parameters).await
    }

    /// As [`Api::exec`].
    ///
    /// # Errors
    /// Those of the client, and [`wrong_name`].
    #[cfg(feature = "exec")]
    pub async fn exec(
        &self,
        name: &str,
        command: Vec<String>,
        parameters: &kube::api::AttachParams,
    ) -> kube::Result<kube::api::AttachedProcess> {
        let (api, name) = self.named(name)?;
        api.exec(name, command, parameters).await
    }
}

impl Objects<ServiceAccount> {
    /// As [`Api::create_token_request`].
    ///
    /// # Errors
    /// Those of the client, and [`wrong_name`].
    pub async fn create_token_request(
        &self,
        name: &str,
        parameters: &PostParams,
        request: &TokenRequest,
    ) -> kube::Result<TokenRequest> {
        let (api, name) = self.named(name)?;
        api.create_token_request(name, parameters, request).await
    }
}

#[cfg(test)]
mod tests;
