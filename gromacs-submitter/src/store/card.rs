//! What an admin hands to the people of a tenant: where the database is, and what holds for their files.

use std::net::IpAddr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sqlx::postgres::PgSslMode;

use super::{Store, StoreError};

/// Claims of a tenant's rows that are named.
const MOST_CLAIMS: i64 = 5;

/// What holds for the files of a tenant, and for its database role.
#[derive(Debug, Clone, Default, PartialEq, Eq, sqlx::FromRow)]
pub struct TenantFiles {
    /// User id of rows that ask for none, and of files that are brought.
    pub run_as_user: i64,
    /// Group id of these.
    pub run_as_group: i64,
    /// Claims that its rows name, those of the newest rows first.
    pub claims: Vec<String>,
    /// True if people can log in as the role; none if it is gone.
    pub can_log_in: Option<bool>,
    /// Name of the database.
    pub database: String,
}

/// Where the database is, as the connected program says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Name or address, or the folder of a socket.
    pub host: String,
    /// Port.
    pub port: u16,
    /// How connections are encrypted, if the program was told.
    pub ssl_mode: Option<&'static str>,
}

/// What stands for itself in each part of a URL.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

impl Server {
    /// The URL of a database for a role, without a password.
    #[must_use]
    pub fn url(&self, role: &str, database: &str) -> String {
        let plain = |text: &str| utf8_percent_encode(text, PLAIN).to_string();
        let host = match self.host.parse() {
            Ok(IpAddr::V6(address)) => format!("[{address}]"),
            _ => plain(&self.host),
        };
        let ssl_mode = self.ssl_mode.map(|mode| format!("?sslmode={mode}")).unwrap_or_default();
        format!("postgres://{}@{host}:{}/{}{ssl_mode}", plain(role), self.port, plain(database))
    }

    /// True if no other machine reaches it there.
    #[must_use]
    pub fn is_of_this_machine(&self) -> bool {
        is_of_this_machine(&self.host) || self.host.starts_with('/')
    }
}

/// True if no other machine reaches this name or address.
#[must_use]
pub(crate) fn is_of_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

impl Store {
    /// What holds for the files of a tenant; none if there is no such tenant, or the connected role may not see it.
    pub async fn tenant_files(&self, role: &str, namespace: &str) -> Result<Option<TenantFiles>, StoreError> {
        Ok(sqlx::query_as(
            "select u.id as run_as_user, coalesce(t.run_as_group, u.id) as run_as_group, current_database() as database,
                array(select r.persistent_volume_claim from gromacs_to_tune r
                    where r.owner = t.database_role and r.namespace = t.namespace
                    group by r.persistent_volume_claim order by max(r.id) desc limit $3) as claims,
                (select p.rolcanlogin from pg_roles p where p.rolname = t.database_role) as can_log_in
            from gromacs_tenant t, lateral (select gromacs_run_as_user(null, t.run_as_user) as id) u
            where t.database_role = $1 and t.namespace = $2",
        )
        .bind(role)
        .bind(namespace)
        .bind(MOST_CLAIMS)
        .fetch_optional(&self.pool)
        .await?)
    }

    /// Where the database is. Nothing is asked.
    #[must_use]
    pub fn server(&self) -> Server {
        let options = self.pool.connect_options();
        let socket = options.get_socket().map(|folder| folder.to_string_lossy().into_owned());
        Server {
            host: socket.unwrap_or_else(|| options.get_host().trim_matches(['[', ']']).to_owned()),
            port: options.get_port(),
            ssl_mode: match options.get_ssl_mode() {
                // The mode of those who say nothing.
                PgSslMode::Prefer => None,
                PgSslMode::Disable => Some("disable"),
                PgSslMode::Allow => Some("allow"),
                PgSslMode::Require => Some("require"),
                PgSslMode::VerifyCa => Some("verify-ca"),
                PgSslMode::VerifyFull => Some("verify-full"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn server(url: &str) -> Server {
        let second = Duration::from_secs(1);
        Store::new(url, "tests".to_owned(), second, 1, second).expect("should be a URL").server()
    }

    #[tokio::test]
    async fn a_url_for_another_role_leads_to_the_same_server_without_the_password() {
        for (host, plain) in [
            ("postgres.example", "postgres.example"),
            ("192.0.2.1", "192.0.2.1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("%2Fvar%2Frun%2Fpostgresql", "/var/run/postgresql"),
        ] {
            let of_admin =
                server(&format!("postgres://admin:secret@{host}:5433/scavenger?sslmode=verify-full"));
            assert_eq!((of_admin.host.as_str(), of_admin.port), (plain, 5433));
            let url = of_admin.url("al ice@lab/\u{e4}", "a?b");
            assert!(!url.contains("secret") && url.ends_with("?sslmode=verify-full"), "{url}");
            assert_eq!(server(&url), of_admin, "{url}");
            let options: sqlx::postgres::PgConnectOptions = url.parse().expect("should be a URL");
            assert_eq!(options.get_username(), "al ice@lab/\u{e4}");
            assert_eq!(options.get_database(), Some("a?b"));
        }
        assert_eq!(server("postgres://h/d").url("alice", "d"), "postgres://alice@h:5432/d");
    }

    #[tokio::test]
    async fn an_address_of_this_machine_is_known() {
        for here in ["localhost", "127.0.0.1", "[::1]", "%2Ftmp"] {
            assert!(server(&format!("postgres://{here}/d")).is_of_this_machine(), "{here}");
        }
        assert!(!server("postgres://postgres.example/d").is_of_this_machine());
    }
}
