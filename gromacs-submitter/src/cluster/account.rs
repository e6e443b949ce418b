//! Accounts for people who have no login of the cluster's own: a ServiceAccount of a tenant with the rights that the command line
//! needs, and a kubeconfig with a token of it.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, RoleBinding};
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams, PostParams};
use pem::{EncodeConfig, LineEnding, Pem};
use scavenger_program::objects::Objects;
use scavenger_schema::names;
use scavenger_schema::simulation::LABEL_MANAGED_BY;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::access::Right;
use super::volume_pod::LABEL_NAME;
use super::{Access, AccessError, ClusterError, TIMEOUT, config};
use crate::config::Kubernetes;

/// The ClusterRole with the rights that `put`, `files`, `fetch` and `logs` need; deploy/submitter has it.
pub const CHEMIST_ROLE: &str = "gromacs-chemist";

/// No label of an object has a longer value, and the name of an account becomes one.
const LONGEST_NAME: usize = 63;

/// Hexadecimal digits by which accounts differ whose roles would give them the same name.
const DIGITS: usize = 8;

/// Name of the account of a database role. What cannot stand in a name is replaced, and digits that follow from the role then
/// distinguish it from others.
#[must_use]
pub fn account_of(role: &str) -> String {
    let is_plain = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit();
    let longest = LONGEST_NAME - CHEMIST_ROLE.len() - 1;
    let readable: String = role
        .to_ascii_lowercase()
        .chars()
        .map(|character| if is_plain(character) { character } else { '-' })
        .take(longest - DIGITS - 1)
        .collect();
    let readable = readable.trim_matches('-');
    if role == readable && !role.is_empty() {
        return format!("{CHEMIST_ROLE}-{role}");
    }
    let digest = Sha256::digest(role.as_bytes());
    let digits: String = digest.iter().take(DIGITS / 2).map(|byte| format!("{byte:02x}")).collect();
    let between = if readable.is_empty() { "" } else { "-" };
    format!("{CHEMIST_ROLE}-{readable}{between}{digits}")
}

/// A token, and when it ends.
pub struct Login {
    /// The token, which is never printed.
    pub token: String,
    /// The API server may end it earlier than it was asked to.
    pub expiry: Timestamp,
}

/// Where the API server is, as a kubeconfig says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiServer {
    /// Address.
    pub url: String,
    /// Certificate authorities, PEM in base64; those of the system if there are none.
    authorities: Option<String>,
    accepts_any_certificate: bool,
    tls_server_name: Option<String>,
    proxy_url: Option<String>,
}

impl ApiServer {
    /// The one that the user's kubeconfig names. No request is made.
    ///
    /// # Errors
    /// If there is no such kubeconfig or context.
    pub async fn read(kubernetes: &Kubernetes) -> Result<Self, ClusterError> {
        Ok(Self::of(&config(kubernetes).await?))
    }

    fn of(config: &kube::Config) -> Self {
        let authorities = config.root_cert.as_ref().map(|certificates| {
            let pems: Vec<Pem> =
                certificates.iter().map(|der| Pem::new("CERTIFICATE", der.as_slice())).collect();
            let lines = EncodeConfig::new().set_line_ending(LineEnding::LF);
            BASE64_STANDARD.encode(pem::encode_many_config(&pems, lines))
        });
        Self {
            url: config.cluster_url.to_string().trim_end_matches('/').to_owned(),
            authorities,
            accepts_any_certificate: config.accept_invalid_certs,
            tls_server_name: config.tls_server_name.clone(),
            proxy_url: config.proxy_url.as_ref().map(ToString::to_string),
        }
    }
}

/// A kubeconfig for an account in a namespace. It holds the token.
///
/// # Errors
/// If it cannot be written as YAML.
pub fn kubeconfig(
    server: &ApiServer,
    namespace: &str,
    account: &str,
    login: &Login,
) -> Result<String, serde_saphyr::ser::Error> {
    let mut cluster = json!({ "server": server.url });
    let given = [
        ("certificate-authority-data", server.authorities.as_ref().map(|pem| json!(pem))),
        ("insecure-skip-tls-verify", server.accepts_any_certificate.then_some(json!(true))),
        ("tls-server-name", server.tls_server_name.as_ref().map(|name| json!(name))),
        ("proxy-url", server.proxy_url.as_ref().map(|url| json!(url))),
    ];
    for (field, value) in given {
        if let Some(value) = value {
            cluster[field] = value;
        }
    }
    // A token in one line, as people know it.
    let style = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let file = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "scavenger", "cluster": cluster }],
        "users": [{ "name": account, "user": { "token": login.token } }],
        "contexts": [{
            "name": namespace,
            "context": { "cluster": "scavenger", "user": account, "namespace": namespace },
        }],
        "current-context": namespace,
    });
    serde_saphyr::to_string_with_options(&file, style)
}

impl Access {
    /// Makes an account with the rights of [`CHEMIST_ROLE`] in the namespace, or leaves it as it is. With `dry_run` the API
    /// server judges it, and nothing stays.
    ///
    /// # Errors
    /// [`AccessError`].
    pub async fn apply_account(&self, account: &str, dry_run: bool) -> Result<(), AccessError> {
        // Who may bind every role may bind one that is not there. An admin of the namespace alone may not look; then the API
        // server does.
        let roles: Objects<ClusterRole> = Objects::all(self.client.clone());
        if matches!(tokio::time::timeout(TIMEOUT, roles.get_opt(CHEMIST_ROLE)).await, Ok(Ok(None))) {
            return Err(AccessError::FindRole);
        }
        let mut parameters = PatchParams::apply(names::SUBMITTER).force();
        parameters.dry_run = dry_run;
        // No pod needs its token.
        let object = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(account),
            "automountServiceAccountToken": false,
        });
        let made = self.apply::<ServiceAccount>(Right::ApplyAccount, account, &parameters, &object);
        let uid = made.await?.uid().unwrap_or_default();
        let mut metadata = metadata(account);
        // Who deletes the account takes the rights away, too.
        metadata["ownerReferences"] =
            json!([{ "apiVersion": "v1", "kind": "ServiceAccount", "name": account, "uid": uid }]);
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": CHEMIST_ROLE },
            "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": self.namespace() }],
        });
        self.apply::<RoleBinding>(Right::ApplyBinding, account, &parameters, &binding).await.map(drop)
    }

    async fn apply<K>(
        &self,
        right: Right,
        name: &str,
        parameters: &PatchParams,
        object: &Value,
    ) -> Result<K, AccessError>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
        K::DynamicType: Default,
    {
        let objects: Objects<K> = Objects::namespaced(self.client.clone(), self.namespace());
        self.ask(right, name, objects.patch(name, parameters, &Patch::Apply(object))).await
    }

    /// A token of an account, which ends after `lifetime` at the latest, or when the account is deleted.
    ///
    /// # Errors
    /// [`AccessError`].
    pub async fn log_in(&self, account: &str, lifetime: Duration) -> Result<Login, AccessError> {
        let accounts: Objects<ServiceAccount> = Objects::namespaced(self.client.clone(), self.namespace());
        let expiration_seconds = i64::try_from(lifetime.as_secs()).ok();
        let spec = TokenRequestSpec { expiration_seconds, ..TokenRequestSpec::default() };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let parameters = PostParams::default();
        let asked = accounts.create_token_request(account, &parameters, &request);
        let answer = self.ask(Right::CreateToken, account, asked).await?.status.unwrap_or_default();
        match (answer.token, answer.expiration_timestamp) {
            (Some(token), Some(expiry)) => Ok(Login { token, expiry: expiry.0 }),
            _ => Err(AccessError::Refuse {
                right: Right::CreateToken,
                name: account.to_owned(),
                namespace: self.namespace().to_owned(),
                message: "the answer has no token, or no time at which it ends".to_owned(),
            }),
        }
    }
}

fn metadata(name: &str) -> Value {
    json!({ "name": name, "labels": { LABEL_NAME: CHEMIST_ROLE, LABEL_MANAGED_BY: names::SUBMITTER } })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::{Arc, Mutex, PoisonError};

    use axum::extract::Request;
    use axum::response::IntoResponse as _;
    use axum::{Json, Router};
    use kube::config::{KubeConfigOptions, Kubeconfig};

    use super::*;
    use crate::fixtures::client;

    #[test]
    fn an_account_has_a_name_of_its_own_whatever_the_role_is_called() {
        assert_eq!(account_of("alice"), "gromacs-chemist-alice");
        assert_eq!(account_of("alice-2"), "gromacs-chemist-alice-2");
        let long = "a".repeat(63);
        let roles = [
            "alice",
            "Alice",
            "alice_b",
            "alice-b",
            "alice.b",
            "-alice",
            "ä",
            "",
            "'\"; --",
            &long,
            &long[1..],
        ];
        let names: BTreeSet<String> = roles.into_iter().map(account_of).collect();
        assert_eq!(names.len(), roles.len(), "{names:?}");
        for name in &names {
            let is_label = name.len() <= LONGEST_NAME
                && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
                && !name.ends_with('-');
            assert!(is_label, "{name}");
        }
    }

    fn api_server(authorities: Option<Vec<Vec<u8>>>) -> ApiServer {
        let mut config = kube::Config::new("https://api.example:6443".parse().expect("should be a URL"));
        config.root_cert = authorities;
        ApiServer::of(&config)
    }

    #[tokio::test]
    async fn a_kubeconfig_leads_to_the_same_server_as_another_user() {
        let authority = b"a certificate".to_vec();
        let server = api_server(Some(vec![authority.clone(), b"another".to_vec()]));
        let token = ["eyJhbGciOi", &"Jx-_".repeat(200), "aGI"].join(".");
        let login = Login { token: token.clone(), expiry: Timestamp::UNIX_EPOCH };
        let yaml = kubeconfig(&server, "chem", "gromacs-chemist-alice", &login).expect("should be written");
        let read = Kubeconfig::from_yaml(&yaml).expect("should be a kubeconfig");
        let read_token =
            serde_json::to_value(&read.auth_infos).ok().map(|users| users[0]["user"]["token"].clone());
        let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
            .await
            .expect("should lead to a cluster");
        assert_eq!(config.cluster_url.to_string(), "https://api.example:6443/");
        assert_eq!(config.default_namespace, "chem");
        assert_eq!(config.root_cert, Some(vec![authority, b"another".to_vec()]));
        assert_eq!(read_token, Some(json!(token)));
        assert!(yaml.contains(&format!("token: {token}\n")), "{yaml}");
        let without = kubeconfig(&api_server(None), "chem", "alice", &login).expect("should be written");
        assert!(!without.contains("certificate"), "{without}");
    }

    /// What was asked of an API server that takes everything, and answers a question about the role with this status.
    async fn accepting(role: u16) -> (Access, Arc<Mutex<Vec<(String, Value)>>>) {
        let asked: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
        let log = Arc::clone(&asked);
        let router = Router::new().fallback(move |request: Request| {
            let log = Arc::clone(&log);
            async move {
                let (parts, body) = request.into_parts();
                if parts.method == "GET" {
                    let reason = if role == 404 { "NotFound" } else { "Forbidden" };
                    let status =
                        json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": role, "reason": reason });
                    let code = axum::http::StatusCode::from_u16(role).expect("should be a status");
                    return (code, Json(status)).into_response();
                }
                let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap_or_default();
                let mut object: Value = serde_json::from_slice(&bytes).unwrap_or_default();
                let path = parts.uri.to_string();
                log.lock().unwrap_or_else(PoisonError::into_inner).push((path.clone(), object.clone()));
                if path.contains("/token") {
                    object["status"] =
                        json!({ "token": "a.b.c", "expirationTimestamp": "2027-01-01T00:00:00Z" });
                } else {
                    object["metadata"]["uid"] = json!("uid-1");
                }
                Json(object).into_response()
            }
        });
        (Access { client: client(router).await, namespace: "chem".to_owned() }, asked)
    }

    #[tokio::test]
    async fn an_account_gets_the_role_in_its_namespace_and_loses_it_with_its_end() {
        let (access, asked) = accepting(403).await;
        access.apply_account("gromacs-chemist-alice", false).await.expect("should be made");
        let login = access.log_in("gromacs-chemist-alice", Duration::from_secs(3600)).await;
        assert_eq!(login.map(|login| login.expiry.to_string()).ok().as_deref(), Some("2027-01-01T00:00:00Z"));
        let asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
        let [(account, made), (binding, bound), (token, requested)] = &asked[..] else { panic!("{asked:?}") };
        assert!(
            account.starts_with("/api/v1/namespaces/chem/serviceaccounts/gromacs-chemist-alice?"),
            "{account}"
        );
        assert_eq!(made["automountServiceAccountToken"], false);
        assert!(binding.contains("/namespaces/chem/rolebindings/gromacs-chemist-alice?"), "{binding}");
        assert_eq!(bound["roleRef"]["name"], CHEMIST_ROLE);
        assert_eq!(bound["metadata"]["ownerReferences"][0]["uid"], "uid-1");
        assert_eq!(bound["subjects"][0]["namespace"], "chem");
        assert!(token.contains("/serviceaccounts/gromacs-chemist-alice/token"), "{token}");
        assert_eq!(requested["spec"]["expirationSeconds"], 3600);
    }

    #[tokio::test]
    async fn a_dry_run_asks_the_api_server_to_keep_nothing() {
        let (access, asked) = accepting(403).await;
        access.apply_account("gromacs-chemist-alice", true).await.expect("should be judged");
        let asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(asked.len(), 2);
        assert!(asked.iter().all(|(path, _)| path.contains("dryRun=All")), "{asked:?}");
    }

    #[tokio::test]
    async fn without_the_role_there_is_no_account() {
        let (access, asked) = accepting(404).await;
        let error =
            access.apply_account("gromacs-chemist-alice", false).await.expect_err("should be refused");
        assert!(error.to_string().contains("no ClusterRole gromacs-chemist"), "{error}");
        assert!(asked.lock().unwrap_or_else(PoisonError::into_inner).is_empty());
    }

    /// Resources of each API group with their verbs, as a role and as the page has them.
    type Rights = BTreeMap<String, BTreeSet<String>>;

    fn of_the_role() -> Rights {
        let yaml = include_str!("../../../deploy/submitter/rbac.yaml");
        let role = yaml.split("---\n").find(|part| part.contains(&format!("name: {CHEMIST_ROLE}\n")));
        let role: Value =
            serde_saphyr::from_str(role.expect("should have the role")).expect("should be YAML");
        let texts = |value: &Value| -> Vec<String> {
            let items = value.as_array().into_iter().flatten();
            items.filter_map(Value::as_str).map(ToOwned::to_owned).collect()
        };
        let rules = role["rules"].as_array().expect("should have rules");
        let mut rights = Rights::new();
        for rule in rules {
            let group = texts(&rule["apiGroups"]).concat();
            for resource in texts(&rule["resources"]) {
                let name = if group.is_empty() { resource } else { format!("{resource}.{group}") };
                rights.entry(name).or_default().extend(texts(&rule["verbs"]));
            }
        }
        rights
    }

    #[test]
    fn the_role_has_the_rights_of_the_page_and_no_others() {
        let page = include_str!("../../../docs/permissions.md");
        let section =
            page.split("### Logs and files of simulations").nth(1).expect("should have the section");
        let lines = section.lines().skip_while(|line| !line.starts_with("| resource")).skip(2);
        let mut rights = Rights::new();
        for line in lines.take_while(|line| line.starts_with('|')) {
            let cells: Vec<Vec<&str>> =
                line.split('|').map(|cell| cell.split('`').skip(1).step_by(2).collect()).collect();
            let verbs = cells[2].iter().map(|verb| (*verb).to_owned());
            rights.entry(cells[1].concat()).or_default().extend(verbs);
        }
        assert_eq!(rights, of_the_role());
    }
}
