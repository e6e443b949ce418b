//! The card of a tenant: what a person sets and needs to know to run simulations, without a secret. Pure.

use std::path::PathBuf;

use axum::http::Uri;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::limits::settings;
use crate::cli::copied::named;
use crate::cli::text::{shown, wrap};
use crate::cluster::CHEMIST_ROLE;
use crate::manifest::MOUNT_PATH;
use crate::store::{Server, TenantFiles, is_of_this_machine};

/// Columns of the names of facts.
const INDENT: usize = 12;

/// An account in Kubernetes, and the kubeconfig with its token.
pub(super) struct Account {
    pub(super) name: String,
    /// URL of the API server.
    pub(super) server: String,
    pub(super) file: PathBuf,
    /// When the token ends; none in a dry run.
    pub(super) expiry: Option<Timestamp>,
}

/// All that a card says.
pub(super) struct Card {
    pub(super) role: String,
    pub(super) namespace: String,
    /// The line of `gromacs_tenant`.
    pub(super) tenant: Value,
    pub(super) files: TenantFiles,
    pub(super) server: Server,
    pub(super) claim: Option<String>,
    pub(super) account: Option<Account>,
}

impl Card {
    /// The variables that the command line reads, and their values.
    fn environment(&self) -> Vec<(&'static str, String)> {
        let url = self.server.url(&self.role, &self.files.database);
        let mut variables =
            vec![("DATABASE_URL", url), ("SCAVENGER_SUBMITTER_NAMESPACE", self.namespace.clone())];
        variables.extend(self.claim.clone().map(|claim| ("SCAVENGER_SUBMITTER_PVC", claim)));
        variables
    }

    /// For people: facts, and the variables as a shell takes them.
    pub(super) fn lines(&self, width: Option<usize>) -> Vec<String> {
        let width = width.unwrap_or(usize::MAX);
        let mut lines = vec![shown(&format!("card of {} in namespace {}", self.role, self.namespace))];
        for (name, fact) in self.facts() {
            lines.extend(wrap(&shown(&format!("{name:<INDENT$}{fact}")), width, INDENT));
        }
        lines.push(String::new());
        lines.push("set these variables".to_owned());
        // A line that is cut or broken sets something else.
        lines.extend(
            self.environment()
                .iter()
                .map(|(name, value)| format!("  export {name}={}", quoted(&shown(value)))),
        );
        lines.extend(
            self.file_name().map(|name| format!("  export KUBECONFIG=\"$HOME\"/{}", quoted(&shown(&name)))),
        );
        lines
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let Self { role, namespace, files, server, .. } = self;
        let (host, port, database) = (&server.host, server.port, &files.database);
        let pgpass: Vec<String> =
            [host.as_str(), &port.to_string(), database, role].map(pgpass_field).to_vec();
        let mut facts = vec![
            ("database", format!("{database} at {host}:{port}, as role {role}")),
            (
                "password",
                format!(
                    "that of the role, which the admin hands out separately. Keep it in ~/.pgpass, or the file that PGPASSFILE names, \
                     with mode 0600, as {}:PASSWORD",
                    pgpass.join(":")
                ),
            ),
        ];
        match &self.account {
            Some(account) => {
                let name = self.file_name().unwrap_or_default();
                facts.push(("cluster", account.server.clone()));
                facts.push((
                    "kubeconfig",
                    match account.expiry {
                        Some(expiry) => format!(
                            "the file {name}, whose token ends at {}. It is a secret: keep it in your home folder, with mode 0600",
                            minute(expiry)
                        ),
                        None => format!("the file {name}, which a dry run does not write"),
                    },
                ));
                facts.push((
                    "rights",
                    format!("ClusterRole {CHEMIST_ROLE} in namespace {namespace}, as ServiceAccount {}", account.name),
                ));
            }
            None => facts.push((
                "kubeconfig",
                format!(
                    "your own, with the ClusterRole {CHEMIST_ROLE} or edit in namespace {namespace}; put, files, fetch and logs \
                     need it"
                ),
            )),
        }
        facts.push(match &self.claim {
            Some(claim) => (
                "volume",
                format!(
                    "PersistentVolumeClaim {claim}; paths begin at its root, which simulations see as {MOUNT_PATH}"
                ),
            ),
            None => ("volume", "no claim is known: name it with --persistent-volume-claim".to_owned()),
        });
        let said =
            if self.tenant["run_as_user"].is_null() { ", unless --run-as-user says otherwise" } else { "" };
        facts.push((
            "files",
            format!("belong to user {} and group {}{said}", files.run_as_user, files.run_as_group),
        ));
        let limits = self.limits();
        facts.push(("limits", if limits.is_empty() { "none".to_owned() } else { limits }));
        facts
    }

    /// Defaults and limits, without what the files say.
    fn limits(&self) -> String {
        let mut tenant = self.tenant.clone();
        if let Some(columns) = tenant.as_object_mut() {
            columns.retain(|column, _| !matches!(column.as_str(), "run_as_user" | "run_as_group"));
        }
        settings(&tenant)
    }

    fn file_name(&self) -> Option<String> {
        let name = self.account.as_ref()?.file.file_name()?;
        Some(name.to_string_lossy().into_owned())
    }

    /// The same facts for programs. It holds no secret, either.
    pub(super) fn as_json(&self, dry_run: bool) -> Value {
        let Self { role, namespace, files, server, .. } = self;
        let mut environment: Map<String, Value> = Map::new();
        environment
            .extend(self.environment().into_iter().map(|(name, value)| (name.to_owned(), json!(value))));
        let account = self.account.as_ref().map(|account| {
            environment.insert("KUBECONFIG".to_owned(), json!(account.file));
            json!({
                "file": account.file, "server": account.server, "service_account": account.name,
                "cluster_role": CHEMIST_ROLE, "expiry_time": account.expiry.map(|expiry| expiry.to_string()),
            })
        });
        json!({
            "database_role": role, "namespace": namespace, "persistent_volume_claim": self.claim, "mount_path": MOUNT_PATH,
            "run_as_user": files.run_as_user, "run_as_group": files.run_as_group, "tenant": self.tenant,
            "database": { "host": server.host, "port": server.port, "name": files.database, "sslmode": server.ssl_mode },
            "kubeconfig": account, "environment": environment, "dry_run": dry_run,
        })
    }

    /// What the admin may have to change before the card is handed out.
    pub(super) fn notes(&self) -> Vec<String> {
        let Self { role, namespace, files, server, .. } = self;
        let mut notes = Vec::new();
        if server.is_of_this_machine() {
            notes.push(format!(
                "only this machine reaches Postgres at {}; if the people of the tenant work elsewhere, name its address with \
                 --database-address",
                server.host
            ));
        }
        if let Some(account) = self.account.as_ref().filter(|account| is_url_of_this_machine(&account.server))
        {
            notes.push(format!(
                "only this machine reaches the API server at {}; if the people of the tenant work elsewhere, name its address with \
                 --api-server",
                account.server
            ));
        }
        match files.can_log_in {
            None => notes.push(format!("there is no database role {role} any more; create it again")),
            Some(false) => {
                notes
                    .push(format!("nobody can log in as {role}: alter role \"{role}\" login password '...'"));
            }
            Some(true) => {}
        }
        if files.claims.len() > 1 && self.claim.as_ref() == files.claims.first() {
            notes.push(format!(
                "rows of {role} in namespace {namespace} name several claims ({}); --persistent-volume-claim chooses one",
                named(files.claims.iter().map(String::as_str))
            ));
        }
        notes
    }
}

/// True if no other machine reaches the URL.
fn is_url_of_this_machine(url: &str) -> bool {
    let url: Option<Uri> = url.parse().ok();
    url.as_ref().and_then(Uri::host).is_some_and(|host| is_of_this_machine(host.trim_matches(['[', ']'])))
}

/// To the minute, as far as it is sure to be good.
fn minute(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// A field of a line of ~/.pgpass.
fn pgpass_field(text: &str) -> String {
    text.replace('\\', "\\\\").replace(':', "\\:")
}

/// A word as a shell takes it.
fn quoted(text: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_./:@%+,=".contains(character);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::config::Cli;

    fn card(account: Option<Account>) -> Card {
        Card {
            role: "alice".to_owned(),
            namespace: "chem".to_owned(),
            tenant: json!({
                "database_role": "alice", "namespace": "chem", "run_as_user": 2001, "run_as_group": null,
                "max_cpu_millicores": 8000, "max_put_bytes": 1000, "image_patterns": [],
            }),
            files: TenantFiles {
                run_as_user: 2001,
                run_as_group: 2001,
                claims: vec!["simulations".to_owned()],
                can_log_in: Some(true),
                database: "scavenger".to_owned(),
            },
            server: Server { host: "postgres.example".to_owned(), port: 5433, ssl_mode: Some("verify-full") },
            claim: Some("simulations".to_owned()),
            account,
        }
    }

    fn account() -> Account {
        Account {
            name: "gromacs-chemist-alice".to_owned(),
            server: "https://api.example:6443".to_owned(),
            file: PathBuf::from("cards/alice's.yaml"),
            expiry: Some("2027-02-27T10:00:30Z".parse().expect("should be a time")),
        }
    }

    #[test]
    fn a_card_says_what_to_set_and_what_holds() {
        let lines = card(Some(account())).lines(None);
        assert_eq!(
            lines,
            [
                "card of alice in namespace chem",
                "database    scavenger at postgres.example:5433, as role alice",
                "password    that of the role, which the admin hands out separately. Keep it in ~/.pgpass, or the file that \
                 PGPASSFILE names, with mode 0600, as postgres.example:5433:scavenger:alice:PASSWORD",
                "cluster     https://api.example:6443",
                "kubeconfig  the file alice's.yaml, whose token ends at 2027-02-27 10:00 UTC. It is a secret: keep it in your \
                 home folder, with mode 0600",
                "rights      ClusterRole gromacs-chemist in namespace chem, as ServiceAccount gromacs-chemist-alice",
                "volume      PersistentVolumeClaim simulations; paths begin at its root, which simulations see as /data",
                "files       belong to user 2001 and group 2001",
                "limits      at most 8000 millicores; at most 1000 bytes in one put",
                "",
                "set these variables",
                "  export DATABASE_URL='postgres://alice@postgres.example:5433/scavenger?sslmode=verify-full'",
                "  export SCAVENGER_SUBMITTER_NAMESPACE=chem",
                "  export SCAVENGER_SUBMITTER_PVC=simulations",
                "  export KUBECONFIG=\"$HOME\"/'alice'\\''s.yaml'",
            ]
        );
    }

    #[test]
    fn without_a_kubeconfig_it_says_which_rights_are_needed() {
        let lines = card(None).lines(None).join("\n");
        assert!(
            lines.contains(
                "kubeconfig  your own, with the ClusterRole gromacs-chemist or edit in namespace chem"
            ),
            "{lines}"
        );
        assert!(!lines.contains("KUBECONFIG"), "{lines}");
        let unknown = Card { claim: None, ..card(None) };
        let lines = unknown.lines(None).join("\n");
        assert!(lines.contains("no claim is known") && !lines.contains("SUBMITTER_PVC"), "{lines}");
    }

    #[test]
    fn what_is_to_be_set_is_never_broken() {
        let lines = card(Some(account())).lines(Some(40));
        let exports = lines.iter().filter(|line| line.starts_with("  export "));
        assert_eq!(exports.count(), 4);
        assert!(lines.iter().any(|line| line.len() > 60 && line.contains("DATABASE_URL")), "{lines:?}");
        assert!(
            lines.iter().filter(|line| !line.contains("export")).all(|line| line.chars().count() <= 40),
            "{lines:?}"
        );
    }

    /// Every variable of the card is one that the command line reads; KUBECONFIG is the Kubernetes client's own.
    #[test]
    fn each_variable_is_one_that_the_command_line_reads() {
        fn variables(command: &clap::Command) -> Vec<String> {
            let own = command
                .get_arguments()
                .filter_map(|argument| argument.get_env()?.to_str().map(ToOwned::to_owned));
            own.chain(command.get_subcommands().flat_map(variables)).collect()
        }
        let read = variables(&Cli::command());
        let card = card(Some(account()));
        let environment = card.environment();
        assert_eq!(environment.len(), 3);
        for (name, _) in environment {
            assert!(read.iter().any(|variable| variable == name), "{name} is read by nothing");
        }
    }

    #[test]
    fn json_has_the_same_facts() {
        let json = card(Some(account())).as_json(false);
        assert_eq!(
            json["environment"]["DATABASE_URL"],
            "postgres://alice@postgres.example:5433/scavenger?sslmode=verify-full"
        );
        assert_eq!(json["environment"]["KUBECONFIG"], "cards/alice's.yaml");
        assert_eq!(json["kubeconfig"]["expiry_time"], "2027-02-27T10:00:30Z");
        assert_eq!((&json["run_as_group"], &json["tenant"]["max_put_bytes"]), (&json!(2001), &json!(1000)));
        assert_eq!(card(None).as_json(true)["kubeconfig"], Value::Null);
    }

    #[test]
    fn the_admin_is_told_what_keeps_the_card_from_working() {
        assert!(card(None).notes().is_empty());
        assert!(card(Some(account())).notes().is_empty());
        for here in ["https://127.0.0.1:6443", "https://localhost", "https://[::1]/a"] {
            let notes = card(Some(Account { server: here.to_owned(), ..account() })).notes();
            assert!(notes.len() == 1 && notes[0].contains("--api-server"), "{here}: {notes:?}");
        }
        let mut bad = card(None);
        bad.server.host = "127.0.0.1".to_owned();
        bad.files.claims.push("other".to_owned());
        for (can_log_in, words) in
            [(None, "no database role alice"), (Some(false), "nobody can log in as alice")]
        {
            bad.files.can_log_in = can_log_in;
            let notes = bad.notes();
            assert_eq!(notes.len(), 3, "{notes:?}");
            assert!(notes[0].contains("--database-address"), "{notes:?}");
            assert!(notes[1].contains(words), "{notes:?}");
            assert!(notes[2].contains("simulations, other"), "{notes:?}");
        }
    }

    #[test]
    fn words_are_quoted_where_a_shell_would_read_more() {
        assert_eq!(quoted("postgres://alice@h:5432/d"), "postgres://alice@h:5432/d");
        assert_eq!(quoted("a?b"), "'a?b'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(pgpass_field("2001:db8::1\\"), "2001\\:db8\\:\\:1\\\\");
    }
}
