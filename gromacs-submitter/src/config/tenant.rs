//! Options of `tenant`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::written::lifetime;
use super::{Kubernetes, Output};
use crate::tenant::Tenant;

/// Options of `tenant`.
#[derive(Debug, Clone, Args)]
pub struct TenantOptions {
    /// What to do.
    #[command(subcommand)]
    pub command: TenantCommand,
}

/// What can be done with tenants.
#[derive(Debug, Clone, Subcommand)]
pub enum TenantCommand {
    /// Let a database role run simulations in a namespace
    ///
    /// A tenant that is there already is made as described: what is not given has no limit. The database role becomes
    /// a member of gromacs_chemist. In Kubernetes, `kubectl apply --server-side -k deploy/tenant --namespace
    /// NAMESPACE` lets the submitter work there. Defaults and limits hold for rows that are inserted from then on.
    Add(Box<AddTenantOptions>),
    /// List the tenants that the connected role may see
    List(ListTenantsOptions),
    /// Print what a person needs to run simulations as a tenant, to hand it out
    ///
    /// Where the database is and as which role, namespace, claim, limits, and the variables to set. It holds no password. With
    /// --write-kubeconfig it also makes an account in Kubernetes, with the rights that `put`, `files`, `fetch` and `logs` need.
    /// Only that needs Kubernetes, and the role admin in the namespace.
    Card(Box<CardOptions>),
    /// Take a namespace away from a database role
    ///
    /// Its simulations must have ended. To let none begin meanwhile, `tenant add --max-rows-in-work 0` first.
    Remove(RemoveTenantOptions),
}

/// Options of `tenant add`.
#[derive(Debug, Clone, Args)]
pub struct AddTenantOptions {
    /// The tenant.
    #[command(flatten)]
    pub tenant: Tenant,
    /// Try it, say what would change, and change nothing
    #[arg(long, help_heading = "Safety")]
    pub dry_run: bool,
    /// Format.
    #[command(flatten)]
    pub output: Output,
}

/// Options of `tenant list`.
#[derive(Debug, Clone, Args)]
pub struct ListTenantsOptions {
    /// Format.
    #[command(flatten)]
    pub output: Output,
}

/// Options of `tenant card`.
#[derive(Debug, Clone, Args)]
pub struct CardOptions {
    /// Database role
    #[arg(value_name = "ROLE")]
    pub role: String,
    /// Namespace [default: the only one of the role]
    #[arg(value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Name the PersistentVolumeClaim NAME on the card [default: that of the newest row]
    #[arg(long, visible_alias = "pvc", value_name = "NAME")]
    pub persistent_volume_claim: Option<String>,
    /// Name Postgres at ADDRESS on the card: HOST or HOST:PORT [default: as in --database-url]
    ///
    /// If the people of the tenant reach it elsewhere than you.
    #[arg(long, value_name = "ADDRESS")]
    pub database_address: Option<Address>,
    /// Make an account for the tenant, and write a kubeconfig with a token of it to FILE
    ///
    /// The account is the ServiceAccount gromacs-chemist-ROLE with the ClusterRole gromacs-chemist in the namespace. You alone
    /// can read FILE (mode 0600). The token is not printed.
    #[arg(long, value_name = "FILE", help_heading = "Kubeconfig")]
    pub write_kubeconfig: Option<PathBuf>,
    /// Let the token end after TIME, such as 90d or 12h
    ///
    /// The API server may end it earlier: the card says when. To renew it, write the kubeconfig again.
    #[arg(long, value_name = "TIME", default_value = "90d", value_parser = lifetime, help_heading = "Kubeconfig")]
    pub expires_in: Duration,
    /// Name the API server at URL in the kubeconfig [default: that of your own kubeconfig]
    #[arg(long, value_name = "URL", requires = "write_kubeconfig", help_heading = "Kubeconfig")]
    pub api_server: Option<String>,
    /// Replace FILE if it is there
    #[arg(long, requires = "write_kubeconfig", help_heading = "Safety")]
    pub overwrite: bool,
    /// Try it, print the card, make no account and write no file
    #[arg(long, help_heading = "Safety")]
    pub dry_run: bool,
    /// Format.
    #[command(flatten)]
    pub output: Output,
    /// Which cluster.
    #[command(flatten)]
    pub kubernetes: Kubernetes,
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Name or address.
    pub host: String,
    /// Port, unless it is the same.
    pub port: Option<u16>,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let explain =
            || "write for example postgres.example, postgres.example:5433 or [2001:db8::1]:5433".to_owned();
        // The colons of an IPv6 address are no port's.
        let end = text.rfind(']').map_or(0, |bracket| bracket + 1);
        let (host, port) = match text[end..].rfind(':') {
            Some(colon) => {
                (&text[..end + colon], Some(text[end + colon + 1..].parse().map_err(|_| explain())?))
            }
            None => (text, None),
        };
        let host = host.trim_matches(['[', ']']);
        let is_host = |character: char| character.is_ascii_alphanumeric() || "-._:".contains(character);
        let is_name = !host.contains(':') || host.parse::<std::net::Ipv6Addr>().is_ok();
        if host.is_empty() || !host.chars().all(is_host) || !is_name {
            return Err(explain());
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

/// Options of `tenant remove`.
#[derive(Debug, Clone, Args)]
pub struct RemoveTenantOptions {
    /// Database role
    #[arg(value_name = "ROLE")]
    pub role: String,
    /// Namespace
    #[arg(value_name = "NAMESPACE")]
    pub namespace: String,
    /// Delete its rows, which all have ended, and their history
    ///
    /// What was measured stays for the tuner, and files on volumes stay.
    #[arg(long, help_heading = "Safety")]
    pub delete_rows: bool,
    /// Try it, say what would change, and change nothing
    #[arg(long, help_heading = "Safety")]
    pub dry_run: bool,
    /// Format.
    #[command(flatten)]
    pub output: Output,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_may_have_a_port() {
        let read = |text: &str| text.parse().map(|Address { host, port }| (host, port));
        let is = |host: &str, port| Ok((host.to_owned(), port));
        assert_eq!(read("postgres.example"), is("postgres.example", None));
        assert_eq!(read("postgres.example:5433"), is("postgres.example", Some(5433)));
        assert_eq!(read("[2001:db8::1]:5433"), is("2001:db8::1", Some(5433)));
        assert_eq!(read("[2001:db8::1]"), is("2001:db8::1", None));
        for bad in ["", ":5433", "a:b", "a:99999", "postgres://a", "a b", "a/b", "2001:db8::1", "a@b"] {
            assert!(read(bad).is_err_and(|error| error.contains("for example")), "{bad}");
        }
    }
}
