//! `tenant card`: what is asked of the database and of Kubernetes for a card, and the kubeconfig that is handed out with it.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use tempfile::NamedTempFile;

use super::card::{Account, Card};
use crate::cli::copied::named;
use crate::cli::text::{json, near, print_note, terminal_width};
use crate::cli::{Outcome, open_current, print_error, print_line};
use crate::cluster::{Access, ApiServer, account_of, kubeconfig};
use crate::config::{CardOptions, Database};
use crate::store::Server;

pub(super) async fn exec(database: &Database, options: &CardOptions) -> anyhow::Result<Outcome> {
    let store = open_current(database).await?;
    let tenants = store.tenants().await?;
    let tenant = match chosen(&tenants, &options.role, options.namespace.as_deref())? {
        Ok(tenant) => tenant.clone(),
        Err(refusal) => {
            print_error(&refusal);
            return Ok(Outcome::Failed);
        }
    };
    let namespace = tenant["namespace"].as_str().unwrap_or_default().to_owned();
    let files = store.tenant_files(&options.role, &namespace).await?;
    let files =
        files.with_context(|| format!("tenant {} in namespace {namespace} was removed", options.role))?;
    let server = addressed(store.server(), options);
    store.close().await;
    let account = match &options.write_kubeconfig {
        Some(path) => Some(make_account(path, &namespace, options).await?),
        None => None,
    };
    let claim = options.persistent_volume_claim.clone().or_else(|| files.claims.first().cloned());
    let card = Card { role: options.role.clone(), namespace, tenant, files, server, claim, account };
    if options.output.is_json() {
        print_line(&json(&card.as_json(options.dry_run)));
    } else {
        card.lines(terminal_width()).iter().for_each(|line| print_line(line));
    }
    card.notes().iter().for_each(|note| print_note(note));
    Ok(Outcome::Done)
}

/// The tenant that is meant; the message if there is none.
fn chosen<'a>(
    tenants: &'a [Value],
    role: &str,
    namespace: Option<&str>,
) -> anyhow::Result<Result<&'a Value, String>> {
    let text = |tenant: &'a Value, column: &str| tenant[column].as_str().unwrap_or_default();
    let of_role: Vec<&Value> =
        tenants.iter().filter(|tenant| text(tenant, "database_role") == role).collect();
    let namespaces = || of_role.iter().map(|tenant| text(tenant, "namespace"));
    if let Some(namespace) = namespace {
        let found = of_role.iter().find(|tenant| text(tenant, "namespace") == namespace);
        if let Some(tenant) = found {
            return Ok(Ok(tenant));
        }
    }
    match (of_role.as_slice(), namespace) {
        ([], _) => {
            let all = || tenants.iter().map(|tenant| text(tenant, "database_role"));
            let near = near(role, all());
            Ok(Err(if !near.is_empty() {
                format!("there is no tenant {role}; did you mean {}?", named(near))
            } else if tenants.is_empty() {
                format!("there is no tenant {role}; make one with gromacs-submitter tenant add")
            } else {
                let mut all: Vec<&str> = all().collect();
                all.dedup();
                format!("there is no tenant {role}; these are there: {}", named(all))
            }))
        }
        (_, Some(namespace)) => Ok(Err(format!(
            "{role} is no tenant in namespace {namespace}; name one of these: {}",
            named(namespaces())
        ))),
        ([tenant], None) => Ok(Ok(tenant)),
        (_, None) => bail!(
            "{role} is a tenant in several namespaces; name one of these behind it: {}",
            named(namespaces())
        ),
    }
}

/// The server as the people of the tenant reach it.
fn addressed(server: Server, options: &CardOptions) -> Server {
    match &options.database_address {
        Some(address) => {
            Server { host: address.host.clone(), port: address.port.unwrap_or(server.port), ..server }
        }
        None => server,
    }
}

/// Makes an account and writes its kubeconfig. The file is made first: a token that nobody gets is not asked for.
async fn make_account(path: &Path, namespace: &str, options: &CardOptions) -> anyhow::Result<Account> {
    let target = Target::new(path, options.overwrite, options.dry_run)?;
    let mut server = ApiServer::read(&options.kubernetes).await?;
    if let Some(url) = &options.api_server {
        ensure!(
            url.starts_with("https://") || url.starts_with("http://"),
            "--api-server {url:?} is no URL; write for example https://api.example:6443"
        );
        server.url.clone_from(url);
    }
    let access = Access::connect(&options.kubernetes, namespace).await?;
    let name = account_of(&options.role);
    access.apply_account(&name, options.dry_run).await?;
    let expiry = match target {
        Some(target) => {
            let login = access.log_in(&name, options.expires_in).await?;
            target.write(&kubeconfig(&server, namespace, &name, &login)?)?;
            Some(login.expiry)
        }
        None => None,
    };
    Ok(Account { name, server: server.url, file: path.to_owned(), expiry })
}

/// A file that is written as a whole, which its owner alone can read.
struct Target {
    path: PathBuf,
    overwrite: bool,
    file: NamedTempFile,
}

impl Target {
    /// None in a dry run, after the same checks.
    fn new(path: &Path, overwrite: bool, dry_run: bool) -> anyhow::Result<Option<Self>> {
        let shown = path.display();
        ensure!(!path.is_dir(), "{shown} is a folder; name a file in it");
        ensure!(
            overwrite || path.symlink_metadata().is_err(),
            "{shown} is there already; name another file, or replace it with --overwrite"
        );
        if dry_run {
            return Ok(None);
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = NamedTempFile::new_in(folder).with_context(|| format!("cannot write {shown}"))?;
        Ok(Some(Self { path: path.to_owned(), overwrite, file }))
    }

    fn write(mut self, text: &str) -> anyhow::Result<()> {
        let context = || format!("cannot write {}", self.path.display());
        self.file.write_all(text.as_bytes()).with_context(context)?;
        self.file.as_file().sync_all().with_context(context)?;
        let kept = if self.overwrite {
            self.file.persist(&self.path)
        } else {
            self.file.persist_noclobber(&self.path)
        };
        kept.map(drop).with_context(|| format!("cannot write {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_tenant_that_is_not_there_is_named_with_those_that_may_be_meant() {
        let tenant = |role: &str, namespace: &str| json!({ "database_role": role, "namespace": namespace });
        let tenants = [tenant("alice", "bio"), tenant("alice", "chem"), tenant("bob", "phys")];
        let said = |role: &str, namespace: Option<&str>| match chosen(&tenants, role, namespace) {
            Ok(Ok(tenant)) => tenant["namespace"].as_str().unwrap_or_default().to_owned(),
            Ok(Err(refusal)) => refusal,
            Err(error) => format!("usage: {error}"),
        };
        assert_eq!(said("bob", None), "phys");
        assert_eq!(said("alice", Some("chem")), "chem");
        assert_eq!(said("alcie", None), "there is no tenant alcie; did you mean alice?");
        assert_eq!(said("mallory", None), "there is no tenant mallory; these are there: alice, bob");
        assert_eq!(said("bob", Some("chem")), "bob is no tenant in namespace chem; name one of these: phys");
        assert_eq!(
            said("alice", None),
            "usage: alice is a tenant in several namespaces; name one of these behind it: bio, chem"
        );
        let none = chosen(&[], "alice", None).expect("should be asked well").expect_err("should find none");
        assert!(none.contains("tenant add"), "{none}");
    }

    #[test]
    fn a_kubeconfig_is_its_owners_alone_and_replaces_nothing_by_chance() {
        let folder = tempfile::tempdir().expect("should make a folder");
        let path = folder.path().join("alice.yaml");
        let new = |overwrite, dry_run| Target::new(&path, overwrite, dry_run);
        assert!(new(false, true).expect("should be tried").is_none() && !path.exists());
        let target = new(false, false).expect("should be made").expect("should be written");
        target.write("first").expect("should be written");
        let mode = fs::metadata(&path).expect("should be there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for dry_run in [false, true] {
            let error = new(false, dry_run).err().expect("should be refused").to_string();
            assert!(error.contains("--overwrite"), "{error}");
        }
        let target = new(true, false).expect("should be made").expect("should be written");
        target.write("second").expect("should be written");
        assert_eq!(fs::read_to_string(&path).expect("should be read"), "second");
        let error = Target::new(folder.path(), true, false).err().expect("should be refused").to_string();
        assert!(error.contains("is a folder"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).expect("should be read").count(), 1, "nothing else is left");
    }
}
