use super::*;

const TERM: i32 = 15;
const SUPERVISOR: i32 = 1;

fn process(pid: i32, parent: i32, command: &str) -> Process {
    let command: Vec<String> = command.split(' ').map(str::to_owned).collect();
    let program = file_name(&command[0]).to_owned();
    Process { pid, parent, program, command, started: 7, ..Process::default() }
}

impl Process {
    fn reading(self, pipe: u64) -> Self {
        Self { reads: Some(pipe), ..self }
    }
    fn writing(mut self, pipe: u64) -> Self {
        self.writes.insert(pipe);
        self
    }
}

fn chosen_by(table: &[Process], signal: i32, rule: &Rule) -> Vec<i32> {
    recipients(table, SUPERVISOR, 2, signal, rule).iter().map(|process| process.pid).collect()
}

fn chosen(table: &[Process]) -> Vec<i32> {
    chosen_by(table, TERM, &Rule::default())
}

#[test]
fn a_command_that_is_no_shell_gets_it_itself() {
    let table = [process(2, 1, "gmx mdrun"), process(3, 2, "helper")];
    assert_eq!(chosen(&table), [2]);
}

#[test]
fn shells_are_looked_through_however_deep() {
    let mut script = process(2, 1, "/bin/bash /gromacs/bin/gmx mdrun");
    // What the kernel calls a script is the script; its program is the shell.
    script.program = "bash".to_owned();
    let table = [script, process(3, 2, "sh -c x"), process(4, 3, "/bin/dash x"), process(5, 4, "gmx mdrun")];
    assert_eq!(chosen(&table), [5]);
}

#[test]
fn a_shell_without_children_gets_it_itself() {
    assert_eq!(chosen(&[process(2, 1, "bash -c x")]), [2]);
    let zombie = Process { zombie: true, ..process(3, 2, "gmx") };
    assert_eq!(chosen(&[process(2, 1, "bash -c x"), zombie]), [2]);
}

#[test]
fn a_shell_with_a_trap_gets_it_and_its_children_do_not() {
    let shell = Process { caught: 1 << 14 | 1 << 1, ..process(2, 1, "bash -c x") };
    let table = [shell, process(3, 2, "gmx mdrun")];
    assert_eq!(chosen(&table), [2]);
    // Every bash catches SIGINT.
    assert_eq!(chosen_by(&table, 2, &Rule::default()), [3]);
}

#[test]
fn the_reader_of_a_siblings_pipe_is_spared() {
    let shell = || process(2, 1, "bash -c x");
    let table = [shell(), process(3, 2, "gmx mdrun").writing(9), process(4, 2, "tee log").reading(9)];
    assert_eq!(chosen(&table), [3]);
    let leaves = Rule { recipients: Recipients::Leaves, process: None };
    assert_eq!(chosen_by(&table, TERM, &leaves), [3]);
    // The writer stands below a wrapper of its own.
    let table = [
        shell(),
        process(3, 2, "sh x"),
        process(5, 3, "gmx mdrun").writing(9),
        process(4, 2, "tee log").reading(9),
    ];
    assert_eq!(chosen(&table), [5]);
    // The writer has ended: what it wrote is the input of the one workload.
    assert_eq!(chosen(&[shell(), process(4, 2, "gmx mdrun").reading(9)]), [4]);
    // Two that read from each other.
    let table = [shell(), process(3, 2, "a").writing(9).reading(8), process(4, 2, "b").reading(9).writing(8)];
    assert_eq!(chosen(&table), [3, 4]);
}

#[test]
fn all_background_children_get_it() {
    let table = [process(2, 1, "bash -c x"), process(3, 2, "a"), process(4, 2, "b")];
    assert_eq!(chosen(&table), [3, 4]);
}

#[test]
fn wrappers_are_looked_through_though_they_catch() {
    let timeout = Process { caught: u64::MAX, ..process(2, 1, "timeout 60 gmx") };
    assert_eq!(chosen(&[timeout, process(3, 2, "gmx mdrun")]), [3]);
}

#[test]
fn busybox_is_what_it_is_called_as() {
    let busybox =
        |pid, parent, command| Process { program: "busybox".to_owned(), ..process(pid, parent, command) };
    for shell in ["busybox sh -c x", "/bin/sh -c x", "/bin/busybox ash", "-sh"] {
        assert_eq!(chosen(&[busybox(2, 1, shell), process(3, 2, "gmx")]), [3], "{shell}");
    }
    for other in ["busybox httpd", "/bin/httpd"] {
        assert_eq!(chosen(&[busybox(2, 1, other), process(3, 2, "cgi")]), [2], "{other}");
    }
    // A program whose file could not be read is known by its command line.
    let unknown = Process { program: String::new(), ..process(2, 1, "/bin/bash x") };
    assert_eq!(chosen(&[unknown, process(3, 2, "gmx")]), [3]);
}

#[test]
fn leaves_all_and_a_pattern() {
    let table = [
        process(2, 1, "torchrun train.py"),
        process(3, 2, "python train.py --rank 0"),
        process(4, 2, "python train.py --rank 1"),
        process(5, 1, "adopted daemon"),
        process(9, 0, "kubectl exec"),
    ];
    let rule = |recipients| Rule { recipients, process: None };
    assert_eq!(chosen_by(&table, TERM, &rule(Recipients::Leaves)), [3, 4, 5]);
    assert_eq!(chosen_by(&table, TERM, &rule(Recipients::All)), [2, 3, 4, 5]);
    let pattern = |text| Rule { process: Some(Regex::new(text).unwrap()), ..Rule::default() };
    assert_eq!(chosen_by(&table, TERM, &pattern("--rank 0$")), [3]);
    assert_eq!(chosen_by(&table, TERM, &pattern("no such")), [2]);
}

#[test]
fn a_table_with_a_circle_ends() {
    let table = [process(2, 1, "bash"), process(3, 4, "bash"), process(4, 3, "bash"), process(1, 2, "x")];
    assert_eq!(chosen(&table), [2]);
}

#[test]
fn a_signal_without_handler_is_not_survived() {
    assert!(!process(2, 1, "x").survives(10));
    assert!(Process { deaf: 1 << 9, ..process(2, 1, "x") }.survives(10));
    assert!(Process { caught: 1 << 9, ..process(2, 1, "x") }.survives(10));
}
