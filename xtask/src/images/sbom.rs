//! What is in an image, as a CycloneDX document: crates as Cargo.lock pins them, and Debian packages.
//!
//! No serial number and no date, so that the same image has the same document.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::catalogue::{Image, Program};
use super::{Architecture, debian, programs};
use crate::shell::{self, ROOT};

/// File name of the document beside an archive.
pub(super) fn file_name(archive: &str) -> String {
    format!("{}.cdx.json", archive.trim_end_matches(".tar"))
}

/// The document of an image. Its lowest layer must have been made.
pub(super) fn document(image: Image, architecture: Architecture) -> Result<String> {
    let mut components: Vec<Value> = Vec::new();
    if let Some(recipe) = image.debian(architecture) {
        let release = recipe.release();
        for file in debian::packages(&recipe)? {
            components.push(package(&file, &release)?);
        }
    }
    if let Some(program) = image.program() {
        components.extend(crates(program, architecture)?);
    }
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "container",
                "bom-ref": image.reference(),
                "name": image.repository(),
                "version": image.version(),
            },
        },
        "components": components,
    });
    Ok(format!("{document:#}\n"))
}

/// A Debian package, from the name of its file: `NAME_VERSION_ARCHITECTURE.deb`, with `%3a` for the colon of an epoch.
fn package(file: &str, release: &str) -> Result<Value> {
    let mut parts = file.trim_end_matches(".deb").split('_');
    let (Some(name), Some(version), Some(arch), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        bail!("{file:?} is no name of a Debian package's file");
    };
    let version = version.replace("%3a", ":");
    let encoded = version.replace(':', "%3A").replace('+', "%2B");
    let purl = format!("pkg:deb/debian/{}@{encoded}?arch={arch}&distro={release}", name.replace('+', "%2B"));
    Ok(json!({ "type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl }))
}

/// The crates that a program is linked from, itself included.
fn crates(program: Program, architecture: Architecture) -> Result<Vec<Value>> {
    let mut tree = vec![
        "tree",
        "--locked",
        "--package",
        program.package,
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p}\t{l}",
    ];
    if architecture.is_foreign() {
        tree.extend(["--target", programs::target(program.linking, architecture)]);
    }
    let output = shell::cargo(&tree).output().context("cannot run `cargo tree`")?;
    if !output.status.success() {
        bail!("`cargo tree` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let lock = Path::new(ROOT).join("Cargo.lock");
    let lock = fs::read_to_string(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
    Ok(linked(&String::from_utf8_lossy(&output.stdout), &checksums(&lock)))
}

/// The components in what `cargo tree` prints: `NAME vVERSION (PATH)<tab>LICENCE`, some lines more than once.
fn linked(tree: &str, checksums: &BTreeMap<String, String>) -> Vec<Value> {
    let lines: BTreeSet<(&str, &str, &str)> = tree
        .lines()
        .filter_map(|line| {
            let (crate_, licence) = line.split_once('\t')?;
            let mut words = crate_.split_whitespace();
            let (name, version) = (words.next()?, words.next()?.trim_start_matches('v'));
            // `(*)` follows a crate that was listed before.
            Some((name, version, licence.trim_end_matches("(*)").trim()))
        })
        .collect();
    let component = |(name, version, licence): (&str, &str, &str)| {
        let purl = format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"));
        let mut component =
            json!({ "type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl });
        if !licence.is_empty() {
            component["licenses"] = json!([{ "expression": licence.replace('/', " OR ") }]);
        }
        if let Some(checksum) = checksums.get(&format!("{name} {version}")) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        component
    };
    lines.into_iter().map(component).collect()
}

/// SHA-256 of each crate's archive in a Cargo.lock, by `NAME VERSION`.
fn checksums(lock: &str) -> BTreeMap<String, String> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
        Some(line.trim_matches('"').to_owned())
    };
    lock.split("[[package]]")
        .filter_map(|block| {
            let name = format!("{} {}", value(block, "name")?, value(block, "version")?);
            Some((name, value(block, "checksum")?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debian_package_is_named_by_its_file() {
        let component = package("libstdc++6_2%3a12.2.0-14+deb12u1_amd64.deb", "bookworm").unwrap();
        assert_eq!(component["name"], "libstdc++6");
        assert_eq!(component["version"], "2:12.2.0-14+deb12u1");
        let purl = "pkg:deb/debian/libstdc%2B%2B6@2%3A12.2.0-14%2Bdeb12u1?arch=amd64&distro=bookworm";
        assert_eq!(component["purl"], purl);
        assert!(package("partial", "bookworm").is_err());
    }

    #[test]
    fn a_crate_has_its_licence_and_the_checksum_of_the_lock() {
        let lock = "[[package]]\nname = \"libc\"\nversion = \"0.2.1\"\nsource = \"registry\"\nchecksum = \"ab12\"\n\n\
                    [[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n";
        let tree = "ours v0.1.0 (/src/ours)\tApache-2.0\nlibc v0.2.1\tMIT/Apache-2.0\nlibc v0.2.1\tMIT/Apache-2.0 (*)\n";
        let found = linked(tree, &checksums(lock));
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0]["purl"], "pkg:cargo/libc@0.2.1");
        assert_eq!(found[0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(found[0]["hashes"][0]["content"], "ab12");
        assert!(found[1].get("hashes").is_none());
    }

    #[test]
    fn the_crates_of_a_program_are_those_of_the_lock() {
        let found = crates(Image::Counter.program().unwrap(), Architecture::of_this_machine()).unwrap();
        let named = |name: &str| found.iter().find(|component| component["name"] == name);
        assert!(named("scavenger-counter").is_some());
        let clap = named("clap").expect("the counter has a command line");
        assert_eq!(clap["hashes"][0]["content"].as_str().unwrap().len(), 64);
        assert!(named("scavenger-planner").is_none(), "the counter does not plan");
    }
}
