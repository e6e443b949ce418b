//! The requests to the tuner. A failure tells whether asking again can help; waiting is the caller's business.

use std::collections::BTreeMap;
use std::time::Duration;

use scavenger_schema::bounds;
use scavenger_schema::simulation::{GromacsToTune, LadderRung};
use scavenger_schema::tuning::{
    ErrorCode, ErrorReply, Explore, LADDER_PATH, LadderReply, LadderRequest, Limits, MeasuredRun, NodeShape,
    PREDICT_PATH, PredictReply, PredictRequest, Rung, SharedGpu, SystemDescription,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::types::Json;

use crate::store::Answer;
use crate::text::root_cause;

/// Longest time for one answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Largest answer that is read; a ladder has at most 32 rungs of about 1 kB.
const LARGEST_REPLY_BYTES: usize = 1 << 20;

/// Why there is no ladder.
#[derive(Debug, thiserror::Error)]
pub enum TunerError {
    /// The address is none, or the client cannot be built.
    #[error("the tuner's address {url} cannot be used: {source}")]
    BuildClient {
        /// The address.
        url: String,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// No answer came.
    #[error("the tuner at {url} does not answer: {}", root_cause(source))]
    ReachTuner {
        /// The address.
        url: String,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// It cannot answer now.
    #[error("the tuner cannot answer now: {0}")]
    AskLater(String),
    /// An answer that is none.
    #[error("the tuner at {url} gave an answer that cannot be read: {reason}")]
    ReadReply {
        /// The address.
        url: String,
        /// Why.
        reason: String,
    },
    /// Nothing fits the nodes there are, within the limits.
    #[error("no configuration fits: {0}")]
    FitNodes(String),
    /// The pool is such that it cannot answer: no row's fault.
    #[error("the tuner cannot work with what the ScavengerPool \"default\" shows: {0}")]
    AcceptPool(String),
    /// The request is wrong, and will be wrong again.
    #[error("the tuner refuses the simulation: {0}")]
    AcceptSystem(String),
}

impl TunerError {
    /// True if the same request will fail again.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::AcceptSystem(_))
    }
}

/// What the tuner proposes.
#[derive(Debug, Clone, PartialEq)]
pub struct Ladder {
    /// The configurations, largest first.
    pub rungs: Vec<LadderRung>,
    /// What it says of them as a whole.
    pub answer: Answer,
}

/// A client of the tuner.
#[derive(Debug, Clone)]
pub struct TunerClient {
    url: String,
    client: reqwest::Client,
}

impl TunerClient {
    /// A client of the tuner at `url`. The process must have a TLS provider installed.
    ///
    /// # Errors
    /// If the TLS set-up fails.
    pub fn new(url: &str) -> Result<Self, TunerError> {
        let url = url.trim_end_matches('/').to_owned();
        // No proxy: the tuner is a neighbour in the cluster.
        let client = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .connect_timeout(TIMEOUT / 2)
            .no_proxy()
            .build()
            .map_err(|source| TunerError::BuildClient { url: url.clone(), source })?;
        Ok(Self { url, client })
    }

    /// Asks for the configurations of a row within `limits`. `measured` is what earlier submissions of it measured.
    ///
    /// # Errors
    /// [`TunerError`], which knows whether asking again can help.
    pub async fn ladder(
        &self,
        row: &GromacsToTune,
        system: SystemDescription,
        limits: Limits,
        nodes: &[NodeShape],
        measured: Vec<MeasuredRun>,
    ) -> Result<Ladder, TunerError> {
        let request = LadderRequest {
            system,
            limits,
            gromacs_version: row.system.gromacs_version.clone(),
            build: row.build(),
            nodes: nodes.to_vec(),
            explore: explore(row, measured),
        };
        let reply: LadderReply = self.ask(LADDER_PATH, &request).await?;
        if reply.rungs.is_empty() {
            return Err(self.unreadable("the ladder is empty"));
        }
        let rungs = reply
            .rungs
            .iter()
            .zip(1..)
            .map(|(rung, number)| ladder_rung(rung, number, &reply.model_version))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| {
                self.unreadable("a configuration of the ladder has values that are out of range")
            })?;
        Ok(Ladder { rungs, answer: answer(reply.notes, reply.model_version) })
    }

    /// Asks what is to be expected of a configuration that is given, as the only rung of a ladder.
    ///
    /// # Errors
    /// [`TunerError`], which knows whether asking again can help.
    pub async fn expectation(&self, request: &PredictRequest) -> Result<Ladder, TunerError> {
        let reply: PredictReply = self.ask(PREDICT_PATH, request).await?;
        let room = request.node.largest_free.as_ref().unwrap_or(&request.node.allocatable);
        let rung = Rung {
            resources: reply.resources,
            layout: request.layout,
            ns_per_day: reply.ns_per_day,
            hours_to_finish: reply.hours_to_finish,
            // Nothing is compared with it.
            efficiency: 1.0,
            memory_bytes: reply.memory_bytes,
            hardware_class: reply.hardware_class,
            on_hardware: Vec::new(),
            node_labels: BTreeMap::new(),
            fits_now: reply.resources.fits_in(room),
            alternative: None,
            reason: "what the benchmark measures".to_owned(),
        };
        let rung = ladder_rung(&rung, 1, &reply.model_version)
            .ok_or_else(|| self.unreadable("the prediction has values that are out of range"))?;
        Ok(Ladder { rungs: vec![rung], answer: answer(reply.notes, reply.model_version) })
    }

    /// Asks what several simulations of a row would do on each GPU, where these are fewer than its simulations; nothing for
    /// a row of one, or where there are no GPUs.
    ///
    /// # Errors
    /// [`TunerError`], which knows whether asking again can help.
    pub async fn shared_gpus(
        &self,
        row: &GromacsToTune,
        system: &SystemDescription,
        limits: &Limits,
        nodes: &[NodeShape],
    ) -> Result<Vec<SharedGpu>, TunerError> {
        let with_gpus: Vec<NodeShape> =
            nodes.iter().filter(|node| node.allocatable.gpus > 0).cloned().collect();
        if !row.is_multidir() || with_gpus.is_empty() || limits.max_gpus == Some(0) {
            return Ok(Vec::new());
        }
        let max_simulations_per_gpu = row.simulations().min(bounds::SIMULATIONS_PER_GPU.max);
        let request = LadderRequest {
            system: system.clone(),
            limits: Limits { max_simulations_per_gpu, ..limits.clone() },
            gromacs_version: row.system.gromacs_version.clone(),
            build: row.build(),
            nodes: with_gpus,
            explore: None,
        };
        let reply: Result<LadderReply, TunerError> = self.ask(LADDER_PATH, &request).await;
        match reply {
            // One may be too large for a node with a GPU; there are others.
            Err(TunerError::FitNodes(_)) => Ok(Vec::new()),
            reply => Ok(reply?.shared_gpu),
        }
    }

    async fn ask<R: DeserializeOwned>(&self, path: &str, request: &impl Serialize) -> Result<R, TunerError> {
        let url = format!("{}{path}", self.url);
        let reach = |source: reqwest::Error| TunerError::ReachTuner { url: self.url.clone(), source };
        let mut response = self.client.post(&url).json(request).send().await.map_err(reach)?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(reach)? {
            body.extend_from_slice(&chunk);
            if body.len() > LARGEST_REPLY_BYTES {
                return Err(self.unreadable("it is larger than 1 MiB"));
            }
        }
        if !status.is_success() {
            return Err(self.refusal(status, &body));
        }
        serde_json::from_slice(&body).map_err(|error| self.unreadable(&error.to_string()))
    }

    fn unreadable(&self, reason: &str) -> TunerError {
        TunerError::ReadReply { url: self.url.clone(), reason: reason.to_owned() }
    }

    fn refusal(&self, status: reqwest::StatusCode, body: &[u8]) -> TunerError {
        match serde_json::from_slice::<ErrorReply>(body) {
            Ok(reply) => match reply.code {
                ErrorCode::Invalid | ErrorCode::Inconsistent
                    if reply.field.as_deref().is_some_and(is_of_pool) =>
                {
                    TunerError::AcceptPool(reply.error)
                }
                ErrorCode::Invalid | ErrorCode::Inconsistent => TunerError::AcceptSystem(reply.error),
                ErrorCode::NothingFits => TunerError::FitNodes(reply.error),
                ErrorCode::Unavailable => TunerError::AskLater(reply.error),
            },
            // A gateway in between, or another program at that address: neither speaks for the tuner.
            Err(_) => TunerError::AskLater(format!("HTTP status {status} from {}", self.url)),
        }
    }
}

/// Asks for another layout now and then, where something was measured. Each submission of each row draws again, and so does
/// each interruption.
fn explore(row: &GromacsToTune, measured: Vec<MeasuredRun>) -> Option<Explore> {
    let counted = |count: i32| u64::try_from(count).unwrap_or(0);
    let number = u64::try_from(row.id).unwrap_or(0) << 16
        ^ counted(row.status.submission)
        ^ counted(row.status.interruptions) << 40;
    let seed = number & bounds::SEED.max;
    (!measured.is_empty()).then_some(Explore { seed, measured })
}

/// True if a field of a request comes from the pool: nodes, and limits, whose own part the database has checked.
fn is_of_pool(field: &str) -> bool {
    ["nodes", "node", "limits"].iter().any(|of_pool| {
        field.strip_prefix(of_pool).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    })
}

/// Most notes that are kept, and most characters of each: what a row stores does not depend on what answers there.
const MOST_NOTES: usize = 20;
const LONGEST_NOTE: usize = 500;

fn answer(notes: Vec<String>, model_version: String) -> Answer {
    // Postgres stores no zero bytes.
    let plain = |note: String| note.chars().filter(|it| !it.is_control()).take(LONGEST_NOTE).collect();
    Answer { notes: notes.into_iter().take(MOST_NOTES).map(plain).collect(), model_version, chosen: None }
}

fn ladder_rung(rung: &Rung, number: i32, model_version: &str) -> Option<LadderRung> {
    let finite = |value: f64| value.is_finite().then_some(value);
    Some(LadderRung {
        rung: number,
        cpu_millicores: i32::try_from(rung.resources.cpu_millicores).ok().filter(|cpu| *cpu > 0)?,
        memory_bytes: i64::try_from(rung.resources.memory_bytes).ok().filter(|memory| *memory > 0)?,
        gpus: i32::try_from(rung.resources.gpus).ok()?,
        node_labels: Json(rung.node_labels.clone()),
        layout: Json(rung.layout),
        ns_per_day_p10: finite(rung.ns_per_day.p10)?,
        ns_per_day_p50: finite(rung.ns_per_day.p50)?,
        ns_per_day_p90: finite(rung.ns_per_day.p90)?,
        hours_to_finish: rung.hours_to_finish.and_then(finite),
        efficiency: finite(rung.efficiency)?,
        predicted_memory_bytes: i64::try_from(rung.memory_bytes).ok()?,
        hardware_class: rung.hardware_class.clone(),
        fits_now: rung.fits_now,
        reason: rung.reason.clone(),
        model_version: model_version.to_owned(),
        replaced: false,
    })
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::StatusCode;
    use axum::routing::post;
    use scavenger_schema::tuning::{Interval, Layout, Resources, StepCost};

    use super::*;
    use crate::fixtures::{pool, row};

    /// Stands in for the tuner, for what the real one does not do on demand: fail.
    async fn answering(status: StatusCode, body: String) -> TunerClient {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("should listen");
        let address = listener.local_addr().expect("should have an address");
        let router = Router::new().fallback(post(move || async move { (status, body) }));
        tokio::spawn(async move { axum::serve(listener, router).await });
        TunerClient::new(&format!("http://{address}/")).expect("should be an address")
    }

    async fn ask(client: &TunerClient) -> Result<Ladder, TunerError> {
        let row = row();
        let system = row.system.description().expect("should have atoms");
        client.ladder(&row, system, row.limits(), &pool().shapes(), Vec::new()).await
    }

    fn error(code: ErrorCode) -> String {
        error_in(code, None)
    }

    fn error_in(code: ErrorCode, field: Option<&str>) -> String {
        let reply = ErrorReply { code, error: "a sentence".to_owned(), field: field.map(str::to_owned) };
        serde_json::to_string(&reply).expect("should be JSON")
    }

    fn reply(rungs: Vec<Rung>) -> String {
        let reply =
            LadderReply { model_version: "7".to_owned(), rungs, shared_gpu: Vec::new(), notes: Vec::new() };
        serde_json::to_string(&reply).expect("should be JSON")
    }

    fn rung(cpu_millicores: u32) -> Rung {
        Rung {
            resources: Resources { cpu_millicores, memory_bytes: 1 << 28, gpus: 0 },
            layout: Layout::cpu(1, 2),
            ns_per_day: Interval { p10: 1.0, p50: 2.0, p90: 3.0 },
            hours_to_finish: None,
            efficiency: 1.0,
            memory_bytes: 1 << 27,
            hardware_class: "unknown".to_owned(),
            on_hardware: Vec::new(),
            node_labels: BTreeMap::new(),
            fits_now: true,
            alternative: None,
            reason: "largest that pays".to_owned(),
        }
    }

    #[tokio::test]
    async fn rungs_are_numbered_from_one() {
        let client = answering(StatusCode::OK, reply(vec![rung(2000), rung(500)])).await;
        let ladder = ask(&client).await.expect("should be a ladder").rungs;
        assert_eq!(
            ladder.iter().map(|rung| (rung.rung, rung.cpu_millicores)).collect::<Vec<_>>(),
            [(1, 2000), (2, 500)]
        );
        assert_eq!(ladder[0].model_version, "7");
    }

    #[tokio::test]
    async fn what_is_said_of_the_ladder_as_a_whole_comes_along() {
        let notes: Vec<String> =
            (0..30).map(|number| format!("note {number}\0{}", "x".repeat(600))).collect();
        let reply = LadderReply {
            model_version: "7".to_owned(),
            rungs: vec![rung(2000)],
            shared_gpu: Vec::new(),
            notes,
        };
        let body = serde_json::to_string(&reply).expect("should be JSON");
        let answer = ask(&answering(StatusCode::OK, body).await).await.expect("should be a ladder").answer;
        assert_eq!((answer.notes.len(), answer.model_version.as_str()), (MOST_NOTES, "7"));
        assert!(answer.notes[1].starts_with("note 1x") && answer.notes[1].len() == LONGEST_NOTE);
    }

    /// What the client sends for a row, with what earlier submissions measured.
    async fn sent(row: &GromacsToTune, measured: Vec<MeasuredRun>) -> LadderRequest {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("should listen");
        let address = listener.local_addr().expect("should have an address");
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        let router = Router::new().fallback(post(move |body: String| async move {
            sender.send(body).await.expect("the test should wait for the request");
            reply(vec![rung(2000)])
        }));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let client = TunerClient::new(&format!("http://{address}/")).expect("should be an address");
        let system = row.description().expect("should have atoms");
        client
            .ladder(row, system, row.limits(), &pool().shapes(), measured)
            .await
            .expect("should be a ladder");
        let body = receiver.recv().await.expect("should have been asked");
        serde_json::from_str(&body).expect("should be a request")
    }

    #[tokio::test]
    async fn what_the_inspection_found_of_the_build_and_the_settings_is_sent() {
        let mut row = row();
        let plain = sent(&row, Vec::new()).await;
        assert!(plain.build.is_unknown() && plain.system.settings.is_plain());
        let text = include_str!("../tests/fixtures/inspection-2022.txt")
            .replace("free-energy=no", "free-energy=yes");
        let inspection = crate::probe::parse_inspection(&text).expect("should be a good answer");
        row.inspected = Some(Json(inspection.values));
        let request = sent(&row, Vec::new()).await;
        assert_eq!(request.build.words(), "SSE4.1 mixed thread_mpi disabled");
        assert!(request.system.settings.free_energy);
        assert_eq!(request.explore, None);
    }

    #[tokio::test]
    async fn a_restart_sends_what_was_measured_and_draws_again() {
        let mut row = row();
        let run = MeasuredRun { cpu_millicores: 2000, layout: Layout::cpu(2, 1), ns_per_day: 12.0 };
        let first = sent(&row, vec![run]).await.explore.expect("should explore");
        assert_eq!(first.measured, [run]);
        row.status.submission += 1;
        let next = sent(&row, vec![run]).await.explore.expect("should explore");
        assert_ne!(first.seed, next.seed);
    }

    #[tokio::test]
    async fn what_is_expected_of_a_configuration_is_a_ladder_of_one_rung() {
        let reply = PredictReply {
            model_version: "7".to_owned(),
            hardware_class: "zen2".to_owned(),
            ns_per_day: Interval { p10: 1.0, p50: 2.0, p90: 3.0 },
            hours_to_finish: Some(0.5),
            memory_bytes: 1 << 26,
            resources: Resources { cpu_millicores: 2000, memory_bytes: 1 << 27, gpus: 0 },
            step: StepCost { pair_us: 1.0, pme_us: 1.0, other_us: 1.0, overhead_us: 1.0, total_us: 4.0 },
            notes: vec!["the processor is unknown".to_owned()],
        };
        let body = serde_json::to_string(&reply).expect("should be JSON");
        let client = answering(StatusCode::OK, body).await;
        let request = PredictRequest {
            system: row().system.description().expect("should have atoms"),
            layout: Layout::cpu(2, 1),
            node: pool().nodes.remove(0).shape,
            cpu_millicores: None,
            gromacs_version: None,
            build: scavenger_schema::tuning::Build::default(),
        };
        let ladder = client.expectation(&request).await.expect("should be a ladder");
        let [rung] = &ladder.rungs[..] else { panic!("{ladder:?}") };
        assert_eq!(ladder.answer.notes, ["the processor is unknown"]);
        assert_eq!((rung.rung, rung.cpu_millicores, rung.memory_bytes), (1, 2000, 1 << 27));
        assert_eq!((rung.layout.0, rung.hardware_class.as_str()), (Layout::cpu(2, 1), "zen2"));
        assert_eq!((rung.ns_per_day_p50, rung.fits_now), (2.0, true));
        let client = answering(StatusCode::UNPROCESSABLE_ENTITY, error(ErrorCode::Invalid)).await;
        let error = client.expectation(&request).await.expect_err("should be refused");
        assert!(error.is_final(), "{error}");
    }

    #[tokio::test]
    async fn only_a_refusal_of_the_system_is_final() {
        for (status, body, is_final) in [
            (StatusCode::UNPROCESSABLE_ENTITY, error(ErrorCode::Invalid), true),
            (StatusCode::UNPROCESSABLE_ENTITY, error(ErrorCode::Inconsistent), true),
            (StatusCode::UNPROCESSABLE_ENTITY, error_in(ErrorCode::Invalid, Some("system.atoms")), true),
            (StatusCode::UNPROCESSABLE_ENTITY, error_in(ErrorCode::Invalid, Some("nodes")), false),
            (StatusCode::UNPROCESSABLE_ENTITY, error_in(ErrorCode::Invalid, Some("nodes[3].count")), false),
            (StatusCode::UNPROCESSABLE_ENTITY, error_in(ErrorCode::Invalid, Some("limits.maxGpus")), false),
            (StatusCode::UNPROCESSABLE_ENTITY, error(ErrorCode::NothingFits), false),
            (StatusCode::SERVICE_UNAVAILABLE, error(ErrorCode::Unavailable), false),
            (StatusCode::BAD_GATEWAY, "<html>".to_owned(), false),
            (StatusCode::NOT_FOUND, String::new(), false),
            (StatusCode::OK, "{}".to_owned(), false),
            (StatusCode::OK, reply(Vec::new()), false),
            (StatusCode::OK, reply(vec![rung(0)]), false),
            (StatusCode::OK, "x".repeat(LARGEST_REPLY_BYTES + 1), false),
        ] {
            let client = answering(status, body).await;
            let error = ask(&client).await.expect_err("should be an error");
            assert_eq!(error.is_final(), is_final, "{error}");
        }
    }

    #[tokio::test]
    async fn a_tuner_that_is_down_is_named() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = TunerClient::new("http://127.0.0.1:1").expect("should be an address");
        let error = ask(&client).await.expect_err("should not connect");
        assert!(!error.is_final());
        let text = error.to_string();
        assert!(text.contains("the tuner at http://127.0.0.1:1 does not answer"), "{text}");
        assert!(text.contains("refused"), "{text}");
    }
}
