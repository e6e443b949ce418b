//! `cargo xtask cluster` on this machine: what it promises about starting, crashing and leaving nothing behind.
//!
//! Runs as part of `cargo xtask test`, which sets SCAVENGER_E2E=1. It needs root.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A name and so a cluster of its own: `dev` and `test` may be running.
const NAME: &str = "selftest";

/// The promise for a start with everything built.
const START_LIMIT: Duration = Duration::from_secs(30);

#[test]
fn a_cluster_starts_survives_a_crash_and_leaves_nothing_behind() {
    if std::env::var_os("SCAVENGER_E2E").is_none_or(|value| value != "1") {
        eprintln!("SKIPPED: SCAVENGER_E2E is not 1; `cargo xtask test` runs this");
        return;
    }
    assert!(
        nix::unistd::geteuid().is_root(),
        "SCAVENGER_E2E=1 asks for tests on a real cluster, and those need root"
    );

    // Builds and installs what is missing, which the times and the comparison below must not contain.
    xtask(&["up"]);
    xtask(&["down"]);
    let before = Machine::now();

    let started = Instant::now();
    xtask(&["up"]);
    let time = started.elapsed();
    assert!(time < START_LIMIT, "the start took {time:?}");
    eprintln!("started in {time:?}");
    run_a_pod("first");
    assert_ne!(Machine::now(), before, "the comparison should see a running cluster");

    // Up again changes nothing: the node is the same object, and the pod still runs.
    let node = kubectl(&["get", "node", "scavenger-node", "-o", "jsonpath={.metadata.uid}"]);
    xtask(&["up"]);
    assert_eq!(kubectl(&["get", "node", "scavenger-node", "-o", "jsonpath={.metadata.uid}"]), node);
    kubectl(&["wait", "--for=condition=Ready", "pod/first", "--timeout=5s"]);

    // One program that dies is named, and no `up` pretends that all is well.
    kill(find("/bin/kube-proxy\0").expect("should run"));
    let limit = Instant::now() + Duration::from_secs(5);
    while run(&["status"]).status.success() {
        assert!(Instant::now() < limit, "status should notice that kube-proxy has ended");
    }
    let up = run(&["up"]);
    assert!(
        !up.status.success() && String::from_utf8_lossy(&up.stderr).contains("kube-proxy has ended"),
        "{up:?}"
    );

    // A crash of everything at once.
    let killed = kill_all();
    assert!(killed > 8, "only {killed} processes were found");
    let status = run(&["status"]);
    assert!(!status.status.success(), "status should say that the cluster does not run");
    let started = Instant::now();
    xtask(&["up"]);
    assert!(started.elapsed() < START_LIMIT, "the start after a crash took {:?}", started.elapsed());
    run_a_pod("second");

    let namespace = pid_namespace(first_process().expect("should run"));
    xtask(&["down"]);
    let left: Vec<_> = pids().into_iter().filter(|pid| pid_namespace(*pid) == namespace).collect();
    assert!(left.is_empty(), "these processes are left: {left:?}");
    Machine::now().assert_is(&before);

    // Nothing to stop is no error.
    xtask(&["down"]);

    // Two at a time: one starts the cluster, the other finds it started.
    let both = [spawn(&["up"]), spawn(&["up"])];
    for one in both {
        succeed(&one.wait_with_output().unwrap(), "one of two `up`");
    }
    run_a_pod("third");
    play_nodes();
    measure("third");
    xtask(&["down"]);
    Machine::now().assert_is(&before);
}

#[test]
fn a_bad_name_is_refused() {
    for name in ["", "UPPER", "with/slash", "..", "-dash", "much-too-long-for-a-socket-path"] {
        let output = command(&["cluster", "status", &format!("--name={name}")]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{name:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("a cluster's name is"), "{name:?}");
    }
}

/// What on a machine a cluster could change. Other clusters may come and go meanwhile: theirs is left out.
#[derive(Debug, PartialEq, Eq)]
struct Machine {
    lines: BTreeSet<String>,
}

impl Machine {
    fn now() -> Self {
        let mut lines = BTreeSet::new();
        let mut add =
            |kind: &str, text: &str| lines.extend(text.lines().map(|line| format!("{kind}: {line}")));
        add("device", &names_in("/sys/class/net").join("\n"));
        add("route", &output("ip", &["route", "show", "table", "all"]));
        add("rule", &output("ip", &["rule", "show"]));
        add("network namespace", &output("ip", &["netns", "list"]));
        add("packet filter", &output("iptables-save", &[]));
        add("packet filter", &output("ip6tables-save", &[]));
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("should list the mounts");
        for line in mounts.lines() {
            // Without the first three fields: numbers that are given again.
            add("mount", line.splitn(4, ' ').last().unwrap_or_default());
        }
        for folder in
            ["/run", "/var/lib", "/var/log", "/var/lib/scavenger-devcluster", "/etc", "/etc/cni", "/"]
        {
            add(folder, &names_in(folder).join("\n"));
        }
        for hierarchy in names_in("/sys/fs/cgroup") {
            add("cgroup", &names_in(&format!("/sys/fs/cgroup/{hierarchy}")).join("\n"));
        }
        for setting in [
            "vm/overcommit_memory",
            "vm/panic_on_oom",
            "kernel/panic",
            "kernel/panic_on_oops",
            "net/ipv4/ip_forward",
        ] {
            add(setting, &fs::read_to_string(format!("/proc/sys/{setting}")).unwrap_or_default());
        }
        for pid in pids() {
            let command =
                fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ");
            // Of the many processes here, those of this cluster; the namespace is checked apart.
            if command.contains(&format!("/{NAME}/")) || command.contains(&format!("scavenger-{NAME}")) {
                add("process", &command);
            }
        }
        lines.retain(|line| !belongs_to_another(line));
        Self { lines }
    }

    fn assert_is(&self, before: &Self) {
        let left: Vec<_> = self.lines.difference(&before.lines).collect();
        let lost: Vec<_> = before.lines.difference(&self.lines).collect();
        assert!(left.is_empty(), "the cluster left this behind: {left:#?}");
        assert!(lost.is_empty(), "the cluster took this with it: {lost:#?}");
    }
}

/// Packet counters and the time of the listing, and whatever bears the name of another cluster.
fn belongs_to_another(line: &str) -> bool {
    if line.starts_with("packet filter: #") || line.starts_with("packet filter: :") {
        return true;
    }
    others().iter().any(|(name, number)| {
        let device = format!("scavenger{number}");
        let word = |wanted: &str| line.split([' ', ':', '@', '/']).any(|word| word == wanted);
        word(name)
            || word(&device)
            || word(&format!("scavenger-{name}"))
            || line.contains(&format!("10.231.{number}."))
    }) || line == "/var/lib: scavenger-devcluster"
}

/// Names and numbers of the other clusters. All numbers below ours may have been theirs a moment ago.
fn others() -> Vec<(String, u8)> {
    let names = names_in("/var/lib/scavenger-devcluster").into_iter().filter(|name| name != NAME);
    names
        .filter_map(|name| {
            let text =
                fs::read_to_string(format!("/var/lib/scavenger-devcluster/{name}/cluster.json")).ok()?;
            let description: serde_json::Value = serde_json::from_str(&text).ok()?;
            Some((name, u8::try_from(description["number"].as_u64()?).ok()?))
        })
        .collect()
}

fn run_a_pod(name: &str) {
    kubectl(&["run", name, "--image=scavenger.dev/pause:1", "--image-pull-policy=Never"]);
    kubectl(&["wait", "--for=condition=Ready", &format!("pod/{name}"), "--timeout=30s"]);
}

/// Nodes without containers beside the real one: they are Ready, take the pods that tolerate them, and asking for them
/// again changes nothing.
fn play_nodes() {
    for _ in 0..2 {
        xtask(&["up", "--fake-nodes=3"]);
        kubectl(&["wait", "--for=condition=Ready", "node", "--all", "--timeout=30s"]);
        let nodes = kubectl(&["get", "nodes", "-o", "name"]);
        assert_eq!(nodes.lines().count(), 4, "{nodes}");
    }
    let overrides = r#"{"spec":{
        "nodeSelector":{"type":"kwok"},
        "tolerations":[{"key":"kwok.x-k8s.io/node","operator":"Exists"}]}}"#;
    let image = "--image=scavenger.dev/pause:1";
    kubectl(&["run", "played", image, &format!("--overrides={overrides}")]);
    kubectl(&["wait", "--for=condition=Ready", "pod/played", "--timeout=30s"]);
    let node = kubectl(&["get", "pod", "played", "-o", "jsonpath={.spec.nodeName}"]);
    assert_ne!(node, "scavenger-node");
    // Deleted gracefully although no kubelet is there.
    kubectl(&["delete", "pod", "played", "--timeout=60s"]);
}

/// A metrics-server says what the node and a pod use, but nothing about fake nodes, and asking for it again changes
/// nothing.
fn measure(pod: &str) {
    xtask(&["up", "--metrics-server"]);
    let process = find("/bin/metrics-server\0").expect("should run");
    // Each takes two of its readings, 10 s apart.
    let limit = Instant::now() + Duration::from_secs(60);
    let items = |what: &str| {
        let list = kubectl(&["get", "--raw", &format!("/apis/metrics.k8s.io/v1beta1/{what}")]);
        let list: serde_json::Value = serde_json::from_str(&list).expect("should be JSON");
        let items = list["items"].as_array().expect("should be a list").iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    while items("nodes") != ["scavenger-node"] || items("namespaces/default/pods") != [pod] {
        assert!(
            Instant::now() < limit,
            "only {:?} and {:?} are measured",
            items("nodes"),
            items("namespaces/default/pods")
        );
    }
    kubectl(&["top", "node", "scavenger-node"]);
    kubectl(&["top", "pod", pod]);
    xtask(&["up", "--metrics-server"]);
    assert_eq!(find("/bin/metrics-server\0"), Some(process));
}

/// Kills every process of the cluster, the first one last, and says how many.
fn kill_all() -> usize {
    let first = first_process().expect("should run");
    let namespace = pid_namespace(first);
    let all: Vec<_> =
        pids().into_iter().filter(|pid| pid_namespace(*pid) == namespace && *pid != first).collect();
    all.iter().chain([&first]).for_each(|pid| kill(*pid));
    all.len() + 1
}

fn kill(pid: i32) {
    use nix::sys::signal::{Signal, kill};
    // Some end by themselves when others do.
    let _ = kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL);
}

fn first_process() -> Option<i32> {
    find(&format!("init\0/var/lib/scavenger-devcluster/{NAME}/cluster.json"))
}

/// The process of this cluster whose command line contains `words`.
fn find(words: &str) -> Option<i32> {
    pids().into_iter().find(|pid| {
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.contains(words) && command.contains(&format!("scavenger-devcluster/{NAME}/"))
    })
}

fn pid_namespace(pid: i32) -> Option<u64> {
    Some(fs::metadata(format!("/proc/{pid}/ns/pid")).ok()?.ino())
}

fn pids() -> Vec<i32> {
    names_in("/proc").iter().filter_map(|name| name.parse().ok()).collect()
}

fn names_in(folder: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(arguments).env_remove("SCAVENGER_CLUSTER");
    command
}

fn spawn(verb: &[&str]) -> std::process::Child {
    use std::process::Stdio;
    let mut command = command(&["cluster"]);
    command
        .args(verb)
        .args(["--name", NAME])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("should run xtask")
}

fn run(verb: &[&str]) -> Output {
    spawn(verb).wait_with_output().expect("should end")
}

fn xtask(verb: &[&str]) {
    succeed(&run(verb), &format!("cargo xtask cluster {}", verb.join(" ")));
}

fn kubectl(arguments: &[&str]) -> String {
    let home = format!("/var/lib/scavenger-devcluster/{NAME}");
    let mut kubectl = Command::new(format!("{home}/tools/kubectl"));
    kubectl.env("KUBECONFIG", format!("{home}/pki/admin.kubeconfig")).args(arguments);
    succeed(&kubectl.output().expect("should run"), &format!("kubectl {}", arguments.join(" ")))
}

fn output(program: &str, arguments: &[&str]) -> String {
    succeed(&Command::new(program).args(arguments).output().expect("should run"), program)
}

#[track_caller]
fn succeed(output: &Output, what: &str) -> String {
    assert!(output.status.success(), "{what} failed: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
