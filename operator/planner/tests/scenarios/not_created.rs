//! Containers that are not created, of ScavengerJobs that have run and of others that have not.

use scavenger_planner::{
    action::PodEvent,
    fixtures::{key, node, seconds, settings, sj, warning},
    values::{Outcome, Phase, Reason, ScavengerJob},
};
use scavenger_simulator::{Cluster, Workload};

use super::{attempt, cluster, completed, outcome, work};

const LOGIN: &str = "failed to pull and unpack image \"r.io/a:1\": failed to resolve image: unexpected status from HEAD \
                     request to https://r.io/v2/a/manifests/1: 401 Unauthorized";

/// What a kubelet says of something that the spec of [`naming`] names, and that is not there.
const MISSING: [(&str, &str); 10] = [
    ("ErrImagePull", LOGIN),
    ("ErrImagePull", "unexpected status from HEAD request to https://r.io/v2/a/manifests/1: 403 Forbidden"),
    ("ErrImagePull", "pull access denied, repository does not exist or may require authorization"),
    ("ErrImagePull", "failed to resolve reference \"r.io/a:1\": r.io/a:1: not found"),
    ("ErrImagePull", "reading manifest 1 in r.io/a: manifest unknown"),
    ("ErrImageNeverPull", "Container image \"a\" is not present with pull policy of Never"),
    ("SignatureValidationFailed", "the signature has expired"),
    ("CreateContainerConfigError", "secret \"s\" not found"),
    ("CreateContainerConfigError", "configmap \"c\" not found"),
    ("CreateContainerConfigError", "couldn't find key k in Secret lab/s"),
];

/// It names Secret `s` and ConfigMap `c`.
fn naming(name: &str) -> ScavengerJob {
    let mut sj = sj(name);
    let spec = sj.spec.as_mut().expect("the spec should be valid");
    (spec.secrets, spec.config_maps) = (vec!["s".into()], vec!["c".into()]);
    sj
}

/// One that has run and is about to be started again, which says this.
fn interrupted_and_stuck(reason: &str, message: &str) -> Cluster {
    let mut cluster = cluster();
    cluster.submit(naming("a"), work(300));
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(seconds(70));
    let stuck = Some((reason.to_owned(), message.to_owned()));
    cluster.change_workload("a", |workload| workload.stuck = stuck);
    cluster.delete_pod(&key("a-1-0"));
    cluster.run_until_phase("a", Phase::Interrupted);
    cluster
}

/// Nothing of it ends a ScavengerJob, however often it is tried, and it goes on once it is mended.
fn is_tried_again_until_it_is_mended(cluster: &mut Cluster) {
    cluster.run_for(seconds(6 * 3600));
    assert!(!cluster.status("a").phase.is_finished(), "{}", cluster.history());
    assert!(cluster.status("a").failed_starts > 3);
    cluster.let_start("a");
    completed(cluster, "a");
    assert_eq!(cluster.status("a").interrupted_count, 1);
}

#[test]
fn one_that_has_run_never_fails_for_what_is_not_there_any_more() {
    for (number, (reason, message)) in MISSING.into_iter().enumerate() {
        let mut cluster = interrupted_and_stuck(reason, message);
        if number.is_multiple_of(2) {
            cluster.restart(false);
        }
        cluster.run_until("it is withdrawn", |cluster| cluster.status("a").failed_starts == 1);
        assert_eq!(outcome(&cluster, "a"), (2, Some(Outcome::Withdrawn), Reason::ContainerNotCreated));
        let said = cluster.status("a").message.clone();
        assert!(said.contains(&format!("pod a-2-0: {reason}: {message}")), "{said}");
        assert!(said.ends_with("a container has run with the same spec, so it is tried again"), "{said}");
        is_tried_again_until_it_is_mended(&mut cluster);
    }
}

#[test]
fn one_that_has_not_run_fails_for_what_is_not_there() {
    for (reason, message) in MISSING {
        let mut cluster = cluster();
        let stuck = Some((reason.to_owned(), message.to_owned()));
        cluster.submit(naming("a"), Workload { stuck, ..work(10) });
        cluster.run_until_phase("a", Phase::Failed);
        assert_eq!(
            outcome(&cluster, "a"),
            (1, Some(Outcome::Failed), Reason::ContainerNotCreated),
            "{message}"
        );
    }
}

#[test]
fn an_attempt_that_never_ran_proves_nothing() {
    let mut cluster = cluster();
    cluster.scheduler_works = false;
    cluster.submit(naming("a"), work(10));
    cluster.run_until("it is withdrawn", |cluster| cluster.status("a").failed_starts == 1);
    cluster.scheduler_works = true;
    cluster.change_workload("a", |workload| {
        workload.stuck = Some(("ErrImagePull".to_owned(), LOGIN.to_owned()));
    });
    cluster.run_until_phase("a", Phase::Failed);
    assert_eq!(attempt(&cluster, "a").number, 2);
}

#[test]
fn one_that_was_suspended_or_asks_for_more_has_still_run() {
    let mut cluster = interrupted_and_stuck("ErrImagePull", LOGIN);
    cluster.control("a", |controls| controls.suspend = true);
    cluster.run_for(seconds(600));
    cluster.replace("a", |sj| sj.asking(1500));
    cluster.restart(false);
    cluster.control("a", |controls| controls.suspend = false);
    is_tried_again_until_it_is_mended(&mut cluster);
}

#[test]
fn another_image_that_is_misspelt_fails() {
    for restart in [false, true] {
        let mut cluster =
            interrupted_and_stuck("ErrImagePull", "failed to resolve image: r.io/a:2: not found");
        cluster.control("a", |controls| controls.suspend = true);
        cluster.run_until("nothing is left", |cluster| cluster.live_pods("a").is_empty());
        cluster.replace("a", |mut sj| {
            sj.spec.as_mut().unwrap().container_hash = 2;
            sj
        });
        if restart {
            cluster.restart(false);
        }
        cluster.control("a", |controls| controls.suspend = false);
        cluster.run_until_phase("a", Phase::Failed);
        assert!(cluster.status("a").message.starts_with("ContainerNotCreated: pod a-"));
    }
}

#[test]
fn a_command_that_could_be_started_once_is_no_failure() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(300));
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(seconds(70));
    cluster.change_workload("a", |workload| {
        workload.cannot_start = Some(
            "unable to start container process: exec: \"gmx\": executable file not found in $PATH".to_owned(),
        );
    });
    cluster.delete_pod(&key("a-1-0"));
    is_tried_again_until_it_is_mended(&mut cluster);
}

#[test]
fn a_reference_that_was_there_once_is_waited_for() {
    for restart in [false, true] {
        let claim = ("ConfigMap".to_owned(), "c".to_owned());
        let mut cluster = cluster();
        cluster.references.insert(claim.clone());
        cluster.submit(naming("a"), Workload { refers_to: vec![claim.clone()], ..work(300) });
        cluster.run_until_phase("a", Phase::Running);
        cluster.run_for(seconds(70));
        cluster.references.remove(&claim);
        cluster.delete_pod(&key("a-1-0"));
        cluster.run_until_phase("a", Phase::Interrupted);
        if restart {
            cluster.restart(false);
        }
        cluster.run_for(seconds(3600));
        assert_eq!(cluster.status("a").phase, Phase::Interrupted, "{}", cluster.history());
        assert!(cluster.status("a").message.contains("ConfigMap \"c\" does not exist"));
        cluster.references.insert(claim);
        cluster.run_for(seconds(130));
        assert_eq!(cluster.status("a").phase, Phase::Running, "{}", cluster.history());
        completed(&mut cluster, "a");
    }
}

#[test]
fn a_gang_of_which_one_pod_runs_is_not_failed_by_another_that_cannot_be_created() {
    let mut cluster =
        Cluster::new(settings().filled_to(1.0)).with_nodes([node("n1", 10_000), node("n2", 10_000)]);
    cluster.strict = false;
    cluster.submit(naming("a").gang(2).asking(6000), work(600));
    cluster.delays.kubelet = seconds(100_000);
    cluster.run_until("both are placed", |cluster| {
        let is_placed = |pod: &str| cluster.pod(pod).is_some_and(|pod| pod.node.is_some());
        is_placed("a-1-0") && is_placed("a-1-1")
    });
    cluster.delays.kubelet = seconds(1);
    cluster.start(&key("a-1-0"));
    cluster.say(&key("a-1-1"), "ErrImagePull", LOGIN);
    cluster.run_until("it has ended", |cluster| !cluster.status("a").phase.is_active());
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Interrupted), Reason::ContainerNotCreated));
    assert_eq!(cluster.status("a").failed_starts, 1);
    completed(&mut cluster, "a");
}

/// A pod that is placed and does not start, with this as its newest event.
fn silent(sj: ScavengerJob, reason: &str, message: &str) -> Cluster {
    with_event(sj, warning(reason, message))
}

fn with_event(sj: ScavengerJob, event: PodEvent) -> Cluster {
    let mut cluster = cluster();
    cluster.delays.kubelet = seconds(100_000);
    cluster.pod_event = Some(event);
    cluster.submit(sj, work(10));
    cluster.run_until("it is judged", |cluster| {
        let status = cluster.status("a");
        status.phase == Phase::Failed || status.failed_starts > 0
    });
    cluster
}

#[test]
fn what_a_volume_needs_and_nobody_has_fails_nobody() {
    for message in [
        "MountVolume.NewMounter initialization failed for volume \"lun\" : couldn't get secret lab/lun-login error: secrets \
         \"lun-login\" not found",
        "MountVolume.NewMounter initialization failed for volume \"lun\" : couldn't get secret storage/s error: secrets \"s\" \
         not found",
        "MountVolume.SetUp failed for volume \"mesh-ca\" : configmap \"mesh-ca\" not found",
    ] {
        let cluster = silent(naming("a"), "FailedMount", message);
        assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Withdrawn), Reason::NodeFailure), "{message}");
        assert_eq!(cluster.status("a").message, format!("pod a-1-0 on node n1: FailedMount: {message}"));
    }
    let own = "MountVolume.SetUp failed for volume \"secret-0\" : secret \"s\" not found";
    assert_eq!(silent(naming("a"), "FailedMount", own).status("a").phase, Phase::Failed);
    assert_eq!(silent(sj("a"), "FailedMount", own).status("a").failed_starts, 1, "it names no Secret");
}

/// It asks for a key of a Secret that the spec names, too.
#[test]
fn what_an_injected_container_lacks_fails_nobody() {
    let message = "Error: couldn't find key ca in Secret lab/s";
    let event = PodEvent { other_container: Some("mesh".into()), ..warning("Failed", message) };
    let cluster = with_event(naming("a"), event);
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Withdrawn), Reason::NodeFailure));
    let said = format!("pod a-1-0 on node n1, container mesh: Failed: {message}");
    assert_eq!(cluster.status("a").message, said);
    assert_eq!(silent(naming("a"), "Failed", message).status("a").phase, Phase::Failed, "main asks for it");
}

#[test]
fn an_injected_init_container_whose_image_cannot_be_pulled_holds_nothing() {
    for (reason, message) in [
        ("Failed", "Failed to pull image \"r.io/mesh:1\": r.io/mesh:1: not found"),
        ("BackOff", "Back-off pulling image \"r.io/mesh:1\""),
        ("Failed", "Error: ImagePullBackOff"),
    ] {
        let cluster = silent(sj("a"), reason, message);
        assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Withdrawn), Reason::NodeFailure), "{message}");
        assert!(cluster.status("a").message.contains(message));
    }
}
