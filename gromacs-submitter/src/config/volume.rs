//! How a volume is read or written, and on which cluster, for the verbs that do so with the rights of a user.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::text::duration;

/// How the volume is read, the same for every verb that reads it.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct Reading {
    /// Read the volume in IMAGE [default: the image of the row]
    ///
    /// Any image with sh, find, tar and the coreutils will do.
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Wait up to TIME until the pod that reads the volume runs
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    pub wait: Duration,
    /// Which cluster.
    #[command(flatten)]
    pub kubernetes: Kubernetes,
}

/// Which cluster holds the pods, for the verbs that look at it with the rights of a user.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection")]
pub struct Kubernetes {
    /// Use the kubeconfig FILE [default: $KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Use the context NAME of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// How a volume is written, the same for every verb that writes one.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct Writing {
    /// Wait up to TIME until the pod that writes the volume runs
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    pub wait: Duration,
    /// Give up copying onto the volume after TIME
    #[arg(long, value_name = "TIME", default_value = "6h", value_parser = duration)]
    pub within: Duration,
    /// Which cluster.
    #[command(flatten)]
    pub kubernetes: Kubernetes,
}
