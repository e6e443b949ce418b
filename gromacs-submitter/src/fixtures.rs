//! Values for the tests of several modules.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use scavenger_schema::scavenger_job::ImagePullPolicy;
use scavenger_schema::simulation::{
    BenchmarkColumns, CommandColumns, Engine, GromacsToTune, Kind, LadderRung, LadderSettings, PrivateState,
    RowStatus, State, System,
};
use scavenger_schema::tuning::{Layout, NodeShape, Resources};
use scavenger_vocabulary::{Outcome, Phase};
use sqlx::types::Json;

use crate::manifest::{ManifestSettings, Terms, simulation_job};
use crate::store::RowFolder;
use crate::view::{AttemptView, JobView, PoolLimits, PoolNode, PoolView};

/// The time at which every test starts.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("should be a time")
}

/// The folder of row 7, which has a user and a group of its own.
pub(crate) fn row_folder() -> RowFolder {
    RowFolder {
        id: 7,
        uuid: row().uuid,
        namespace: "chem".to_owned(),
        persistent_volume_claim: "simulations".to_owned(),
        tpr_path: "water/topol.tpr".to_owned(),
        multidir: Vec::new(),
        image: None,
        pinned_image: None,
        run_as_user: 2001,
        run_as_group: Some(2002),
        service_account: None,
        state: "queued".to_owned(),
        reason: Some("waits for its turn".to_owned()),
        submission: 1,
    }
}

/// Another row 7: it has the number of a row that a restored backup does not know.
pub(crate) fn namesake() -> GromacsToTune {
    GromacsToTune { uuid: "0a1b2c3d-1111-4111-8111-111111111117".to_owned(), ..row() }
}

/// Row 7: a water box, just inserted.
pub(crate) fn row() -> GromacsToTune {
    GromacsToTune {
        id: 7,
        uuid: "0a1b2c3d-0000-4000-8000-000000000007".to_owned(),
        kind: Kind::Simulation,
        owner: "chemist".to_owned(),
        namespace: "lab".to_owned(),
        persistent_volume_claim: "data".to_owned(),
        tpr_path: "water/topol.tpr".to_owned(),
        multidir: Vec::new(),
        engine: Engine::ThreadMpi,
        image: None,
        pinned_image: None,
        run_as_user: 1000,
        run_as_group: None,
        priority: 0,
        max_cpu_millicores: None,
        max_memory_bytes: None,
        max_gpus: None,
        min_cpu_millicores: None,
        min_ns_per_day: None,
        interruption_after_seconds: 600,
        fallback_after_seconds: None,
        append: None,
        checkpoint_path: None,
        mdrun_options: Vec::new(),
        grompp_options: Vec::new(),
        mdp_options: Json(BTreeMap::new()),
        node_labels: sqlx::types::Json(BTreeMap::new()),
        deadline: None,
        service_account: None,
        after: Vec::new(),
        ladder_settings: LadderSettings::default(),
        system: System {
            atoms: Some(2652),
            nsteps: Some(4000),
            init_step: Some(0),
            dt_ps: Some(0.002),
            ..System::default()
        },
        benchmark_columns: BenchmarkColumns::default(),
        command_columns: CommandColumns::default(),
        inspected: None,
        extended_nsteps: None,
        cancel_requested: false,
        retry_requested: false,
        status: RowStatus {
            state: State::Queued,
            reason: None,
            submission: 1,
            job_uid: None,
            rung: None,
            next_rung: None,
            attempt: 0,
            first_step: None,
            step: None,
            ns_per_day: None,
            progress_time: None,
            blocked: false,
            late_seconds: None,
            interruptions: 0,
            start_time: None,
            finish_time: None,
            next_attempt_time: now().into(),
            failures: 0,
            peak_memory_bytes: None,
            job_expiry_time: None,
            inspect_again: false,
            private: PrivateState::default(),
        },
    }
}

/// Row 7 as a calibration, just inserted: 11,664 atoms on one core of amd64 nodes.
pub(crate) fn calibration() -> GromacsToTune {
    let labels = BTreeMap::from([("kubernetes.io/arch".to_owned(), "amd64".to_owned())]);
    GromacsToTune {
        kind: Kind::Calibration,
        tpr_path: "calibration-7/water.tpr".to_owned(),
        system: System { nsteps: Some(1200), ..System::default() },
        benchmark_columns: BenchmarkColumns {
            benchmark_atoms: Some(11_664),
            benchmark_ranks: Some(1),
            benchmark_threads: Some(1),
            benchmark_pme_ranks: Some(0),
            benchmark_gpus: Some(0),
            benchmark_node_labels: Some(sqlx::types::Json(labels)),
        },
        ..row()
    }
}

/// Row 7 as a command, just inserted: one core and 1 GiB.
pub(crate) fn command() -> GromacsToTune {
    let words = ["gmx", "trjconv", "-f", "../gromacs-6/traj.xtc", "-o", "$(x).xtc"];
    GromacsToTune {
        kind: Kind::Command,
        tpr_path: "water/gromacs-7".to_owned(),
        image: Some("gromacs:2024".to_owned()),
        system: System::default(),
        command_columns: CommandColumns {
            command: Some(words.map(ToOwned::to_owned).to_vec()),
            cpu_millicores: Some(1000),
            memory_bytes: Some(1 << 30),
        },
        ..row()
    }
}

/// What is known once the inspection has made the row's own copy of its file.
pub(crate) fn inspected() -> Option<Json<BTreeMap<String, String>>> {
    Some(Json(BTreeMap::from([("run-input".to_owned(), "run-1-2.tpr".to_owned())])))
}

/// The row with its ScavengerJob submitted on the largest rung.
pub(crate) fn submitted() -> GromacsToTune {
    let mut row = row();
    row.inspected = inspected();
    row.pinned_image = Some("gromacs@sha256:0123".to_owned());
    row.status.state = State::Submitted;
    row.status.rung = Some(1);
    row.status.job_uid = Some("uid-1".to_owned());
    row
}

/// 2 cores, 1 core, half a core.
pub(crate) fn ladder() -> Vec<LadderRung> {
    [(2000, 2, 78.0), (1000, 1, 45.0), (500, 1, 22.0)]
        .into_iter()
        .zip(1..)
        .map(|((cpu_millicores, threads, ns_per_day), rung)| LadderRung {
            rung,
            cpu_millicores,
            memory_bytes: 300 << 20,
            gpus: 0,
            node_labels: sqlx::types::Json(BTreeMap::new()),
            layout: sqlx::types::Json(Layout::cpu(1, threads)),
            ns_per_day_p10: ns_per_day * 0.8,
            ns_per_day_p50: ns_per_day,
            ns_per_day_p90: ns_per_day * 1.2,
            hours_to_finish: None,
            efficiency: 1.0,
            predicted_memory_bytes: 100 << 20,
            hardware_class: "unknown".to_owned(),
            fits_now: true,
            reason: "largest that pays".to_owned(),
            model_version: "1".to_owned(),
            replaced: false,
        })
        .collect()
}

pub(crate) fn manifest_settings() -> ManifestSettings {
    ManifestSettings {
        queue_id: "queue".to_owned(),
        gromacs_image: "gromacs:test".to_owned(),
        image_pull_policy: ImagePullPolicy::IfNotPresent,
        gpu_runtime_class: None,
    }
}

pub(crate) fn terms() -> Terms {
    Terms {
        longest_grace: 60,
        supervised: false,
        tolerated_taints: Vec::new(),
        gpu_resource: None,
        restart_seconds: None,
    }
}

pub(crate) fn pool() -> PoolView {
    let resources = Resources { cpu_millicores: 2000, memory_bytes: 4 << 30, gpus: 0 };
    PoolView {
        pending_timeout: Duration::from_secs(60),
        update_time: Some(now()),
        operator_ahead: jiff::SignedDuration::ZERO,
        supervises: false,
        tolerated_taints: Vec::new(),
        waiting_for_room: 0,
        ladder_settings: LadderSettings::default(),
        shared_cpu: 0.0,
        limits: PoolLimits {
            min_interruption_after: Duration::from_secs(60),
            max_interruption_after: Duration::from_secs(7200),
            max_grace_seconds: 60,
            max_cpu_millicores: None,
            max_memory_bytes: None,
            max_gpus: None,
        },
        nodes: vec![PoolNode {
            shape: NodeShape {
                count: 1,
                allocatable: resources,
                largest_free: Some(resources),
                labels: BTreeMap::new(),
            },
            gpu_resource: None,
        }],
    }
}

/// An API server that answers as the router says.
pub(crate) async fn client(router: axum::Router) -> kube::Client {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("should listen");
    let url = format!("http://{}", listener.local_addr().expect("should have an address"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let config = kube::Config::new(url.parse().expect("should be a URL"));
    kube::Client::try_from(config).expect("should make a client")
}

/// Our ScavengerJob in `phase`, asking for `rung`.
pub(crate) fn job(phase: Phase, rung: i32) -> JobView {
    JobView {
        uid: "uid-1".to_owned(),
        resource_version: "42".to_owned(),
        ours: true,
        deleting: false,
        phase,
        judged: true,
        waiting_reason: None,
        failure_reason: None,
        message: Some("the operator's sentence".to_owned()),
        has_forecast: false,
        rung: Some(rung),
        change_time: None,
        has_run: false,
        suspended: false,
        suspended_to_grow: false,
        waiting_since: None,
        finish_time: None,
        attempts: Vec::new(),
    }
}

/// An attempt on `rung` that started at [`now`].
pub(crate) fn attempt(number: i32, rung: i32, outcome: Option<Outcome>) -> AttemptView {
    let (row, ladder) = (row(), ladder());
    let index = usize::try_from(rung - 1).expect("should be a rung");
    let spec = simulation_job(&row, &ladder[index], &manifest_settings(), &terms()).spec;
    AttemptView {
        number,
        rung: Some(rung),
        is_superseded: false,
        cpu_millicores: Some(ladder[index].cpu_millicores),
        memory_bytes: Some(ladder[index].memory_bytes),
        gpus: Some(0),
        node: None,
        args: spec.args,
        creation_time: now(),
        start_time: Some(now()),
        end_time: outcome.map(|_| now()),
        outcome,
        reason: None,
        message: None,
        lost_seconds: None,
    }
}
