//! Options of `tenant`.

use clap::{Args, Subcommand};

use super::Output;
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
