//! Which folder of a crate may know which, as the table of a page says. Arrows between them lead one way, so that who reads a
//! folder has to know those above it in the table only. No function may be so long that it needs to be scrolled.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, Result, ensure};

use crate::{docs, shell::ROOT};

/// A crate whose sources keep to the tables of a page.
struct House {
    name: &'static str,
    sources: &'static str,
    /// The page with the tables: what each folder knows, and which it may import.
    page: &'static str,
    /// The tables: the first cell of their head, and the folder whose files they are about; none for the folders of the crate.
    tables: &'static [(&'static str, &'static str)],
    /// A text that stands in one folder alone.
    only_in: Option<(&'static str, &'static str)>,
}

const HOUSES: [House; 3] = [PLANNER, SUBMITTER, LABORATORY];

/// The planner's fields are its own: one folder alone may add methods to it.
const PLANNER: House = House {
    name: "planner",
    sources: "operator/planner/src/",
    page: "docs/contributing/planner.md",
    tables: &[("folder", "")],
    only_in: Some(("impl Planner", "plan")),
};

const SUBMITTER: House = House {
    name: "submitter",
    sources: "gromacs-submitter/src/",
    page: "docs/contributing/submitter.md",
    tables: &[("folder", ""), ("file of `advance`", "advance")],
    only_in: None,
};

const LABORATORY: House = House {
    name: "laboratory",
    sources: "operator/laboratory/src/",
    page: "docs/contributing/laboratory.md",
    tables: &[("folder", "")],
    only_in: None,
};

/// What is outside the folders: the doors of the crate, which lead to all of them.
const OUTSIDE: [&str; 2] = ["", "main"];

/// Tests, and builders for them, are not looked at.
const OF_TESTS: [&str; 2] = ["tests", "fixtures"];

/// So many lines a function may have, from its name to its end.
const LONGEST: usize = 80;

/// What a cell says that is no list of folders.
const NOTHING: &str = "nothing";
const ALL: &str = "all of them";

/// Checks the sources, and prints how large each folder is.
pub(crate) fn check() -> Result<()> {
    let mut wrong = Vec::new();
    for house in &HOUSES {
        let page = fs::read_to_string(Path::new(ROOT).join(house.page))
            .with_context(|| format!("cannot read {}", house.page))?;
        let sources = Sources::read(house, house.tables_of(&page)?)?;
        for line in sources.sizes() {
            eprintln!("{}: {line}", house.name);
        }
        wrong.extend(sources.wrong().into_iter().map(|one| format!("{one} (see {})", house.page)));
    }
    ensure!(wrong.is_empty(), "these files break the rules:\n  {}", wrong.join("\n  "));
    Ok(())
}

impl House {
    fn tables_of(&self, page: &str) -> Result<Vec<Table>> {
        self.tables
            .iter()
            .map(|(head, within)| Table::read(page, head, within).with_context(|| self.page.to_owned()))
            .collect()
    }

    fn file(&self, module: &str) -> String {
        let path = if module.is_empty() { "lib".to_owned() } else { module.replace("::", "/") };
        format!("{}{path}.rs", self.sources)
    }
}

/// Each folder, and those that it may import.
struct Table {
    /// The folder whose files it is about; empty for the folders of the crate.
    within: &'static str,
    rows: Vec<(String, BTreeSet<String>)>,
}

impl Table {
    /// The table of a page under a head that begins with this cell: name, what it knows, what it may import.
    fn read(page: &str, head: &str, within: &'static str) -> Result<Self> {
        let begins = format!("| {head} |");
        let table = page.lines().skip_while(|line| !line.starts_with(&begins)).skip(2);
        let mut rows: Vec<(String, BTreeSet<String>)> = Vec::new();
        for line in table.take_while(|line| line.starts_with('|')) {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [name, _, may] = cells.as_slice() else { anyhow::bail!("no row of three cells: {line}") };
            let name = name.trim_matches('`').to_owned();
            let above: BTreeSet<String> = rows.iter().map(|(name, _)| name.clone()).collect();
            let may: BTreeSet<String> = match *may {
                NOTHING => BTreeSet::new(),
                ALL => above.clone(),
                list => list.split(", ").map(|one| one.trim_matches('`').to_owned()).collect(),
            };
            if let Some(other) = may.difference(&above).next() {
                anyhow::bail!("{name} may import {other}, which does not stand above it");
            }
            rows.push((name, may));
        }
        ensure!(!rows.is_empty(), "there is no table under {begins}");
        Ok(Self { within, rows })
    }

    /// The row of a module; none if it is outside the table.
    fn room<'m>(&self, module: &'m str) -> Option<&'m str> {
        let inside = if self.within.is_empty() {
            module
        } else {
            module.strip_prefix(self.within)?.strip_prefix("::")?
        };
        Some(folder(inside))
    }

    /// True if a module is neither outside nor in a row.
    fn lacks(&self, module: &str) -> bool {
        let is_row = |own: &str| self.rows.iter().any(|(name, _)| name == own);
        self.room(module).is_some_and(|own| !OUTSIDE.contains(&own) && !is_row(own))
    }

    /// Why a file may not import another; none if it may.
    fn forbids(&self, house: &House, from: &str, to: &str) -> Option<String> {
        let own = self.room(from).filter(|own| !OUTSIDE.contains(own))?;
        // Out of the folder it leads where the other table says, but not to the folder's own door.
        let other = if to == self.within { "" } else { self.room(to)? };
        if own == other {
            return None;
        }
        let (_, may) = self.rows.iter().find(|(name, _)| name == own)?;
        let (from, to) = (house.file(from), house.file(to));
        (!may.contains(other)).then(|| format!("{from}: {own} may not import {to}"))
    }
}

/// The files by module ("queue::walk"), and the tables that they keep to.
struct Sources {
    house: &'static House,
    tables: Vec<Table>,
    files: BTreeMap<String, Source>,
}

struct Source {
    /// The paths that it names, in imports or elsewhere.
    paths: BTreeSet<String>,
    /// What it passes on to those who import it, by name: the files below it see also what it imports for itself.
    passed_on: BTreeMap<String, String>,
    /// Without imports, comments and what stands in quotes.
    code: String,
    /// Functions of more than [`LONGEST`] lines, with how many they have.
    too_long: Vec<(String, usize)>,
    /// Public items.
    public: usize,
    lines: usize,
}

impl Sources {
    fn read(house: &'static House, tables: Vec<Table>) -> Result<Self> {
        let mut files = BTreeMap::new();
        for path in docs::checkout()? {
            let Some(module) = path.strip_prefix(house.sources).and_then(|path| path.strip_suffix(".rs"))
            else {
                continue;
            };
            let text = fs::read_to_string(Path::new(ROOT).join(&path))
                .with_context(|| format!("cannot read {path}"))?;
            let module = module.replace('/', "::");
            let module = module.strip_suffix("::mod").unwrap_or(&module);
            let module = if module == "lib" { "" } else { module };
            if !module.split("::").any(|part| OF_TESTS.iter().any(|end| part.ends_with(end))) {
                files.insert(module.to_owned(), Source::of(&text));
            }
        }
        Ok(Self { house, tables, files })
    }

    /// What breaks the rules.
    fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut graph = BTreeMap::new();
        for (module, source) in &self.files {
            let arrows = self.arrows(module);
            let passed_on = source.passed_on.values().filter_map(|path| self.resolve(module, path));
            let leads_to: BTreeSet<String> = arrows.iter().cloned().chain(passed_on).collect();
            let forbidden =
                |to: &String| self.tables.iter().find_map(|table| table.forbids(self.house, module, to));
            wrong.extend(leads_to.iter().filter_map(forbidden));
            if self.tables.iter().any(|table| table.lacks(module)) {
                wrong.push(format!("{}: not in the table", self.house.file(module)));
            }
            graph.insert(module.as_str(), arrows);
            if let Some((text, only)) = self.house.only_in
                && folder(module) != only
                && source.code.contains(text)
            {
                wrong.push(format!("{}: `{text}` belongs into {only}/ alone", self.house.file(module)));
            }
            wrong.extend(source.too_long.iter().map(|(name, lines)| {
                let file = self.house.file(module);
                format!("{file}: {name} has {lines} lines; a function has at most {LONGEST}")
            }));
        }
        wrong.extend(circles(&graph).into_iter().map(|circle| {
            let files: Vec<String> = circle.iter().map(|module| self.house.file(module)).collect();
            format!("these files import each other in a circle: {}", files.join(", "))
        }));
        wrong
    }

    /// Lines without tests, files, arrows to other files, and public items of each folder.
    fn sizes(&self) -> Vec<String> {
        let mut folders: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
        for (module, source) in &self.files {
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
                "{name:<16} {lines:>6} lines, {files:>3} files, {arrows:>3} arrows, {public:>4} public items"
            )
        };
        let crate_rows =
            self.tables.iter().filter(|table| table.within.is_empty()).flat_map(|table| &table.rows);
        let names = crate_rows.map(|(name, _)| name.as_str()).chain([""]);
        let known = names
            .filter_map(|name| Some((if name.is_empty() { "lib.rs" } else { name }, folders.get(name)?)));
        known.chain([("together", &all)]).map(line).collect()
    }

    /// The files from which a file uses something, even if a third one passes it on. What it passes on itself does not
    /// count: nothing in it depends on that.
    fn arrows(&self, module: &str) -> BTreeSet<String> {
        let paths = self.files.get(module).into_iter().flat_map(|source| &source.paths);
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
            first => _ = self.files.get(&below(&at, first))?,
        }
        while let Some(part) = parts.next_if(|part| self.files.contains_key(&below(&at, part))) {
            at.push(part);
        }
        let found = at.join("::");
        let passed_on = parts.next().and_then(|name| self.files.get(&found)?.passed_on.get(name));
        Some(passed_on.and_then(|path| self.resolve(&found, path)).unwrap_or(found))
    }
}

impl Source {
    fn of(text: &str) -> Self {
        let text = without_tests(text);
        let code = code(text);
        let (mut rest, mut named, mut passed_on) = (String::new(), BTreeSet::new(), BTreeMap::new());
        for statement in code.split_inclusive(';') {
            let Some(import) = Import::of(statement) else {
                rest.push_str(statement);
                continue;
            };
            rest.push_str(import.before);
            for path in expand(import.tree) {
                if !import.is_public {
                    named.insert(path.clone());
                }
                if let Some(name) = path.rsplit("::").next().filter(|name| *name != "*") {
                    passed_on.insert(name.to_owned(), path);
                }
            }
        }
        named.extend(paths(&rest));
        Self {
            paths: named,
            passed_on,
            too_long: too_long(text),
            public: rest.lines().filter(|line| is_public(line)).count(),
            lines: text.lines().count(),
            code: rest,
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

/// A file up to the tests at its end.
fn without_tests(text: &str) -> &str {
    let is_end = |(place, _): &(usize, &str)| {
        let rest = &text[place + "#[cfg(test)]\n".len()..];
        rest.lines().next().is_some_and(|line| line.ends_with("mod tests {"))
    };
    text.match_indices("#[cfg(test)]\n").find(is_end).map_or(text, |(place, _)| &text[..place])
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

    const PAGE: &str = "\
| folder | what it knows | may import |
|---|---|---|
| `values` | | nothing |
| `capacity` | | `values` |
| `queue` | | `values`, `capacity` |
| `causes` | | `values` |
| `plan` | | all of them |

| file of `queue` | what it decides | may import |
|---|---|---|
| `line` | | nothing |
| `walk` | | `line` |
";

    fn sources_with(tables: &'static [(&str, &str)], files: &[(&str, &str)]) -> Sources {
        let house: &'static House = Box::leak(Box::new(House { tables, ..PLANNER }));
        let files = files.iter().map(|(module, text)| ((*module).to_owned(), Source::of(text))).collect();
        Sources { house, tables: house.tables_of(PAGE).unwrap(), files }
    }

    fn sources(files: &[(&str, &str)]) -> Sources {
        sources_with(&[("folder", "")], files)
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
            assert!(wrong.iter().any(|one| one.contains("capacity may not import")), "{text}: {wrong:?}");
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
        assert!(wrong[0].contains("not in the table"), "{wrong:?}");
    }

    #[test]
    fn files_of_a_folder_may_have_a_table_of_their_own() {
        let tables = &[("folder", ""), ("file of `queue`", "queue")];
        let door = ("queue", "use line::Line;\nuse walk::all;\n");
        let line = ("queue::line", "use crate::values::Key;\n");
        let all = |walk| sources_with(tables, &[("values", ""), door, line, ("queue::walk", walk)]).wrong();
        // What the door imports for itself the files below it see.
        for walk in ["use super::line::Line;\n", "use super::Line;\n", "use crate::values::Key;\n"] {
            assert_eq!(all(walk), Vec::<String>::new(), "{walk}");
        }
        assert!(all("use crate::queue::Door;\n")[0].contains("walk may not import"), "the door is above");
        let upwards = ("queue::line", "use super::all;\n");
        let wrong =
            sources_with(tables, &[("queue", "use walk::all;\n"), upwards, ("queue::walk", "")]).wrong();
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].ends_with("line may not import operator/planner/src/queue/walk.rs"), "{wrong:?}");
        assert!(sources_with(tables, &[("queue::other", "")]).wrong()[0].contains("not in the table"));
    }

    #[test]
    fn no_folder_of_a_table_knows_one_below_it() {
        let page = PAGE.replace("| `capacity` | | `values` |", "| `capacity` | | `values`, `queue` |");
        let error = PLANNER.tables_of(&page).err().unwrap();
        assert!(format!("{error:#}").contains("capacity may import queue, which does not stand above it"));
        assert!(PLANNER.tables_of("no table").is_err());
    }

    #[test]
    fn tests_at_the_end_of_a_file_do_not_count() {
        let tests =
            |begin: &str| format!("use crate::values::Key;\n\n{begin}\n    use crate::plan::Plan;\n}}\n");
        for begin in ["#[cfg(test)]\nmod tests {", "#[cfg(test)]\npub(super) mod tests {"] {
            let text = tests(begin);
            assert!(sources(&[("values", ""), ("plan", ""), ("queue", &text)]).wrong().is_empty(), "{begin}");
        }
        let builder = tests("#[cfg(test)]\nfn builder() {");
        assert!(!sources(&[("values", ""), ("plan", ""), ("queue", &builder)]).wrong().is_empty());
    }

    #[test]
    fn the_sources_keep_to_their_tables() {
        check().unwrap();
    }
}
