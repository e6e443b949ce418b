//! `scavenger-operator record`: what happens in a cluster, as a file that the laboratory plays.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use jiff::SignedDuration;
use scavenger_program::{exit::Unusable, logging::Logging, signal::EndSignal};
use scavenger_schema::{form, quantity};
use tracing::info;

use super::{connection::Connection, run::Operator};
use crate::record::{self, End, Settings};

/// Record what happens in a cluster, to play it in the laboratory
///
/// Watches nodes and pods, and writes one line when a node changes and when a pod arrives, is bound, starts and ends; where
/// metrics.k8s.io is served, also what pods use. It only reads, and needs neither the operator nor its definitions. Names
/// are replaced; namespaces, images and labels are left out. If FILE is a recording already, it goes on there.
///
/// Exit status: 0 it was ended by SIGTERM or SIGINT, or FILE is full; 1 FILE cannot be written, or nodes or pods may not be
/// read; 2 a flag, FILE or the connection cannot be used.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    connection: Connection,

    /// The recording
    #[arg(long, value_name = "FILE")]
    output: PathBuf,

    /// End when the recording has this size (1Mi or more)
    #[arg(long, value_name = "SIZE", default_value = "512Mi", value_parser = max_size)]
    max_size: u64,

    /// How often to read what pods use (15s to 24h)
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = use_every)]
    use_every: SignedDuration,

    /// Keep the label KEY of nodes, with its value; again for another one. Without, none is kept
    #[arg(long, value_name = "KEY", value_parser = label)]
    node_label: Vec<String>,

    /// Wait for a signal when the recording is full, so that there is a pod from which it can be fetched
    #[arg(long)]
    stay: bool,

    /// Print the recording instead, to fetch it from a pod
    #[arg(long, conflicts_with_all = ["max_size", "use_every", "node_label", "stay", "kubeconfig", "context"])]
    print: bool,

    #[command(flatten)]
    logging: Logging<Operator>,
}

fn max_size(text: &str) -> Result<u64, String> {
    let size = quantity::parse_units(text).ok().and_then(|size| u64::try_from(size).ok());
    size.filter(|size| *size >= 1 << 20)
        .ok_or_else(|| "write a size of 1Mi or more, for example 512Mi or 2Gi".to_owned())
}

fn use_every(text: &str) -> Result<SignedDuration, String> {
    let (least, most) = (SignedDuration::from_secs(15), SignedDuration::from_hours(24));
    super::duration_within(text, least, most, "between 15s and 24h, for example 5m")
}

fn label(text: &str) -> Result<String, String> {
    let is_key = form::KEY.fits(text);
    is_key.then(|| text.to_owned()).ok_or_else(|| format!("a key is {}", form::KEY.description))
}

pub(super) async fn exec(options: Options) -> anyhow::Result<()> {
    if options.print {
        return print(&options.output);
    }
    // First of all: process 1 of a container has no other end.
    let mut signal = EndSignal::new()?;
    options.logging.start()?;
    let client = options.connection.connect().await?;
    let settings = Settings {
        path: options.output,
        max_size: options.max_size,
        use_every: options.use_every.unsigned_abs(),
        node_labels: options.node_label,
    };
    let (file, max_size) = (settings.path.display().to_string(), settings.max_size);
    let stop = async {
        signal.next().await;
    };
    match record::record(&client, settings, stop).await? {
        End::Stopped => info!(file, "the recording ends; the next recorder goes on with it"),
        End::Full => {
            info!(file, max_size, "the recording is full (--max-size): nothing more is recorded");
            if options.stay {
                signal.next().await;
            }
        }
    }
    Ok(())
}

fn print(path: &Path) -> anyhow::Result<()> {
    let cannot = || Unusable(format!("{} cannot be read (--output)", path.display()));
    let mut file = File::open(path).with_context(cannot)?;
    match io::copy(&mut file, &mut io::stdout()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome.map(drop).with_context(|| format!("{} cannot be printed", path.display())),
    }
}
