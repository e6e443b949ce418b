//! What must be true of the machine before anything on it is changed: one sentence for each shortcoming.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

const GIB: u64 = 1 << 30;

/// Only root may make namespaces, network devices and cgroups.
pub(crate) fn root() -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        bail!("this needs root: it makes network devices, mounts and cgroups; run it with sudo or as root");
    }
    Ok(())
}

/// The packages' names are Debian's.
pub(crate) fn debian() -> Result<()> {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    if !is_debian(&release) {
        bail!(
            "this runs on Debian 12 or newer (its packages are installed with apt-get); /etc/os-release says otherwise"
        );
    }
    Ok(())
}

fn is_debian(release: &str) -> bool {
    let value = |key: &str| {
        let line = release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(line.trim_matches('"').to_owned())
    };
    let version = value("VERSION_ID").and_then(|version| version.parse::<u32>().ok());
    // Debian's testing and unstable have no VERSION_ID.
    value("ID").as_deref() == Some("debian") && version.is_none_or(|version| version >= 12)
}

/// The Go toolchain, at least as new as each of the `modules` (folders with a go.mod) asks for.
pub(crate) fn go(modules: &[PathBuf]) -> Result<()> {
    let output = Command::new("go")
        .args(["env", "GOVERSION"])
        // Not a newer one that a go.mod near here might name, nor a download of it.
        .env("GOTOOLCHAIN", "local")
        .current_dir("/")
        .output();
    let Ok(output) = output else {
        bail!("the Go toolchain is missing: install Go and put its bin folder into PATH");
    };
    let installed = String::from_utf8_lossy(&output.stdout).trim().trim_start_matches("go").to_owned();
    for module in modules {
        let path = module.join("go.mod");
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let wanted = text
            .lines()
            .find_map(|line| line.strip_prefix("go "))
            .with_context(|| format!("{} names no Go version", path.display()))?;
        if numbers(&installed) < numbers(wanted) {
            bail!("Go {installed} is too old: {} needs {wanted} or newer", path.display());
        }
    }
    Ok(())
}

fn numbers(version: &str) -> Vec<u32> {
    version
        .split(['.', ' ', '-'])
        // A release candidate, "27rc1", counts as its release.
        .map_while(|part| part.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok())
        .collect()
}

/// Room on the disk that holds `folder`, which need not exist yet.
pub(crate) fn disk(folder: &Path, gib: u64) -> Result<()> {
    let existing = folder.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let space = nix::sys::statvfs::statvfs(existing)
        .with_context(|| format!("cannot ask for the free space of {}", existing.display()))?;
    let free = space.blocks_available() * space.fragment_size();
    if free < gib * GIB {
        bail!(
            "{} has {:.1} GiB of free disk space, and this needs {gib} GiB: free some first",
            existing.display(),
            free as f64 / GIB as f64
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_debian_12_and_newer() {
        assert!(is_debian("PRETTY_NAME=\"Debian\"\nVERSION_ID=\"12\"\nID=debian\n"));
        assert!(is_debian("ID=debian\n"));
        assert!(!is_debian("VERSION_ID=\"11\"\nID=debian\n"));
        assert!(!is_debian("VERSION_ID=\"24.04\"\nID=ubuntu\nID_LIKE=debian\n"));
        assert!(!is_debian(""));
    }

    #[test]
    fn compares_go_versions_by_number() {
        assert!(numbers("1.26.10") > numbers("1.26.9"));
        assert!(numbers("1.27rc1") > numbers("1.26.8"));
        assert!(numbers("1.26") < numbers("1.26.3"));
    }

    #[test]
    fn refuses_a_disk_without_room() {
        let error = disk(Path::new("/tmp/not/there"), 1 << 30).unwrap_err().to_string();
        assert!(error.contains("free some first"), "{error}");
        disk(Path::new("/"), 0).unwrap();
    }
}
