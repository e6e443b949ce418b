//! Many objects at once, and what they cost the API server.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use kube::{
    Api, ResourceExt,
    api::PostParams,
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    World, alone::pool_of_played_nodes, kubectl::kubectl, metrics::Metrics, postgres::NAMESPACE,
    room::patch_pool,
};

/// Requests that one client has under way, as many as the operator by default.
pub const AT_ONCE: usize = 32;

/// How often one is sent at most.
const TRIES: usize = 5;

/// Verbs of the API server that write.
const WRITES: [&str; 5] = ["POST", "PUT", "PATCH", "APPLY", "DELETE"];

/// Verbs that read once. Watches are counted when they end.
const READS: [&str; 2] = ["GET", "LIST"];

/// What is written all the time, whatever anybody creates.
const BACKGROUND: [&str; 2] = ["leases", "nodes"];

/// The longest that anything here is waited for.
pub const LONGEST: Duration = Duration::from_secs(900);

/// Creates all of them from one client, and returns when each was answered.
///
/// # Errors
/// What the API server says, or that connections break again and again.
pub async fn create<K>(
    api: &Api<K>,
    count: usize,
    object: impl Fn(usize) -> Value,
) -> Result<BTreeMap<String, Instant>>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let all = (0..count).map(|number| {
        let object = serde_json::from_value::<K>(object(number));
        async move {
            let object = object?;
            // Connections break under load; whatever a broken one carried is sent again.
            for _ in 0..TRIES {
                match api.create(&PostParams::default(), &object).await {
                    Ok(_) => return Ok((object.name_any(), Instant::now())),
                    Err(kube::Error::Api(status)) if status.is_already_exists() => {
                        return Ok((object.name_any(), Instant::now()));
                    }
                    Err(kube::Error::Api(status)) => return Err(kube::Error::Api(status).into()),
                    Err(_) => {}
                }
            }
            anyhow::bail!("{} could not be created in {TRIES} tries", object.name_any())
        }
    });
    futures::stream::iter(all).buffer_unordered(AT_ONCE).try_collect().await
}

/// When something was first seen, by name.
#[derive(Clone, Default)]
pub struct Seen(Arc<Mutex<BTreeMap<String, Instant>>>);

impl Seen {
    /// Watches objects of a kind; `name` says under which name one is to be noted, or that it is not yet. It watches until the second value is dropped.
    pub fn watch<K>(
        api: Api<K>,
        which: watcher::Config,
        name: impl Fn(&K) -> Option<String> + Send + 'static,
    ) -> (Self, JoinSet<()>)
    where
        K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
    {
        let seen = Self::default();
        let into = seen.clone();
        let mut watching = JoinSet::new();
        watching.spawn(async move {
            let mut stream = watcher(api, which).default_backoff().applied_objects().boxed();
            while let Some(event) = stream.next().await {
                let Some(name) = event.ok().and_then(|object| name(&object)) else { continue };
                into.all().entry(name).or_insert_with(Instant::now);
            }
        });
        (seen, watching)
    }

    /// All that were seen so far.
    pub fn all(&self) -> MutexGuard<'_, BTreeMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there are so many; returns how long after `began` the last of them was seen.
    ///
    /// # Errors
    /// If there are fewer in the end.
    pub async fn reach(&self, count: usize, what: &str, began: Instant) -> Result<f64> {
        let reached = async {
            let mut every = tokio::time::interval(Duration::from_millis(100));
            while self.all().len() < count {
                every.tick().await;
            }
        };
        let reached = tokio::time::timeout(LONGEST, reached).await;
        reached.with_context(|| format!("only {} of {count} {what}", self.all().len()))?;
        let last = self.all().values().max().copied().context("nothing was seen")?;
        Ok(last.duration_since(began).as_secs_f64())
    }
}

/// What the API server has done since it started.
#[derive(Debug)]
pub struct Load {
    /// Seconds of processor time.
    pub cpu: f64,
    /// Bytes of memory that it has now.
    pub memory: f64,
    /// Writes that succeeded, by kind ("status of pods, PATCH").
    pub writes: BTreeMap<String, f64>,
    /// Writes that it refused.
    pub refused: f64,
    /// Reads by kind, whatever came of them.
    pub reads: BTreeMap<String, f64>,
}

impl Load {
    /// Reads what it says of itself.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn read(world: &World) -> Result<Self> {
        let metrics = world.client.request_text(http::Request::get("/metrics").body(Vec::new())?).await?;
        Ok(Self::parse(&metrics))
    }

    fn parse(metrics: &str) -> Self {
        let mut load =
            Self { cpu: 0.0, memory: 0.0, writes: BTreeMap::new(), refused: 0.0, reads: BTreeMap::new() };
        for line in metrics.lines() {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            if name == "process_cpu_seconds_total" {
                load.cpu = value;
            }
            if name == "process_resident_memory_bytes" {
                load.memory = value;
            }
            let Some(labels) = name.strip_prefix("apiserver_request_total{") else { continue };
            let label = |wanted: &str| {
                let (_, rest) = labels.split_once(&format!("{wanted}=\""))?;
                rest.split_once('"').map(|(text, _)| text)
            };
            let (resource, verb) = (label("resource").unwrap_or(""), label("verb").unwrap_or(""));
            // "resource" is also the end of "subresource", which comes after it.
            let part = label("subresource").unwrap_or("");
            let is_read = READS.contains(&verb);
            if !(is_read || WRITES.contains(&verb))
                || BACKGROUND.contains(&resource)
                || !label("dry_run").unwrap_or("").is_empty()
            {
                continue;
            }
            let of = if part.is_empty() { String::new() } else { format!("{part} of ") };
            let kind = format!("{of}{resource}, {verb}");
            if is_read {
                *load.reads.entry(kind).or_default() += value;
                continue;
            }
            if !label("code").unwrap_or("").starts_with('2') {
                load.refused += value;
                continue;
            }
            *load.writes.entry(kind).or_default() += value;
        }
        load
    }

    /// What was done between an earlier look and this one.
    #[must_use]
    pub fn since(mut self, earlier: &Self) -> Self {
        self.cpu -= earlier.cpu;
        self.refused -= earlier.refused;
        for (now, before) in [(&mut self.writes, &earlier.writes), (&mut self.reads, &earlier.reads)] {
            for (kind, count) in now {
                *count -= before.get(kind).copied().unwrap_or_default();
            }
        }
        self
    }
}

/// Measures on the played nodes: the pool is theirs, and its limits are not what is measured.
///
/// # Errors
/// What the API server says, or the measurement.
pub async fn on_played_nodes<F>(world: &World, measure: impl FnOnce() -> F) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let pool = json!({
        // Else it would be measured how long kube-scheduler takes for ten pods.
        "maxConcurrentStarts": 1000,
        // As it is by default; the tests shorten it.
        "pendingTimeout": "60s",
    });
    patch_pool(world, &pool).await?;
    // Here it shares its cores with the whole control plane, and by its 50m it would get a twentieth of what the API
    // server gets: the scheduler of the kernel would be measured.
    let system = ["--namespace", NAMESPACE];
    let operator = "deployment/scavenger-operator";
    kubectl(&[&["set", "resources", operator, "--requests=cpu=400m"], &system[..]].concat()).await?;
    kubectl(&[&["rollout", "status", operator, "--timeout=120s"], &system[..]].concat()).await?;
    pool_of_played_nodes(world).await?;
    let result = measure().await;
    let before = json!({
        "nodeSelector": null, "toleratedTaints": null, "maxConcurrentStarts": null, "pendingTimeout": null,
    });
    patch_pool(world, &before).await?;
    result
}

/// The most memory that the whole process of the leader had so far.
///
/// # Errors
/// If the operator does not tell.
pub async fn peak_bytes(world: &World) -> Result<f64> {
    let bytes = Metrics::read(world).await?.value("scavenger_peak_resident_memory_bytes");
    ensure!(bytes > 0.0, "scavenger_peak_resident_memory_bytes is not served");
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_kind() {
        let before = "process_cpu_seconds_total 10\n\
            apiserver_request_total{code=\"201\",component=\"apiserver\",dry_run=\"\",group=\"batch\",resource=\"jobs\",\
            scope=\"resource\",subresource=\"\",verb=\"POST\",version=\"v1\"} 5\n";
        let after = before.replace("total 10", "total 12.5").replace("} 5", "} 9")
            + "apiserver_request_total{code=\"200\",dry_run=\"\",resource=\"pods\",subresource=\"status\",verb=\"PATCH\"} 3\n\
               apiserver_request_total{code=\"409\",dry_run=\"\",resource=\"pods\",subresource=\"status\",verb=\"PATCH\"} 2\n\
               apiserver_request_total{code=\"200\",dry_run=\"\",resource=\"leases\",subresource=\"\",verb=\"PUT\"} 7\n\
               apiserver_request_total{code=\"200\",dry_run=\"\",resource=\"jobs\",subresource=\"\",verb=\"WATCH\"} 7\n\
               apiserver_request_total{code=\"404\",dry_run=\"\",resource=\"jobs\",subresource=\"\",verb=\"GET\"} 6\n";
        let load = Load::parse(&after).since(&Load::parse(before));
        let writes = [("jobs, POST".to_owned(), 4.0), ("status of pods, PATCH".to_owned(), 3.0)];
        assert_eq!(load.writes, BTreeMap::from(writes));
        assert_eq!(load.reads, BTreeMap::from([("jobs, GET".to_owned(), 6.0)]));
        assert_eq!((load.cpu, load.refused), (2.5, 2.0));
    }
}
