//! The Secret and the ConfigMaps.

use serde_json::json;

use super::{api::Api, *};
use crate::reports::{bundles::Bundles, keeper::Keeper};

const SECRET: &str = "/api/v1/namespaces/scavenger-system/secrets/scavenger-supervisor-ca";
const SECRETS: &str = "POST /api/v1/namespaces/scavenger-system/secrets";
const DAY: SignedDuration = SignedDuration::from_hours(24);

type Bundle = watch::Receiver<Option<Arc<str>>>;
type Certificate = watch::Receiver<Option<Arc<rustls::ServerConfig>>>;

/// A replica's keeper.
struct Replica {
    leadership: watch::Sender<Leadership>,
    bundle: Bundle,
    certificate: Certificate,
    _tasks: JoinSet<()>,
}

fn replica(api: &Api, time: &Time, state: Leadership) -> Replica {
    let leadership = watch::Sender::new(state);
    let (keeper, certificate, bundle) =
        Keeper::new(&api.client(), "scavenger-system", leadership.subscribe(), time.clock());
    let mut tasks = JoinSet::new();
    tasks.spawn(keeper.run());
    Replica { leadership, bundle, certificate, _tasks: tasks }
}

impl Replica {
    fn bundle(&self) -> Option<Arc<str>> {
        self.bundle.borrow().clone()
    }
}

fn certificates(bundle: &str) -> usize {
    bundle.matches("BEGIN CERTIFICATE").count()
}

#[tokio::test(start_paused = true)]
async fn two_replicas_that_begin_at_once_trust_one_authority() {
    let (api, time) = (Api::default(), Time::new());
    let replicas = [replica(&api, &time, leader()), replica(&api, &time, leader())];
    let is_done = || replicas.iter().all(|replica| replica.certificate.borrow().is_some());
    within(Duration::from_secs(5), "certificates", is_done).await;
    assert_eq!(api.writes(), [(SECRETS.to_owned(), 201), (SECRETS.to_owned(), 409)]);
    assert_eq!(replicas[0].bundle(), replicas[1].bundle());
    assert_eq!(certificates(&replicas[0].bundle().unwrap()), 1);
    let secret = api.get(SECRET).unwrap();
    assert_eq!(secret["metadata"]["labels"]["app.kubernetes.io/managed-by"], "scavenger-operator");
    // A day later nothing is written.
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    assert_eq!(api.writes().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_stands_by_reads_and_does_not_write() {
    let (api, time) = (Api::default(), Time::new());
    let standby = replica(&api, &time, Leadership::Standby);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((api.writes().len(), standby.bundle()), (0, None));
    assert!(standby.certificate.borrow().is_none());
    let leading = replica(&api, &time, leader());
    within(Duration::from_secs(30), "the standby's certificate", || standby.certificate.borrow().is_some())
        .await;
    assert_eq!(standby.bundle(), leading.bundle());
    // The leader goes, and the Secret with it: the next one makes another, at once.
    drop(leading);
    api.remove(SECRET);
    standby.leadership.send_replace(leader());
    within(Duration::from_secs(1), "a new Secret", || api.get(SECRET).is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn authorities_and_certificates_are_replaced_in_time() {
    let (api, time) = (Api::default(), Time::new());
    let mut replica = replica(&api, &time, leader());
    within(Duration::from_secs(5), "a certificate", || replica.certificate.borrow().is_some()).await;
    let first = replica.bundle().unwrap();
    replica.certificate.mark_unchanged();
    let mut seen = Vec::new();
    for _day in 0..400 {
        time.shift(DAY);
        // The keeper looks every ten minutes.
        tokio::time::sleep(Duration::from_secs(601)).await;
        let is_new = replica.certificate.has_changed().unwrap();
        replica.certificate.mark_unchanged();
        seen.push((certificates(&replica.bundle().unwrap()), is_new));
    }
    // The bundle holds both for half a year, and one certificate of the server lasts ten days at most.
    let counts: Vec<usize> = seen.iter().map(|(count, _)| *count).collect();
    assert!(counts.iter().all(|count| (1..=3).contains(count)), "{counts:?}");
    assert_eq!((counts[100], counts[200], counts[399]), (1, 2, 2));
    assert!(seen.windows(11).all(|days| days.iter().any(|(_, is_new)| *is_new)));
    assert!(!replica.bundle().unwrap().contains(&*first), "the first has expired");
    // The first one, and then one each half year; that it is left out again may be a write of its own.
    assert!((3..=4).contains(&api.writes().len()), "{:?}", api.writes());
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_cannot_be_read_is_replaced() {
    let (api, time) = (Api::default(), Time::new());
    let metadata = json!({ "name": "scavenger-supervisor-ca", "namespace": "scavenger-system" });
    api.put(SECRET, json!({ "metadata": metadata, "data": { "authorities.json": "e30=" } }));
    let replica = replica(&api, &time, leader());
    within(Duration::from_secs(5), "a certificate", || replica.certificate.borrow().is_some()).await;
    assert_eq!(api.writes(), [(format!("PUT {SECRET}"), 200)]);
}

fn map_path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/scavenger-supervisor-ca")
}

#[tokio::test(start_paused = true)]
async fn each_namespace_gets_the_bundle_once_and_five_in_a_second() {
    let (api, time) = (Api::default(), Time::new());
    let leadership = watch::Sender::new(Leadership::Standby);
    let namespaces: BTreeSet<String> = (0..30).map(|number| format!("lab-{number}")).collect();
    let (wanted, bundle) = (watch::Sender::new(BTreeSet::new()), watch::Sender::new(Some("first".into())));
    // Somebody's own ConfigMap is not overwritten.
    let own = json!({ "metadata": { "name": "scavenger-supervisor-ca" }, "data": { "mine": "own" } });
    api.put(&map_path("lab-7"), own);
    let bundles = Bundles::new(&api.client(), "lab-0".to_owned(), leadership.subscribe(), time.clock());
    let mut tasks = JoinSet::new();
    tasks.spawn(bundles.run(wanted.subscribe(), bundle.subscribe()));
    // The namespace of the agents gets it, too, and runs no ScavengerJob.
    wanted.send_replace(namespaces.iter().filter(|name| *name != "lab-0").cloned().collect());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(api.times().len(), 0, "a standby asks for nothing");

    leadership.send_replace(leader());
    let holds = |api: &Api, text: &str| {
        namespaces
            .iter()
            .filter(|name| {
                api.get(&map_path(name)).is_some_and(|map| map["data"] == json!({ "ca.crt": text }))
            })
            .count()
    };
    within(Duration::from_secs(30), "every namespace", || holds(&api, "first") == 29).await;
    let map = api.get(&map_path("lab-3")).unwrap();
    assert_eq!(map["metadata"]["labels"]["app.kubernetes.io/managed-by"], "scavenger-operator");
    assert_eq!(api.get(&map_path("lab-7")).unwrap()["data"]["mine"], "own");
    assert_eq!(api.writes().len(), 29);
    let times = api.times();
    // A look and a write for each namespace.
    let most = (0..times.len()).map(|from| {
        times[from..].iter().take_while(|at| **at - times[from] < Duration::from_secs(1)).count()
    });
    assert!(most.max().unwrap() <= 10);
    // An hour later everything is looked at, and nothing is written.
    tokio::time::sleep(Duration::from_secs(3700)).await;
    assert_eq!(api.writes().len(), 29);

    bundle.send_replace(Some("second".into()));
    within(Duration::from_secs(30), "the second bundle", || holds(&api, "second") == 29).await;
    // One that was deleted comes back, one that nobody needs any more does not.
    let fewer: BTreeSet<String> = namespaces.iter().filter(|name| *name != "lab-1").cloned().collect();
    wanted.send_replace(fewer);
    for gone in ["lab-1", "lab-2"] {
        api.remove(&map_path(gone));
    }
    within(Duration::from_secs(3700), "the one that was deleted", || api.get(&map_path("lab-2")).is_some())
        .await;
    assert!(api.get(&map_path("lab-1")).is_none());
}
