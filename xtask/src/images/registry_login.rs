//! How a registry asks who is there, and what this machine has to say to it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

/// Environment variables with a login; they win over the file.
const USER: &str = "SCAVENGER_REGISTRY_USER";
const PASSWORD: &str = "SCAVENGER_REGISTRY_PASSWORD";

/// What a registry wants: the header `WWW-Authenticate` of its answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// User and password with every request.
    Basic,
    /// A token of another server.
    Bearer {
        /// URL of that server.
        realm: String,
        /// Name of the registry there.
        service: String,
    },
}

impl Challenge {
    /// Reads the header; nothing if it asks for something else.
    pub(super) fn parse(header: &str) -> Option<Self> {
        let (kind, parameters) = header.split_once(' ').unwrap_or((header, ""));
        if kind.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !kind.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let value = |key: &str| {
            let (_, rest) = parameters.split_once(&format!("{key}=\""))?;
            Some(rest.split_once('"')?.0.to_owned())
        };
        Some(Self::Bearer { realm: value("realm")?, service: value("service").unwrap_or_default() })
    }
}

/// User and password, as the header of HTTP's basic authentication has them: in base64.
#[derive(PartialEq, Eq)]
pub(crate) struct Login(String);

impl Login {
    /// A login that is known.
    pub(super) fn new(user: &str, password: &str) -> Self {
        Self(BASE64_STANDARD.encode(format!("{user}:{password}")))
    }

    /// The login for a registry, if there is one.
    pub(crate) fn find(host: &str) -> Result<Option<Self>> {
        if let (Ok(user), Ok(password)) = (env::var(USER), env::var(PASSWORD)) {
            return Ok(Some(Self::new(&user, &password)));
        }
        let folder = env::var_os("DOCKER_CONFIG").map(PathBuf::from);
        let folder = folder.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".docker")));
        let Some(path) = folder.map(|folder| folder.join("config.json")).filter(|path| path.exists()) else {
            return Ok(None);
        };
        Self::in_file(&path, host)
    }

    /// The login for a registry in a file that `docker login` wrote.
    pub(crate) fn in_file(path: &Path, host: &str) -> Result<Option<Self>> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let config: Value =
            serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
        Ok(Self::in_config(&config, host))
    }

    /// The content of a pull Secret with this login for one registry.
    pub(crate) fn pull_secret(&self, host: &str) -> String {
        json!({ "auths": { host: { "auth": self.0 } } }).to_string()
    }

    /// As `docker login` writes it, where no credential helper keeps it.
    fn in_config(config: &Value, host: &str) -> Option<Self> {
        let of = |name: &str| Some(Self(config["auths"][name]["auth"].as_str()?.to_owned()));
        of(host).or_else(|| of(&format!("https://{host}"))).or_else(|| of(&format!("https://{host}/v1/")))
    }

    /// The value of the header `Authorization`.
    pub(super) fn basic(&self) -> String {
        format!("Basic {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_names_where_the_token_is() {
        let header = r#"Bearer realm="https://auth.example/token",service="registry.example",scope="a""#;
        let bearer = Challenge::Bearer {
            realm: "https://auth.example/token".into(),
            service: "registry.example".into(),
        };
        assert_eq!(Challenge::parse(header), Some(bearer));
        assert_eq!(Challenge::parse(r#"Basic realm="x""#), Some(Challenge::Basic));
        assert_eq!(Challenge::parse("Negotiate"), None);
    }

    #[test]
    fn a_login_is_found_by_the_name_of_the_registry() {
        let config = json!({"auths": {"https://a.example/v1/": {"auth": "eDp5"}, "b.example": {}}});
        assert_eq!(Login::in_config(&config, "a.example").unwrap().basic(), "Basic eDp5");
        assert!(Login::in_config(&config, "b.example").is_none());
    }

    #[test]
    fn a_pull_secret_has_the_login_of_one_registry() {
        let text = Login::new("x", "y").pull_secret("a.example:5000");
        assert_eq!(text, r#"{"auths":{"a.example:5000":{"auth":"eDp5"}}}"#);
    }
}
