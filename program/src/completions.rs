//! The verb `completions`.

use clap::Command;
use clap_complete::Shell;

/// Options of `completions`.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl Options {
    /// What the shell needs to complete the command line of a program.
    #[must_use]
    pub fn script(&self, mut command: Command) -> String {
        let name = command.get_name().to_owned();
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, name, &mut script);
        String::from_utf8_lossy(&script).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_knows_the_verbs() {
        let command = Command::new("some-program").subcommand(Command::new("some-verb"));
        let script = Options { shell: Shell::Bash }.script(command);
        assert!(script.contains("some-program") && script.contains("some-verb"), "{script}");
    }
}
