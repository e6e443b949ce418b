//! Log setup.

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, Logging};

/// Logs to stderr from here on.
pub(crate) fn init(logging: &Logging) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&logging.log)
        .with_context(|| format!("--log: {:?} is not a log filter", logging.log))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start in one process (tests) keeps the first setup.
    let _ = match logging.log_format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    Ok(())
}
