-- The queue of GROMACS simulations. People write gromacs_to_tune, the submitter writes the rest; the view
-- gromacs_queue is for reading. An INSERT needs namespace, persistent_volume_claim and tpr_path only.
--
-- Names of CHECK constraints are a contract: gromacs-submitter turns each into a sentence.
-- An applied migration is never edited; changes come as the next number.

-- One row. Tells the ScavengerJobs of this database from those of another one that uses the same cluster.
create table gromacs_queue_identity (
    only_row boolean primary key default true,
    queue_id text not null default gen_random_uuid()::text,
    constraint gromacs_queue_identity_one_row check (only_row)
);
comment on table gromacs_queue_identity is 'Identity of this queue: the label scavenger.dev/queue of everything it submits.';
comment on column gromacs_queue_identity.only_row is 'Always true: there is one row.';
comment on column gromacs_queue_identity.queue_id is 'Random, made once.';
insert into gromacs_queue_identity default values;

create table gromacs_to_tune (
    id bigint generated always as identity primary key,
    owner text not null default session_user,

    -- What to compute. The three without a default are all that an INSERT needs.
    namespace text not null,
    persistent_volume_claim text not null,
    tpr_path text not null,
    image text,
    run_as_user bigint not null default 1000,
    run_as_group bigint,
    priority integer not null default 0,
    max_cpu_millicores integer,
    max_memory_bytes bigint,
    max_gpus integer,
    interruption_after_seconds integer not null default 600,
    fallback_after_seconds integer,

    -- What the tuner needs to know about the system. Filled from the .tpr where the user left them empty.
    atoms bigint,
    box_nm double precision[],
    nsteps bigint,
    init_step bigint,
    dt_ps double precision,
    cutoff_nm double precision,
    rlist_nm double precision,
    nstlist integer,
    pme_grid integer[],
    pme_order integer,
    bonded_interactions bigint,
    constraints bigint,
    gpu_nonbonded boolean,
    gpu_pme boolean,
    gpu_bonded boolean,
    gpu_update boolean,
    gromacs_version text,
    inspected jsonb,

    -- What the user may still say later.
    cancel_requested boolean not null default false,
    retry_requested boolean not null default false,

    -- Where it is. Written by the submitter.
    state text not null default 'queued',
    reason text,
    submission integer not null default 1,
    job_uid text,
    rung integer,
    next_rung integer,
    laps integer not null default 0,
    next_lap_time timestamptz,
    no_room_since timestamptz,
    no_room_seconds double precision not null default 0,
    attempt integer not null default 0,
    attempts_recorded integer not null default 0,
    first_step bigint,
    step bigint,
    ns_per_day double precision,
    progress_time timestamptz,
    interruptions integer not null default 0,
    verifying boolean not null default false,
    creation_time timestamptz not null default now(),
    state_time timestamptz not null default now(),
    start_time timestamptz,
    finish_time timestamptz,

    -- Who works on it, and when it is due.
    lease_holder text,
    lease_until timestamptz,
    next_attempt_time timestamptz not null default now(),
    failures integer not null default 0,
    wakes bigint not null default 0,

    constraint gromacs_to_tune_namespace_valid check (namespace ~ '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'),
    constraint gromacs_to_tune_persistent_volume_claim_valid check (
        length(persistent_volume_claim) <= 253
        and persistent_volume_claim ~ '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'),
    -- Relative to the root of the volume, no component '.' or '..', no control characters; 900 bytes leave room for
    -- the mount path and the working directory in the 1024 that a ScavengerJob's workingDir may have.
    constraint gromacs_to_tune_tpr_path_valid check (
        octet_length(tpr_path) <= 900
        and tpr_path !~ '[[:cntrl:]]'
        and tpr_path !~ '^/'
        and tpr_path !~ '//'
        and tpr_path !~ '(^|/)\.\.?(/|$)'
        and tpr_path ~ '[^/]\.tpr$'),
    constraint gromacs_to_tune_image_valid check (
        length(image) between 1 and 1024 and image !~ '[[:space:][:cntrl:]]'),
    constraint gromacs_to_tune_run_as_user_valid check (run_as_user between 1 and 2147483647),
    constraint gromacs_to_tune_run_as_group_valid check (run_as_group between 1 and 2147483647),
    constraint gromacs_to_tune_priority_valid check (priority between -1000000 and 1000000),
    constraint gromacs_to_tune_max_cpu_millicores_valid check (max_cpu_millicores between 500 and 1024000),
    constraint gromacs_to_tune_max_memory_bytes_valid check (max_memory_bytes >= 16777216),
    constraint gromacs_to_tune_max_gpus_valid check (max_gpus between 0 and 16),
    constraint gromacs_to_tune_interruption_after_seconds_valid check (interruption_after_seconds between 1 and 604800),
    constraint gromacs_to_tune_fallback_after_seconds_valid check (fallback_after_seconds between 1 and 31536000),
    constraint gromacs_to_tune_atoms_valid check (atoms between 1 and 1000000000),
    constraint gromacs_to_tune_box_nm_valid check (
        cardinality(box_nm) = 3 and 0 < all (box_nm) and 1e6 > all (box_nm) and array_position(box_nm, null) is null),
    constraint gromacs_to_tune_nsteps_valid check (nsteps >= 0),
    constraint gromacs_to_tune_init_step_valid check (init_step >= 0),
    constraint gromacs_to_tune_dt_ps_valid check (dt_ps > 0 and dt_ps <= 1),
    constraint gromacs_to_tune_cutoff_nm_valid check (cutoff_nm > 0 and cutoff_nm <= 5),
    constraint gromacs_to_tune_rlist_nm_valid check (rlist_nm > 0 and rlist_nm <= 10),
    constraint gromacs_to_tune_nstlist_valid check (nstlist between 1 and 1000),
    constraint gromacs_to_tune_pme_grid_valid check (
        cardinality(pme_grid) = 3 and 4 <= all (pme_grid) and 4096 >= all (pme_grid)
        and array_position(pme_grid, null) is null),
    constraint gromacs_to_tune_pme_order_valid check (pme_order between 3 and 12),
    constraint gromacs_to_tune_bonded_interactions_valid check (bonded_interactions >= 0),
    constraint gromacs_to_tune_constraints_valid check (constraints >= 0),
    constraint gromacs_to_tune_gromacs_version_valid check (length(gromacs_version) <= 100),
    constraint gromacs_to_tune_state_valid check (state in (
        'queued', 'inspecting', 'tuning', 'submitted', 'running', 'interrupted', 'completed', 'failed', 'cancelled')),
    constraint gromacs_to_tune_submission_valid check (submission >= 1)
);

comment on table gromacs_to_tune is 'Simulations to compute: one row per .tpr file. INSERT namespace, persistent_volume_claim and tpr_path; everything else has a default.';
comment on column gromacs_to_tune.id is 'Number of the row; part of the names gromacs-<id>-<submission>.';
comment on column gromacs_to_tune.owner is 'Database role that inserted the row.';
comment on column gromacs_to_tune.namespace is 'Kubernetes namespace it runs in.';
comment on column gromacs_to_tune.persistent_volume_claim is 'PersistentVolumeClaim of that namespace with the .tpr file; results are written there, into the folder gromacs-<id> beside the file.';
comment on column gromacs_to_tune.tpr_path is 'Path of the .tpr file, relative to the root of the volume.';
comment on column gromacs_to_tune.image is 'Container image with GROMACS; the submitter''s --gromacs-image if null.';
comment on column gromacs_to_tune.run_as_user is 'User id the simulation runs as; it must be able to write beside the .tpr file.';
comment on column gromacs_to_tune.run_as_group is 'Group id the simulation runs as; run_as_user if null.';
comment on column gromacs_to_tune.priority is 'Rows of one owner start in descending priority, then in the order of id.';
comment on column gromacs_to_tune.max_cpu_millicores is 'Most CPU it may ask for, in thousandths of a core; the nodes decide if null.';
comment on column gromacs_to_tune.max_memory_bytes is 'Most memory it may ask for, in bytes; the nodes decide if null.';
comment on column gromacs_to_tune.max_gpus is 'Most GPUs it may ask for; the nodes decide if null.';
comment on column gromacs_to_tune.interruption_after_seconds is 'Seconds of run time between checkpoints: what an interruption can cost at most.';
comment on column gromacs_to_tune.fallback_after_seconds is 'Seconds it waits for room before the next smaller configuration is tried; the submitter''s --fallback-after if null.';
comment on column gromacs_to_tune.atoms is 'Number of atoms.';
comment on column gromacs_to_tune.box_nm is 'Diagonal of the box matrix, three lengths in nm.';
comment on column gromacs_to_tune.nsteps is 'Steps to do.';
comment on column gromacs_to_tune.init_step is 'Number of the first step (0 unless the .tpr continues another run); the last one is init_step + nsteps.';
comment on column gromacs_to_tune.dt_ps is 'Time step in ps.';
comment on column gromacs_to_tune.cutoff_nm is 'The larger of rcoulomb and rvdw, in nm.';
comment on column gromacs_to_tune.rlist_nm is 'Radius of the pair list in nm; null if mdrun chooses it.';
comment on column gromacs_to_tune.nstlist is 'Steps between pair searches; null if mdrun chooses it.';
comment on column gromacs_to_tune.pme_grid is 'Points of the PME grid along x, y and z; null without PME.';
comment on column gromacs_to_tune.pme_order is 'PME interpolation order; null without PME.';
comment on column gromacs_to_tune.bonded_interactions is 'Bonded interactions per step.';
comment on column gromacs_to_tune.constraints is 'Constraints, three per rigid water molecule included.';
comment on column gromacs_to_tune.gpu_nonbonded is 'True if short-range interactions may be computed on a GPU.';
comment on column gromacs_to_tune.gpu_pme is 'True if PME may be computed on a GPU.';
comment on column gromacs_to_tune.gpu_bonded is 'True if bonded interactions may be computed on a GPU.';
comment on column gromacs_to_tune.gpu_update is 'True if update and constraints may be computed on a GPU.';
comment on column gromacs_to_tune.gromacs_version is 'Version of GROMACS in the image.';
comment on column gromacs_to_tune.inspected is 'What the inspection of the .tpr file found, in the units of the columns above; null until then.';
comment on column gromacs_to_tune.cancel_requested is 'Set it to stop the simulation for good.';
comment on column gromacs_to_tune.retry_requested is 'Set it on a failed or cancelled row to go on from its last checkpoint.';
comment on column gromacs_to_tune.state is 'queued, inspecting, tuning, submitted, running, interrupted, completed, failed or cancelled.';
comment on column gromacs_to_tune.reason is 'Why it is where it is, one sentence.';
comment on column gromacs_to_tune.submission is 'Number of its ScavengerJob gromacs-<id>-<submission>, counted from 1; a retry makes the next one.';
comment on column gromacs_to_tune.job_uid is 'UID of the ScavengerJob once it was seen.';
comment on column gromacs_to_tune.rung is 'Configuration in use: rung of gromacs_ladder, counted from 1.';
comment on column gromacs_to_tune.next_rung is 'Configuration that is about to replace it; null otherwise.';
comment on column gromacs_to_tune.laps is 'How often the whole ladder was tried without finding room.';
comment on column gromacs_to_tune.next_lap_time is 'When the ladder is tried again from its largest configuration.';
comment on column gromacs_to_tune.no_room_since is 'Since when it waits for room with this configuration; null while it waits for anything else.';
comment on column gromacs_to_tune.no_room_seconds is 'Seconds it waited for room with this configuration before no_room_since.';
comment on column gromacs_to_tune.attempt is 'Number of the ScavengerJob''s attempt that first_step, step and ns_per_day belong to.';
comment on column gromacs_to_tune.attempts_recorded is 'Highest number of an attempt of this submission whose end is recorded.';
comment on column gromacs_to_tune.first_step is 'Step at which that attempt started.';
comment on column gromacs_to_tune.step is 'Last step seen.';
comment on column gromacs_to_tune.ns_per_day is 'Speed in ns of simulated time per day: estimated while it runs, measured by mdrun once it is completed.';
comment on column gromacs_to_tune.progress_time is 'When step and ns_per_day were seen.';
comment on column gromacs_to_tune.interruptions is 'How often it was interrupted, over all submissions.';
comment on column gromacs_to_tune.verifying is 'True while the checkpoint is read to see whether the last step was reached.';
comment on column gromacs_to_tune.creation_time is 'When the row was inserted.';
comment on column gromacs_to_tune.state_time is 'When state changed last.';
comment on column gromacs_to_tune.start_time is 'When mdrun first ran.';
comment on column gromacs_to_tune.finish_time is 'When it was completed, failed or cancelled.';
comment on column gromacs_to_tune.lease_holder is 'Submitter that works on the row.';
comment on column gromacs_to_tune.lease_until is 'Until when it may; later another one takes over.';
comment on column gromacs_to_tune.next_attempt_time is 'When the submitter looks at the row next.';
comment on column gromacs_to_tune.failures is 'Steps in a row that could not be done; the delay before the next one grows with it.';
comment on column gromacs_to_tune.wakes is 'Counts reasons to look at the row at once; one that arrives while a submitter works on it is not lost.';

-- Claims go over the rows that are in work and over the head of each owner's queue, never over the backlog.
create index gromacs_to_tune_active on gromacs_to_tune (next_attempt_time)
    where state in ('inspecting', 'tuning', 'submitted', 'running', 'interrupted');
create index gromacs_to_tune_waiting on gromacs_to_tune (owner)
    where state in ('inspecting', 'tuning', 'submitted', 'interrupted')
        or (state = 'queued' and lease_until is not null);
create index gromacs_to_tune_queued on gromacs_to_tune (owner, priority desc, id) where state = 'queued';
create index gromacs_to_tune_again on gromacs_to_tune (next_attempt_time) where state = 'queued' and submission > 1;
create index gromacs_to_tune_retries on gromacs_to_tune (id)
    where retry_requested and state in ('failed', 'cancelled');
create index gromacs_to_tune_cancels on gromacs_to_tune (id) where cancel_requested and state = 'queued';

create table gromacs_ladder (
    row_id bigint not null references gromacs_to_tune (id) on delete cascade,
    submission integer not null,
    rung integer not null,
    cpu_millicores integer not null,
    memory_bytes bigint not null,
    gpus integer not null,
    layout jsonb not null,
    ns_per_day_p10 double precision not null,
    ns_per_day_p50 double precision not null,
    ns_per_day_p90 double precision not null,
    hours_to_finish double precision,
    efficiency double precision not null,
    predicted_memory_bytes bigint not null,
    hardware_class text not null,
    fits_now boolean not null,
    reason text not null,
    model_version text not null,
    creation_time timestamptz not null default now(),
    primary key (row_id, submission, rung),
    constraint gromacs_ladder_rung_valid check (rung >= 1),
    constraint gromacs_ladder_resources_valid check (cpu_millicores > 0 and memory_bytes > 0 and gpus >= 0)
);
comment on table gromacs_ladder is 'Configurations that the tuner proposed for a row, largest first.';
comment on column gromacs_ladder.row_id is 'The row of gromacs_to_tune.';
comment on column gromacs_ladder.submission is 'The submission it was proposed for.';
comment on column gromacs_ladder.rung is 'Place in the ladder, counted from 1, largest first.';
comment on column gromacs_ladder.cpu_millicores is 'CPU it asks for, in thousandths of a core.';
comment on column gromacs_ladder.memory_bytes is 'Memory it asks for, in bytes.';
comment on column gromacs_ladder.gpus is 'GPUs it asks for.';
comment on column gromacs_ladder.layout is 'How mdrun divides them (ntmpi, ntomp, npme, ...).';
comment on column gromacs_ladder.ns_per_day_p10 is 'Predicted speed in ns per day: one time in ten it is lower.';
comment on column gromacs_ladder.ns_per_day_p50 is 'Predicted speed in ns per day: median.';
comment on column gromacs_ladder.ns_per_day_p90 is 'Predicted speed in ns per day: one time in ten it is higher.';
comment on column gromacs_ladder.hours_to_finish is 'Hours for all steps at the median speed.';
comment on column gromacs_ladder.efficiency is 'Speed per unit of price relative to the best configuration, 0 to 1.';
comment on column gromacs_ladder.predicted_memory_bytes is 'Predicted peak memory in bytes, without margin.';
comment on column gromacs_ladder.hardware_class is 'Hardware class the prediction was made for.';
comment on column gromacs_ladder.fits_now is 'True if some node had the room when the tuner was asked.';
comment on column gromacs_ladder.reason is 'Why it is on the ladder.';
comment on column gromacs_ladder.model_version is 'Version of the tuner''s model.';
comment on column gromacs_ladder.creation_time is 'When the tuner was asked.';

create table gromacs_attempt (
    row_id bigint not null references gromacs_to_tune (id) on delete cascade,
    submission integer not null,
    attempt integer not null,
    rung integer,
    cpu_millicores integer,
    memory_bytes bigint,
    gpus integer,
    mdrun_args text[] not null default '{}',
    creation_time timestamptz not null,
    start_time timestamptz,
    end_time timestamptz,
    outcome text,
    reason text,
    message text,
    first_step bigint,
    last_step bigint,
    ns_per_day double precision,
    primary key (row_id, submission, attempt),
    constraint gromacs_attempt_outcome_valid check (outcome in ('completed', 'failed', 'interrupted', 'withdrawn')),
    constraint gromacs_attempt_ns_per_day_valid check (ns_per_day > 0 and ns_per_day < 'Infinity')
);
comment on table gromacs_attempt is 'What ran: the attempts of each ScavengerJob, from its status.attempts.';
comment on column gromacs_attempt.row_id is 'The row of gromacs_to_tune.';
comment on column gromacs_attempt.submission is 'The submission it belongs to.';
comment on column gromacs_attempt.attempt is 'Number of the attempt in the ScavengerJob, counted from 1.';
comment on column gromacs_attempt.rung is 'Configuration it ran with: rung of gromacs_ladder; null if it is none of them.';
comment on column gromacs_attempt.cpu_millicores is 'CPU it had, in thousandths of a core.';
comment on column gromacs_attempt.memory_bytes is 'Memory it had, in bytes.';
comment on column gromacs_attempt.gpus is 'GPUs it had.';
comment on column gromacs_attempt.mdrun_args is 'Arguments it ran with.';
comment on column gromacs_attempt.creation_time is 'When the operator decided to start it.';
comment on column gromacs_attempt.start_time is 'When its pod ran; null if it never did.';
comment on column gromacs_attempt.end_time is 'When it ended.';
comment on column gromacs_attempt.outcome is 'completed, failed, interrupted (taken away while it ran) or withdrawn (before it ran).';
comment on column gromacs_attempt.reason is 'Reason of the outcome, one word.';
comment on column gromacs_attempt.message is 'The reason as a sentence.';
comment on column gromacs_attempt.first_step is 'Step at which it started.';
comment on column gromacs_attempt.last_step is 'Last step it is known to have computed: seen in its log, or in the checkpoint that the next attempt started from.';
comment on column gromacs_attempt.ns_per_day is 'Speed that mdrun measured, in ns per day; null if its log was gone.';

create table gromacs_observation (
    id bigint generated always as identity primary key,
    row_id bigint,
    submission integer,
    attempt integer,
    owner text not null,
    source text not null,
    atoms bigint not null,
    system jsonb not null,
    cpu_millicores integer not null,
    gpus integer not null,
    layout jsonb not null,
    hardware_class text not null,
    node_labels jsonb not null,
    gromacs_version text,
    ns_per_day double precision not null,
    steps bigint not null,
    wall_seconds double precision not null,
    peak_memory_bytes bigint,
    observation_time timestamptz not null default now(),
    -- However often a step is repeated, an attempt is counted once.
    constraint gromacs_observation_once unique (row_id, submission, attempt),
    constraint gromacs_observation_source_valid check (source in ('simulation', 'benchmark', 'import')),
    constraint gromacs_observation_atoms_valid check (atoms > 0),
    constraint gromacs_observation_ns_per_day_valid check (ns_per_day > 0 and ns_per_day < 'Infinity'),
    constraint gromacs_observation_steps_valid check (steps > 0),
    constraint gromacs_observation_wall_seconds_valid check (wall_seconds > 0)
);
create index gromacs_observation_recent on gromacs_observation (observation_time);
comment on table gromacs_observation is 'Measured runs, from which the tuner learns. Rows are only added; they outlive the simulation they came from.';
comment on column gromacs_observation.id is 'Number of the observation.';
comment on column gromacs_observation.row_id is 'The row of gromacs_to_tune it came from; null if imported.';
comment on column gromacs_observation.submission is 'The submission it came from.';
comment on column gromacs_observation.attempt is 'The attempt it came from.';
comment on column gromacs_observation.owner is 'Owner of the simulation.';
comment on column gromacs_observation.source is 'simulation, benchmark or import.';
comment on column gromacs_observation.atoms is 'Number of atoms.';
comment on column gromacs_observation.system is 'The system as the tuner''s requests describe it (camel case, units in the names).';
comment on column gromacs_observation.cpu_millicores is 'CPU the pod had, in thousandths of a core.';
comment on column gromacs_observation.gpus is 'GPUs the pod had.';
comment on column gromacs_observation.layout is 'How mdrun divided them, as in the tuner''s replies.';
comment on column gromacs_observation.hardware_class is 'Hardware class the configuration was predicted for.';
comment on column gromacs_observation.node_labels is 'Labels of the nodes it can have run on; empty if these were of several kinds.';
comment on column gromacs_observation.gromacs_version is 'Version of GROMACS.';
comment on column gromacs_observation.ns_per_day is 'Measured speed in ns of simulated time per day.';
comment on column gromacs_observation.steps is 'Steps it was measured over.';
comment on column gromacs_observation.wall_seconds is 'Wall time it was measured over, in seconds.';
comment on column gromacs_observation.peak_memory_bytes is 'Peak memory of the container in bytes; null if not measured.';
comment on column gromacs_observation.observation_time is 'When it was recorded.';

create table gromacs_event (
    id bigint generated always as identity primary key,
    row_id bigint not null references gromacs_to_tune (id) on delete cascade,
    event_time timestamptz not null default clock_timestamp(),
    state text not null,
    submission integer not null,
    rung integer,
    message text
);
create index gromacs_event_of_row on gromacs_event (row_id, id);
comment on table gromacs_event is 'History: one line for each change of state, configuration or request of a row, written in the transaction that changes it. Lines are only added.';
comment on column gromacs_event.id is 'Number of the event.';
comment on column gromacs_event.row_id is 'The row of gromacs_to_tune.';
comment on column gromacs_event.event_time is 'When it happened.';
comment on column gromacs_event.state is 'State of the row from then on.';
comment on column gromacs_event.submission is 'Submission of the row from then on.';
comment on column gromacs_event.rung is 'Configuration of the row from then on.';
comment on column gromacs_event.message is 'Why, one sentence.';

-- A request of the user makes the row due at once, whatever delay it sits out.
create function gromacs_before_update() returns trigger language plpgsql as $$
begin
    if (new.cancel_requested and not old.cancel_requested) or (new.retry_requested and not old.retry_requested) then
        new.next_attempt_time := now();
        new.wakes := old.wakes + 1;
        perform pg_notify('gromacs_to_tune', '');
    end if;
    if new.state is distinct from old.state then
        new.state_time := now();
    end if;
    return new;
end
$$;
create trigger gromacs_before_update before update on gromacs_to_tune
    for each row execute function gromacs_before_update();

create function gromacs_record_event() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        insert into gromacs_event (row_id, state, submission, rung, message)
            values (new.id, new.state, new.submission, new.rung, new.reason);
        return null;
    end if;
    if (new.state, new.submission, new.rung) is distinct from (old.state, old.submission, old.rung) then
        insert into gromacs_event (row_id, state, submission, rung, message)
            values (new.id, new.state, new.submission, new.rung, new.reason);
    end if;
    if new.cancel_requested and not old.cancel_requested then
        insert into gromacs_event (row_id, state, submission, rung, message)
            values (new.id, new.state, new.submission, new.rung, 'cancel requested by ' || session_user);
    end if;
    if new.retry_requested and not old.retry_requested then
        insert into gromacs_event (row_id, state, submission, rung, message)
            values (new.id, new.state, new.submission, new.rung, 'retry requested by ' || session_user);
    end if;
    return null;
end
$$;
create trigger gromacs_record_event after insert or update on gromacs_to_tune
    for each row execute function gromacs_record_event();

-- Wakes the submitters; once per statement, since a thousand rows in one INSERT are one reason to look.
create function gromacs_notify_insert() returns trigger language plpgsql as $$
begin
    perform pg_notify('gromacs_to_tune', '');
    return null;
end
$$;
create trigger gromacs_notify_insert after insert on gromacs_to_tune
    for each statement execute function gromacs_notify_insert();

create view gromacs_queue with (security_invoker = true) as
select
    q.id,
    q.owner,
    q.namespace,
    q.tpr_path,
    q.state,
    coalesce(q.reason, case when q.state = 'queued' then 'waits for its turn' end) as reason,
    case when l.rung is not null then
        trim_scale(l.cpu_millicores / 1000.0) || case when l.cpu_millicores = 1000 then ' core, ' else ' cores, ' end
        || case when l.gpus = 1 then '1 GPU, ' when l.gpus > 1 then l.gpus || ' GPUs, ' else '' end
        || ceil(l.memory_bytes / 1048576.0) || ' MiB, '
        || (l.layout ->> 'ntmpi') || 'x' || (l.layout ->> 'ntomp')
    end as configuration,
    l.rung,
    r.rungs,
    q.step,
    coalesce(q.init_step, 0) + q.nsteps as last_step,
    case when q.nsteps > 0 and q.step is not null then
        round((100.0 * greatest(0, least(q.step - coalesce(q.init_step, 0), q.nsteps)) / q.nsteps)::numeric, 1)
    end as percent,
    q.ns_per_day,
    case when q.state = 'running' and q.ns_per_day > 0 and q.step is not null then
        q.progress_time + make_interval(secs =>
            -- At most 30 years: a longer interval than Postgres knows would fail the whole view.
            least(1e9, greatest(0, coalesce(q.init_step, 0) + q.nsteps - q.step) * q.dt_ps / 1000 / q.ns_per_day * 86400))
    end as expected_finish_time,
    q.interruptions,
    a.attempts,
    q.creation_time,
    q.start_time,
    q.finish_time,
    extract(epoch from coalesce(q.finish_time, now()) - q.start_time)::bigint as wall_seconds,
    a.run_seconds,
    'gromacs-' || q.id || '-' || q.submission as scavenger_job
from gromacs_to_tune q
left join lateral (
    select count(*) filter (where start_time is not null) as attempts,
        sum(extract(epoch from coalesce(t.end_time, now()) - t.start_time))::bigint as run_seconds,
        (array_agg(t.rung order by t.submission desc, t.attempt desc) filter (where t.start_time is not null and t.submission = q.submission))[1] as last_rung
    from gromacs_attempt t where t.row_id = q.id
) a on true
-- What really ran last; what is asked for until something did.
left join gromacs_ladder l on l.row_id = q.id and l.submission = q.submission
    and l.rung = case when q.state in ('running', 'completed', 'failed') then coalesce(a.last_rung, q.rung) else q.rung end
left join lateral (
    select count(*) as rungs from gromacs_ladder c where c.row_id = q.id and c.submission = q.submission
) r on true;

comment on view gromacs_queue is 'The queue for people and dashboards: state, why it waits, configuration, progress, interruptions.';
comment on column gromacs_queue.configuration is 'What it runs with, or asks for: cores, GPUs, memory, ranks x threads.';
comment on column gromacs_queue.rung is 'Place of that configuration on the ladder, counted from 1, largest first.';
comment on column gromacs_queue.rungs is 'Number of configurations on the ladder.';
comment on column gromacs_queue.last_step is 'Step at which the simulation is complete.';
comment on column gromacs_queue.percent is 'Share of the steps done, in percent.';
comment on column gromacs_queue.expected_finish_time is 'When it will be complete at its present speed, if nothing interrupts it.';
comment on column gromacs_queue.attempts is 'How often mdrun was started.';
comment on column gromacs_queue.wall_seconds is 'Seconds from the first start to the end, interruptions included.';
comment on column gromacs_queue.run_seconds is 'Seconds it really ran.';
comment on column gromacs_queue.scavenger_job is 'Name of its ScavengerJob.';
