//! Prints the files that follow from the code as one JSON object: the path of each in the checkout, and its content.
//!
//! A program of its own, since these types bring in every type of Kubernetes: `xtask`, which people start first and wait
//! for, does without them.

use std::io;

use anyhow::{Context, Error, Result};
use scavenger_schema::row::{python, sql};
use serde_json::json;

fn main() -> Result<()> {
    let crds =
        scavenger_schema::crds_yaml().context("the CustomResourceDefinitions cannot be written as YAML")?;
    let mut files = json!({
        python::FILE: python::module(),
        "schema/generated/crds.yaml": crds,
        "schema/generated/tuner-openapi.json": scavenger_schema::openapi::openapi(),
        "docs/tuner-model.md": scavenger_tuner_model::description::page(),
    });
    for (path, text) in sql::migrations().map_err(Error::msg)? {
        files[path] = text.into();
    }
    serde_json::to_writer(io::stdout().lock(), &files).context("the files cannot be printed")
}
