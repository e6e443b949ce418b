//! The thread that keeps the cgroups of listed pods idle, and reads the counters of all pods.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc, PoisonError,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use scavenger_cgroups::{
    cpu::{Cgroup, Done, Wish},
    memory::{Counters, Watch},
    tree::Tree,
};
use scavenger_schema::node_agent::{KillReport, KilledPod, NodePod};

use crate::{
    Problem,
    ask::{self, Failed},
    cli::Arguments,
    keeper::Keeper,
    kills::Kills,
    say, watch,
};

/// Where cgroups are mounted.
const MOUNTS: &str = "/sys/fs/cgroup";

/// Before what failed at the end is tried once more.
const SECOND_TRY: Duration = Duration::from_millis(200);

/// A message to the thread.
#[derive(Debug)]
pub enum News {
    /// A new list of the operator's.
    List {
        /// The pods of ScavengerJobs.
        pods: Vec<NodePod>,
        /// The kills about which it asks.
        killed: Vec<KilledPod>,
        /// Takes what is known of them.
        answers: Sender<Vec<KillReport>>,
    },
    /// The counters of these pods have changed, by the numbers of their watches.
    Counters(Vec<i32>),
    /// A signal to end came.
    Stop,
    /// The thread that asks has ended.
    NobodyAsks,
}

/// Keeps the cgroups until a signal to end.
#[must_use]
pub fn run(tree: Option<PathBuf>, arguments: Arguments) -> ExitCode {
    let every = arguments.look_every;
    let to = arguments.to();
    let (send, news) = mpsc::channel();
    let failed = Failed::default();
    let stop = send.clone();
    let handled = ctrlc::set_handler(move || drop(stop.send(News::Stop)));
    let watched = watch::start(send.clone());
    if let Err(error) = &watched {
        say(&format!("{}: {error}", watch::LOOKS_ONLY));
    }
    let started = ask::start(to, send, Failed::clone(&failed));
    let problem = handled.err().map(|error| error.to_string());
    if let Some(problem) = problem.or_else(|| Some(started.err()?.to_string())) {
        say(&format!("cannot start: {problem}"));
        return ExitCode::FAILURE;
    }
    let mut agent = Agent { failed, watch: watched.ok(), ..Agent::new(tree, every) };
    let (mut everything, mut next) = (Instant::now(), Instant::now());
    loop {
        let listed = match news.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(News::List { pods, killed, answers }) => Some((pods, killed, answers)),
            Ok(News::Counters(changed)) => {
                agent.read_changed(&changed, Instant::now());
                continue;
            }
            Ok(News::Stop) => return agent.stop(),
            Ok(News::NobodyAsks) | Err(RecvTimeoutError::Disconnected) => {
                say(
                    "the thread that asks has ended, which is a defect; the next start takes over the cgroups",
                );
                return ExitCode::FAILURE;
            }
            Err(RecvTimeoutError::Timeout) => None,
        };
        let now = Instant::now();
        let is_everything = listed.is_some() || now >= everything;
        let questions = listed.map(|(pods, killed, answers)| {
            agent.keeper.list(pods, now);
            (killed, answers)
        });
        let is_asked = questions.as_ref().is_some_and(|(killed, _)| !killed.is_empty());
        agent.look(is_everything, is_asked, now);
        if let Some((killed, answers)) = questions {
            // If nobody takes them any more, the operator asks again or goes on without.
            answers.send(agent.explain(killed)).ok();
        }
        if is_everything {
            everything = now + every;
        }
        next = agent.keeper.next(now).min(everything);
    }
}

/// Gives back every weight.
#[must_use]
pub fn restore(tree: Option<PathBuf>) -> ExitCode {
    Agent::new(tree, Duration::MAX).stop()
}

struct Agent {
    tree: Option<PathBuf>,
    keeper: Keeper,
    failed: Failed,
    problem: Problem,
    kills: Kills,
    watch: Option<Arc<Watch>>,
    /// The pods whose counters are watched, by the numbers of their watches.
    watched: BTreeMap<i32, (String, PathBuf)>,
    /// Those that have counters and no watch.
    unwatched: BTreeSet<String>,
}

impl Agent {
    fn new(tree: Option<PathBuf>, every: Duration) -> Self {
        Self {
            tree,
            keeper: Keeper::new(every),
            failed: Failed::default(),
            problem: Problem::default(),
            kills: Kills::default(),
            watch: None,
            watched: BTreeMap::new(),
            unwatched: BTreeSet::new(),
        }
    }

    /// Looks at all cgroups of pods, or only at those that are new or awaited, and changes them. `is_asked` says whether the
    /// operator wants to know of kills.
    fn look(&mut self, is_everything: bool, is_asked: bool, now: Instant) {
        let found = self.pods();
        let problem = found.as_ref().err().cloned();
        if let Some(problem) = self.problem.is(problem) {
            say(&format!("{problem}; no cgroup is changed"));
        }
        if let Ok(pods) = &found {
            self.keeper.found(pods);
            self.read_counters(pods, is_everything, is_asked, now);
            for (uid, path) in pods {
                if (is_everything || self.keeper.awaits(uid))
                    && let Some(wish) = self.keeper.wish(uid)
                    && let Some(result) = fulfil(path, wish)
                    && let Some(line) = self.keeper.done(uid, result)
                {
                    say(&line);
                }
            }
        }
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = self.keeper.failed(found.is_ok());
    }

    /// Reads the counters of pods that are new, and watches them from then on; of all of them before it is said what they say.
    fn read_counters(
        &mut self,
        pods: &BTreeMap<String, PathBuf>,
        is_everything: bool,
        is_asked: bool,
        now: Instant,
    ) {
        for (uid, path) in pods {
            let is_new = !self.kills.knows(uid);
            // First, so that no change is missed.
            let watch = self.watch.as_ref().filter(|_| is_new).and_then(|watch| watch::add(watch, path));
            if let Some(number) = watch {
                self.watched.insert(number, (uid.clone(), path.clone()));
            }
            if is_new || is_asked || is_everything && self.unwatched.contains(uid) {
                let has_counters = self.read(uid, path, now);
                if is_new && has_counters && watch.is_none() {
                    self.unwatched.insert(uid.clone());
                }
            }
        }
        self.kills.found(pods, now);
        self.watched.retain(|_, (uid, _)| pods.contains_key(uid));
        self.unwatched.retain(|uid| pods.contains_key(uid));
    }

    fn read_changed(&mut self, changed: &[i32], now: Instant) {
        let changed: Vec<_> = changed.iter().filter_map(|number| self.watched.get(number).cloned()).collect();
        for (uid, path) in changed {
            self.read(&uid, &path, now);
        }
    }

    /// True if the pod has counters. One without, with cgroup v1, counts as a pod in which nothing was killed.
    fn read(&mut self, uid: &str, path: &Path, now: Instant) -> bool {
        let counters = Counters::read(path).ok().flatten();
        if counters.is_some() || !self.kills.knows(uid) {
            self.kills.see(uid, counters.unwrap_or_default(), now);
        }
        counters.is_some()
    }

    /// What is known of these kills.
    fn explain(&self, killed: Vec<KilledPod>) -> Vec<KillReport> {
        let explain = |KilledPod { uid, time }| KillReport { cause: self.kills.cause(&uid), uid, time };
        killed.into_iter().map(explain).collect()
    }

    /// Gives back every weight, and ends.
    fn stop(mut self) -> ExitCode {
        let mut failed = self.give_back();
        // A cgroup that is removed loses its files before its folder: only what fails twice is a problem.
        if failed.as_ref().is_ok_and(|failed| !failed.is_empty()) {
            thread::park_timeout(SECOND_TRY);
            failed = self.give_back();
        }
        let problem = match failed.as_deref() {
            Ok([]) => return ExitCode::SUCCESS,
            Ok([(uid, problem), ..]) => format!("cannot give back the weight of pod {uid}: {problem}"),
            Err(problem) => format!("{problem}; no weight is given back"),
        };
        say(&problem);
        ExitCode::FAILURE
    }

    /// Returns the pods that could not be changed, each with the reason.
    fn give_back(&mut self) -> Result<Vec<(String, String)>, String> {
        let mut failed = Vec::new();
        for (uid, path) in self.pods()? {
            match fulfil(&path, self.keeper.last_wish(&uid)) {
                Some(Err(problem)) => failed.push((uid, problem)),
                Some(done) => self.keeper.done(&uid, done).iter().for_each(|line| say(line)),
                None => {}
            }
        }
        Ok(failed)
    }

    fn pods(&self) -> Result<BTreeMap<String, PathBuf>, String> {
        let tree = match &self.tree {
            Some(path) => Tree::at(path.clone()),
            None => Tree::find(Path::new(MOUNTS)).ok_or_else(|| {
                format!("there is neither kubepods.slice nor kubepods in {MOUNTS}; set --tree")
            })?,
        };
        tree.pods().map_err(|error| format!("cannot read the cgroups of pods: {error}"))
    }
}

/// None if the cgroup was removed meanwhile.
fn fulfil(path: &Path, wish: Wish) -> Option<Result<Done, String>> {
    let result = Cgroup::open(path).and_then(|cgroup| cgroup.fulfil(wish));
    match result {
        Err(_) if !path.exists() => None,
        result => Some(result.map_err(|error| error.to_string())),
    }
}
