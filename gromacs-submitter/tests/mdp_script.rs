//! The part of the inspection's script that lets grompp read other settings than those of the -f file.

mod volume;

use std::path::{Path, PathBuf};
use std::process::Output;

use gromacs_submitter::probe::GROMPP_SCRIPT;
use volume::{UUID, Volume, has_gromacs};

/// Settings as people write them.
const MDP: &str = "; Settings of ref-t and others
integrator = md
REF_T  = 300 ; K
;ref-t = 250
ref-p=1.0
gen-temp=300
tau_t = 0.5
";

/// A `gmx` that says where it reads its settings.
const SAYING: &str =
    "while [ $# -gt 1 ]; do if [ \"$1\" = -f ]; then echo \"reads $2\" >&2; fi; shift; done; exit 3";

/// A row that makes its file, in a folder of its own.
struct Row {
    volume: Volume,
    folder: PathBuf,
}

impl Row {
    fn new(gmx: &str, mdp: &str) -> Self {
        let volume = Volume::new(gmx);
        std::fs::write(volume.0.join("md.mdp"), mdp).expect("should write");
        Self { folder: volume.0.join("gromacs-7"), volume }
    }

    fn run(&self, shell: &str, words: &[&str], settings: &[&str]) -> Output {
        let tpr = self.volume.0.join("topol.tpr");
        let own = [Path::new("6"), &tpr, &self.folder, Path::new(UUID)];
        let rest = ["-", "-", "-"].iter().chain(words).chain(settings).map(Path::new);
        self.volume.run_by(shell, GROMPP_SCRIPT, &own.into_iter().chain(rest).collect::<Vec<_>>())
    }

    /// What grompp reads with these settings.
    fn changed(&self, shell: &str, settings: &[&str]) -> String {
        let settings = [&["--"], settings].concat();
        let output = self.run(shell, &["-c", "a.gro", "-f", "md.mdp", "-p", "a.top"], &settings);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let path = self.folder.join("changed.mdp");
        assert_eq!(said, format!("reads {}\n", path.display()), "{settings:?}");
        assert_eq!(output.status.code(), Some(8), "as grompp failed");
        std::fs::read_to_string(path).expect("should be there")
    }
}

#[test]
fn a_setting_takes_the_place_of_the_line_that_grompp_would_read() {
    let row = Row::new(SAYING, MDP);
    for name in ["ref-t", "ref_t", "REF-T", "RefT"] {
        let expected = MDP.replace("REF_T", "; REF_T") + name + " = 310\n";
        assert_eq!(row.changed("sh", &[&format!("{name}=310")]), expected);
    }
    let expected = MDP.replace("gen-temp", "; gen-temp").replace("tau_t", "; tau_t");
    assert_eq!(
        row.changed("sh", &["gen_temp=310 320", "tau-t=", "nsteps=7"]),
        expected + "gen_temp = 310 320\ntau-t = \nnsteps = 7\n"
    );
    let file = std::fs::read_to_string(row.volume.0.join("md.mdp")).expect("should be there");
    assert_eq!(file, MDP, "the file of the user stays as it is");
}

#[test]
fn odd_lines_of_a_file_stay_lines() {
    for (mdp, changed) in [
        ("", "dt = 0.001\n"),
        ("nsteps = 1\r\ndt = 0.002\r\n", "nsteps = 1\r\n; dt = 0.002\r\ndt = 0.001\n"),
        ("dt = 0.002", "; dt = 0.002\ndt = 0.001\n"),
        (" \tdt\t=0.002\ndt\nwater-dt = 1\n", ";  \tdt\t=0.002\ndt\nwater-dt = 1\ndt = 0.001\n"),
    ] {
        let row = Row::new(SAYING, mdp);
        assert_eq!(row.changed("sh", &["dt=0.001"]), changed, "{mdp:?}");
    }
}

#[test]
fn no_shell_and_no_pattern_reads_a_value() {
    for shell in ["sh", "bash"] {
        let row = Row::new(SAYING, MDP);
        for value in [
            "$(touch hacked)",
            "`touch hacked`",
            "\"; touch hacked; \"",
            "'; touch hacked; '",
            "a\n$(touch hacked)",
            "&",
            "\\1 \\n \\\\ \\",
            "/e touch hacked",
            "%s %n {} * ? ~ #",
            "-DPOSRES -DFC=1000",
            "--",
            "wässer",
        ] {
            let changed = row.changed(shell, &[&format!("define={value}"), "ref-t=310"]);
            let expected = format!("{}define = {value}\nref-t = 310\n", MDP.replace("REF_T", "; REF_T"));
            assert_eq!(changed, expected, "{shell} {value:?}");
        }
        let names: Vec<String> = std::fs::read_dir(&row.volume.0)
            .expect("should be a folder")
            .map(|entry| entry.expect("should be read").file_name().to_string_lossy().into_owned())
            .filter(|name| !["bin", "gromacs-7", "md.mdp"].contains(&name.as_str()))
            .collect();
        assert_eq!(names, Vec::<String>::new(), "{shell}");
        assert!(!Path::new("hacked").exists());
    }
}

#[test]
fn a_file_of_settings_is_found_as_grompp_finds_it_or_named() {
    let row = Row::new(SAYING, MDP);
    let without_ending = row.run("sh", &["-f", "md", "-c", "a.gro", "-p", "a.top"], &["--", "ref-t=310"]);
    assert_eq!(without_ending.status.code(), Some(8), "{}", String::from_utf8_lossy(&without_ending.stderr));
    let missing = row.run("sh", &["-f", "none.mdp", "-c", "a.gro", "-p", "a.top"], &["--", "ref-t=310"]);
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert_eq!(missing.status.code(), Some(4), "{said}");
    let expected = format!("there is no file none.mdp in {}\n", row.volume.0.display());
    assert!(said.ends_with(&expected) && !said.contains("reads"), "{said}");
    let unchanged = row.run("sh", &["-f", "md.mdp", "-c", "a.gro", "-p", "a.top"], &[]);
    assert_eq!(String::from_utf8_lossy(&unchanged.stderr), "reads md.mdp\n");
}

#[test]
fn gromacs_reads_what_is_set() {
    if !has_gromacs() {
        return;
    }
    let row = Row::new("PATH=${PATH#*:}; export PATH; exec gmx \"$@\"", "");
    let root = &row.volume.0;
    let mdp = "integrator = md\nnsteps = 10\nrcoulomb = 0.9\nrvdw = 0.9\nInit_Step = 5\nTcoupl = no\n";
    let topology = "[ defaults ]\n1 2\n[ atomtypes ]\nAr 18 39.948 0.0 A 0.34 0.996\n[ moleculetype ]\nAr 1\n[ atoms ]\n\
                    1 Ar 1 Ar Ar 1\n[ system ]\nArgon\n[ molecules ]\nAr 1\n";
    let structure = "Argon\n1\n    1Ar      Ar    1   0.000   0.000   0.000\n3 3 3\n";
    for (name, text) in [("md.mdp", mdp), ("a.top", topology), ("a.gro", structure)] {
        std::fs::write(root.join(name), text).expect("should write");
    }
    let words = ["-f", "md.mdp", "-c", "a.gro", "-p", "a.top", "-maxwarn", "9"];
    let settings = ["--", "init-step=20", "T-Coupl=v-rescale", "ref-t=310", "tc_grps=System", "tau-t=0.5"];
    let output = row.run("sh", &words, &settings);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let message = row.volume.message();
    assert!(message.contains("init-step=20\n") && message.contains("tcoupl=V-rescale\n"), "{message}");
    let used = std::fs::read_to_string(row.folder.join("mdout.mdp")).expect("should be there");
    let lines: Vec<&str> = used.lines().filter(|line| line.starts_with("ref-t ")).collect();
    assert!(lines.len() == 1 && lines[0].ends_with("= 310"), "{lines:?}");
}
