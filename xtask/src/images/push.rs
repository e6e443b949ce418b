//! Pushes an image to a registry, by the OCI distribution API.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::Value;
use ureq::http::{Response, header::LOCATION};
use ureq::tls::{PemItem, RootCerts, TlsConfig, TlsProvider};
use ureq::{Agent, Body, SendBody};

use super::layer::member;
use super::registry_login::{Challenge, Login};

/// Certificate authorities of this machine.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// A connection that is not made by then, or a registry that does not answer by then, has failed.
const CONNECT: Duration = Duration::from_secs(20);
const ANSWER: Duration = Duration::from_secs(300);

/// Where images are pushed to: a registry and the path in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Registry {
    /// `https` or `http`.
    scheme: &'static str,
    /// Name and port.
    host: String,
    /// In front of the image's own name; empty, or ends with a slash.
    path: String,
}

impl FromStr for Registry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = match text.split_once("://") {
            Some(("http", rest)) => ("http", rest),
            Some(("https", rest)) => ("https", rest),
            Some((other, _)) => {
                return Err(format!("{other}:// is no scheme of a registry: use https or http"));
            }
            None => ("https", text),
        };
        let (host, path) =
            rest.trim_end_matches('/').split_once('/').unwrap_or((rest.trim_end_matches('/'), ""));
        let is_path =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._/".contains(&byte);
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:[]".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_host) || !path.bytes().all(is_path) {
            return Err("write HOST[:PORT][/PATH], for example registry.example/scavenger".into());
        }
        let path = if path.is_empty() { String::new() } else { format!("{path}/") };
        Ok(Self { scheme, host: host.to_owned(), path })
    }
}

impl Registry {
    /// Name and port, by which a pull Secret names the registry.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// What a pod writes in front of an image's own name.
    pub(crate) fn prefix(&self) -> String {
        format!("{}/{}", self.host, self.path).trim_end_matches('/').to_owned()
    }

    /// True if the registry has no TLS.
    pub(crate) fn is_insecure(&self) -> bool {
        self.scheme == "http"
    }

    /// Asks whether the registry answers and takes the login of this machine. Pushes nothing. True if it asked for one.
    pub(crate) fn check(&self) -> Result<bool> {
        let client = Client::new(self, &format!("{}operator", self.path), || Login::find(&self.host))?;
        let Some(authorization) = &client.authorization else { return Ok(false) };
        // A token was given for the login. A user and a password have not been looked at yet.
        if authorization.starts_with("Basic ") {
            let base = format!("{}/v2/", client.origin);
            let answer = client.authorized(client.agent.get(&base)).call()?;
            expect(answer, &[200], "GET /v2/ with the login of this machine")?;
        }
        Ok(true)
    }

    /// Pushes the image of an archive as `NAME:TAG` and returns its name there, with its digest.
    pub(super) fn push(&self, archive: &Path, name_and_tag: &str) -> Result<String> {
        self.push_as(|| Login::find(&self.host), archive, name_and_tag)
    }

    /// The same, with what `login` finds if the registry asks for a login.
    pub(super) fn push_as(
        &self,
        login: impl FnOnce() -> Result<Option<Login>>,
        archive: &Path,
        name_and_tag: &str,
    ) -> Result<String> {
        let (name, tag) = name_and_tag.split_once(':').context("an image without a tag")?;
        let repository = format!("{}{name}", self.path);
        let shown = format!("{}/{repository}:{tag}", self.host);
        let client = Client::new(self, &repository, login)?;
        let digest = client.push(archive, tag).with_context(|| format!("cannot push {shown}"))?;
        Ok(format!("{}/{repository}:{tag}@{digest}", self.host))
    }
}

/// Talks to one repository of a registry.
struct Client {
    agent: Agent,
    /// `https://registry.example`
    origin: String,
    /// `https://registry.example/v2/scavenger/operator`
    url: String,
    /// Sent with every request, where the registry asks for it.
    authorization: Option<String>,
}

impl Client {
    fn new(
        registry: &Registry,
        repository: &str,
        login: impl FnOnce() -> Result<Option<Login>>,
    ) -> Result<Self> {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(ANSWER))
            .user_agent(concat!("scavenger-xtask/", env!("CARGO_PKG_VERSION")));
        if registry.scheme == "https" {
            config = config.tls_config(tls()?).https_only(true);
        }
        let origin = format!("{}://{}", registry.scheme, registry.host);
        let url = format!("{origin}/v2/{repository}");
        let mut client = Self { agent: config.build().new_agent(), origin, url, authorization: None };
        client.log_in(login, repository)?;
        Ok(client)
    }

    /// Asks what the registry wants to know, and gets the token that it names.
    fn log_in(&mut self, login: impl FnOnce() -> Result<Option<Login>>, repository: &str) -> Result<()> {
        let base = format!("{}/v2/", self.origin);
        let answer = self.agent.get(&base).call().with_context(|| {
            let hint = if self.origin.starts_with("https") {
                " over TLS (write http:// in front of a registry without TLS; the CA of a registry with a certificate of \
                 your own belongs into the CAs of this machine)"
            } else {
                ""
            };
            format!("{base} does not answer{hint}")
        })?;
        if answer.status() != 401 {
            return expect(answer, &[200], "GET /v2/").map(drop);
        }
        let challenges = answer.headers().get_all("www-authenticate");
        let challenge = challenges.iter().find_map(|value| Challenge::parse(value.to_str().ok()?));
        let login = login()?;
        self.authorization =
            Some(match challenge.context("the registry asks for a login of an unknown kind")? {
                Challenge::Basic => login
                    .context(
                        "the registry asks for a user and a password: run `docker login`, or set SCAVENGER_REGISTRY_USER and \
                         SCAVENGER_REGISTRY_PASSWORD",
                    )?
                    .basic(),
                Challenge::Bearer { realm, service } => {
                    let scope = format!("repository:{repository}:pull,push");
                    let mut request =
                        self.agent.get(&realm).query("service", &service).query("scope", &scope);
                    if let Some(login) = login {
                        request = request.header("authorization", login.basic());
                    }
                    let answer = request.call().with_context(|| format!("{realm} does not answer"))?;
                    let mut answer = expect(answer, &[200], "the request for a token")?;
                    let token: Value = serde_json::from_reader(answer.body_mut().as_reader())
                        .context("the reply to the request for a token is not JSON")?;
                    let token = token["token"].as_str().or(token["access_token"].as_str());
                    format!("Bearer {}", token.context("the reply to the request for a token holds none")?)
                }
            });
        Ok(())
    }

    /// Pushes what the archive holds: an image, or an index of images.
    fn push(&self, archive: &Path, tag: &str) -> Result<String> {
        let index = member(archive, "index.json")?;
        let index: Value = serde_json::from_slice(&index).context("index.json is not JSON")?;
        let image = &index["manifests"][0];
        self.push_document(archive, image, tag)?;
        Ok(text(image, "digest")?.to_owned())
    }

    /// What a manifest or an index names comes first, since a registry refuses one whose parts it does not have.
    fn push_document(&self, archive: &Path, described: &Value, name: &str) -> Result<()> {
        let document = member(archive, &blob(described)?)?;
        let parts: Value = serde_json::from_slice(&document).context("the manifest is not JSON")?;
        if let Some(images) = parts["manifests"].as_array() {
            for image in images {
                self.push_document(archive, image, text(image, "digest")?)?;
            }
        } else {
            let layers = parts["layers"].as_array().context("the manifest names no layers")?;
            for part in layers.iter().chain([&parts["config"]]) {
                self.push_blob(archive, part)?;
            }
        }
        let (digest, kind) = (text(described, "digest")?, text(described, "mediaType")?);
        let url = format!("{}/manifests/{name}", self.url);
        let request = self.authorized(self.agent.put(&url)).content_type(kind);
        let answer = expect(request.send(&document[..])?, &[201], "PUT of the manifest")?;
        if let Some(stored) = answer.headers().get("docker-content-digest") {
            ensure!(
                stored.as_bytes() == digest.as_bytes(),
                "the registry stored {stored:?} instead of {digest}"
            );
        }
        Ok(())
    }

    fn push_blob(&self, archive: &Path, part: &Value) -> Result<()> {
        let digest = text(part, "digest")?;
        let size = part["size"].as_u64().context("a part without a size")?;
        let head = self.authorized(self.agent.head(format!("{}/blobs/{digest}", self.url)));
        if head.call()?.status() == 200 {
            return Ok(());
        }
        let begin = self.authorized(self.agent.post(format!("{}/blobs/uploads/", self.url)));
        let answer = expect(begin.send_empty()?, &[202], "POST of an upload")?;
        let place = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let place = place.context("the registry names no place for the upload")?;
        // Relative or not, with or without parameters of its own.
        let place = if place.starts_with('/') { format!("{}{place}", self.origin) } else { place.to_owned() };
        let sign = if place.contains('?') { '&' } else { '?' };
        let request = self
            .authorized(self.agent.put(format!("{place}{sign}digest={digest}")))
            .content_type("application/octet-stream")
            .header("content-length", size.to_string());
        let name = blob(part)?;
        let file = File::open(archive).with_context(|| format!("cannot open {}", archive.display()))?;
        let mut tar = tar::Archive::new(file);
        for entry in tar.entries_with_seek()? {
            let mut entry = entry?;
            if entry.path()?.to_str() == Some(&name) {
                let body = SendBody::from_reader(&mut entry);
                return expect(request.send(body)?, &[201], "PUT of a blob").map(drop);
            }
        }
        bail!("the archive has no {name}")
    }

    fn authorized<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.authorization {
            Some(value) => request.header("authorization", value),
            None => request,
        }
    }
}

fn text<'a>(part: &'a Value, key: &str) -> Result<&'a str> {
    part[key].as_str().with_context(|| format!("a part without {key}"))
}

/// Where the archive has a blob.
fn blob(part: &Value) -> Result<String> {
    Ok(format!("blobs/{}", text(part, "digest")?.replace(':', "/")))
}

/// The answer if it has one of these statuses, else what the registry says.
fn expect(mut answer: Response<Body>, wanted: &[u16], what: &str) -> Result<Response<Body>> {
    if wanted.contains(&answer.status().as_u16()) {
        return Ok(answer);
    }
    let mut said = String::new();
    // Whatever it says is worth showing, and it may say nothing.
    let _ = answer.body_mut().as_reader().take(500).read_to_string(&mut said);
    Err(anyhow!("{what}: the registry answers {} {}", answer.status(), said.trim()))
}

fn tls() -> Result<TlsConfig> {
    let pem = std::fs::read(AUTHORITIES).with_context(|| {
        format!("cannot read {AUTHORITIES}; is the Debian package ca-certificates installed?")
    })?;
    let certificates: Vec<_> = ureq::tls::parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::Specific(Arc::new(certificates)))
        .build())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::TcpListener;
    use std::process::{Child, Command, Stdio};
    use std::thread;
    use std::time::Instant;

    use super::super::archive::{sample, sample_of_both};
    use super::*;
    use crate::cluster::registry_program;

    /// A registry on loopback, which ends with the test.
    struct Running {
        process: Child,
        address: String,
    }

    impl Running {
        fn start(program: &Path, folder: &Path) -> Self {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let address = format!("127.0.0.1:{port}");
            let config = format!(
                "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: \"{address}\"}}\n",
                folder.join("store").display()
            );
            fs::write(folder.join("config.yml"), config).unwrap();
            let process = Command::new(program)
                .arg("serve")
                .arg(folder.join("config.yml"))
                .stdout(Stdio::null())
                .stderr(fs::File::create(folder.join("log")).unwrap())
                .spawn()
                .unwrap();
            let mut running = Self { process, address };
            let began = Instant::now();
            while ureq::get(format!("http://{}/v2/", running.address)).call().is_err() {
                let log = fs::read_to_string(folder.join("log")).unwrap();
                assert!(running.process.try_wait().unwrap().is_none(), "the registry ended: {log}");
                assert!(began.elapsed() < Duration::from_secs(60), "the registry does not answer: {log}");
                #[expect(clippy::disallowed_methods, reason = "a registry does not say when it listens")]
                thread::sleep(Duration::from_millis(50));
            }
            running
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }

    #[test]
    fn an_image_is_pushed_and_can_be_read_back() {
        let program = match registry_program() {
            Ok(program) => program,
            Err(error) => {
                eprintln!("skipped: Debian's docker-registry cannot be unpacked here: {error:#}");
                return;
            }
        };
        let folder = tempfile::tempdir().unwrap();
        let running = Running::start(&program, folder.path());
        let (bytes, layers) = sample(b"program");
        let archive = folder.path().join("counter.tar");
        fs::write(&archive, bytes).unwrap();

        let registry: Registry = format!("http://{}/scavenger", running.address).parse().unwrap();
        let pushed = registry.push(&archive, "counter:1").unwrap();
        let digest = pushed.split_once('@').unwrap().1.to_owned();
        assert!(!registry.check().unwrap(), "it asks for no login");
        // What is there already is not sent again, and the answer is the same.
        assert_eq!(registry.push(&archive, "counter:1").unwrap(), pushed);

        let base = format!("http://{}/v2/scavenger/counter", running.address);
        let accept = "application/vnd.oci.image.manifest.v1+json";
        let mut answer = ureq::get(format!("{base}/manifests/1")).header("accept", accept).call().unwrap();
        assert_eq!(answer.headers()["docker-content-digest"].to_str().unwrap(), digest);
        let manifest: Value = serde_json::from_reader(answer.body_mut().as_reader()).unwrap();
        let layer = manifest["layers"][0]["digest"].as_str().unwrap();
        assert_eq!(layer, format!("sha256:{}", layers[0].sha256));
        let mut content = Vec::new();
        layers[0].reader().unwrap().read_to_end(&mut content).unwrap();
        let stored =
            ureq::get(format!("{base}/blobs/{layer}")).call().unwrap().body_mut().read_to_vec().unwrap();
        assert_eq!(stored, content);

        let both = folder.path().join("counter.oci.tar");
        fs::write(&both, sample_of_both()).unwrap();
        let pushed = registry.push(&both, "counter:2").unwrap();
        let accept = "application/vnd.oci.image.index.v1+json";
        let mut answer = ureq::get(format!("{base}/manifests/2")).header("accept", accept).call().unwrap();
        let stored = answer.headers()["docker-content-digest"].to_str().unwrap();
        assert_eq!(stored, pushed.split_once('@').unwrap().1);
        let index: Value = serde_json::from_reader(answer.body_mut().as_reader()).unwrap();
        let images = index["manifests"].as_array().unwrap();
        assert_eq!(images.len(), 2);
        for image in images {
            let url = format!("{base}/manifests/{}", image["digest"].as_str().unwrap());
            let accept = "application/vnd.oci.image.manifest.v1+json";
            assert_eq!(ureq::get(url).header("accept", accept).call().unwrap().status(), 200, "{image}");
        }
    }

    #[test]
    fn a_registry_that_refuses_is_quoted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            use std::io::Write as _;
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            let answer = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 9\r\n\r\ndisk full";
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let registry: Registry = format!("http://{address}").parse().unwrap();
        let error = format!("{:#}", registry.push(Path::new("none.tar"), "counter:1").unwrap_err());
        assert!(error.contains("503 Service Unavailable disk full"), "{error}");
        server.join().unwrap();
    }

    #[test]
    fn a_registry_without_tls_is_found_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            use std::io::Write as _;
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        });
        let registry: Registry = address.to_string().parse().unwrap();
        let error = format!("{:#}", registry.check().unwrap_err());
        assert!(error.contains("write http:// in front of a registry without TLS"), "{error}");
        server.join().unwrap();
    }

    #[test]
    fn a_registry_is_a_host_and_a_path() {
        let registry =
            |scheme, host: &str, path: &str| Registry { scheme, host: host.into(), path: path.into() };
        let parse = |text: &str| text.parse::<Registry>();
        assert_eq!(parse("registry.example"), Ok(registry("https", "registry.example", "")));
        assert_eq!(parse("registry.example/a/b/"), Ok(registry("https", "registry.example", "a/b/")));
        assert_eq!(parse("http://[::1]:5000"), Ok(registry("http", "[::1]:5000", "")));
        assert_eq!(parse("registry.example/a/b/").unwrap().prefix(), "registry.example/a/b");
        assert_eq!(parse("http://registry.example:5000").unwrap().prefix(), "registry.example:5000");
        for wrong in ["", "https://", "ftp://a", "a/B", "a b", "user@host"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
