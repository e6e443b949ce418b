//! Options of `put`.

use std::path::PathBuf;

use clap::Args;

use super::queue::Output;
use super::volume::Writing;

/// Options of `put`.
#[derive(Debug, Clone, Args)]
pub struct PutOptions {
    /// Files and folders to copy, with all that is in them
    ///
    /// They keep their paths: runs/1/topol.tpr becomes FOLDER/runs/1/topol.tpr. A path may hold *, ? and [...], and ** for
    /// any folders in between, which find folders, too. Links and hidden files in folders are left out.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<String>,
    /// Copy into FOLDER on the volume, which is made if it is missing [default: the root of the volume]
    #[arg(long, value_name = "FOLDER", default_value = "", hide_default_value = true)]
    pub to: String,
    /// Find paths in the folder DIR of this machine [default: the working directory]
    ///
    /// What is stored is the path relative to DIR; absolute paths inside DIR are good, too.
    #[arg(long, value_name = "DIR", default_value = ".", hide_default_value = true)]
    pub root: PathBuf,
    /// Namespace of the volume
    #[arg(short, long, value_name = "NAMESPACE", env = "SCAVENGER_SUBMITTER_NAMESPACE")]
    pub namespace: String,
    /// PersistentVolumeClaim of the volume
    #[arg(long, visible_alias = "pvc", value_name = "NAME", env = "SCAVENGER_SUBMITTER_PVC")]
    pub persistent_volume_claim: String,
    /// Write as user UID [default: that of the tenant, or 1000]
    #[arg(long, value_name = "UID", value_parser = clap::value_parser!(i64).range(1..=2_147_483_647))]
    pub run_as_user: Option<i64>,
    /// Write as group GID [default: that of the tenant, or the user's number]
    #[arg(long, value_name = "GID", value_parser = clap::value_parser!(i64).range(1..=2_147_483_647))]
    pub run_as_group: Option<i64>,
    /// Replace files on the volume that differ from those here
    ///
    /// Without this nothing is copied if one of them differs. Equal files are left alone. A file that a row uses which has not
    /// ended is never replaced.
    #[arg(long, help_heading = "Safety")]
    pub overwrite: bool,
    /// Print what would be copied, and copy nothing
    #[arg(long, help_heading = "Safety")]
    pub dry_run: bool,
    /// Format.
    #[command(flatten)]
    pub output: Output,
    /// Write the volume in IMAGE [default: that of the tenant, or of the newest row in the namespace]
    ///
    /// Any image with sh, tar and the coreutils will do.
    #[arg(long, value_name = "IMAGE", help_heading = "Connection")]
    pub image: Option<String>,
    /// How the volume is written.
    #[command(flatten)]
    pub writing: Writing,
}
