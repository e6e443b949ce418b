//! Kills for memory: by the kernel, where it has cgroup v2, and with plain files in the place of its counters.

use std::{
    env, fs,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use jiff::Timestamp;
use nix::sys::signal::Signal;
use scavenger_schema::node_agent::{Cause, KilledPod};

use crate::{
    harness::{Agent, Class, Driver, Pod, Tree, eventually},
    operator::Operator,
};

const MEBIBYTE: u64 = 1024 * 1024;

/// Names the cgroup of the process that takes memory.
const CGROUP: &str = "SCAVENGER_TEST_CGROUP";

fn question(pod: &Pod) -> KilledPod {
    KilledPod { uid: pod.uid.clone(), time: Timestamp::from_second(1_800_000_000).unwrap() }
}

/// Asks about these pods, and waits for an answer about each.
fn answers(operator: &Operator, pods: &[&Pod]) -> Vec<Cause> {
    let before = operator.kills().len();
    let questions: Vec<_> = pods.iter().map(|pod| question(pod)).collect();
    operator.ask(&questions);
    eventually("the answers", || operator.kills().len() == before + pods.len());
    let answers = operator.kills().split_off(before);
    for (answer, pod) in answers.iter().zip(pods) {
        assert_eq!((&answer.uid, answer.time), (&pod.uid, question(pod).time));
    }
    answers.into_iter().map(|answer| answer.cause).collect()
}

/// As the kernel counts.
fn count(pod: &Pod, oom: u64, oom_kill: u64) {
    let text = format!("low 0\nhigh 0\nmax 0\noom {oom}\noom_kill {oom_kill}\noom_group_kill 0\n");
    fs::write(pod.path.join("memory.events"), text).unwrap();
}

/// The agent, after it has looked at these pods.
fn agent(tree: &Tree, operator: &Operator, pods: &[&Pod]) -> Agent {
    operator.tell(&pods.iter().map(|pod| pod.listed(true)).collect::<Vec<_>>());
    let agent = Agent::start(&tree.root, operator);
    eventually("a look", || pods.iter().all(|pod| pod.is_idle()));
    agent
}

#[test]
fn the_operator_is_told_what_the_counters_say() {
    let tree = Tree::of_files();
    let [node, limit, without] = [1, 2, 3].map(|number| tree.running(Class::Burstable, number, 200));
    // With cgroup v1 there are no such counters.
    [&node, &limit].into_iter().for_each(|pod| count(pod, 0, 0));
    let operator = Operator::start();
    let agent = agent(&tree, &operator, &[&node, &limit, &without]);
    count(&node, 0, 3);
    count(&limit, 1, 3);
    thread::park_timeout(Duration::from_secs(2));
    let pods = [&node, &limit, &without];
    assert_eq!(answers(&operator, &pods), [Cause::Node, Cause::Limit, Cause::Unknown]);
    // Later it is another cause.
    count(&node, 1, 4);
    thread::park_timeout(Duration::from_secs(2));
    assert_eq!(answers(&operator, &[&node]), [Cause::Limit]);
    let requests = operator.server.requests();
    assert!(requests.iter().all(|request| request.token == "Bearer token"));
    assert!(requests.iter().any(|request| request.path == "/kills"));
    // It says so when the operator has taken the answer.
    let said = || agent.log().matches("was killed for memory; cause: Limit").count();
    eventually("a word about both", || said() == 2);
    agent.end();
}

/// The kubelet removes the cgroup of a pod that has ended within seconds, and looks are 10 seconds apart.
#[test]
fn the_counters_of_a_pod_that_is_gone_are_remembered() {
    let tree = Tree::of_files();
    let [gone, stays] = [1, 2].map(|number| tree.running(Class::Burstable, number, 200));
    [&gone, &stays].into_iter().for_each(|pod| count(pod, 0, 0));
    let operator = Operator::start();
    let agent = agent(&tree, &operator, &[&gone, &stays]);
    count(&gone, 0, 1);
    thread::park_timeout(Duration::from_secs(2));
    fs::remove_dir_all(&gone.path).unwrap();
    assert_eq!(answers(&operator, &[&gone, &stays]), [Cause::Node, Cause::Unknown]);
    agent.end();
}

#[test]
fn an_answer_that_is_refused_is_not_repeated() {
    let tree = Tree::of_files();
    let pod = tree.running(Class::Burstable, 1, 200);
    let operator = Operator::start();
    let agent = agent(&tree, &operator, &[&pod]);
    operator.refuse_kills(403);
    assert_eq!(answers(&operator, &[&pod]), [Cause::Unknown]);
    eventually("a word about it", || agent.log().contains("cannot tell the operator: HTTP status 403"));
    // With every list that still has the question it would be answered again.
    operator.ask(&[]);
    operator.tell(&[]);
    eventually("its weight", || pod.is_as_before());
    assert_eq!(operator.kills().len(), 1);
    agent.end();
}

/// A pod whose one container takes all the memory it gets.
struct Eater {
    pod: Pod,
    container: PathBuf,
}

impl Eater {
    /// With this limit of its container.
    fn new(tree: &Tree, number: u32, limit: Option<u64>) -> Self {
        let pod = tree.pod(Class::Burstable, number, 200);
        let container = pod.path.join("cri-containerd-6f2d.scope");
        fs::write(pod.path.join("cgroup.subtree_control"), "+memory").unwrap();
        fs::create_dir(&container).unwrap();
        if let Some(limit) = limit {
            fs::write(container.join("memory.max"), limit.to_string()).unwrap();
        }
        // As the kubelet does.
        fs::write(container.join("memory.oom.group"), "1").unwrap();
        Self { pod, container }
    }

    /// Starts its process, and waits until that is killed. The runtime removes the cgroup of its container then.
    fn is_killed(&self) {
        let status = Command::new(env::current_exe().unwrap())
            .args(["--exact", "memory::takes_memory_until_it_is_killed", "--ignored"])
            .env(CGROUP, &self.container)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert_eq!(status.signal(), Some(Signal::SIGKILL as i32), "{status:?}");
        eventually("the container's cgroup can be removed", || fs::remove_dir(&self.container).is_ok());
    }
}

/// The process of [`Eater`]; no test of its own, wherever tests that are ignored are run, too.
#[test]
#[ignore = "it is started by other tests, in a cgroup that the kernel kills"]
fn takes_memory_until_it_is_killed() {
    let Ok(cgroup) = env::var(CGROUP) else { return };
    fs::write(Path::new(&cgroup).join("cgroup.procs"), std::process::id().to_string()).unwrap();
    let mut taken = Vec::new();
    loop {
        // What is zero is not there.
        taken.push(vec![1_u8; 1 << 20]);
        assert!(taken.len() < 1000, "nobody killed it");
    }
}

#[test]
fn the_kernel_counts_who_lacked_the_memory() {
    let Some(tree) = Tree::of_kernel(Driver::Systemd) else { return };
    let node = tree.root.join("memory.max");
    if !node.exists() {
        eprintln!("SKIPPED: the kernel's counters of memory need cgroup v2 with a memory controller");
        return;
    }
    fs::write(&node, (64 * MEBIBYTE).to_string()).unwrap();
    let operator = Operator::start();
    let limits = [Some(32 * MEBIBYTE), Some(256 * MEBIBYTE), None];
    let eaters: Vec<Eater> =
        (1..).zip(limits).map(|(number, limit)| Eater::new(&tree, number, limit)).collect();
    let agent = agent(&tree, &operator, &eaters.iter().map(|eater| &eater.pod).collect::<Vec<_>>());
    for (eater, cause) in eaters.iter().zip([Cause::Limit, Cause::Node, Cause::Node]) {
        eater.is_killed();
        // Between two looks, as soon as a kubelet would.
        thread::park_timeout(Duration::from_secs(1));
        fs::remove_dir(&eater.pod.path).unwrap();
        assert_eq!(answers(&operator, &[&eater.pod]), [cause], "{}", eater.pod.uid);
    }
    agent.end();
}
