//! `scavenger-operator crd`: the custom resource definitions as YAML.

use std::io::Write;

use anyhow::Context;

/// Print the CustomResourceDefinitions as YAML
#[derive(Debug, clap::Args)]
pub(super) struct Options {}

pub(super) fn exec(_: &Options) -> anyhow::Result<()> {
    let text =
        scavenger_schema::crds_yaml().context("could not write the CustomResourceDefinitions as YAML")?;
    std::io::stdout().write_all(text.as_bytes()).context("could not write to standard output")
}
