//! Which folder of the planner may know which. Arrows between them lead one way, so that who reads a folder has to know those
//! below it only. docs/contributing/planner.md says what each is for. No function may be so long that it needs to be scrolled.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, Result, bail};

use crate::{docs, shell::ROOT};

/// The planner's sources.
const SOURCES: &str = "operator/planner/src/";

/// Each folder, and those that it may import. None may import one that stands below it here.
const FOLDERS: [(&str, &[&str]); 11] = [
    ("values", &[]),
    ("faults", &["values"]),
    ("backoff", &["values", "faults"]),
    ("facts", &["values", "faults", "backoff"]),
    ("capacity", &["values"]),
    ("node_use", &["values", "faults", "backoff", "capacity"]),
    ("lifecycle", &["values", "faults", "backoff", "facts", "capacity"]),
    ("queue", &["values", "faults", "backoff", "capacity", "lifecycle"]),
    ("causes", &["values", "facts", "capacity", "node_use", "lifecycle"]),
    ("report", &["values", "facts", "node_use", "queue", "causes"]),
    (
        "plan",
        &[
            "values",
            "faults",
            "backoff",
            "facts",
            "capacity",
            "node_use",
            "lifecycle",
            "queue",
            "causes",
            "report",
        ],
    ),
];

/// What is outside the folders: the crate's own door, which leads to all of them, and builders for tests.
const OUTSIDE: [&str; 2] = ["", "fixtures"];

/// The only folder that may add methods to the planner: its fields are its own.
const PLANS: &str = "plan";

/// So many lines a function may have, from its name to its end.
const LONGEST: usize = 80;

/// Checks the planner's sources, and prints how large each folder is.
pub(crate) fn check() -> Result<()> {
    let sources = Sources::read()?;
    for line in sources.sizes() {
        eprintln!("planner: {line}");
    }
    let wrong = sources.wrong();
    if wrong.is_empty() {
        Ok(())
    } else {
        bail!("see docs/contributing/planner.md:\n  {}", wrong.join("\n  "))
    }
}

/// The files by module ("queue::walk").
struct Sources(BTreeMap<String, Source>);

struct Source {
    /// The paths that it names, in imports or elsewhere.
    paths: BTreeSet<String>,
    /// What it passes on to those who import it, by name.
    passed_on: BTreeMap<String, String>,
    adds_to_planner: bool,
    /// Functions of more than [`LONGEST`] lines, with how many they have.
    too_long: Vec<(String, usize)>,
    /// Public items.
    public: usize,
    lines: usize,
}

impl Sources {
    fn read() -> Result<Self> {
        let mut all = BTreeMap::new();
        for path in docs::checkout()? {
            let Some(module) = path.strip_prefix(SOURCES).and_then(|path| path.strip_suffix(".rs")) else {
                continue;
            };
            let text = fs::read_to_string(Path::new(ROOT).join(&path))
                .with_context(|| format!("cannot read {path}"))?;
            let module = module.replace('/', "::");
            let module = module.strip_suffix("::mod").unwrap_or(&module);
            let module = if module == "lib" { "" } else { module };
            if !module.ends_with("tests") {
                all.insert(module.to_owned(), Source::of(&text));
            }
        }
        Ok(Self(all))
    }

    /// What breaks the rules.
    fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut graph = BTreeMap::new();
        for (module, source) in &self.0 {
            let passed_on = source.passed_on.values().filter_map(|path| self.resolve(module, path));
            let arrows = self.arrows(module);
            wrong.extend(arrows.iter().cloned().chain(passed_on).filter_map(|to| forbidden(module, &to)));
            graph.insert(module.as_str(), arrows);
            if folder(module) != PLANS && source.adds_to_planner {
                wrong.push(format!("{}: `impl Planner` belongs into {PLANS}/ alone", file(module)));
            }
        }
        for (module, source) in &self.0 {
            wrong.extend(source.too_long.iter().map(|(name, lines)| {
                format!("{}: {name} has {lines} lines; a function has at most {LONGEST}", file(module))
            }));
        }
        wrong.extend(circles(&graph).into_iter().map(|circle| {
            let files: Vec<String> = circle.iter().map(|module| file(module)).collect();
            format!("these files import each other in a circle: {}", files.join(", "))
        }));
        wrong
    }

    /// Lines without tests, files, arrows to other files, and public items of each folder.
    fn sizes(&self) -> Vec<String> {
        let mut folders: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
        for (module, source) in self.0.iter().filter(|(module, _)| folder(module) != "fixtures") {
            let sums = folders.entry(folder(module)).or_default();
            for (sum, more) in
                sums.iter_mut().zip([source.lines, 1, self.arrows(module).len(), source.public])
            {
                *sum += more;
            }
        }
        let all =
            folders.values().fold([0; 4], |all, one| std::array::from_fn(|index| all[index] + one[index]));
        let line = |(name, [lines, files, arrows, public]): (&str, &[usize; 4])| {
            format!(
                "{name:<10} {lines:>6} lines, {files:>3} files, {arrows:>3} arrows, {public:>4} public items"
            )
        };
        let names = FOLDERS.iter().map(|(name, _)| *name).chain([""]);
        let known = names
            .filter_map(|name| Some((if name.is_empty() { "lib.rs" } else { name }, folders.get(name)?)));
        known.chain([("together", &all)]).map(line).collect()
    }

    /// The files from which a file uses something, even if a third one passes it on. What it passes on itself does not
    /// count: nothing in it depends on that.
    fn arrows(&self, module: &str) -> BTreeSet<String> {
        let paths = self.0.get(module).into_iter().flat_map(|source| &source.paths);
        paths.filter_map(|path| self.resolve(module, path)).filter(|to| to != module).collect()
    }

    /// The file to which a path leads from a file; none outside the crate.
    fn resolve(&self, module: &str, path: &str) -> Option<String> {
        let mut at: Vec<&str> = module.split("::").filter(|part| !part.is_empty()).collect();
        let mut parts = path.split("::").peekable();
        match *parts.peek()? {
            "crate" => {
                at.clear();
                parts.next();
            }
            "self" => _ = parts.next(),
            "super" => {
                while parts.next_if_eq(&"super").is_some() {
                    at.pop();
                }
            }
            // A file below this one, or another crate.
            first => _ = self.0.get(&below(&at, first))?,
        }
        while let Some(part) = parts.next_if(|part| self.0.contains_key(&below(&at, part))) {
            at.push(part);
        }
        let found = at.join("::");
        let passed_on = parts.next().and_then(|name| self.0.get(&found)?.passed_on.get(name));
        Some(passed_on.and_then(|path| self.resolve(&found, path)).unwrap_or(found))
    }
}

impl Source {
    fn of(text: &str) -> Self {
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let code = code(text);
        let (mut rest, mut named, mut passed_on) = (String::new(), BTreeSet::new(), BTreeMap::new());
        for statement in code.split_inclusive(';') {
            let Some(import) = Import::of(statement) else {
                rest.push_str(statement);
                continue;
            };
            rest.push_str(import.before);
            for path in expand(import.tree) {
                match path.rsplit("::").next() {
                    Some(name) if import.is_public => _ = passed_on.insert(name.to_owned(), path),
                    _ => _ = named.insert(path),
                }
            }
        }
        named.extend(paths(&rest));
        Self {
            paths: named,
            passed_on,
            adds_to_planner: rest.contains("impl Planner"),
            too_long: too_long(text),
            public: rest.lines().filter(|line| is_public(line)).count(),
            lines: text.lines().count(),
        }
    }
}

/// The name of a file below another.
fn below(at: &[&str], name: &str) -> String {
    at.iter().copied().chain([name]).collect::<Vec<_>>().join("::")
}

/// The folder of a module.
fn folder(module: &str) -> &str {
    module.split("::").next().unwrap_or_default()
}

fn file(module: &str) -> String {
    format!("{SOURCES}{}.rs", if module.is_empty() { "lib".to_owned() } else { module.replace("::", "/") })
}

/// Why a file may not import another; none if it may.
fn forbidden(from: &str, to: &str) -> Option<String> {
    let (own, other) = (folder(from), folder(to));
    if own == other || OUTSIDE.contains(&own) {
        return None;
    }
    let may = FOLDERS.iter().find(|(name, _)| *name == own).map(|(_, may)| *may);
    match may {
        None => Some(format!("{}: no folder of the table; xtask/src/layers.rs has them", file(from))),
        Some(may) if may.contains(&other) => None,
        Some(_) => Some(format!("{}: {own}/ may not import {}", file(from), file(to))),
    }
}

/// Circles of more than one file.
fn circles(graph: &BTreeMap<&str, BTreeSet<String>>) -> Vec<Vec<String>> {
    // What each can reach; there are about a hundred of them.
    let reached = |from: &str| {
        let mut all: BTreeSet<&str> = BTreeSet::new();
        let mut next: Vec<&str> = vec![from];
        while let Some(one) = next.pop() {
            for to in graph.get(one).into_iter().flatten() {
                if all.insert(to) {
                    next.push(to);
                }
            }
        }
        all
    };
    let reach: BTreeMap<&str, BTreeSet<&str>> = graph.keys().map(|from| (*from, reached(from))).collect();
    let mut found: BTreeSet<Vec<String>> = BTreeSet::new();
    for (from, all) in &reach {
        if all.contains(from) {
            let peers = all.iter().filter(|to| reach.get(**to).is_some_and(|back| back.contains(from)));
            found.insert(peers.map(|peer| (*peer).to_owned()).collect());
        }
    }
    found.into_iter().collect()
}

/// An import, and what stands before it in the same statement: attributes, or the end of an item.
struct Import<'a> {
    before: &'a str,
    is_public: bool,
    tree: &'a str,
}

impl<'a> Import<'a> {
    fn of(statement: &'a str) -> Option<Self> {
        let (place, _) = statement.match_indices("use ").find(|(place, _)| {
            let before = statement[..*place].trim_end();
            before.is_empty() || before.ends_with(['}', ']', '{']) || ends_with_visibility(before)
        })?;
        let before = &statement[..place];
        let tree = statement[place + "use ".len()..].trim_end_matches(';').trim();
        Some(Self { before, is_public: ends_with_visibility(before.trim_end()), tree })
    }
}

fn ends_with_visibility(before: &str) -> bool {
    ["pub", "pub(crate)", "pub(super)"].iter().any(|word| before.ends_with(word))
}

/// The paths of a tree of imports.
fn expand(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((head, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![path.trim().trim_end_matches("::self").to_owned()];
    };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (mut depth, mut begin, mut parts) = (0_usize, 0, Vec::new());
    for (place, letter) in inner.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&inner[begin..place]);
                begin = place + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[begin..]);
    let parts = parts.into_iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| expand(&format!("{}{}", head.trim(), part.trim()))).collect()
}

/// Paths in code outside imports: from the crate's root, the file above, or a file below.
fn paths(code: &str) -> Vec<String> {
    let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | ':');
    let words = code.split(|letter| !is_part(letter)).map(|word| word.trim_matches(':'));
    words.filter(|word| word.contains("::")).map(str::to_owned).collect()
}

/// The functions of a text that are too long. As rustfmt writes them, the line that ends one is indented as the line with its
/// name is.
fn too_long(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let ends = |from: usize, indent: &str| {
        let end = format!("{indent}}}");
        lines[from..].iter().position(|line| *line == end).map(|length| length + 1)
    };
    let length = |(from, line): (usize, &&str)| {
        let code = line.trim_start();
        let bare = ["pub ", "pub(crate) ", "pub(super) "].iter().find_map(|word| code.strip_prefix(word));
        let bare = bare.unwrap_or(code);
        let name = bare.strip_prefix("const ").unwrap_or(bare).strip_prefix("fn ")?;
        let lines = ends(from, &line[..line.len() - code.len()]).filter(|lines| *lines > LONGEST)?;
        Some((name.split(['(', '<']).next()?.to_owned(), lines))
    };
    lines.iter().enumerate().filter_map(length).collect()
}

fn is_public(line: &str) -> bool {
    let line = line.trim_start();
    let rest = ["pub ", "pub(crate) "].iter().find_map(|word| line.strip_prefix(word));
    rest.is_some_and(|rest| {
        ["fn ", "const fn ", "struct ", "enum ", "trait ", "const ", "type "]
            .iter()
            .any(|word| rest.starts_with(word))
    })
}

/// A text without comments and without what stands in quotes.
fn code(text: &str) -> String {
    let mut code = String::new();
    for line in text.lines() {
        let line = line.trim_start();
        if line.starts_with("//") {
            continue;
        }
        let mut inside = false;
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' if inside => _ = letters.next(),
                '"' => inside = !inside,
                '/' if !inside && letters.peek() == Some(&'/') => break,
                _ if inside => {}
                letter => code.push(letter),
            }
        }
        code.push('\n');
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Sources {
        Sources(files.iter().map(|(module, text)| ((*module).to_owned(), Source::of(text))).collect())
    }

    #[test]
    fn an_import_against_the_table_is_found_however_it_is_written() {
        for text in [
            "use crate::queue::Queue;\n",
            "use std::fmt;\n\nuse crate::{values::Key, queue::{Queue, walk}};\n",
            "fn one() { crate::queue::walk(); }\n",
            "pub use super::queue::Queue;\n",
        ] {
            let wrong =
                sources(&[("queue", ""), ("queue::walk", ""), ("capacity", text), ("values", "")]).wrong();
            assert!(wrong.iter().any(|one| one.contains("capacity/ may not import")), "{text}: {wrong:?}");
        }
        for text in [
            "use crate::capacity::Capacity;\n",
            "// use crate::plan::Planner;\nfn one() { print(\"crate::plan::Planner\") }\n",
            "#[cfg(test)]\nmod tests {\n    use crate::plan::Planner;\n}\n",
        ] {
            assert!(sources(&[("queue", text), ("capacity", ""), ("plan", "")]).wrong().is_empty(), "{text}");
        }
    }

    #[test]
    fn a_circle_is_found_and_what_a_folder_passes_on_is_none() {
        let child = "use super::Queue;\n";
        let passes_on = sources(&[("queue", "pub(crate) use walk::Walk;\n"), ("queue::walk", child)]);
        assert!(passes_on.wrong().is_empty());
        // Through what their folder passes on.
        let passes_on = ("queue", "pub use one::One;\npub use two::Two;\n");
        let wrong =
            sources(&[passes_on, ("queue::one", "use super::Two;\n"), ("queue::two", "use super::One;\n")])
                .wrong();
        assert!(
            wrong[0].ends_with("operator/planner/src/queue/one.rs, operator/planner/src/queue/two.rs"),
            "{wrong:?}"
        );
        for parent in ["use walk::Walk;\n", "fn one() { walk::all(); }\n"] {
            let wrong = sources(&[("queue", parent), ("queue::walk", child)]).wrong();
            assert_eq!(wrong.len(), 1, "{wrong:?}");
            assert!(
                wrong[0].ends_with(
                    "in a circle: operator/planner/src/queue.rs, operator/planner/src/queue/walk.rs"
                )
            );
        }
    }

    #[test]
    fn only_one_folder_adds_to_the_planner() {
        let wrong = sources(&[("causes", "impl Planner {\n}\n"), ("plan", "impl Planner {\n}\n")]).wrong();
        assert_eq!(wrong, ["operator/planner/src/causes.rs: `impl Planner` belongs into plan/ alone"]);
    }

    #[test]
    fn a_function_that_is_too_long_is_named() {
        let function = |lines: usize| {
            let body = "        look();\n".repeat(lines - 2);
            format!("impl Queue {{\n    pub(crate) fn walk<T>(of: T) {{\n{body}    }}\n}}\n")
        };
        assert!(sources(&[("queue", &function(LONGEST))]).wrong().is_empty());
        let wrong = sources(&[("queue", &function(LONGEST + 1))]).wrong();
        assert_eq!(wrong, ["operator/planner/src/queue.rs: walk has 81 lines; a function has at most 80"]);
    }

    #[test]
    fn a_folder_that_the_table_does_not_know_is_named() {
        let wrong = sources(&[("other", "use crate::values::Key;\n"), ("values", "")]).wrong();
        assert!(wrong[0].contains("no folder of the table"), "{wrong:?}");
    }

    #[test]
    fn no_folder_of_the_table_knows_one_below_it() {
        for (index, (name, may)) in FOLDERS.iter().enumerate() {
            let above: Vec<&str> = FOLDERS[..index].iter().map(|(name, _)| *name).collect();
            assert!(may.iter().all(|one| above.contains(one)), "{name}");
        }
    }

    #[test]
    fn the_planner_keeps_to_the_table() {
        check().unwrap();
    }
}
