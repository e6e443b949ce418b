//! The page on how a workload writes checkpoints: what it shows is run here under the supervisor, word for word. Only its
//! folders are those of the test, and programs that are not to be had are played.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, process::Command};

use nix::sys::signal::Signal;
use scavenger_schema::supervision::{EndReport, Stop};
use serde_json::Value;

use crate::harness::{Bench, Running, eventually, has_python};

const PAGE: &str = include_str!("../../../../docs/checkpointing.md");

/// The first block in this language below a heading.
fn block(heading: &str, language: &str) -> &'static str {
    let (_, part) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no {heading:?}"));
    let part = part.split("\n## ").next().unwrap_or_default();
    let block = part.split_once(&format!("```{language}\n")).and_then(|(_, rest)| rest.split_once("```"));
    block.unwrap_or_else(|| panic!("{heading:?} shows no {language}")).0
}

/// A workload as the page shows it, and what its container would hold.
struct Example {
    bench: Bench,
    /// The fields of the spec that matter in the container.
    spec: Value,
}

impl Example {
    /// From the YAML below a heading: a whole manifest, or fields of a spec.
    fn new(heading: &str) -> Self {
        let bench = Bench::new();
        for folder in ["app", "bin", "data", "lib"] {
            fs::create_dir(bench.path(folder)).unwrap();
        }
        let mut example = Self { bench, spec: Value::Null };
        let shown: Value = serde_saphyr::from_str(&example.placed(block(heading, "yaml"))).unwrap();
        example.spec = shown.get("spec").cloned().unwrap_or(shown);
        example
    }

    /// With the folders of the test.
    fn placed(&self, text: &str) -> String {
        ["/data", "/app"].iter().fold(text.to_owned(), |text, folder| {
            text.replace(folder, self.bench.path(&folder[1..]).to_str().unwrap())
        })
    }

    /// A script of the page, as the image or the volume has it.
    fn file(&self, name: &str, text: &str) {
        fs::write(self.bench.path(name), self.placed(text)).unwrap();
    }

    /// A program of the image.
    fn tool(&self, name: &str, text: &str) {
        let path = self.bench.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn words(&self, field: &str) -> Vec<&str> {
        let words = self.spec[field].as_array().map(Vec::as_slice).unwrap_or_default();
        words.iter().map(|word| word.as_str().unwrap()).collect()
    }

    /// Starts it as the operator's manifest does.
    fn start(&self) -> Running {
        let signal = &self.spec["supervisor"]["signal"];
        let to = signal["to"].as_str().map(str::to_lowercase);
        let flags = [
            ("--signal-to", to.as_deref()),
            ("--signal-process", signal["process"].as_str()),
            ("--checkpoint", self.spec["checkpoint"]["path"].as_str()),
            ("--progress", self.spec["checkpoint"]["progressPath"].as_str()),
        ];
        let flags: Vec<&str> =
            flags.iter().filter_map(|(flag, value)| Some([*flag, (*value)?])).flatten().collect();
        self.bench.make("message");
        let mut command = self.bench.command(&flags, &[self.words("command"), self.words("args")].concat());
        self.surround(&mut command);
        if let Some(folder) = self.spec["workingDir"].as_str() {
            command.current_dir(folder);
        }
        self.bench.start_command(command)
    }

    fn surround(&self, command: &mut Command) {
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env("PATH", format!("{}:{path}", self.bench.path("bin").display()))
            .env("PYTHONPATH", self.bench.path("lib"))
            .env("BENCH", self.bench.folder.path());
    }

    /// Stops it once it is ready; returns its exit code and the report of the end.
    fn stopped(&self, what: &str, is_ready: impl FnMut() -> bool) -> (i32, EndReport) {
        self.bench.make("slow");
        let running = self.start();
        eventually(what, is_ready);
        running.signal(Signal::SIGTERM);
        let code = running.end();
        fs::remove_file(self.bench.path("slow")).unwrap();
        (code, self.bench.end_report().unwrap_or_else(|| panic!("no report: {}", self.bench.read("log"))))
    }

    /// Runs to its end, which must be a good one.
    fn ends(&self) {
        assert_eq!(self.start().end(), 0, "{}", self.bench.read("log"));
        assert_eq!(self.bench.end_report().unwrap().stop, Stop::NotAsked);
    }

    /// The lines that programs noted since somebody asked last.
    fn noted(&self, name: &str) -> Vec<String> {
        let lines = self.bench.lines(name);
        fs::remove_file(self.bench.path(name)).ok();
        lines
    }
}

/// What the page's Python script imports and calls, with states as JSON. The steps that an attempt did are noted at its end.
fn python(example: &Example) {
    const TORCH: &str = "import json\n\
                         def save(state, path):\n  \
                           with open(path, 'w') as file: json.dump(state, file)\n\
                         def load(path):\n  \
                           with open(path) as file: return json.load(file)\n";
    const MODEL: &str = "import atexit, builtins, os, time\n\
                         FOLDER = os.environ['BENCH']\n\
                         class Model:\n  \
                           steps = 0\n  \
                           def state_dict(self): return self.steps\n  \
                           def load_state_dict(self, state): self.steps = state\n\
                         done = []\n\
                         def train_one(model):\n  \
                           model.steps += 1\n  \
                           done.append(model.steps)\n  \
                           if len(done) % 100 == 1 and os.path.exists(FOLDER + '/slow'): time.sleep(0.05)\n\
                         def note():\n  \
                           if done:\n    \
                             with open(FOLDER + '/steps', 'a') as file: file.write(f'{done[0]} {done[-1]}\\n')\n\
                         atexit.register(note)\n\
                         builtins.build, builtins.train_one = Model, train_one\n";
    example.file("lib/torch.py", TORCH);
    example.file("lib/sitecustomize.py", MODEL);
    example.file("app/train.py", block("A Python script, as with PyTorch", "python"));
}

/// The step of the state that the script saved; its model must be of the same step.
fn saved_step(example: &Example) -> u64 {
    let state: Value = serde_json::from_str(&example.bench.read("data/state.pt")).unwrap();
    assert_eq!(state["model"], state["step"]);
    state["step"].as_u64().unwrap()
}

/// Stops the script, which must answer, and lets it go on to its end.
fn trains_to_the_end(example: &Example) {
    let has_saved = || example.bench.path("data/progress").exists();
    let (code, report) = example.stopped("the first checkpoint", has_saved);
    assert_eq!((code, report.stop), (143, Stop::Answered), "{}", example.bench.read("log"));
    let step = saved_step(example);
    assert_eq!(example.noted("steps"), [format!("1 {step}")]);
    assert!((1_000..100_000).contains(&step), "{step}");
    assert_eq!(report.progress.map(|progress| (progress * 100_000.0).round()), Some(step as f64));
    example.ends();
    assert_eq!(example.noted("steps"), [format!("{} 100000", step + 1)]);
    assert_eq!((saved_step(example), example.bench.end_report().unwrap().progress), (100_000, Some(1.0)));
    // Started again after its end.
    example.ends();
    assert_eq!((example.noted("steps").len(), saved_step(example)), (0, 100_000));
}

#[test]
fn the_python_script_answers_and_goes_on() {
    has_python();
    let example = Example::new("Name the checkpoints");
    python(&example);
    trains_to_the_end(&example);
}

#[test]
fn behind_a_launcher_that_passes_nothing_on_the_pattern_finds_the_script() {
    has_python();
    let mut example = Example::new("Name the checkpoints");
    python(&example);
    let shown = PAGE.split('`').find(|code| code.starts_with("supervisor: {signal: {process:")).unwrap();
    let shown: Value = serde_saphyr::from_str(shown).unwrap();
    example.spec["supervisor"] = shown["supervisor"].clone();
    // Without the `^` the pattern would find this one, too, and it would not live to note anything.
    let launcher = "import os, subprocess, sys\ncode = subprocess.call(sys.argv[1:])\n\
                    open(os.environ['BENCH'] + '/launched', 'a').write(f'{code}\\n')\nsys.exit(code)\n";
    example.file("app/launcher", launcher);
    let launcher = example.bench.path("app/launcher").to_str().unwrap().to_owned();
    let command = [vec!["python3", &launcher], example.words("command")].concat();
    let command: Value = command.into();
    example.spec["command"] = command;
    trains_to_the_end(&example);
    assert_eq!(example.noted("launched"), ["143", "0", "0"]);
}

#[test]
fn parts_of_amber_that_are_complete_stay() {
    let example = Example::new("AMBER, and programs with restart files");
    // It takes time for its third part only.
    let pmemd = "#!/bin/bash\nwhile [ $# -gt 0 ]; do case $1 in -c) from=$2;; -r) to=$2;; esac; shift; done\n\
                 echo \"$from $to\" >> \"$BENCH/calls\"\n[ -s \"$from\" ] || exit 9\n\
                 [ -e \"$BENCH/slow\" ] && [ \"$to\" = part03.new ] && exec sleep 600\necho coordinates > \"$to\"\n";
    example.tool("bin/pmemd", pmemd);
    example.file("data/equil.rst7", "coordinates");
    let third = "part02.rst7 part03.new";
    let at_third = || example.bench.lines("calls").iter().any(|call| call == third);
    let (code, report) = example.stopped("the third part", at_third);
    // The second part was complete a moment before the signal, which is no answer.
    assert_eq!((code, report.stop), (1, Stop::Unanswered), "{}", example.bench.read("log"));
    assert!(report.checkpoint.is_some_and(|checkpoint| checkpoint.age_seconds < 60.0), "{report:?}");
    assert_eq!(example.noted("calls"), ["equil.rst7 part01.new", "part01.rst7 part02.new", third]);
    example.ends();
    let calls = example.noted("calls");
    assert_eq!((calls.len(), calls[0].as_str(), calls[17].as_str()), (18, third, "part19.rst7 part20.new"));
    example.ends();
    assert_eq!(example.noted("calls").len(), 0);
}

#[test]
fn the_shell_script_goes_on_at_the_step_that_was_interrupted() {
    let example = Example::new("Plain shell");
    example.file("data/steps.sh", block("Plain shell", "sh"));
    let compute = "#!/bin/sh\necho \"$1\" >> \"$BENCH/calls\"\n\
                   if [ -e \"$BENCH/slow\" ] && [ \"$1\" = 4 ]; then exec sleep 600; fi\n";
    example.tool("bin/compute", compute);
    let at_fourth = || example.bench.lines("calls").iter().any(|call| call == "4");
    let (code, report) = example.stopped("the fourth step", at_fourth);
    assert_eq!((code, report.stop), (1, Stop::Unanswered), "{}", example.bench.read("log"));
    assert!(report.checkpoint.is_some());
    assert_eq!((example.noted("calls").len(), example.bench.read("data/done").as_str()), (4, "3\n"));
    example.ends();
    let calls = example.noted("calls");
    assert_eq!(
        (calls.len(), calls[0].as_str(), example.bench.read("data/done").as_str()),
        (997, "4", "1000\n")
    );
    example.ends();
    assert_eq!(example.noted("calls").len(), 0);
}

/// Real ranks of a real `mpirun` are interrupted on a cluster, in the end-to-end tests.
#[test]
fn ranks_behind_mpirun_are_leaves() {
    const RANKS: usize = 4;
    let example = Example::new("MPI");
    let mpirun = "#!/bin/bash\ntrap 'echo TERM >> \"$BENCH/mpirun\"' TERM\n\
                  while [[ $1 == -* ]]; do [ \"$1\" = -n ] && ranks=$2; shift 2; done\n\
                  for rank in $(seq 0 $((ranks - 1))); do OMPI_COMM_WORLD_RANK=$rank \"$@\" & pids[rank]=$!; done\n\
                  code=0; for pid in \"${pids[@]}\"; do wait \"$pid\" || code=$?; done; exit \"$code\"\n";
    // It has no children while it computes: it waits by reading what nobody writes.
    let solver = "#!/bin/bash\nrank=$OMPI_COMM_WORLD_RANK; file=$BENCH/data/$rank.restart\n\
                  step=$(cat \"$file\" 2> /dev/null || echo 0); echo \"$step\" >> \"$BENCH/begins-$rank\"\n\
                  save() { echo \"$step\" > \"$file.new\"; mv \"$file.new\" \"$file\"; }\n\
                  trap 'echo TERM >> \"$BENCH/got-$rank\"; save; exit 143' TERM\n\
                  mkfifo \"$BENCH/pipe-$rank\" 2> /dev/null; exec 3<> \"$BENCH/pipe-$rank\"\n\
                  while [ \"$step\" -lt 10000 ]; do\n\
                  step=$((step + 1)); if [ -e \"$BENCH/slow\" ]; then echo > \"$BENCH/runs-$rank\"; read -r -t 0.02 -u 3; fi\n\
                  done; save\n";
    example.tool("bin/mpirun", mpirun);
    example.tool("solver", solver);
    let name = |what: &str, rank: usize| format!("{what}-{rank}");
    let run = || (0..RANKS).all(|rank| example.bench.path(&name("runs", rank)).exists());
    let (code, report) = example.stopped("all ranks", run);
    assert_eq!((code, report.stop), (143, Stop::Answered), "{}", example.bench.read("log"));
    let restart = |rank: usize| example.bench.read(&format!("data/{rank}.restart"));
    let saved: Vec<String> = (0..RANKS).map(restart).collect();
    for rank in 0..RANKS {
        assert_eq!(example.noted(&name("begins", rank)), ["0"]);
        assert_eq!(example.noted(&name("got", rank)), ["TERM"]);
    }
    assert_eq!(example.noted("mpirun").len(), 0, "mpirun would have killed slow ranks");
    example.ends();
    for (rank, saved) in saved.iter().enumerate() {
        assert_eq!(example.noted(&name("begins", rank)), [saved.trim()]);
        assert_eq!(restart(rank), "10000\n");
    }
    example.ends();
}

#[test]
fn every_script_of_the_page_is_run_here() {
    let page = PathBuf::from("docs/checkpointing.md");
    let shown = |language: &str| PAGE.matches(&format!("```{language}\n")).count();
    // One of Python; of sh: two of commands for people (crane, kubectl), and the steps of "Plain shell".
    assert_eq!((shown("python"), shown("sh")), (1, 3), "{} has another script: run it here", page.display());
    // The manifest, two of requests (which the tests of reports make), GROMACS (on a cluster), AMBER, shell, MPI.
    assert_eq!(shown("yaml"), 7, "{} has another workload: run it here", page.display());
}
