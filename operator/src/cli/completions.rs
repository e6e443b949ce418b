//! `scavenger-operator completions`: what a shell needs to complete the command line.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Arguments, text::print};

/// Print the completions of a shell
///
/// For bash, for example: `source <(scavenger-operator completions bash)`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(super) fn exec(options: &Options) -> anyhow::Result<()> {
    let mut command = Arguments::command();
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut command, name, &mut script);
    print(&String::from_utf8_lossy(&script))
}
