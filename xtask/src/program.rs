//! This program itself, which a build in the meantime may have replaced.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context as _, Result};

/// Where it was when it started: once the file is replaced, Linux adds ` (deleted)` to the path.
static PROGRAM: LazyLock<std::io::Result<PathBuf>> = LazyLock::new(std::env::current_exe);

/// Called first of all, before anything is built.
pub(crate) fn remember() {
    LazyLock::force(&PROGRAM);
}

/// Path of this program.
pub(crate) fn path() -> Result<&'static Path> {
    PROGRAM
        .as_deref()
        .map_err(|error| anyhow::anyhow!("{error}"))
        .context("cannot tell where this program is")
}

/// Folder of this program, in which the project's other programs are, too.
pub(crate) fn folder() -> Result<&'static Path> {
    path()?.parent().context("this program is in no folder")
}
