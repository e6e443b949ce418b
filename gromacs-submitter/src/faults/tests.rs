//! A fixture for each line of the table.

use super::*;
use crate::mdrun_log::error_message;

/// Ends of the standard error of `gmx mdrun` 2022.5 (Debian), each provoked.
const SEEN: &str = include_str!("../../tests/fixtures/mdrun-refusals.txt");

/// What other speakers say, and GROMACS with other hardware or in another release, a line each: who, what it means, what is said.
const SAID: &str = include_str!("../../tests/fixtures/faults.txt");

pub(super) fn seen(name: &str) -> String {
    let behind = SEEN.split_once(&format!("=== {name}\n")).expect("should be in the file").1;
    let text = behind.split("=== ").next().unwrap_or_default();
    error_message(text).unwrap_or_else(|| panic!("{name} should hold a message"))
}

fn said() -> Vec<(Speaker, String, String)> {
    let lines = SAID.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let columns = |line: &str| -> Option<(Speaker, String, String)> {
        let mut columns = line.splitn(3, " | ");
        let speaker = match columns.next()? {
            "gromacs" => Speaker::Gromacs,
            "exit" => Speaker::Exit,
            "kubelet" => Speaker::Kubelet,
            "api server" => Speaker::ApiServer,
            _ => return None,
        };
        Some((speaker, columns.next()?.to_owned(), columns.next()?.to_owned()))
    };
    lines.map(|line| columns(line).unwrap_or_else(|| panic!("{line} should have three columns"))).collect()
}

fn of(speaker: Speaker, said: &str) -> Meaning {
    match speaker {
        Speaker::Gromacs | Speaker::Line => of_gromacs(said),
        Speaker::Exit => of_exit_code(said.parse().expect("should be an exit code")),
        Speaker::Kubelet => of_kubelet(said),
        Speaker::ApiServer => of_api_server(said),
    }
}

#[test]
fn what_mdrun_was_seen_to_say_is_known() {
    for (name, expected) in [
        ("too many ranks", Meaning::Refuses(Part::Domains)),
        ("a cell too small", Meaning::Refuses(Part::Domains)),
        ("one rank alone", Meaning::Refuses(Part::Ranks)),
        ("SHAKE", Meaning::Refuses(Part::Ranks)),
        ("distance restraints", Meaning::Refuses(Part::Ranks)),
        ("a large prime", Meaning::Refuses(Part::Division)),
        ("one rank for PME", Meaning::Refuses(Part::Division)),
        ("threads of the image", Meaning::Refuses(Part::Division)),
        ("a build without GPUs", Meaning::Refuses(Part::Gpu)),
        ("PME on a GPU", Meaning::Refuses(Part::Gpu)),
        ("a lock that is held", Meaning::Held),
        ("a full volume", Meaning::Full),
        ("a damaged checkpoint", Meaning::DamagedCheckpoint),
        ("output that is missing", Meaning::ChangedOutput),
        ("output that was changed", Meaning::ChangedOutput),
        ("a bond without its table", Meaning::Table),
    ] {
        assert_eq!(of_gromacs(&seen(name)), expected, "{name}: {}", seen(name));
    }
}

#[test]
fn what_others_say_is_known() {
    for (speaker, expected, said) in said() {
        assert_eq!(format!("{:?}", of(speaker, &said)), expected, "{said}");
    }
}

/// Words without a fixture would be words that nobody ever said.
#[test]
fn every_word_of_the_table_is_said_by_somebody() {
    let seen = SEEN.split("=== ").filter_map(error_message).map(|words| (Speaker::Gromacs, words));
    let said: Vec<(Speaker, String)> =
        said().into_iter().map(|(speaker, _, said)| (speaker, said)).chain(seen).collect();
    for row in TABLE {
        let speaker = if row.speaker == Speaker::Line { Speaker::Gromacs } else { row.speaker };
        for words in row.words {
            let is_said = said.iter().any(|(by, said)| {
                let said = if speaker == Speaker::Kubelet { said.to_ascii_lowercase() } else { said.clone() };
                *by == speaker && said.contains(words) && of(speaker, &said) == row.meaning
            });
            assert!(is_said, "{:?} {words:?} has no fixture that it decides", row.speaker);
        }
    }
}
