//! Help pages and outcomes of the command line, as a user sees them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};

use clap::CommandFactory as _;
use scavenger_schema::tuning::{CalibrationReply, LadderReply};
use scavenger_tuner::config::Cli;

const TUNER: &str = env!("CARGO_BIN_EXE_scavenger-tuner");

fn tuner(args: &[&str]) -> Output {
    Command::new(TUNER).args(args).env_clear().stdin(Stdio::null()).output().expect("the tuner should start")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output should be text")
}

#[test]
fn help_pages() {
    let mut pages = String::new();
    let mut command = Cli::command().term_width(100).version("0.0.0");
    command.build();
    pages.push_str(&command.render_long_help().to_string());
    for verb in command.get_subcommands_mut().filter(|verb| verb.get_name() != "help") {
        pages.push_str("\n----------\n");
        pages.push_str(&verb.render_long_help().to_string());
    }
    insta::assert_snapshot!("help", pages);
}

#[test]
fn recommends_a_ladder_as_a_table() {
    let output = tuner(&["recommend", "--atoms", "10000", "--nsteps", "50000", "--node", "2,4Gi"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    let cores: Vec<_> = table
        .lines()
        .skip(1)
        .filter(|line| !line.starts_with("note") && !line.starts_with("efficiency"))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(cores, ["2", "1", "0.5"], "{table}");
    assert!(table.contains("-ntmpi 1 -ntomp 1 -npme 0 -pin off -nb cpu"), "{table}");
}

#[test]
fn recommends_a_ladder_as_json_from_a_whole_request() {
    let mut child = Command::new(TUNER)
        .args(["recommend", "--request", "-", "--output", "json"])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the tuner should start");
    let request = r#"{"system":{"atoms":3000},"nodes":[{"allocatable":{"cpuMillicores":4000,"memoryBytes":8589934592}}]}"#;
    child.stdin.take().expect("stdin is piped").write_all(request.as_bytes()).expect("stdin should be read");
    let output = child.wait_with_output().expect("the tuner should end");
    assert!(output.status.success());
    let reply: LadderReply = serde_json::from_slice(&output.stdout).expect("stdout should be the reply");
    assert_eq!(reply.rungs[0].resources.cpu_millicores, 4000);
}

#[test]
fn this_machine_is_the_default_node() {
    let output = tuner(&["recommend", "--atoms", "3000"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.contains("note: this machine was taken for a node of class "), "{table}");
    assert!(table.contains("--node "), "{table}");
    let told = tuner(&["recommend", "--atoms", "3000", "--node", "2,4Gi"]);
    assert!(!text(&told.stdout).contains("this machine"), "{}", text(&told.stdout));
}

#[test]
fn proposes_benchmarks() {
    let output = tuner(&["calibrate", "--node", "8,32Gi", "--output", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let reply: CalibrationReply = serde_json::from_slice(&output.stdout).expect("stdout should be the reply");
    assert!(!reply.benchmarks.is_empty() && reply.benchmarks[0].half_width_after < reply.half_width);
    let output = tuner(&["calibrate", "--node", "8,32Gi"]);
    assert!(text(&output.stdout).contains("gmx mdrun -ntmpi"), "{}", text(&output.stdout));
    let output = tuner(&["calibrate", "--node", "8,32Gi", "--neighbours", "--max-benchmarks", "1"]);
    let table = text(&output.stdout);
    assert!(table.contains("\n2. number 1 once more when it is completed, "), "{table}");
    assert!(table.contains(" at once on one node"), "{table}");
    for (node, why) in [("1,4Gi", "a core each"), ("8,80Mi", "too little memory")] {
        let output = tuner(&["calibrate", "--node", node, "--neighbours"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    }
}

/// A program that prints what `gmx dump -s` does.
fn gmx(name: &str, prints: &str) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, format!("#!/bin/sh\ncat <<'END'\n{prints}\nEND\n")).expect("should write a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("should set permissions");
    path
}

#[test]
fn recommends_for_a_run_input_file_and_draws_it() {
    let prints = "inputrec:\n integrator = md\n dt = 0.002\n nsteps = 5000\n coulombtype = PME\n rcoulomb = 1\n rvdw = 1\n \
                  fourier-nx = 40\n fourier-ny = 40\n fourier-nz = 40\n pme-order = 4\n #atoms = 10000\n";
    let gmx = gmx("gmx-of-a-small-system", prints);
    let plot = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("ladder.svg");
    let (gmx, plot) = (gmx.to_str().expect("paths are text"), plot.to_str().expect("paths are text"));
    let output = Command::new(TUNER)
        .args(["recommend", "some.tpr", "--gmx", gmx, "--node", "2,4Gi", "--plot", plot, "--output", "json"])
        .output()
        .expect("the tuner should start");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let reply: LadderReply = serde_json::from_slice(&output.stdout).expect("stdout should be the reply");
    assert!(reply.rungs[0].hours_to_finish.is_some());
    let svg = std::fs::read_to_string(plot).expect("the plot should be there");
    // A mark for each in both panels, and one in the legend.
    assert_eq!(svg.matches("<circle").count(), 2 * reply.rungs.len() + 1);
}

#[test]
fn prints_the_contract_of_the_service() {
    let output = tuner(&["openapi"]);
    assert!(output.status.success());
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("stdout should be JSON");
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["paths"]["/v1/ladder"]["post"].is_object());
}

#[test]
fn serves_until_sigterm_and_then_ends_well() {
    let mut child = Command::new(TUNER)
        .args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json"])
        .env_clear()
        .stderr(Stdio::piped())
        .spawn()
        .expect("the tuner should start");
    let mut log = BufReader::new(child.stderr.take().expect("stderr is piped"));
    let mut line = String::new();
    log.read_line(&mut line).expect("the first event should be logged");
    let event: serde_json::Value = serde_json::from_str(&line).expect("events should be JSON");
    let address = event["fields"]["listen"].as_str().expect("the address should be logged");
    let mut connection = TcpStream::connect(address).expect("the tuner should listen");
    connection
        .write_all(b"GET /readyz HTTP/1.1\r\nHost: tuner\r\nConnection: close\r\n\r\n")
        .expect("the request should be sent");
    let mut reply = String::new();
    connection.read_to_string(&mut reply).expect("the reply should be read");
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    let signalled = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(signalled.expect("kill should run").success());
    assert!(child.wait().expect("the tuner should end").success());
}

#[test]
fn failures_have_a_sentence_and_an_exit_code() {
    let cases: [(&[&str], i32, &str); 16] = [
        (&["recommend", "x.tpr", "--gmx", "/nowhere/gmx"], 2, "install GROMACS"),
        (&["recommend", "x.tpr", "--gmx", "true"], 2, "gmx dump found no atoms"),
        (&["calibrate", "--node", "0,1Gi"], 1, "node.allocatable"),
        (&["calibrate", "--max-cores", "0"], 1, "maxCpuMillicores"),
        (&["calibrate", "--max-atoms", "100"], 1, "maxAtoms"),
        (&["calibrate", "--benchmark-time", "5s"], 1, "seconds: must be 20 to 600"),
        (&["calibrate", "--node", "8,32Gi", "--namespace", "chem", "--pvc", "data"], 2, "--database-url"),
        (
            &["calibrate", "--namespace", "chem", "--pvc", "data", "--database-url", "postgres://h/d"],
            2,
            "--node",
        ),
        (&["calibrate", "--database-url", "x"], 2, "--database-url is not a Postgres URL"),
        (&["recommend"], 2, "--atoms"),
        (&["recommend", "--atoms", "0"], 1, "system.atoms"),
        (&["recommend", "--atoms", "50000000", "--node", "4,1Gi"], 1, "the smallest configuration needs"),
        (&["recommend", "--request", "/nowhere.json"], 2, "cannot read /nowhere.json"),
        (&["serve", "--request-timeout", "5"], 2, "write a duration with its unit"),
        (
            &["serve", "--listen", "127.0.0.1:0", "--database-url", "x"],
            2,
            "--database-url is not a Postgres URL",
        ),
        (&["serve", "--listen", "192.0.2.1:1"], 2, "cannot listen on 192.0.2.1:1"),
    ];
    for (args, code, sentence) in cases {
        let output = tuner(args);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
        assert!(stderr.contains(sentence), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn completions_know_the_verbs() {
    let output = tuner(&["completions", "bash"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for verb in ["serve", "recommend", "calibrate", "import"] {
        assert!(text(&output.stdout).contains(&format!("scavenger__tuner,{verb})")), "{verb} is missing");
    }
}

/// A variable that was exported once and forgotten must not change what a verb prints or writes. The service is set up by
/// variables; what people type has them for where to connect and as whom.
#[test]
fn variables_set_up_the_service_and_the_connection_alone() {
    const OF_PEOPLE: [&str; 5] = [
        "SCAVENGER_TUNER_LOG",
        "SCAVENGER_TUNER_LOG_FORMAT",
        "SCAVENGER_TUNER_DATABASE_URL",
        "SCAVENGER_TUNER_NAMESPACE",
        "SCAVENGER_TUNER_PVC",
    ];
    for command in Cli::command().get_subcommands() {
        for flag in command.get_arguments().filter(|a| !["help", "version"].contains(&a.get_id().as_str())) {
            let name = flag.get_env().and_then(|name| name.to_str());
            let id = flag.get_id();
            match name {
                None => assert_ne!(command.get_name(), "serve", "--{id} has no variable"),
                Some(name) if command.get_name() == "serve" => {
                    assert!(name.starts_with("SCAVENGER_TUNER_"));
                }
                Some(name) => assert!(OF_PEOPLE.contains(&name), "{name} changes {}", command.get_name()),
            }
        }
    }
}
