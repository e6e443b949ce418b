//! Outcomes of the command line, as a user sees them.

use std::process::{Command, Output, Stdio};

const OPERATOR: &str = env!("CARGO_BIN_EXE_scavenger-operator");

/// No kubeconfig: what gets as far as connecting ends there.
fn operator(args: &[&str], env: &[(&str, &str)]) -> Output {
    Command::new(OPERATOR)
        .args(args)
        .env_clear()
        .env("KUBECONFIG", "/nonexistent/kubeconfig")
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .output()
        .expect("the operator should start")
}

fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty(), "stdout is for data: {output:?}");
    String::from_utf8(output.stderr.clone()).expect("output should be text")
}

#[test]
fn a_flag_that_can_not_be_used_ends_it_with_status_2_and_is_named() {
    let cases: [(&[&str], &str); 32] = [
        (&["run", "--lease-name", ""], "--lease-name"),
        (&["run", "--lease-name", "Bad Name"], "--lease-name"),
        (&["run", "--lease-namespace", "a.b"], "--lease-namespace"),
        (&["guard", "--lease-name", "Bad Name"], "--lease-name"),
        (&["guard", "--lease-namespace", ""], "--lease-namespace"),
        (&["guard", "--stale-after", "soon"], "--stale-after"),
        (&["run", "--listen", "8080"], "--listen"),
        (&["run", "--reports-listen", "8443"], "--reports-listen"),
        (&["run", "--reports-listen", "none"], "--reports-listen"),
        (&["run", "--node-agent-namespace", "Bad Name"], "--node-agent-namespace"),
        (&["run", "--concurrency", "0"], "--concurrency"),
        (&["run", "--concurrency", "many"], "--concurrency"),
        (&["run", "--max-watch-age", "3"], "--max-watch-age"),
        (&["run", "--max-watch-age", "10s"], "--max-watch-age"),
        (&["run", "--log", "a=b=c"], "--log"),
        (&["run", "--log-format", "xml"], "--log-format"),
        (&["run", "--no-such-flag"], "--no-such-flag"),
        (&["explain"], "explain"),
        (&["explain", "a/b/c"], "NAMESPACE/NAME"),
        (&["explain", "lab/water", "--snapshot", "f", "--context", "c"], "--context"),
        (&["interrupt", "lab/"], "NAMESPACE/NAME"),
        (&["check", "--namespace", "Bad Name"], "--namespace"),
        (&["check", "--filename", "/nonexistent/sj.yaml"], "--filename"),
        (&["queue", "--limit", "0"], "--limit"),
        (&["record"], "--output"),
        (&["record", "--output", "f", "--max-size", "12"], "--max-size"),
        (&["record", "--output", "f", "--use-every", "1s"], "--use-every"),
        (&["record", "--output", "f", "--node-label", "a=b"], "--node-label"),
        (&["record", "--output", "f", "--print", "--stay"], "--stay"),
        (
            &["record", "--output", "/nonexistent/week.trace", "--print"],
            "/nonexistent/week.trace cannot be read",
        ),
        (&["completions", "cmd"], "cmd"),
        (&["no-such-verb"], "no-such-verb"),
    ];
    for (args, named) in cases {
        let told = complaint(&operator(args, &[]));
        assert!(told.contains(named), "{args:?} is not told of: {told}");
    }
}

#[test]
fn variables_are_checked_as_flags_are() {
    for (name, value) in [
        ("SCAVENGER_OPERATOR_LEASE_NAME", "Bad Name"),
        ("SCAVENGER_OPERATOR_LEASE_NAMESPACE", "Bad Name"),
        ("SCAVENGER_OPERATOR_REPORTS_LISTEN", "on"),
        ("SCAVENGER_OPERATOR_NODE_AGENT_NAMESPACE", "a.b"),
        ("SCAVENGER_OPERATOR_CONCURRENCY", "-1"),
        ("SCAVENGER_OPERATOR_MAX_WATCH_AGE", "a while"),
    ] {
        let told = complaint(&operator(&["run"], &[(name, value)]));
        let flag = name.trim_start_matches("SCAVENGER_OPERATOR_").to_lowercase().replace('_', "-");
        assert!(told.contains(&format!("--{flag}")), "{name} is not told of: {told}");
    }
}

/// A variable that was exported once and forgotten must not change what a verb does: `DRY_RUN=1` would disarm `guard`. The
/// operator's process is set up by variables; the other verbs have them for where the operator is and for logs.
#[test]
fn variables_set_up_the_process_and_the_connection_alone() {
    const OF_ALL: [&str; 4] = [
        "SCAVENGER_OPERATOR_LEASE_NAMESPACE",
        "SCAVENGER_OPERATOR_LEASE_NAME",
        "SCAVENGER_OPERATOR_LOG",
        "SCAVENGER_OPERATOR_LOG_FORMAT",
    ];
    fn check(command: &clap::Command) {
        let is_process = command.get_name() == "run";
        for flag in
            command.get_arguments().filter(|flag| !["help", "version"].contains(&flag.get_id().as_str()))
        {
            match flag.get_env().and_then(|name| name.to_str()) {
                None => assert!(!is_process, "--{} of run has no variable", flag.get_id()),
                Some(name) if is_process => assert!(name.starts_with("SCAVENGER_OPERATOR_"), "{name}"),
                Some(name) => assert!(OF_ALL.contains(&name), "{name} changes {}", command.get_name()),
            }
        }
        command.get_subcommands().for_each(check);
    }
    check(&scavenger_operator::cli::command());
}

#[test]
fn without_a_cluster_it_ends_with_one_sentence() {
    let verbs = [
        &["run"][..],
        &["guard"],
        &["check", "--namespace", "lab"],
        &["queue"],
        &["nodes"],
        &["explain", "lab/water"],
        &["interrupt", "lab/water"],
        &["hold", "water", "-n", "lab"],
        &["pause"],
        &["snapshot"],
        &["record", "--output", "/nonexistent/week.trace"],
    ];
    for args in verbs {
        let told = complaint(&operator(args, &[]));
        let last = told.trim_end().lines().last().unwrap_or_default();
        assert!(last.contains("no connection to the Kubernetes API could be set up"), "{args:?}: {told}");
    }
}

#[test]
fn completions_know_the_verbs() {
    let output = operator(&["completions", "bash"], &[]);
    assert!(output.status.success(), "{output:?}");
    let script = String::from_utf8(output.stdout).expect("output should be text");
    for verb in ["check", "queue", "nodes", "record", "interrupt", "hold", "release"] {
        assert!(script.contains(&format!("scavenger__operator,{verb})")), "{verb} is missing");
    }
}
