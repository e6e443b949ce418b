//! Names become parts of paths in one place, `scavenger_program::objects`. The client's own `Api` writes them as they are, so the
//! programs do without it: a name that leads elsewhere would be asked for with the rights of the operator.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};

use crate::{docs, shell::ROOT};

/// The programs that make requests about objects.
const PROGRAMS: [&str; 2] = ["operator/src/", "gromacs-submitter/src/"];

/// These watch and list the whole cluster: no name is in their paths.
const NAMELESS: [&str; 2] = ["operator/src/observe/mod.rs", "operator/src/observe/usage.rs"];

/// Ways past `Objects`.
const AROUND: [&str; 5] = ["kube::Api", "Api<", "Api::", "http::Request::get(", "Request::new("];

/// Checks the programs' sources.
pub(crate) fn check() -> Result<()> {
    let mut wrong = Vec::new();
    for path in docs::checkout()? {
        let is_source = path.ends_with(".rs") && !path.contains("/tests");
        let is_program = PROGRAMS.iter().any(|folder| path.starts_with(folder));
        if !is_source || !is_program || NAMELESS.contains(&path.as_str()) {
            continue;
        }
        let text =
            fs::read_to_string(Path::new(ROOT).join(&path)).with_context(|| format!("cannot read {path}"))?;
        wrong.extend(around(&text).into_iter().map(|line| format!("{path}:{line}")));
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        bail!("use scavenger_program::objects::Objects for requests about objects:\n  {}", wrong.join("\n  "))
    }
}

/// Numbers of the lines that go round it. What follows the first test is a test's.
fn around(text: &str) -> Vec<usize> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let is_around = |line: &str| {
        // An error of the API, and the documentation's own words, are none.
        let line = line.split("//").next().unwrap_or_default().replace("Error::Api", "");
        AROUND.iter().any(|way| line.contains(way))
    };
    code.lines().enumerate().filter(|(_, line)| is_around(line)).map(|(index, _)| index + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_round_is_seen() {
        for line in [
            "let pods: Api<Pod> = make();",
            "use kube::Api;",
            "Api::namespaced(client, namespace)",
            "http::Request::get(format!(\"/api/{name}\"))",
        ] {
            assert_eq!(around(&format!("\n{line}\n")), [2], "{line}");
        }
        for line in
            ["Err(kube::Error::Api(status)) => {}", "// as Api::get", "Objects::namespaced(client, ns)"]
        {
            assert_eq!(around(line), Vec::<usize>::new(), "{line}");
        }
        assert_eq!(around("#[cfg(test)]\nuse kube::Api;"), Vec::<usize>::new());
    }

    #[test]
    fn nobody_goes_round() {
        check().unwrap();
    }
}
