//! Whose fault it was that mdrun ended: nothing but the row's own ends a row.

use std::collections::BTreeMap;

use scavenger_schema::tuning::Layout;
use sqlx::types::Json;

use super::*;
use crate::view::{NodeView, PoolNode};

const CUDA: &str = "Unexpected cudaStreamQuery failure. CUDA error #719 (cudaErrorLaunchFailure): unspecified launch failure.";

fn node(name: &str, labels: &[(&str, &str)]) -> NodeView {
    NodeView {
        name: name.to_owned(),
        labels: labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        cpu_millicores: None,
        requested_millicores: None,
    }
}

/// A pool of so many equal nodes.
fn nodes(scene: &mut Scene, count: u32) {
    let pool = scene.pool.as_mut().expect("there should be a pool");
    pool.nodes[0].shape.count = count;
}

/// mdrun ended on a node, after 100 steps or before the first.
struct Died<'a> {
    code: i32,
    words: Option<&'a str>,
    computed: bool,
    node: Option<NodeView>,
}

impl Died<'_> {
    fn scene(&self) -> Scene {
        let message = format!("pod gromacs-7-1-1-0-x exited with code {}: :-) GROMACS", self.code);
        let mut ended = attempt(1, 1, Some(Outcome::Failed));
        (ended.node, ended.message) = (self.node.clone(), Some(message.clone()));
        let job = JobView {
            attempts: vec![ended],
            message: Some(format!("ContainerFailed: {message}")),
            ..failed_job(Reason::ContainerFailed)
        };
        let mut text = "starting mdrun 'W'\n4000 steps, 8.0 ps.\n\rstep 0\r".to_owned();
        if self.computed {
            text.push_str("step 100\r\n");
        }
        if let Some(words) = self.words {
            text.push_str(&format!("\nProgram: gmx mdrun\n\nFatal error:\n{words}\n\nFor more\n"));
        }
        let mut scene = Scene::with_job(submitted(), job).read(&text);
        nodes(&mut scene, 8);
        scene
    }

    /// As it is recorded, of a submission.
    fn recorded(&self, submission: i32) -> Failure {
        let scene = self.scene();
        let step = scene.step();
        let record = step.attempts.first().expect("should be recorded");
        Failure {
            submission,
            node: self.node.as_ref().map(|node| node.name.clone()),
            node_labels: self.node.as_ref().map(|node| Json(node.labels.clone())),
            image: scene.row.pinned_image.clone(),
            message: record.view.message.clone(),
            log_end: record.log_end.clone(),
            made_a_step: self.computed,
        }
    }
}

fn crash(code: i32, name: Option<&str>) -> Died<'static> {
    Died { code, words: None, computed: true, node: name.map(|name| node(name, &[])) }
}

#[test]
fn a_death_by_signal_is_tried_again_and_the_node_is_remembered() {
    for code in [134, 135, 136, 137, 139, 143] {
        for computed in [true, false] {
            let died = Died { computed, ..crash(code, Some("a")) };
            let step = died.scene().step();
            assert_eq!(
                (step.status.state, step.status.private.start_failures),
                (State::Queued, 1),
                "{code} {computed}"
            );
            let said = format!(
                "mdrun crashed (ContainerFailed: pod gromacs-7-1-1-0-x exited with code {code}) on node a"
            );
            assert!(reason(&step).starts_with(&said), "{}", reason(&step));
        }
    }
}

#[test]
fn two_nodes_or_the_only_one_show_that_it_is_the_rows_own_fault() {
    let after = |before: &[Option<&str>], name: Option<&str>, count: u32| {
        let mut scene = crash(139, name).scene();
        nodes(&mut scene, count);
        let tries = i32::try_from(before.len()).expect("should be few");
        scene.row.status.submission = 10;
        scene.row.status.private.start_failures = tries;
        let numbers = (10 - tries..10).rev();
        scene.failures =
            numbers.zip(before.iter().rev()).map(|(n, name)| crash(139, *name).recorded(n)).collect();
        scene.step()
    };
    let (a, b) = (Some("a"), Some("b"));
    let step = after(&[a], b, 8);
    assert_eq!(step.status.state, State::Failed);
    assert!(
        reason(&step).contains("2 times in a row on nodes a, b; look for the cause in its output"),
        "{step:?}"
    );
    assert!(
        reason(&step).contains("gromacs-submitter logs 7 --mdrun")
            && reason(&step).contains("water/topol.tpr")
    );
    assert_eq!(after(&[a, a, a], a, 8).status.state, State::Queued, "others may do");
    assert_eq!(after(&[a, a], a, 1).status.state, State::Failed, "there is no other");
    assert_eq!(after(&[None, None], None, 8).status.state, State::Failed, "nobody knows where");
    assert_eq!(after(&[None], None, 8).status.state, State::Queued);
    // In half a day on one node of many nobody has looked at it.
    let step = after(&[a; 20], a, 8);
    assert_eq!(step.status.state, State::Failed);
    assert!(reason(&step).contains("on node a; 20 starts ended so"), "{}", reason(&step));
}

#[test]
fn what_failed_before_a_good_run_does_not_count() {
    let mut scene = crash(139, Some("b")).scene();
    scene.row.status.submission = 5;
    scene.row.status.private.start_failures = 1;
    // Submission 4 read a checkpoint that was away; the crash of 2 is of another week.
    scene.failures = vec![crash(139, Some("a")).recorded(2)];
    assert_eq!(scene.step().status.state, State::Queued);
}

#[test]
fn words_that_nobody_knows_end_no_run_of_days_at_once() {
    let died = |name: &str| Died {
        code: 1,
        words: Some("An assertion that nobody has ever seen"),
        computed: true,
        node: Some(node(name, &[])),
    };
    let step = died("a").scene().step();
    assert_eq!((step.status.state, step.status.private.start_failures), (State::Queued, 1));
    let mut scene = died("b").scene();
    (scene.row.status.submission, scene.row.status.private.start_failures) = (2, 1);
    scene.failures = vec![died("a").recorded(1)];
    let step = scene.step();
    assert_eq!(step.status.state, State::Failed);
    assert!(
        reason(&step).starts_with("mdrun failed: An assertion that nobody has ever seen, 2 times"),
        "{step:?}"
    );
    // What is known to be the row's own ends it.
    let blown = Died { words: Some("Too many LINCS warnings (1001)"), ..died("a") };
    let step = blown.scene().step();
    assert_eq!(step.status.state, State::Failed);
    assert!(reason(&step).contains("the simulation of water/topol.tpr became unstable"), "{}", reason(&step));
}

/// mdrun ended before its first step, first on node a, then on node b.
fn on_two_nodes(code: i32, text: &str) -> [Step; 2] {
    ["a", "b"].map(|name| {
        let died = |name| Died { code, words: None, computed: false, node: Some(node(name, &[])) };
        let mut scene = died(name).scene().read(text);
        if name == "b" {
            (scene.row.status.submission, scene.row.status.private.start_failures) = (2, 1);
            let log_end = mdrun_log::last_lines(text);
            scene.failures = vec![Failure { log_end, ..died("a").recorded(1) }];
        }
        scene.step()
    })
}

fn block(title: &str, words: &str) -> String {
    format!("Program: gmx mdrun\n\n{title}\n{words}\n\nFor more\n")
}

#[test]
fn what_nobody_knows_before_the_first_step_is_tried_elsewhere_and_quoted() {
    let loader = "gmx: error while loading shared libraries: libcuda.so.1: cannot open shared object file";
    let words = "An assertion that nobody has ever seen";
    for (code, text, said) in [
        (1, block("Fatal error:", words), format!("mdrun failed: {words}")),
        (1, block("A title of a later release:", words), format!("mdrun failed: {words}")),
        (127, format!("{loader}\n"), format!("mdrun failed: {loader} (ContainerFailed: pod")),
        (
            3,
            format!("starting mdrun 'W'\n4000 steps, 8.0 ps.\n{words}\n"),
            format!("mdrun failed: {words} (ContainerFailed: pod"),
        ),
        // It said nothing.
        (
            3,
            "starting mdrun 'W'\n4000 steps, 8.0 ps.\n\rstep 0\r".to_owned(),
            "ContainerFailed: pod".to_owned(),
        ),
        (3, String::new(), "ContainerFailed: pod gromacs-7-1-1-0-x exited with code 3".to_owned()),
    ] {
        let [first, second] = on_two_nodes(code, &text);
        assert_eq!((first.status.state, first.status.private.start_failures), (State::Queued, 1), "{text}");
        assert!(reason(&first).starts_with(&said), "{}", reason(&first));
        assert!(reason(&first).contains(" on node a; tries again at"), "{}", reason(&first));
        assert_eq!(second.status.state, State::Failed, "{text}");
        assert!(reason(&second).starts_with(&said), "{}", reason(&second));
        let end = ", 2 times in a row on nodes a, b; look for the cause in its output (gromacs-submitter logs 7 --mdrun), mend \
                   water/topol.tpr or";
        assert!(reason(&second).contains(end), "{}", reason(&second));
    }
}

#[test]
fn what_gromacs_blames_the_input_for_ends_the_row_at_once() {
    let words = "Invalid command-line options";
    for title in ["Error in user input:", "Inconsistency in user input:", "Feature not implemented:"] {
        let [first, _] = on_two_nodes(1, &block(title, words));
        assert_eq!(first.status.state, State::Failed, "{title}");
        let said = format!("mdrun failed: {words}; look for the cause in its output");
        assert!(reason(&first).starts_with(&said), "{}", reason(&first));
    }
}

fn on_gpu() -> Vec<LadderRung> {
    let mut rungs = ladder();
    rungs[0].gpus = 1;
    rungs[0].layout = Json(Layout::water(1, 2, 1));
    rungs
}

#[test]
fn a_broken_gpu_takes_no_gpu_from_a_row_until_two_nodes_say_so() {
    for computed in [false, true] {
        let mut scene = Died { code: 1, words: Some(CUDA), computed, node: Some(node("a", &[])) }.scene();
        scene.ladder = on_gpu();
        let step = scene.step();
        assert_eq!((step.status.state, step.status.private.start_failures), (State::Queued, 1), "{computed}");
        assert!(reason(&step).contains("on node a; tries again at"), "{}", reason(&step));
        let refused = step.refused.expect("it should be marked");
        let refusal = |name: Option<&str>| Refusal {
            layout: on_gpu()[0].layout,
            words: refused.words.clone(),
            node: name.map(ToOwned::to_owned),
        };
        let left = |names: &[Option<&str>], gpu_nodes: usize| {
            let refusals: Vec<Refusal> = names.iter().map(|name| refusal(*name)).collect();
            without_refused(on_gpu(), &refusals, gpu_nodes).expect("some are left")[0].gpus
        };
        assert_eq!(left(&[Some("a")], 8), 1, "the others may do");
        assert_eq!(left(&[Some("a"), Some("a"), Some("a")], 8), 1);
        assert_eq!(left(&[Some("a"), Some("b")], 8), 0);
        assert_eq!(left(&[Some("a"), Some("a"), Some("a")], 1), 0, "there is no other");
        assert_eq!(left(&[Some("a"); 21], 8), 0, "it goes on without, rather than not at all");
        // A GPU that breaks after a day worked until then.
        let mut worked = Died { code: 1, words: Some(CUDA), computed, node: Some(node("b", &[])) }.scene();
        worked.ladder = on_gpu();
        let job = worked.job.as_mut().expect("there should be a job");
        job.attempts[0].end_time = Some(now() + SignedDuration::from_secs(86_400));
        let step = worked.step();
        assert_eq!((step.status.state, step.refused), (State::Queued, None));
        // After as many tries the row goes on.
        scene.row.status.private.start_failures = 20;
        let step = scene.step();
        assert_eq!((step.status.state, step.refused.is_some()), (State::Queued, true));
        assert!(reason(&step).ends_with("goes on without GPUs"), "{}", reason(&step));
    }
}

const WIDE: (&str, &str) = ("node.kubernetes.io/instance-type", "wide");
const NARROW: (&str, &str) = ("node.kubernetes.io/instance-type", "narrow");
const ARCH: (&str, &str) = ("kubernetes.io/arch", "amd64");

fn kind(labels: &[(&str, &str)], count: u32) -> PoolNode {
    let mut kind = pool().nodes[0].clone();
    kind.shape.labels = node("", labels).labels;
    kind.shape.count = count;
    kind
}

#[test]
fn what_the_processor_cannot_run_goes_to_another_kind_of_node() {
    let words = "This build uses an instruction that the processor of this machine lacks; build it without.";
    for died in [
        Died { code: 132, words: None, computed: false, node: Some(node("a", &[NARROW, ARCH])) },
        Died { code: 1, words: Some(words), computed: false, node: Some(node("a", &[NARROW, ARCH])) },
    ] {
        let mut scene = died.scene();
        let mixed = vec![kind(&[NARROW, ARCH], 5), kind(&[WIDE, ARCH], 3)];
        scene.pool.as_mut().expect("there should be a pool").nodes = mixed.clone();
        let step = scene.step();
        assert_eq!(
            (step.status.state, step.status.private.start_failures),
            (State::Queued, 1),
            "{}",
            reason(&step)
        );
        let failures = [died.recorded(1)];
        let image = scene.row.pinned_image.as_deref();
        let leads = other_kind(&mixed, None, &failures, image);
        assert_eq!(leads, Some((WIDE.0.to_owned(), WIDE.1.to_owned())));
        assert_eq!(
            other_kind(&mixed, None, &failures, Some("another image")),
            None,
            "that may run everywhere"
        );
        assert_eq!(other_kind(&mixed[..1], None, &failures, image), None, "there is no other kind");
        let label = leads.expect("it was there");
        let narrowed = with_label(scene.pool.as_ref().expect("there should be a pool"), &label);
        assert_eq!(narrowed.nodes, mixed[1..]);
        let bound = bound_to(&label, ladder());
        assert!(bound.iter().all(|rung| rung.node_labels.get(WIDE.0).is_some_and(|value| value == WIDE.1)));

        // Where nothing distinguishes the nodes, the second one that says so ends the row, with what to do about the image.
        let mut scene = died.scene();
        (scene.row.status.submission, scene.row.status.private.start_failures) = (2, 1);
        scene.job.as_mut().expect("there should be a job").attempts[0].node =
            Some(node("b", &[NARROW, ARCH]));
        scene.pool.as_mut().expect("there should be a pool").nodes = vec![kind(&[NARROW, ARCH], 5)];
        scene.failures = failures.to_vec();
        let step = scene.step();
        assert_eq!(step.status.state, State::Failed, "{}", reason(&step));
        assert!(
            reason(&step).contains("on nodes a, b; the gmx of gromacs@sha256:0123 is built for other"),
            "{step:?}"
        );
        assert!(reason(&step).contains("edit 7 --image") && reason(&step).contains("edit 7 --node-label"));
    }
    // One that has computed there can do it.
    let died = Died { code: 132, words: None, computed: true, node: Some(node("a", &[NARROW])) };
    assert_eq!(other_kind(&[kind(&[WIDE], 1)], None, &[died.recorded(1)], Some("gromacs@sha256:0123")), None);
}

fn not_created(message: &str) -> JobView {
    JobView {
        message: Some(format!("ContainerNotCreated: {message}")),
        ..failed_job(Reason::ContainerNotCreated)
    }
}

const GONE: &str =
    "ErrImagePull: failed to resolve reference: registry.example/gromacs@sha256:0123: not found";

#[test]
fn a_registry_ends_no_row_whose_image_has_run() {
    for message in [
        GONE,
        "ErrImagePull: failed to authorize: unexpected status: 401 Unauthorized",
        "ErrImagePull: pull access denied, repository does not exist or may require authorization",
        "ErrImagePull: dial tcp 10.0.0.9:443: connect: connection refused",
        "CreateContainerConfigError: secret \"regcred\" not found",
    ] {
        let mut scene = Scene::with_job(submitted(), not_created(message));
        let step = scene.step();
        assert_eq!((step.status.state, step.status.private.start_failures), (State::Queued, 1), "{message}");
        assert_eq!(step.forgets_image, message == GONE, "{message}");
        scene.row.status.private.start_failures = 20;
        let step = scene.step();
        assert_eq!(step.status.state, State::Failed, "after half a day a person must look");
        assert!(reason(&step).contains("20 starts ended so: "), "{}", reason(&step));
    }
    // One that never ran may be misspelt.
    let mut row = row();
    row.status.state = State::Inspecting;
    let mut scene = Scene::of(row);
    scene.probe = Some(not_created("ErrImagePull: 401 Unauthorized"));
    let step = scene.step();
    assert_eq!(step.status.state, State::Failed);
    assert!(
        reason(&step).contains("ask an admin for a login") && reason(&step).contains("edit 7 --image"),
        "{step:?}"
    );
}

/// The digest was collected, since a tag was pushed again.
#[test]
fn a_digest_that_is_gone_is_replaced_by_what_the_tag_names() {
    let mut scene = Scene::with_job(submitted(), not_created(GONE));
    scene.row.image = Some("gromacs:2024".to_owned());
    let step = scene.go();
    assert!(step.forgets_image);
    assert!(
        reason(&step).starts_with(
            "image gromacs@sha256:0123 is gone from its registry; goes on with what its tag names now"
        ),
        "{}",
        reason(&step)
    );
    scene.row.pinned_image = None;
    scene.job = None;
    scene.after(30);
    assert_eq!(scene.go().status.state, State::Tuning, "by its tag, which the manifest then names");
    // What a user names by its digest is not replaced.
    let mut scene = Scene::with_job(submitted(), not_created(GONE));
    scene.row.image.clone_from(&scene.row.pinned_image);
    assert!(!scene.step().forgets_image);
}

#[test]
fn an_end_that_nobody_explains_is_no_end_of_a_row() {
    let unexplained =
        JobView { message: Some("Unknown: nobody knows".to_owned()), ..failed_job(Reason::Unknown) };
    assert_eq!(Scene::with_job(submitted(), unexplained).step().status.state, State::Queued);
    for reason in [Reason::ReferenceMissing, Reason::Refused] {
        let mut row = submitted();
        // Its containers never started.
        let mut job = failed_job(reason);
        job.attempts[0].start_time = None;
        assert_eq!(Scene::with_job(row.clone(), job.clone()).step().status.state, State::Failed);
        row.status.start_time = Some(now().into());
        assert_eq!(Scene::with_job(row, job).step().status.state, State::Queued, "it was there");
    }
    for own in [Reason::InvalidSpec, Reason::LimitExceeded, Reason::DeadlineExceeded] {
        let mut row = submitted();
        row.status.start_time = Some(now().into());
        assert_eq!(Scene::with_job(row, failed_job(own)).step().status.state, State::Failed);
    }
}

#[test]
fn an_inspection_that_crashes_is_made_again_a_few_times() {
    let mut row = row();
    row.status.state = State::Inspecting;
    let mut scene = Scene::of(row).read("sh: line 1:     7 Illegal instruction     (core dumped) gmx dump\n");
    scene.probe = Some(failed_job(Reason::ContainerFailed));
    assert_eq!(scene.step().status.state, State::Queued);
    scene.row.status.private.start_failures = 3;
    let step = scene.step();
    assert_eq!(step.status.state, State::Failed);
    assert!(reason(&step).contains("edit 7 --image"), "{}", reason(&step));
}

#[test]
fn an_inspection_that_ends_without_a_word_of_gromacs_is_made_again_a_few_times() {
    let inspection = |code: i32, text: &str, tries: i32| {
        let mut row = row();
        row.status.state = State::Inspecting;
        row.status.private.start_failures = tries;
        let mut scene = Scene::of(row).read(text);
        let mut ended = attempt(1, 1, Some(Outcome::Failed));
        ended.message = Some(format!("pod gromacs-7-inspect-x exited with code {code}: {text}"));
        scene.probe = Some(JobView { attempts: vec![ended], ..failed_job(Reason::ContainerFailed) });
        scene.step()
    };
    let loader = "gmx: error while loading shared libraries: libcuda.so.1: cannot open shared object file\n";
    for code in [7, 8] {
        let step = inspection(code, loader, 0);
        assert_eq!((step.status.state, step.status.private.start_failures), (State::Queued, 1), "{code}");
        assert!(reason(&step).contains("libcuda.so.1"), "{}", reason(&step));
        let step = inspection(code, loader, 3);
        assert_eq!(step.status.state, State::Failed);
        let said = format!("reading water/topol.tpr failed: {}; mend water/topol.tpr", loader.trim());
        assert!(reason(&step).starts_with(&said), "{}", reason(&step));
    }
    // What a script or GROMACS says of the row's files is theirs.
    for (code, text) in [
        (4, "there is no file /data/water/topol.tpr on the volume\n".to_owned()),
        (5, "user 1000 cannot write to /data/water\n".to_owned()),
        (8, block("Fatal error:", "No such moleculetype SOL")),
        (7, block("Fatal error:", "Can not read file topol.tpr")),
    ] {
        assert_eq!(inspection(code, &text, 0).status.state, State::Failed, "{text}");
    }
}

#[test]
fn a_minimisation_that_ends_at_an_infinite_force_has_not_done_its_work() {
    let steep: BTreeMap<String, String> = [("integrator".to_owned(), "steep".to_owned())].into();
    let row = GromacsToTune { inspected: Some(Json(steep)), ..submitted() };
    let text = |force: &str| {
        format!(
            "Step=   15, Dmax= 1.2e-06 nm, Epot=  8.27e+18 Fmax= {force}, atom= 1\n\nwriting lowest energy coordinates.\n\n\
             Maximum force     =  {force} on atom 1\n"
        )
    };
    for force in ["inf", "nan"] {
        let step = Scene::with_job(row.clone(), completed_job()).read(&text(force)).step();
        assert_eq!(step.status.state, State::Failed, "{force}");
        let said = "the minimisation stopped at step 15, where the force on an atom is not finite; two atoms of water/topol.tpr \
                    overlap: move them apart";
        assert!(reason(&step).starts_with(said), "{}", reason(&step));
    }
    let step = Scene::with_job(row, completed_job()).read(&text("9.5e+04")).step();
    assert_eq!(step.status.state, State::Completed, "above emtol is not beyond all bounds");
}

#[test]
fn what_plumed_has_twice_is_said() {
    let text =
        "starting mdrun 'W'\n400000 steps, 800.0 ps (continuing from step 1000, 2.0 ps).\n\rstep 1000\r";
    let second = |lost: Option<i64>, seen: Option<i64>, options: &str| {
        let mut row = submitted();
        row.system.nsteps = Some(400_000);
        row.mdrun_options = options.split_whitespace().map(ToOwned::to_owned).collect();
        (row.status.attempt, row.status.private.attempts_recorded) = (1, 1);
        (row.status.step, row.status.state) = (seen, State::Interrupted);
        let before = AttemptView { lost_seconds: lost, ..attempt(1, 1, Some(Outcome::Interrupted)) };
        let job =
            JobView { attempts: vec![before, attempt(2, 1, None)], has_run: true, ..job(Phase::Running, 1) };
        Scene::with_job(row, job).read(text)
    };
    let plumed = "-plumed meta/plumed.dat";
    for (lost, seen, options, is_said) in [
        (None, Some(1500), plumed, true),
        (Some(40), Some(900), plumed, true),
        // SIGTERM was answered.
        (Some(0), Some(1000), plumed, false),
        (None, None, plumed, false),
        (None, Some(1500), "-dlb yes", false),
    ] {
        let mut scene = second(lost, seen, options);
        let step = scene.go();
        let said = step.went_back.as_deref().unwrap_or_default();
        assert_eq!(
            said.contains("PLUMED's files, such as HILLS, have it twice"),
            is_said,
            "{lost:?} {seen:?} {options}"
        );
        assert_eq!(reason(&step).contains("behind step 1000 (2.000 ps)"), is_said, "{}", reason(&step));
        // It stays in the note, and is not said of what comes later.
        scene.log = Log::NotRead;
        scene.after(60);
        let step = scene.go();
        assert_eq!((step.went_back.as_deref(), reason(&step).contains("HILLS")), (None, is_said));
    }
}

#[test]
fn one_rank_keeps_the_resources_of_a_configuration() {
    let mut proposed = ladder();
    proposed[0].layout = Json(Layout { npme: 2, ..Layout::cpu(8, 2) });
    proposed[1].layout = Json(Layout::cpu(4, 2));
    proposed[1].cpu_millicores = proposed[0].cpu_millicores;
    let ranks = on_one_rank(proposed.clone());
    let layouts: Vec<Layout> = ranks.iter().map(|rung| rung.layout.0).collect();
    assert_eq!(layouts, [Layout::cpu(1, 16), Layout::cpu(1, 8), Layout::cpu(1, 1)]);
    assert_eq!(ranks[2], proposed[2], "it was one already");
    assert!(ranks[0].ns_per_day_p10 < proposed[0].ns_per_day_p10 && ranks[0].reason.contains("one rank"));
    proposed[1].layout = proposed[0].layout;
    assert_eq!(on_one_rank(proposed).len(), 2, "two layouts of the same resources are one by now");
}
