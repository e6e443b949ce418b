use super::*;

/// What a watch of this kind says about these objects, one after the other.
async fn said<K, I>(kind: Kind<K, I>, reporting: &Reporting, objects: &[K]) -> Vec<String>
where
    K: kube::Resource,
    I: Ord + Clone,
{
    let (sender, mut messages) = mpsc::channel(100);
    let mut watch = Watch::new(kind, &sender, reporting);
    for object in objects {
        watch.apply(object, true).await.unwrap();
    }
    drop(watch);
    drop(sender);
    let mut said = Vec::new();
    while let Some(message) = messages.recv().await {
        said.push(match message {
            Message::Seen(Observation::Job(job)) => format!("job {}", job.uid),
            Message::Seen(Observation::JobGone { uid, .. }) => format!("gone {uid}"),
            Message::Seen(Observation::ScavengerJob(sj)) => {
                format!("scavenger job, deleting {}, finalizer {}", sj.deleting, sj.has_finalizer)
            }
            Message::Seen(Observation::EndedAttempts(_, _, ended)) => {
                let numbers: Vec<u32> = ended.iter().map(|stretch| stretch.attempt).collect();
                format!("ended {numbers:?}")
            }
            Message::Unordered(watched, version) => format!("{} unordered: {version}", watched.name()),
            other => format!("{other:?}"),
        });
    }
    said
}

fn job(uid: &str, version: &str) -> BatchJob {
    serde_json::from_value(serde_json::json!({
        "metadata": {
            "name": "one-1", "namespace": "lab", "uid": uid, "resourceVersion": version,
            "labels": { "scavenger.dev/job": "one", "scavenger.dev/job-uid": "u", "scavenger.dev/attempt": "1" },
            "ownerReferences": [{
                "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "name": "one", "uid": "u",
                "controller": true,
            }],
        },
    }))
    .unwrap()
}

#[tokio::test]
async fn a_job_that_was_replaced_in_a_gap_is_gone() {
    let objects = [job("a", "7"), job("a", "8"), job("b", "9")];
    assert_eq!(said(jobs(), &Reporting::default(), &objects).await, ["job a", "job a", "gone a", "job b"]);
}

#[tokio::test]
async fn versions_that_are_no_numbers_are_not_taken_for_old_ones() {
    let objects = [job("a", "v7")];
    assert_eq!(said(jobs(), &Reporting::default(), &objects).await, ["jobs unordered: v7"]);
}

#[tokio::test]
async fn what_can_not_be_decoded_is_counted_and_can_be_deleted() {
    let object = |phase: &str, deleted: Option<&str>| {
        serde_json::from_value::<DeserializeGuard<ScavengerJob>>(serde_json::json!({
            "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob",
            "metadata": {
                "name": "one", "namespace": "lab", "uid": "u", "resourceVersion": "7",
                "finalizers": [names::FINALIZER], "deletionTimestamp": deleted,
            },
            "spec": {
                "image": "i", "interruptionAfter": "1m", "resources": { "requests": { "cpu": 1, "memory": 1 } },
            },
            "status": { "phase": phase },
        }))
        .unwrap()
    };
    let reporting = Reporting::default();
    let counted = || {
        let text = reporting.metrics.render().unwrap();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("scavenger_undecodable_objects{kind=\"scavengerjobs\"} "));
        line.map(str::to_owned)
    };
    let nothing: [String; 0] = [];
    assert_eq!(said(scavenger_jobs(), &reporting, &[object("Dreaming", None)]).await, nothing);
    assert_eq!(counted().as_deref(), Some("1"));
    let deleted = [object("Dreaming", Some("2026-01-01T00:00:00Z"))];
    assert_eq!(
        said(scavenger_jobs(), &reporting, &deleted).await,
        ["scavenger job, deleting true, finalizer true"]
    );
    let read = [object("Dreaming", None), object("Waiting", None)];
    assert_eq!(
        said(scavenger_jobs(), &reporting, &read).await,
        ["scavenger job, deleting false, finalizer true"]
    );
    assert_eq!(counted().as_deref(), Some("0"));
}

/// What a planner that begins has to know: attempts that it never saw.
#[tokio::test]
async fn a_listed_one_is_seen_with_the_attempts_before_its_last() {
    let attempt = |number: u32| {
        serde_json::json!({
            "number": number, "jobName": format!("one-{number}"), "generation": 1, "podCount": 2,
            "requests": { "cpu": "2" }, "priorityClassName": "scavenger-1",
            "creationTime": "2026-01-01T00:00:00Z", "endTime": "2026-01-01T01:00:00Z",
        })
    };
    let object = serde_json::json!({
        "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob",
        "metadata": { "name": "one", "namespace": "lab", "uid": "u", "resourceVersion": "7" },
        "spec": {
            "image": "i", "interruptionAfter": "1m", "resources": { "requests": { "cpu": 1, "memory": 1 } },
        },
        "status": {
            "phase": "Interrupted", "attempt": attempt(3), "attempts": [attempt(1), attempt(2), attempt(3)],
        },
    });
    let listed = serde_json::from_value::<DeserializeGuard<ScavengerJob>>(object.clone()).unwrap();
    let said = said(scavenger_jobs(), &Reporting::default(), &[listed]).await;
    assert_eq!(said, ["scavenger job, deleting false, finalizer false", "ended [1, 2]"]);
    let object: ScavengerJob = serde_json::from_value(object).unwrap();
    let Some(Observation::EndedAttempts(_, uid, ended)) = convert::ended_attempts(&object) else {
        panic!("it has a history")
    };
    assert_eq!((&*uid, ended[1].held.cpu_milli, ended[1].held.pods), ("u", 4000, 2));
    assert_eq!(ended[1].until.map(|end| end.duration_since(ended[1].from).as_secs()), Some(3600));
}

/// The pool's status repeats it, so that a reader knows by which spec the operator plans.
#[test]
fn a_pool_is_seen_with_its_generation() {
    let pool = |spec: &serde_json::Value| {
        let pool = serde_json::json!({
            "metadata": { "name": "default", "resourceVersion": "7", "generation": 3 }, "spec": spec,
        });
        let (_, seen) = see_pool(&serde_json::from_value(pool).unwrap()).unwrap();
        let Observation::Pool(settings) = seen else { panic!("{seen:?}") };
        settings.map(|settings| settings.generation)
    };
    assert_eq!(pool(&serde_json::json!({})), Ok(3));
    assert!(pool(&serde_json::json!({ "prioritySteps": 0 })).is_err(), "no spec is in force");
}
