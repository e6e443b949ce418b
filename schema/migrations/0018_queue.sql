-- The queue of GROMACS simulations. People write gromacs_to_tune, the submitter writes the rest; the view
-- gromacs_queue is for reading. An INSERT needs namespace, persistent_volume_claim and tpr_path only.
--
-- Names of CHECK constraints are a contract: gromacs-submitter turns each into a sentence.
-- Once a version with it is released, a migration is never edited; changes come as the next number. What 1 to 17 made was
-- never released: `migrate` refuses a database that has one of them.
--
-- Who may what. Rows belong to the database role that inserted them, and may name only the namespaces that an admin
-- gave to that role in gromacs_tenant.
--
-- The admin is the role that owns the tables (the one that migrates); row level security does not bind it, and nobody
-- else connects as it. Everybody else has the rights of a group role:
--   gromacs_chemist    inserts rows, reads what became of its own, asks to cancel and to retry, deletes what has ended
--   gromacs_submitter  works on the rows of everybody
--   gromacs_tuner      reads what was measured
--   gromacs_reader     reads everything, for dashboards

-- Roles belong to the server, not to the database: another database may have made them, or make them right now.
do $$
declare
    missing text;
begin
    foreach missing in array array['gromacs_chemist', 'gromacs_submitter', 'gromacs_tuner', 'gromacs_reader'] loop
        if not exists (select from pg_roles where rolname = missing) then
            begin
                execute format('create role %I', missing);
            exception
                when duplicate_object or unique_violation then null;
                when insufficient_privilege then
                    raise exception using errcode = 'insufficient_privilege', message = format(
                        'role %s may not create the role %s; let a superuser create gromacs_chemist, '
                        'gromacs_submitter, gromacs_tuner and gromacs_reader, then migrate again',
                        current_user, missing);
            end;
        end if;
    end loop;
end
$$;

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

create table gromacs_tenant (
    database_role text not null,
    namespace text not null,
    service_account text,
    image text,
    image_patterns text[] not null default '{}',
    run_as_user bigint,
    run_as_group bigint,
    max_cpu_millicores integer,
    max_memory_bytes bigint,
    max_gpus integer,
    min_interruption_after_seconds integer,
    max_interruption_after_seconds integer,
    max_rows_in_work integer,
    creation_time timestamptz not null default now(),
    -- The least that the rows of a tenant run with, unless they say otherwise: a group whose systems are all large need not
    -- say in each row that half a core is no use.
    min_cpu_millicores integer,
    min_ns_per_day double precision,
    primary key (database_role, namespace),
    -- Names of roles are cut at 63 bytes: a longer one would never be anybody's.
    constraint gromacs_tenant_database_role_valid check (octet_length(database_role) between 1 and 63),
    constraint gromacs_tenant_namespace_valid check (namespace ~ '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'),
    constraint gromacs_tenant_service_account_valid check (
        length(service_account) <= 253
        and service_account ~ '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'),
    constraint gromacs_tenant_image_valid check (length(image) between 1 and 1024 and image !~ '[[:space:][:cntrl:]]'),
    constraint gromacs_tenant_image_patterns_valid check (
        coalesce(array_ndims(image_patterns), 1) = 1 and array_position(image_patterns, null) is null
        and array_position(image_patterns, '') is null),
    constraint gromacs_tenant_run_as_user_valid check (run_as_user between 1 and 2147483647),
    constraint gromacs_tenant_run_as_group_valid check (run_as_group between 1 and 2147483647),
    constraint gromacs_tenant_max_cpu_millicores_valid check (max_cpu_millicores between 500 and 1024000),
    constraint gromacs_tenant_max_memory_bytes_valid check (max_memory_bytes >= 16777216),
    constraint gromacs_tenant_max_gpus_valid check (max_gpus between 0 and 16),
    constraint gromacs_tenant_interruption_after_seconds_valid check (
        min_interruption_after_seconds between 1 and 604800
        and max_interruption_after_seconds between 1 and 604800
        and min_interruption_after_seconds <= max_interruption_after_seconds),
    constraint gromacs_tenant_max_rows_in_work_valid check (max_rows_in_work between 0 and 1000000),
    constraint gromacs_tenant_min_cpu_millicores_valid check (min_cpu_millicores between 0 and 1024000),
    constraint gromacs_tenant_min_ns_per_day_valid check (min_ns_per_day >= 0 and min_ns_per_day <= 1000000)
);
comment on table gromacs_tenant is 'Which database role may run simulations in which namespace, with what defaults and limits. Written by the admin; all but max_rows_in_work is read when a row is inserted.';
comment on column gromacs_tenant.database_role is 'Database role that people log in with; a member of gromacs_chemist.';
comment on column gromacs_tenant.namespace is 'Kubernetes namespace in which its rows may run; deploy/tenant gives the submitter its rights there.';
comment on column gromacs_tenant.service_account is 'ServiceAccount that its simulations run as; the namespace''s default one if null.';
comment on column gromacs_tenant.image is 'Container image of rows that name none; the submitter''s --gromacs-image if null.';
comment on column gromacs_tenant.image_patterns is 'Images that its rows may name: * stands for any characters, everything else for itself; any image if empty.';
comment on column gromacs_tenant.run_as_user is 'User id that its rows run as, and no other; rows choose if null (1000 unless they do).';
comment on column gromacs_tenant.run_as_group is 'Group id that its rows run as, and no other; rows choose if null (run_as_user unless they do).';
comment on column gromacs_tenant.max_cpu_millicores is 'Most CPU that one of its rows may ask for, in thousandths of a core; no limit if null.';
comment on column gromacs_tenant.max_memory_bytes is 'Most memory that one of its rows may ask for, in bytes; no limit if null.';
comment on column gromacs_tenant.max_gpus is 'Most GPUs that one of its rows may ask for; no limit if null.';
comment on column gromacs_tenant.min_interruption_after_seconds is 'Least interruption_after_seconds of its rows; no limit if null.';
comment on column gromacs_tenant.max_interruption_after_seconds is 'Most interruption_after_seconds of its rows; no limit if null.';
comment on column gromacs_tenant.max_rows_in_work is 'Most of its rows that are neither queued nor ended at the same time; no limit if null, 0 lets none begin.';
comment on column gromacs_tenant.creation_time is 'When it was added.';
comment on column gromacs_tenant.min_cpu_millicores is 'Least CPU that its rows run with unless they say otherwise, in thousandths of a core; none if null.';
comment on column gromacs_tenant.min_ns_per_day is 'Least predicted speed that its rows run with unless they say otherwise, in ns of simulated time per day; none if null.';

create table gromacs_to_tune (
    id bigint generated always as identity primary key,
    -- A database that is restored from a backup gives the number of a row that it does not know to another one, which must not
    -- take what that row has left in the cluster and on the volume for its own.
    uuid uuid not null default gen_random_uuid(),
    owner text not null default session_user,

    -- What people give, or ask for later.
    -- Generated from schema/src/row: columns
    namespace text not null,
    persistent_volume_claim text not null,
    tpr_path text not null,
    multidir text[] not null default '{}',
    image text,
    run_as_user bigint not null,
    run_as_group bigint,
    append boolean,
    checkpoint_path text,
    mdrun_options text[] not null default '{}',
    grompp_options text[] not null default '{}',
    project text,
    labels jsonb not null default '{}',
    node_labels jsonb not null default '{}',
    held boolean not null default false,
    after bigint[] not null default '{}',
    deadline timestamptz,
    priority integer not null default 0,
    max_cpu_millicores integer,
    max_memory_bytes bigint,
    max_gpus integer,
    min_cpu_millicores integer,
    min_ns_per_day double precision,
    interruption_after_seconds integer not null,
    fallback_after_seconds integer,
    min_efficiency double precision,
    max_configurations integer,
    gpu_price double precision,
    memory_price double precision,
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
    kind text not null default 'simulation',
    benchmark_atoms integer,
    benchmark_ranks integer,
    benchmark_threads integer,
    benchmark_pme_ranks integer,
    benchmark_gpus integer,
    benchmark_node_labels jsonb,
    extended_nsteps bigint,
    cancel_requested boolean not null default false,
    retry_requested boolean not null default false,
    -- End of what is generated.

    -- What the tenant says, and what the inspection found.
    service_account text,
    inspected jsonb,
    pinned_image text,

    -- Where it is. Written by the submitter.
    state text not null default 'queued',
    reason text,
    submission integer not null default 1,
    job_uid text,
    configuration integer,
    next_configuration integer,
    attempt integer not null default 0,
    first_step bigint,
    step bigint,
    ns_per_day double precision,
    progress_time timestamptz,
    interruptions integer not null default 0,
    creation_time timestamptz not null default now(),
    state_time timestamptz not null default now(),
    start_time timestamptz,
    finish_time timestamptz,
    peak_memory_bytes bigint,
    job_expiry_time timestamptz,
    -- What the submitter remembers for itself alone. No function and no constraint looks into it.
    submitter_state jsonb not null default '{}',
    inspect_again boolean not null default false,
    waits_for_rows boolean not null default false,

    -- Who works on it, and when it is due.
    lease_holder text,
    lease_until timestamptz,
    next_attempt_time timestamptz not null default now(),
    failures integer not null default 0,
    wakes bigint not null default 0,
    follower text,
    followed_until timestamptz,

    blocked boolean not null default false,
    late_seconds bigint,

    -- Generated from schema/src/row: checks
    constraint gromacs_to_tune_namespace_valid check (namespace ~ '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'),
    constraint gromacs_to_tune_persistent_volume_claim_valid check (length(persistent_volume_claim) <= 253
            and persistent_volume_claim ~ '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'),
    constraint gromacs_to_tune_tpr_path_valid check (octet_length(tpr_path) <= 900 and tpr_path !~ '[[:cntrl:]]' and tpr_path !~ '^/' and tpr_path !~ '//' and tpr_path !~ '(^|/)\.\.?(/|$)' and tpr_path ~ '[^/]\.tpr$'),
    constraint gromacs_to_tune_multidir_valid check (cardinality(multidir) <> 1 and cardinality(multidir) <= 32 and coalesce(array_ndims(multidir), 1) = 1
            and array_position(multidir, null) is null),
    constraint gromacs_to_tune_image_valid check (length(image) between 1 and 1024 and image !~ '[[:space:][:cntrl:]]'),
    constraint gromacs_to_tune_run_as_user_valid check (run_as_user between 1 and 2147483647),
    constraint gromacs_to_tune_run_as_group_valid check (run_as_group between 1 and 2147483647),
    constraint gromacs_to_tune_checkpoint_path_valid check (octet_length(checkpoint_path) <= 900 and checkpoint_path !~ '[[:cntrl:]]' and checkpoint_path !~ '^/' and checkpoint_path !~ '//' and checkpoint_path !~ '(^|/)\.\.?(/|$)' and checkpoint_path ~ '[^/]\.cpt$'),
    constraint gromacs_to_tune_mdrun_options_valid check (cardinality(mdrun_options) <= 100 and coalesce(array_ndims(mdrun_options), 1) = 1 and array_position(mdrun_options, null) is null and octet_length(mdrun_options::text) <= 8192),
    constraint gromacs_to_tune_grompp_options_valid check (cardinality(grompp_options) <= 100 and coalesce(array_ndims(grompp_options), 1) = 1 and array_position(grompp_options, null) is null and octet_length(grompp_options::text) <= 8192),
    constraint gromacs_to_tune_project_valid check (length(project) between 1 and 100 and project !~ '[[:cntrl:]]'),
    constraint gromacs_to_tune_labels_valid check (jsonb_typeof(labels) = 'object' and length(labels::text) <= 4096
            and not jsonb_path_exists(labels, '$.* ? (@.type() != "string")')
            and not jsonb_path_exists(labels, '$.keyvalue().key ? (!(@ like_regex "^[^[:cntrl:]=,]{1,63}$"))')),
    constraint gromacs_to_tune_node_labels_valid check (case when jsonb_typeof(node_labels) = 'object' then
                jsonb_array_length(jsonb_path_query_array(node_labels, '$.keyvalue()')) <= 32
                and not jsonb_path_exists(node_labels, '$.* ? (@.type() != "string")')
                and not jsonb_path_exists(node_labels, '$.keyvalue().value
                    ? (!(@ like_regex "^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"))')
                and not jsonb_path_exists(node_labels, '$.keyvalue().key
                    ? (!(@ like_regex "^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"))')
            else false end),
    constraint gromacs_to_tune_after_valid check (cardinality(after) <= 100 and coalesce(array_ndims(after), 1) = 1 and array_position(after, null) is null),
    constraint gromacs_to_tune_deadline_valid check (deadline between '2000-01-01 00:00:00+00' and '9000-01-01 00:00:00+00'),
    constraint gromacs_to_tune_priority_valid check (priority between -1000000 and 1000000),
    constraint gromacs_to_tune_max_cpu_millicores_valid check (max_cpu_millicores between 500 and 1024000),
    constraint gromacs_to_tune_max_memory_bytes_valid check (max_memory_bytes >= 16777216),
    constraint gromacs_to_tune_max_gpus_valid check (max_gpus between 0 and 16),
    constraint gromacs_to_tune_min_cpu_millicores_valid check (min_cpu_millicores between 0 and 1024000 and min_cpu_millicores <= max_cpu_millicores),
    constraint gromacs_to_tune_min_ns_per_day_valid check (min_ns_per_day between 0 and 1000000),
    constraint gromacs_to_tune_interruption_after_seconds_valid check (interruption_after_seconds between 1 and 604800),
    constraint gromacs_to_tune_fallback_after_seconds_valid check (fallback_after_seconds between 1 and 31536000),
    constraint gromacs_to_tune_min_efficiency_valid check (min_efficiency between 0.01 and 1),
    constraint gromacs_to_tune_max_configurations_valid check (max_configurations between 1 and 32),
    constraint gromacs_to_tune_gpu_price_valid check (gpu_price between 0 and 1000000),
    constraint gromacs_to_tune_memory_price_valid check (memory_price between 0 and 1000000),
    constraint gromacs_to_tune_atoms_valid check (atoms between 1 and 1000000000),
    constraint gromacs_to_tune_box_nm_valid check (cardinality(box_nm) = 3 and 0 < all (box_nm) and 1e6 > all (box_nm) and array_position(box_nm, null) is null),
    constraint gromacs_to_tune_nsteps_valid check (nsteps >= 0),
    constraint gromacs_to_tune_init_step_valid check (init_step >= 0),
    constraint gromacs_to_tune_dt_ps_valid check (dt_ps > 0 and dt_ps <= 1),
    constraint gromacs_to_tune_cutoff_nm_valid check (cutoff_nm > 0 and cutoff_nm <= 5),
    constraint gromacs_to_tune_rlist_nm_valid check (rlist_nm > 0 and rlist_nm <= 10),
    constraint gromacs_to_tune_nstlist_valid check (nstlist between 1 and 1000),
    constraint gromacs_to_tune_pme_grid_valid check (cardinality(pme_grid) = 3 and 4 <= all (pme_grid) and 4096 >= all (pme_grid)
            and array_position(pme_grid, null) is null),
    constraint gromacs_to_tune_pme_order_valid check (pme_order between 3 and 12),
    constraint gromacs_to_tune_bonded_interactions_valid check (bonded_interactions >= 0),
    constraint gromacs_to_tune_constraints_valid check (constraints >= 0),
    constraint gromacs_to_tune_gromacs_version_valid check (length(gromacs_version) <= 100),
    constraint gromacs_to_tune_kind_valid check (kind in ('simulation', 'calibration')),
    constraint gromacs_to_tune_benchmark_atoms_valid check (benchmark_atoms between 5184 and 10000000),
    constraint gromacs_to_tune_benchmark_ranks_valid check (benchmark_ranks between 1 and 1024),
    constraint gromacs_to_tune_benchmark_threads_valid check (benchmark_threads between 1 and 128 and benchmark_ranks::bigint * benchmark_threads <= 1024),
    constraint gromacs_to_tune_benchmark_pme_ranks_valid check (benchmark_pme_ranks >= 0 and benchmark_pme_ranks <= benchmark_ranks / 2),
    constraint gromacs_to_tune_benchmark_gpus_valid check (benchmark_gpus in (0, 1)),
    constraint gromacs_to_tune_benchmark_node_labels_valid check (case when jsonb_typeof(benchmark_node_labels) = 'object' then
                jsonb_array_length(jsonb_path_query_array(benchmark_node_labels, '$.keyvalue()')) <= 32
                and not jsonb_path_exists(benchmark_node_labels, '$.* ? (@.type() != "string")')
                and not jsonb_path_exists(benchmark_node_labels, '$.keyvalue().value
                    ? (!(@ like_regex "^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"))')
                and not jsonb_path_exists(benchmark_node_labels, '$.keyvalue().key
                    ? (!(@ like_regex "^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"))')
            else benchmark_node_labels is null end),
    constraint gromacs_to_tune_extended_nsteps_valid check (extended_nsteps between 1 and 1000000000000000),
    constraint gromacs_to_tune_checkpoint_path_append check (checkpoint_path is null or append is not true),
    constraint gromacs_to_tune_benchmark_minimum check (kind <> 'calibration' or num_nonnulls(min_cpu_millicores, min_ns_per_day) = 0),
    constraint gromacs_to_tune_benchmark_nodes check (kind <> 'calibration' or node_labels = '{}'),
    constraint gromacs_to_tune_benchmark_mdrun_options check (kind <> 'calibration' or mdrun_options = '{}'),
    constraint gromacs_to_tune_box_nm_dimensions check (array_ndims(box_nm) = 1 and array_lower(box_nm, 1) = 1),
    constraint gromacs_to_tune_pme_grid_dimensions check (array_ndims(pme_grid) = 1 and array_lower(pme_grid, 1) = 1),
    constraint gromacs_to_tune_state_valid check (state in ('queued', 'inspecting', 'tuning', 'submitted', 'running', 'interrupted', 'completed', 'failed', 'cancelled')),
    constraint gromacs_to_tune_submission_valid check (submission >= 1),
    constraint gromacs_to_tune_benchmark_of_simulation check (kind = 'calibration' or num_nonnulls(benchmark_atoms, benchmark_ranks, benchmark_threads, benchmark_pme_ranks, benchmark_gpus, benchmark_node_labels) = 0),
    constraint gromacs_to_tune_benchmark_complete check (kind <> 'calibration' or num_nulls(benchmark_atoms, benchmark_ranks, benchmark_threads, benchmark_pme_ranks, benchmark_gpus, benchmark_node_labels, nsteps) = 0),
    constraint gromacs_to_tune_benchmark_steps_valid check (kind <> 'calibration' or nsteps between 200 and 200000000),
    constraint gromacs_to_tune_benchmark_deadline check (kind <> 'calibration' or deadline is null),
    constraint gromacs_to_tune_ladder_of_calibration check (kind <> 'calibration' or num_nonnulls(min_efficiency, max_configurations, gpu_price, memory_price) = 0),
    constraint gromacs_to_tune_benchmark_grompp_options check (kind <> 'calibration' or grompp_options = '{}'),
    constraint gromacs_to_tune_multidir_grompp_options check (multidir = '{}' or grompp_options = '{}'),
    -- End of what is generated.
    constraint gromacs_to_tune_namespace_tenant foreign key (owner, namespace)
        references gromacs_tenant (database_role, namespace)
);

comment on table gromacs_to_tune is 'Simulations to compute: one row per .tpr file. INSERT namespace, persistent_volume_claim and tpr_path; everything else has a default.';
comment on column gromacs_to_tune.id is 'Number of the row; part of the names gromacs-<id>-<submission>.';
comment on column gromacs_to_tune.uuid is 'Identity of the row: the label scavenger.dev/row-uuid of everything it submits, and the marker in its folder.';
-- Generated from schema/src/row: comments
comment on column gromacs_to_tune.namespace is 'Kubernetes namespace it runs in.';
comment on column gromacs_to_tune.persistent_volume_claim is 'PersistentVolumeClaim of that namespace with the .tpr file; results are written there, into the folder gromacs-<id> beside the file.';
comment on column gromacs_to_tune.tpr_path is 'Path of the .tpr file, relative to the root of the volume. With multidir its folder holds the folders of the simulations, and each of these a file of that name. A calibration makes its own: calibration-<id>/water.tpr.';
comment on column gromacs_to_tune.multidir is 'Folders of several simulations that the row computes side by side, relative to the folder of tpr_path, such as {sim0,sim1,sim2,sim3}; 2 to 32. Each holds a file and, if the row starts from one, a checkpoint of the names that tpr_path and checkpoint_path end in. Empty for one simulation.';
comment on column gromacs_to_tune.image is 'Container image with GROMACS; the tenant''s, or the submitter''s --gromacs-image, if not given.';
comment on column gromacs_to_tune.run_as_user is 'User id the simulation runs as; it must be able to write beside the .tpr file. The tenant''s, or 1000, if not given.';
comment on column gromacs_to_tune.run_as_group is 'Group id the simulation runs as; the tenant''s, or run_as_user, if not given.';
comment on column gromacs_to_tune.append is 'True if mdrun goes on in its output files, which it must be able to lock; false if each restart writes new parts (md.part0002.log and so on). The inspection finds out if not given.';
comment on column gromacs_to_tune.checkpoint_path is 'Path of a .cpt file of the same run, relative to the root of the volume, that the simulation starts from; it is copied into the folder of the row, and each start writes new parts of the output. From the beginning if not given.';
comment on column gromacs_to_tune.mdrun_options is 'Further options of mdrun and their values, each a word of its own, such as {-dlb,yes,-plumed,meta/plumed.dat}; files are named relative to the root of the volume. docs/rows.md lists them.';
comment on column gromacs_to_tune.grompp_options is 'Options of gmx grompp and their values, each a word of its own, such as {-f,md.mdp,-c,gromacs-6/confout.gro,-p,topol.top}: the .tpr file is made with them in its folder before it is read, as long as nothing has been computed. {after} in a path stands for the row in after. Empty if the file is there.';
comment on column gromacs_to_tune.project is 'What it belongs to, for filters and for the sums of gromacs-submitter list --by-project.';
comment on column gromacs_to_tune.labels is 'Names and values that filters look for, such as {"T": "310", "lambda": "0.3"}.';
comment on column gromacs_to_tune.node_labels is 'Labels that its node must have, such as {"node.kubernetes.io/instance-type": "c6a.8xlarge"}: it runs on that kind of node alone, and its configurations are chosen for it. Any node of the pool if empty.';
comment on column gromacs_to_tune.held is 'True if it is not begun, nor begun again, until it is released.';
comment on column gromacs_to_tune.after is 'Rows of the same owner that must be completed before this one begins: its file is not even read before. A row that was removed counts as completed.';
comment on column gromacs_to_tune.deadline is 'When it should be completed. It orders the choice of configurations, and lets the row grow earlier; nothing is stopped for it. No deadline if null.';
comment on column gromacs_to_tune.priority is 'Rows of one owner start in descending priority, then in the order of id.';
comment on column gromacs_to_tune.max_cpu_millicores is 'Most CPU it may ask for, in thousandths of a core; the nodes decide if null.';
comment on column gromacs_to_tune.max_memory_bytes is 'Most memory it may ask for, in bytes; the nodes decide if null.';
comment on column gromacs_to_tune.max_gpus is 'Most GPUs it may ask for; the nodes decide if null.';
comment on column gromacs_to_tune.min_cpu_millicores is 'Least CPU that it runs with, in thousandths of a core: it waits rather than fall back to less. None if null or 0.';
comment on column gromacs_to_tune.min_ns_per_day is 'Least predicted speed that it runs with, in ns of simulated time per day: it waits rather than fall back to a slower configuration. None if null or 0.';
comment on column gromacs_to_tune.interruption_after_seconds is 'Seconds of run time between checkpoints: what an interruption can cost at most. 600, or what the tenant''s limits make of it, if not given.';
comment on column gromacs_to_tune.fallback_after_seconds is 'Seconds it waits for free capacity before the next smaller configuration is tried; the submitter''s --fallback-after if null.';
comment on column gromacs_to_tune.min_efficiency is 'Share of the best speed per price that the first configuration has at least, 0.01 to 1; that of the pool if null, or the tuner''s own.';
comment on column gromacs_to_tune.max_configurations is 'Most configurations that are tried, 1 to 32; those of the pool if null, or the tuner''s own.';
comment on column gromacs_to_tune.gpu_price is 'Cores that a GPU counts as; those of the pool if null, or the tuner''s own.';
comment on column gromacs_to_tune.memory_price is 'Cores that a GiB of memory counts as; those of the pool if null, or the tuner''s own.';
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
comment on column gromacs_to_tune.kind is 'simulation: computes the .tpr file. calibration: measures how fast a kind of node is.';
comment on column gromacs_to_tune.benchmark_atoms is 'Atoms of the box of water, about: it is made of whole copies of 648 atoms. Only of a calibration, as all benchmark_ columns; its nsteps are given, too.';
comment on column gromacs_to_tune.benchmark_ranks is 'Thread-MPI ranks of mdrun, those for PME included. It takes a core per rank and thread.';
comment on column gromacs_to_tune.benchmark_threads is 'OpenMP threads of each rank.';
comment on column gromacs_to_tune.benchmark_pme_ranks is 'Ranks for PME alone; 0 if not given.';
comment on column gromacs_to_tune.benchmark_gpus is 'GPUs, 0 or 1; 0 if not given.';
comment on column gromacs_to_tune.benchmark_node_labels is 'Labels that the node must have, such as {"node.kubernetes.io/instance-type": "c6a.16xlarge"}; any node of the pool if not given.';
comment on column gromacs_to_tune.extended_nsteps is 'Set it on a completed row to go on from its checkpoint until it has done so many steps in all, more than nsteps; null if it was never extended. mdrun then reads extended.tpr in the folder of the row.';
comment on column gromacs_to_tune.cancel_requested is 'Set it to stop the simulation for good.';
comment on column gromacs_to_tune.retry_requested is 'Set it on a failed or cancelled row to go on from its last checkpoint.';
-- End of what is generated.
comment on column gromacs_to_tune.owner is 'Database role that inserted the row.';
comment on column gromacs_to_tune.service_account is 'ServiceAccount that it runs as, from gromacs_tenant; the namespace''s default one if null.';
comment on column gromacs_to_tune.inspected is 'What the inspection of the .tpr file found, in the units of the columns above; null until then.';
comment on column gromacs_to_tune.pinned_image is 'The image as the inspection ran it, by its digest, so that what a tag names later does not matter; by its name where the node names no digest. Null until then, and after image was changed.';
comment on column gromacs_to_tune.state is 'queued, inspecting, tuning, submitted, running, interrupted, completed, failed or cancelled.';
comment on column gromacs_to_tune.reason is 'Message: why the row is in this state.';
comment on column gromacs_to_tune.submission is 'Number of its ScavengerJob gromacs-<id>-<submission>, counted from 1; a retry makes the next one.';
comment on column gromacs_to_tune.job_uid is 'UID of the ScavengerJob once it was seen.';
comment on column gromacs_to_tune.configuration is 'Number in gromacs_ladder of the configuration in use, counted from 1.';
comment on column gromacs_to_tune.next_configuration is 'Number in gromacs_ladder of the configuration that is about to replace it; null otherwise.';
comment on column gromacs_to_tune.attempt is 'Number of the ScavengerJob''s attempt that first_step, step and ns_per_day belong to.';
comment on column gromacs_to_tune.first_step is 'Step at which that attempt started.';
comment on column gromacs_to_tune.step is 'Last step seen; with multidir, that of the least advanced simulation.';
comment on column gromacs_to_tune.ns_per_day is 'Speed in ns of simulated time per day: estimated while it runs, measured by mdrun once it is completed; with multidir, that of the least advanced simulation, then that of the slowest.';
comment on column gromacs_to_tune.progress_time is 'When step and ns_per_day were seen.';
comment on column gromacs_to_tune.interruptions is 'How often it was interrupted, over all submissions.';
comment on column gromacs_to_tune.creation_time is 'When the row was inserted.';
comment on column gromacs_to_tune.state_time is 'When state changed last.';
comment on column gromacs_to_tune.start_time is 'When mdrun first ran.';
comment on column gromacs_to_tune.finish_time is 'When it was completed, failed or cancelled.';
comment on column gromacs_to_tune.peak_memory_bytes is 'Most memory that the attempt was seen to use, in bytes; null where the cluster does not measure it.';
comment on column gromacs_to_tune.job_expiry_time is 'When the ScavengerJob of a row that has ended is removed; null if nothing is left to remove.';
comment on column gromacs_to_tune.submitter_state is 'What the submitter remembers of the row for itself alone: retry cycles, clocks, growth, failed starts, memory of probes. Its keys may change with any version.';
comment on column gromacs_to_tune.inspect_again is 'True if the .tpr file is read again before the next submission, since a retry was requested.';
comment on column gromacs_to_tune.waits_for_rows is 'True if a row of the column after is not completed: the row is not begun. Kept by triggers.';
comment on column gromacs_to_tune.lease_holder is 'Submitter that works on the row.';
comment on column gromacs_to_tune.lease_until is 'Until when it may; later another one takes over.';
comment on column gromacs_to_tune.next_attempt_time is 'When the submitter looks at the row next.';
comment on column gromacs_to_tune.failures is 'Steps in a row that could not be done; the delay before the next one grows with it.';
comment on column gromacs_to_tune.wakes is 'Counts reasons to look at the row at once; one that arrives while a submitter works on it is not lost.';
comment on column gromacs_to_tune.follower is 'Submitter that follows the log of the running attempt.';
comment on column gromacs_to_tune.followed_until is 'Until when it does without another sign of life; later another one may.';
comment on column gromacs_to_tune.blocked is 'True if it waits in the cluster for something that other rows of its owner do not wait for, such as its volume: others begin meanwhile.';
comment on column gromacs_to_tune.late_seconds is 'Seconds by which it is expected to miss its deadline, at the slow end of what is predicted or measured; null if it is expected to meet it.';

-- Claims go over the rows that are in work and over the head of the queue of each owner in each namespace, never over the
-- backlog, and count what is in work there.
create index gromacs_to_tune_active on gromacs_to_tune (next_attempt_time)
    where state in ('inspecting', 'tuning', 'submitted', 'running', 'interrupted');
create index gromacs_to_tune_waiting on gromacs_to_tune (owner)
    where state in ('inspecting', 'tuning', 'submitted', 'interrupted')
        or (state = 'queued' and lease_until is not null);
create index gromacs_to_tune_queued on gromacs_to_tune (owner, namespace, priority desc, id)
    where state = 'queued' and not held and not waits_for_rows;
create index gromacs_to_tune_in_work on gromacs_to_tune (owner, namespace)
    where state in ('inspecting', 'tuning', 'submitted', 'running', 'interrupted')
        or (state = 'queued' and lease_until is not null);
create index gromacs_to_tune_again on gromacs_to_tune (next_attempt_time) where state = 'queued' and submission > 1;
create index gromacs_to_tune_retries on gromacs_to_tune (id)
    where retry_requested and state in ('completed', 'failed', 'cancelled');
create index gromacs_to_tune_cancels on gromacs_to_tune (id) where cancel_requested
    and state in ('queued', 'inspecting', 'tuning', 'submitted', 'running', 'interrupted');
-- Rows whose ScavengerJob is due to be removed; a backlog of finished rows costs nothing.
create index gromacs_to_tune_expiring on gromacs_to_tune (job_expiry_time) where job_expiry_time is not null;
-- Who adds a file asks whether it has a row already, under a lock. Equality of texts gives
-- nothing away, so row level security lets it use the index, where a hash of them would not be let.
create index gromacs_to_tune_file on gromacs_to_tune (tpr_path, persistent_volume_claim, namespace);
-- Row level security makes each chemist's question one about an owner.
create index gromacs_to_tune_owner on gromacs_to_tune (owner, id desc);
-- What has not ended: what a person watches.
create index gromacs_to_tune_open on gromacs_to_tune (owner, id desc)
    where state not in ('completed', 'failed', 'cancelled');
-- The foreign key to gromacs_tenant, and the counts of a tenant.
create index gromacs_to_tune_tenant on gromacs_to_tune (owner, namespace, state);
create index gromacs_to_tune_project on gromacs_to_tune (owner, project, id desc) where project is not null;
-- Rows that wait for others, for who asks which these are.
create index gromacs_to_tune_waits_for_rows on gromacs_to_tune (id) where state = 'queued' and waits_for_rows;
-- Who waits for a row: asked when a row is completed, and before it is removed.
create index gromacs_to_tune_after on gromacs_to_tune using gin (after) where after <> '{}';
create index gromacs_to_tune_labels on gromacs_to_tune using gin (labels jsonb_path_ops) where labels <> '{}';
-- The newest rows of an owner that have run, without those that wait.
create index gromacs_to_tune_started on gromacs_to_tune (owner, id desc) where start_time is not null;
create index gromacs_to_tune_open_deadline on gromacs_to_tune (deadline)
    where deadline is not null and state not in ('completed', 'failed', 'cancelled');
-- What has one, for those who look for rows that are late.
create index gromacs_to_tune_deadline on gromacs_to_tune (owner, id desc) where deadline is not null;

create table gromacs_ladder (
    row_id bigint not null references gromacs_to_tune (id) on delete cascade,
    submission integer not null,
    configuration integer not null,
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
    refused text,
    creation_time timestamptz not null default now(),
    node_labels jsonb not null default '{}',
    place integer,
    replaced boolean not null default false,
    primary key (row_id, submission, configuration),
    constraint gromacs_ladder_configuration_valid check (configuration >= 1),
    constraint gromacs_ladder_resources_valid check (cpu_millicores > 0 and memory_bytes > 0 and gpus >= 0),
    constraint gromacs_ladder_node_labels_valid check (jsonb_typeof(node_labels) = 'object')
);
comment on table gromacs_ladder is 'Configurations that the tuner proposed for a row, largest first.';
comment on column gromacs_ladder.row_id is 'The row of gromacs_to_tune.';
comment on column gromacs_ladder.submission is 'The submission it was proposed for.';
comment on column gromacs_ladder.configuration is 'Number of the configuration, counted from 1, the largest first; what the tuner proposes after an interruption has the next numbers.';
comment on column gromacs_ladder.cpu_millicores is 'CPU it asks for, in thousandths of a core.';
comment on column gromacs_ladder.memory_bytes is 'Memory it asks for, in bytes.';
comment on column gromacs_ladder.gpus is 'GPUs it asks for.';
comment on column gromacs_ladder.layout is 'How mdrun divides them (ntmpi, ntomp, npme, ...); with multidir, how the mdrun of each simulation divides its share.';
comment on column gromacs_ladder.ns_per_day_p10 is 'Predicted speed in ns per day: one time in ten it is lower.';
comment on column gromacs_ladder.ns_per_day_p50 is 'Predicted speed in ns per day: median; with multidir, of each simulation.';
comment on column gromacs_ladder.ns_per_day_p90 is 'Predicted speed in ns per day: one time in ten it is higher.';
comment on column gromacs_ladder.hours_to_finish is 'Hours for all steps at the median speed.';
comment on column gromacs_ladder.efficiency is 'Parallel efficiency, 0 to 1. Without a GPU: speed per core relative to the best speed per core on the same hardware. With a GPU: speed relative to the best with that GPU.';
comment on column gromacs_ladder.predicted_memory_bytes is 'Predicted peak memory in bytes, without margin.';
comment on column gromacs_ladder.hardware_class is 'Hardware class the prediction was made for.';
comment on column gromacs_ladder.fits_now is 'True if a node had enough free capacity for it when the tuner was asked.';
comment on column gromacs_ladder.reason is 'Why it is on the ladder.';
comment on column gromacs_ladder.model_version is 'Version of the tuner''s model.';
comment on column gromacs_ladder.refused is 'Why mdrun refused to start with it, in mdrun''s words; null if it did not. Forgotten when the row is retried.';
comment on column gromacs_ladder.creation_time is 'When the tuner was asked.';
comment on column gromacs_ladder.node_labels is 'Labels of the kind of node that the configuration is for, beside those of the row; it runs nowhere else. Any node if empty.';
comment on column gromacs_ladder.place is 'Where it stands among those that are tried, counted from 1, the largest first; as its number if null.';
comment on column gromacs_ladder.replaced is 'True if the tuner, asked again after an interruption, does not propose it any more: it is not tried again, and stays for the attempts that ran with it.';

create table gromacs_attempt (
    row_id bigint not null references gromacs_to_tune (id) on delete cascade,
    submission integer not null,
    attempt integer not null,
    configuration integer,
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
    peak_memory_bytes bigint,
    lost_seconds bigint,
    log_end text,
    image text,
    gromacs_version text,
    gromacs_build jsonb,
    node text,
    node_labels jsonb,
    hardware_class text,
    restart_seconds integer,
    primary key (row_id, submission, attempt),
    constraint gromacs_attempt_outcome_valid check (outcome in ('completed', 'failed', 'interrupted', 'withdrawn')),
    constraint gromacs_attempt_ns_per_day_valid check (ns_per_day > 0 and ns_per_day < 'Infinity'),
    constraint gromacs_attempt_restart_seconds_valid check (restart_seconds >= 0)
);
comment on table gromacs_attempt is 'What ran: the attempts of each ScavengerJob, from its status.attempts.';
comment on column gromacs_attempt.row_id is 'The row of gromacs_to_tune.';
comment on column gromacs_attempt.submission is 'The submission it belongs to.';
comment on column gromacs_attempt.attempt is 'Number of the attempt in the ScavengerJob, counted from 1.';
comment on column gromacs_attempt.configuration is 'Number in gromacs_ladder of the configuration it ran with; null if it ran with another one.';
comment on column gromacs_attempt.cpu_millicores is 'CPU it had, in thousandths of a core.';
comment on column gromacs_attempt.memory_bytes is 'Memory it had, in bytes.';
comment on column gromacs_attempt.gpus is 'GPUs it had.';
comment on column gromacs_attempt.mdrun_args is 'Arguments it ran with.';
comment on column gromacs_attempt.creation_time is 'When the operator decided to start it.';
comment on column gromacs_attempt.start_time is 'When its pod ran; null if it never did.';
comment on column gromacs_attempt.end_time is 'When it ended.';
comment on column gromacs_attempt.outcome is 'completed, failed, interrupted (taken away while it ran) or withdrawn (before it ran).';
comment on column gromacs_attempt.reason is 'Reason of the outcome, one word.';
comment on column gromacs_attempt.message is 'Message that belongs to the reason.';
comment on column gromacs_attempt.first_step is 'Step at which it started.';
comment on column gromacs_attempt.last_step is 'Last step it is known to have computed: seen in its log, or in the checkpoint that the next attempt started from.';
comment on column gromacs_attempt.ns_per_day is 'Speed that mdrun measured, in ns per day; null if its log was gone.';
comment on column gromacs_attempt.peak_memory_bytes is 'Most memory it was seen to use, in bytes; the limit if it was killed for using more; null if not measured.';
comment on column gromacs_attempt.lost_seconds is 'Seconds that it ran after its last checkpoint, as its supervisor measured; null if that is not known.';
comment on column gromacs_attempt.log_end is 'Last lines of the log of an attempt that failed, without progress lines.';
comment on column gromacs_attempt.image is 'Image it ran in, by its digest where that is known; the submitter''s --gromacs-image if null.';
comment on column gromacs_attempt.gromacs_version is 'Version of GROMACS.';
comment on column gromacs_attempt.gromacs_build is 'How GROMACS was built, as the tuner''s requests describe it; null if that is not known.';
comment on column gromacs_attempt.node is 'Node it ran on; null if it never ran.';
comment on column gromacs_attempt.node_labels is 'Labels of the node that tell which hardware it is.';
comment on column gromacs_attempt.hardware_class is 'Hardware class of the node, as the tuner recognises it.';
comment on column gromacs_attempt.restart_seconds is 'Seconds from when the attempt was first seen until it computed its first step; null if that was not seen.';

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
    node text,
    node_labels jsonb not null,
    hardware_class text,
    image text,
    gromacs_version text,
    gromacs_build jsonb,
    ns_per_day double precision,
    steps bigint,
    wall_seconds double precision,
    peak_memory_bytes bigint,
    killed_for_memory boolean not null default false,
    observation_time timestamptz not null default now(),
    -- How fast a core is depends on how many others of its node work. What all pods requested there, the run's own included,
    -- goes with what it measured.
    node_cpu_millicores integer,
    node_requested_millicores integer,
    -- However often a step is repeated, an attempt is counted once.
    constraint gromacs_observation_once unique (row_id, submission, attempt),
    constraint gromacs_observation_source_valid check (source in ('simulation', 'calibration', 'benchmark', 'import')),
    constraint gromacs_observation_atoms_valid check (atoms > 0),
    constraint gromacs_observation_ns_per_day_valid check (ns_per_day > 0 and ns_per_day < 'Infinity'),
    constraint gromacs_observation_steps_valid check (steps > 0),
    constraint gromacs_observation_wall_seconds_valid check (wall_seconds > 0),
    constraint gromacs_observation_build_valid check (jsonb_typeof(gromacs_build) = 'object'),
    constraint gromacs_observation_measured check (
        num_nonnulls(ns_per_day, steps, wall_seconds) in (0, 3)
        and (ns_per_day is not null or peak_memory_bytes is not null)
        and (not killed_for_memory or ns_per_day is null)),
    constraint gromacs_observation_node_cpu_millicores_valid check (node_cpu_millicores > 0),
    constraint gromacs_observation_node_requested_millicores_valid check (node_requested_millicores >= 0)
);
create index gromacs_observation_recent on gromacs_observation (observation_time);
comment on table gromacs_observation is 'Measured runs, from which the tuner learns. Rows are only added; they outlive the simulation they came from.';
comment on column gromacs_observation.id is 'Number of the observation.';
comment on column gromacs_observation.row_id is 'The row of gromacs_to_tune it came from; null if imported.';
comment on column gromacs_observation.submission is 'The submission it came from.';
comment on column gromacs_observation.attempt is 'The attempt it came from.';
comment on column gromacs_observation.owner is 'Owner of the simulation.';
comment on column gromacs_observation.source is 'Kind of the row it came from, simulation or calibration; benchmark or import if it came from elsewhere.';
comment on column gromacs_observation.atoms is 'Number of atoms.';
comment on column gromacs_observation.system is 'The system as the tuner''s requests describe it (camel case, units in the names).';
comment on column gromacs_observation.cpu_millicores is 'CPU the pod had, in thousandths of a core.';
comment on column gromacs_observation.gpus is 'GPUs the pod had.';
comment on column gromacs_observation.layout is 'How mdrun divided them, as in the tuner''s replies.';
comment on column gromacs_observation.node is 'Node it ran on; null if that is not known.';
comment on column gromacs_observation.node_labels is 'Labels of the node that tell which hardware it is; empty if nobody knows on which node it ran, and nodes of several classes could have run it.';
comment on column gromacs_observation.hardware_class is 'Hardware class that it ran on; null if nobody knows on which node it ran, and nodes of several classes could have run it.';
comment on column gromacs_observation.image is 'Image it ran in, by its digest where that is known.';
comment on column gromacs_observation.gromacs_version is 'Version of GROMACS.';
comment on column gromacs_observation.gromacs_build is 'How GROMACS was built, as the tuner''s requests describe it; null if that is not known.';
comment on column gromacs_observation.ns_per_day is 'Measured speed in ns of simulated time per day; null if only memory was measured.';
comment on column gromacs_observation.steps is 'Steps it was measured over; null if only memory was measured.';
comment on column gromacs_observation.wall_seconds is 'Wall time it was measured over, in seconds; null if only memory was measured.';
comment on column gromacs_observation.peak_memory_bytes is 'Peak memory of the container in bytes, or its limit if it was killed for using more; null if not measured.';
comment on column gromacs_observation.killed_for_memory is 'True if it was killed for using more memory than it had.';
comment on column gromacs_observation.observation_time is 'When it was recorded.';
comment on column gromacs_observation.node_cpu_millicores is 'CPU of the node for pods, in thousandths of a core; null if not known.';
comment on column gromacs_observation.node_requested_millicores is 'CPU that all pods on the node requested when it began to run, its own included, in thousandths of a core; null if not known.';

create table gromacs_event (
    id bigint generated always as identity primary key,
    row_id bigint not null references gromacs_to_tune (id) on delete cascade,
    event_time timestamptz not null default clock_timestamp(),
    state text not null,
    submission integer not null,
    configuration integer,
    message text
);
create index gromacs_event_of_row on gromacs_event (row_id, id);
comment on table gromacs_event is 'History: one line for each change of state, configuration or request of a row, written in the transaction that changes it. Lines are only added.';
comment on column gromacs_event.id is 'Number of the event.';
comment on column gromacs_event.row_id is 'The row of gromacs_to_tune.';
comment on column gromacs_event.event_time is 'When it happened.';
comment on column gromacs_event.state is 'State of the row from then on.';
comment on column gromacs_event.submission is 'Submission of the row from then on.';
comment on column gromacs_event.configuration is 'Configuration of the row from then on.';
comment on column gromacs_event.message is 'Message: why it happened.';

-- Rows by state. Each change of a state adds a line, so that no transaction waits for another; a submitter sums them up.
create table gromacs_state_count (
    id bigint generated always as identity primary key,
    state text not null,
    rows bigint not null
);
comment on table gromacs_state_count is 'Number of rows by state: the sum of the lines of a state. Submitters sum lines up into one.';
comment on column gromacs_state_count.id is 'Number of the line.';
comment on column gromacs_state_count.state is 'State, as in gromacs_to_tune.';
comment on column gromacs_state_count.rows is 'Rows that came to it, less those that left it.';

create table gromacs_submitter_seen (
    holder text primary key,
    max_waiting integer not null,
    seen_time timestamptz not null default now()
);
comment on table gromacs_submitter_seen is 'Submitters that work on the queue: each writes its line every 30 seconds, and takes it away when it ends.';
comment on column gromacs_submitter_seen.holder is 'The submitter, as in gromacs_to_tune.lease_holder.';
comment on column gromacs_submitter_seen.max_waiting is 'Most rows of an owner that it lets wait in the cluster (--max-waiting).';
comment on column gromacs_submitter_seen.seen_time is 'When it was alive.';

-- Who claims new rows holds a lock. An advisory lock anybody may take; this table only the submitter may lock.
create table gromacs_claim_lock ();
comment on table gromacs_claim_lock is 'Empty. A submitter that claims new rows locks it, so that no two count the same capacity.';

-- Who adds rows and looks for duplicates first holds the line of its own role here, which no other role can touch.
create table gromacs_add_lock (owner text primary key);
comment on table gromacs_add_lock is 'One line for each role that adds rows: two commands of a role that look for duplicates wait for each other.';
comment on column gromacs_add_lock.owner is 'The role.';

-- Ends of rows that are to be reported to the webhook of the submitter. A submitter that has a webhook adds a line in the
-- transaction that records the end, and removes it when the endpoint has taken it: so no end is lost when a submitter
-- stops, and nothing is reported that ended before there was a webhook.
create table gromacs_end_report (
    id bigint generated always as identity primary key,
    row_id bigint not null references gromacs_to_tune (id) on delete cascade,
    document jsonb not null,
    tries integer not null default 0,
    next_try_time timestamptz not null default now(),
    creation_time timestamptz not null default now(),
    constraint gromacs_end_report_document_valid check (jsonb_typeof(document) = 'object'),
    constraint gromacs_end_report_tries_valid check (tries >= 0)
);
comment on table gromacs_end_report is 'Ends of rows that the submitter has yet to report to its webhook; a line is removed when it is delivered or given up.';
comment on column gromacs_end_report.id is 'Number of the report.';
comment on column gromacs_end_report.row_id is 'The row of gromacs_to_tune.';
comment on column gromacs_end_report.document is 'What is sent, as it was when the row ended.';
comment on column gromacs_end_report.tries is 'How often it was sent.';
comment on column gromacs_end_report.next_try_time is 'When it is sent next; while a submitter sends it, when another one may.';
comment on column gromacs_end_report.creation_time is 'When the row ended.';
create index gromacs_end_report_due on gromacs_end_report (next_try_time);
create index gromacs_end_report_of_row on gromacs_end_report (row_id);

-- What the tuner says of a ladder as a whole (a droplet, hardware that it does not know, years to the end) stays with the
-- ladder, and shows in the history of the row.
create table gromacs_tuner_answer (
    row_id bigint not null references gromacs_to_tune (id) on delete cascade,
    submission integer not null,
    notes text[] not null default '{}',
    model_version text not null,
    creation_time timestamptz not null default now(),
    min_efficiency double precision,
    max_configurations integer,
    gpu_price double precision,
    memory_price double precision,
    set_by jsonb not null default '{}',
    primary key (row_id, submission)
);
comment on table gromacs_tuner_answer is 'What the tuner said of the configurations of a submission as a whole. Each configuration is a line of gromacs_ladder.';
comment on column gromacs_tuner_answer.row_id is 'The row of gromacs_to_tune.';
comment on column gromacs_tuner_answer.submission is 'The submission it was asked for.';
comment on column gromacs_tuner_answer.notes is 'Its notes, a message each: what is doubtful about the system, and hardware that it does not know. Empty if there is none.';
comment on column gromacs_tuner_answer.model_version is 'Version of the tuner''s model.';
comment on column gromacs_tuner_answer.creation_time is 'When the tuner was asked.';
comment on column gromacs_tuner_answer.min_efficiency is 'Share of the best speed per price that was asked for; null for a calibration.';
comment on column gromacs_tuner_answer.max_configurations is 'Most configurations that were asked for; null for a calibration.';
comment on column gromacs_tuner_answer.gpu_price is 'Cores that a GPU counted as; null for a calibration.';
comment on column gromacs_tuner_answer.memory_price is 'Cores that a GiB of memory counted as; null for a calibration.';
comment on column gromacs_tuner_answer.set_by is 'Who set each of these by the name of the column: row, pool or tuner.';

-- When any of the submitters first saw the operator's word on the pool, by the clock of the database. A
-- process that does not stay could only compare the operator's clock with another one.
create table gromacs_pool_seen (
    only_row boolean primary key default true,
    update_time timestamptz not null,
    seen_time timestamptz not null default now(),
    constraint gromacs_pool_seen_one_row check (only_row)
);
comment on table gromacs_pool_seen is 'When a submitter first saw what the operator said last of the ScavengerPool.';
comment on column gromacs_pool_seen.only_row is 'Always true: there is one row.';
comment on column gromacs_pool_seen.update_time is 'When the operator wrote it, by its own clock. It is only compared with itself.';
comment on column gromacs_pool_seen.seen_time is 'When a submitter first saw it, by the clock of the database.';

-- Everything that wakes somebody up, by the name of the channel; once per statement, since a thousand rows in one INSERT are
-- one reason to look, and delivered when the transaction commits.
create function gromacs_notify() returns trigger language plpgsql as $$
begin
    perform pg_notify(tg_argv[0], '');
    return null;
end
$$;
create trigger gromacs_notify_insert after insert on gromacs_to_tune
    for each statement execute function gromacs_notify('gromacs_to_tune');
create trigger gromacs_notify_observation after insert on gromacs_observation
    for each statement execute function gromacs_notify('gromacs_observation');
create trigger gromacs_notify_event after insert on gromacs_event
    for each statement execute function gromacs_notify('gromacs_event');

-- The tenant's defaults and limits. It runs with the rights of the role that inserts, which sees only its own tenants.
create function gromacs_before_insert() returns trigger language plpgsql as $$
declare
    tenant gromacs_tenant;
    whose text := case when new.owner = session_user::text then 'yours' else format('%s''s', new.owner) end;
    others text;
begin
    if new.namespace is null then
        return new;
    end if;
    select t.* into tenant from gromacs_tenant t where t.database_role = new.owner and t.namespace = new.namespace;
    if not found then
        select string_agg(t.namespace, ', ' order by t.namespace) into others
            from gromacs_tenant t where t.database_role = new.owner;
        raise exception using errcode = 'insufficient_privilege', constraint = 'gromacs_to_tune_namespace_allowed',
            message = format('namespace %s is not one of %s (%s); ask the admin to add it to gromacs_tenant',
                to_json(left(new.namespace, 63)), whose, coalesce(others, 'there are none'));
    end if;

    new.service_account := tenant.service_account;
    if new.image is not null and tenant.image_patterns <> '{}' and not exists (
        -- * is the only sign with a meaning; those of LIKE have none.
        select from unnest(tenant.image_patterns) pattern
        where new.image like replace(regexp_replace(pattern, '([\\%_])', '\\\1', 'g'), '*', '%'))
    then
        raise exception using errcode = 'check_violation', constraint = 'gromacs_to_tune_image_allowed',
            message = format('image %s is not allowed in namespace %s; these are: %s',
                to_json(left(new.image, 1024)), new.namespace, array_to_string(tenant.image_patterns, ', '));
    end if;
    new.image := coalesce(new.image, tenant.image);

    if new.run_as_user <> tenant.run_as_user then
        raise exception using errcode = 'check_violation', constraint = 'gromacs_to_tune_run_as_user_allowed',
            message = format('run_as_user is %s, but rows in namespace %s run as %s; leave it out',
                new.run_as_user, new.namespace, tenant.run_as_user);
    end if;
    new.run_as_user := coalesce(new.run_as_user, tenant.run_as_user, 1000);
    if new.run_as_group <> tenant.run_as_group then
        raise exception using errcode = 'check_violation', constraint = 'gromacs_to_tune_run_as_group_allowed',
            message = format('run_as_group is %s, but rows in namespace %s run as %s; leave it out',
                new.run_as_group, new.namespace, tenant.run_as_group);
    end if;
    new.run_as_group := coalesce(new.run_as_group, tenant.run_as_group);

    if new.max_cpu_millicores > tenant.max_cpu_millicores then
        raise exception using errcode = 'check_violation', constraint = 'gromacs_to_tune_max_cpu_millicores_allowed',
            message = format('max_cpu_millicores is %s, but namespace %s allows at most %s',
                new.max_cpu_millicores, new.namespace, tenant.max_cpu_millicores);
    end if;
    new.max_cpu_millicores := coalesce(new.max_cpu_millicores, tenant.max_cpu_millicores);
    if new.max_memory_bytes > tenant.max_memory_bytes then
        raise exception using errcode = 'check_violation', constraint = 'gromacs_to_tune_max_memory_bytes_allowed',
            message = format('max_memory_bytes is %s, but namespace %s allows at most %s',
                new.max_memory_bytes, new.namespace, tenant.max_memory_bytes);
    end if;
    new.max_memory_bytes := coalesce(new.max_memory_bytes, tenant.max_memory_bytes);
    if new.max_gpus > tenant.max_gpus then
        raise exception using errcode = 'check_violation', constraint = 'gromacs_to_tune_max_gpus_allowed',
            message = format('max_gpus is %s, but namespace %s allows at most %s',
                new.max_gpus, new.namespace, tenant.max_gpus);
    end if;
    new.max_gpus := coalesce(new.max_gpus, tenant.max_gpus);

    if new.interruption_after_seconds < tenant.min_interruption_after_seconds
        or new.interruption_after_seconds > tenant.max_interruption_after_seconds
    then
        raise exception using errcode = 'check_violation',
            constraint = 'gromacs_to_tune_interruption_after_seconds_allowed',
            message = format('interruption_after_seconds is %s, but namespace %s allows %s to %s',
                new.interruption_after_seconds, new.namespace,
                coalesce(tenant.min_interruption_after_seconds, 1),
                coalesce(tenant.max_interruption_after_seconds, 604800));
    end if;
    new.interruption_after_seconds := coalesce(new.interruption_after_seconds,
        greatest(tenant.min_interruption_after_seconds, least(tenant.max_interruption_after_seconds, 600)));
    return new;
end
$$;
create trigger gromacs_before_insert before insert on gromacs_to_tune
    for each row execute function gromacs_before_insert();

-- After gromacs_before_insert, in the order of the names: the tenant's limits are in the row by then.
create function gromacs_before_insert_benchmark() returns trigger language plpgsql as $$
declare
    cores numeric := new.benchmark_ranks::numeric * new.benchmark_threads;
begin
    if new.tpr_path is not null then
        raise exception using errcode = 'check_violation', constraint = 'gromacs_to_tune_tpr_path_allowed',
            message = 'a calibration makes its own run input; leave tpr_path out';
    end if;
    if new.checkpoint_path is not null then
        raise exception using errcode = 'check_violation', constraint = 'gromacs_to_tune_checkpoint_path_allowed',
            message = 'a calibration starts from the beginning; leave checkpoint_path out';
    end if;
    -- Generated from schema/src/row: system of a calibration
    if num_nonnulls(new.atoms, new.box_nm, new.init_step, new.dt_ps, new.cutoff_nm, new.rlist_nm, new.nstlist,
        new.pme_grid, new.pme_order, new.bonded_interactions, new.constraints, new.gpu_nonbonded, new.gpu_pme,
        new.gpu_bonded, new.gpu_update, new.gromacs_version) > 0
    -- End of what is generated.
    then
        -- What was measured would be told of another system than ran.
        raise exception using errcode = 'check_violation', constraint = 'gromacs_to_tune_system_allowed',
            message = 'a calibration finds out itself what it runs; of the columns about the system give only nsteps';
    end if;
    new.tpr_path := concat('calibration-', new.id, '/water.tpr');
    new.benchmark_pme_ranks := coalesce(new.benchmark_pme_ranks, 0);
    new.benchmark_gpus := coalesce(new.benchmark_gpus, 0);
    new.benchmark_node_labels := coalesce(new.benchmark_node_labels, '{}'::jsonb);
    if cores * 1000 > new.max_cpu_millicores then
        raise exception using errcode = 'check_violation', constraint = 'gromacs_to_tune_benchmark_cores_allowed',
            message = format('the benchmark takes %s cores, but namespace %s allows at most %s',
                cores, new.namespace, trim_scale(new.max_cpu_millicores / 1000.0));
    end if;
    if new.benchmark_gpus > new.max_gpus then
        raise exception using errcode = 'check_violation', constraint = 'gromacs_to_tune_benchmark_gpus_allowed',
            message = format('the benchmark takes %s GPU, but namespace %s allows at most %s',
                new.benchmark_gpus, new.namespace, new.max_gpus);
    end if;
    return new;
end
$$;
create trigger gromacs_before_insert_benchmark before insert on gromacs_to_tune
    for each row when (new.kind = 'calibration') execute function gromacs_before_insert_benchmark();

-- After gromacs_before_insert, in the order of the names: the most that the row may ask for is in it by then. It runs with
-- the rights of the role that inserts, which sees only its own tenants.
create function gromacs_before_insert_minimum() returns trigger language plpgsql as $$
declare
    tenant gromacs_tenant;
begin
    select t.* into tenant from gromacs_tenant t where t.database_role = new.owner and t.namespace = new.namespace;
    if new.min_cpu_millicores is null and tenant.min_cpu_millicores is not null then
        new.min_cpu_millicores := least(tenant.min_cpu_millicores, new.max_cpu_millicores);
    end if;
    new.min_ns_per_day := coalesce(new.min_ns_per_day, tenant.min_ns_per_day);
    return new;
end
$$;
create trigger gromacs_before_insert_minimum before insert on gromacs_to_tune
    for each row when (new.kind = 'simulation') execute function gromacs_before_insert_minimum();

-- With the rights of the role that inserts: it reads nothing but the row.
create function gromacs_before_insert_multidir() returns trigger language plpgsql as $$
declare
    other text;
    why text;
begin
    if new.kind <> 'simulation' then
        why := 'a calibration runs one benchmark; leave multidir out';
    elsif coalesce(array_ndims(new.multidir), 1) <> 1 then
        why := 'multidir must be a list of folders, such as {sim0,sim1,sim2,sim3}';
    elsif cardinality(new.multidir) = 1 then
        why := 'multidir names 1 folder; name 2 to 32, or leave it out and give the path of the file';
    elsif cardinality(new.multidir) > 32 then
        why := format('multidir names %s folders; name 2 to 32, and add the others as another row',
            cardinality(new.multidir));
    end if;
    if why is null then
        select f.folder into other from unnest(new.multidir) with ordinality f (folder, place)
            where f.folder is null or f.folder = '' or octet_length(f.folder) > 200 or f.folder ~ '[[:cntrl:]]'
                or f.folder ~ '^/' or f.folder ~ '/$' or f.folder ~ '//' or f.folder ~ '(^|/)\.'
            order by f.place limit 1;
        if found then
            why := format('multidir names %s; name folders inside the folder of tpr_path, each at most 200 bytes, '
                'without control characters, and without names that are empty or begin with a dot',
                coalesce(to_json(left(other, 200))::text, 'nothing'));
        end if;
    end if;
    if why is null then
        select f.folder into other from unnest(new.multidir) f (folder) group by f.folder having count(*) > 1 limit 1;
        if found then
            why := format('multidir names the folder %s twice; leave one out', to_json(other));
        end if;
    end if;
    if why is null then
        select f.folder into other from unnest(new.multidir) f (folder)
            where octet_length(new.tpr_path) + octet_length(f.folder) >= 900 limit 1;
        if found then
            why := format('the path of tpr_path in the folder %s is longer than 900 bytes; shorten it', to_json(other));
        end if;
    end if;
    if why is not null then
        raise exception using errcode = 'check_violation', constraint = 'gromacs_to_tune_multidir_allowed',
            table = 'gromacs_to_tune', message = why;
    end if;
    return new;
end
$$;
comment on function gromacs_before_insert_multidir is 'Says what is wrong with the folders of several simulations.';
create trigger gromacs_before_insert_multidir before insert on gromacs_to_tune
    for each row when (new.multidir <> '{}') execute function gromacs_before_insert_multidir();

-- Whose a row is and where it runs was checked when it was inserted, and stays.
create function gromacs_refuse_change() returns trigger language plpgsql as $$
begin
    raise exception using errcode = 'insufficient_privilege', constraint = 'gromacs_to_tune_change_allowed',
        message = 'id, uuid, owner and namespace of a row never change; insert another row';
end
$$;
create trigger gromacs_refuse_change before update of id, uuid, owner, namespace on gromacs_to_tune
    for each row when (old.id <> new.id or old.uuid <> new.uuid or old.owner <> new.owner or old.namespace <> new.namespace)
    execute function gromacs_refuse_change();

-- A row that is in work has a ScavengerJob, which nobody would remove.
create function gromacs_refuse_delete() returns trigger language plpgsql as $$
begin
    raise exception using errcode = 'insufficient_privilege', constraint = 'gromacs_to_tune_delete_allowed',
        message = format('row %s is %s; only completed, failed and cancelled rows can be deleted: set '
            'cancel_requested and wait', old.id, old.state);
end
$$;
create trigger gromacs_refuse_delete before delete on gromacs_to_tune
    for each row when (old.state not in ('completed', 'failed', 'cancelled'))
    execute function gromacs_refuse_delete();

-- What a ScavengerJob was made from stays while there is one. The submitter writes some of these columns itself.
create function gromacs_edit_allowed() returns trigger language plpgsql as $$
begin
    if new.image is distinct from old.image then
        new.pinned_image := null;
        new.inspect_again := true;
    end if;
    if new.state not in ('queued', 'completed', 'failed', 'cancelled')
        and not pg_has_role(session_user, 'gromacs_submitter', 'member')
    then
        raise exception using errcode = 'check_violation', constraint = 'gromacs_to_tune_edit_allowed',
            table = 'gromacs_to_tune', message = format('row %s is %s, and a row can be changed only while it is '
                'queued or has ended: cancel it, change it, and retry', new.id, new.state);
    end if;
    return new;
end
$$;
comment on function gromacs_edit_allowed is 'Lets what a row asks for be changed only while it is queued or has ended.';
-- Generated from schema/src/row: trigger of edits
create trigger gromacs_edit_allowed before update of image, append, mdrun_options, grompp_options, node_labels,
    held, after, priority, max_cpu_millicores, max_memory_bytes, max_gpus, min_cpu_millicores, min_ns_per_day,
    interruption_after_seconds, fallback_after_seconds, min_efficiency, max_configurations, gpu_price, memory_price,
    atoms, box_nm, nsteps, init_step, dt_ps, cutoff_nm, rlist_nm, nstlist, pme_grid, pme_order, bonded_interactions,
    constraints, gpu_nonbonded, gpu_pme, gpu_bonded, gpu_update, gromacs_version
    on gromacs_to_tune for each row execute function gromacs_edit_allowed();
-- End of what is generated.
-- The tenant's limits hold for what is changed as for what is inserted.
create trigger gromacs_before_edit before update of image, max_cpu_millicores, max_memory_bytes, max_gpus,
    interruption_after_seconds on gromacs_to_tune
    for each row when (old.image is distinct from new.image or old.max_cpu_millicores is distinct from new.max_cpu_millicores
        or old.max_memory_bytes is distinct from new.max_memory_bytes or old.max_gpus is distinct from new.max_gpus
        or old.interruption_after_seconds is distinct from new.interruption_after_seconds)
    execute function gromacs_before_insert();

-- With the rights of the role that edits.
create function gromacs_read_again() returns trigger language plpgsql as $$
begin
    new.inspect_again := true;
    return new;
end
$$;
comment on function gromacs_read_again is 'Lets the file of a row be made and read again once its grompp_options are others.';
create trigger gromacs_read_again before update of grompp_options on gromacs_to_tune
    for each row when (old.grompp_options is distinct from new.grompp_options) execute function gromacs_read_again();

-- A row begins when every row of its column after is completed. Whether one is not is kept in waits_for_rows, so that a
-- claim goes over no rows that wait. It is worked out again when the row is inserted or queued again, when after changes,
-- and when a row that it names is completed, or goes on after that. A row that was inspected has begun, and waits for none
-- unless after changes.
--
-- The rows that are waited for are locked meanwhile: one that is completed at this moment either is seen as completed,
-- or finds this row among those that wait for it.
create function gromacs_wait() returns trigger language plpgsql as $$
declare
    other bigint;
begin
    if tg_op = 'UPDATE' and new.after is distinct from old.after then
        -- Two changes at a time could close a circle that neither of them sees.
        perform gromacs_lock_adding();
    end if;
    perform from gromacs_to_tune p where p.id = any (new.after) and p.id <> new.id order by p.id for share;
    if tg_op = 'INSERT' or new.after is distinct from old.after then
        select a.id into other from unnest(new.after) with ordinality a (id, place)
            where a.id is not null
                and not exists (select from gromacs_to_tune p where p.id = a.id and p.owner = new.owner)
            order by a.place limit 1;
        if found then
            raise exception using errcode = 'check_violation', constraint = 'gromacs_to_tune_after_allowed',
                table = 'gromacs_to_tune', message = format('after names row %s, and %s has no row %s; name rows '
                    'that %s added before', other, new.owner, other, new.owner);
        end if;
    end if;
    if tg_op = 'UPDATE' and new.after is distinct from old.after then
        with recursive before (named, id) as (
            select a, a from unnest(new.after) a
            union
            select b.named, a from before b join gromacs_to_tune p on p.id = b.id, unnest(p.after) a
            where b.id <> new.id)
        select b.named into other from before b where b.id = new.id order by b.named limit 1;
        if found then
            raise exception using errcode = 'check_violation', constraint = 'gromacs_to_tune_after_allowed',
                table = 'gromacs_to_tune', message = case when other = new.id
                    then format('row %s cannot come after itself; leave it out', new.id)
                    else format('row %s cannot come after row %s, which waits for row %s, directly or through others; '
                        'leave it out', new.id, other, new.id) end;
        end if;
    end if;
    new.waits_for_rows := exists (
        select from gromacs_to_tune p where p.id = any (new.after) and p.state <> 'completed');
    if tg_op = 'UPDATE' and old.waits_for_rows and not new.waits_for_rows then
        new.next_attempt_time := now();
        perform pg_notify('gromacs_to_tune', '');
    end if;
    return new;
end
$$;
comment on function gromacs_wait is 'Checks the column after, and works out waits_for_rows.';
create trigger gromacs_wait_insert before insert on gromacs_to_tune
    for each row when (new.after <> '{}') execute function gromacs_wait();
create trigger gromacs_wait_update before update of after, state on gromacs_to_tune
    for each row when (old.after is distinct from new.after
        or (new.after <> '{}' and new.state = 'queued' and old.state <> 'queued'
            and (new.inspected is null or new.waits_for_rows)))
    execute function gromacs_wait();

-- Rows that wait are locked first, and judged by a statement of their own: it sees what was committed while the lock was
-- waited for, such as the completion of another row that they wait for. Operators are named with their schema: the function
-- runs with its owner's rights, and nobody can slip one in between.
create function gromacs_wait_over() returns trigger language plpgsql security definer as $$
declare
    waiting bigint[];
begin
    if new.state = 'completed' then
        waiting := array(
            select q.id from gromacs_to_tune q
            where q.after operator(pg_catalog.<>) '{}' and q.after operator(pg_catalog.@>) array[new.id]
                and q.waits_for_rows
            order by q.id for update);
        if cardinality(waiting) > 0 then
            update gromacs_to_tune q set waits_for_rows = false, next_attempt_time = now()
            where q.id = any (waiting) and not exists (
                select from gromacs_to_tune p where p.id = any (q.after) and p.state <> 'completed');
            perform pg_notify('gromacs_to_tune', '');
        end if;
    else
        update gromacs_to_tune q set waits_for_rows = true
        where q.after operator(pg_catalog.<>) '{}' and q.after operator(pg_catalog.@>) array[new.id]
            and q.state = 'queued' and q.inspected is null and not q.waits_for_rows;
    end if;
    return null;
end
$$;
comment on function gromacs_wait_over is 'Lets rows go on that waited for a row that is completed now.';
-- One plan is right for every row: only few rows wait for one.
alter function gromacs_wait_over set plan_cache_mode = force_generic_plan;
alter function gromacs_wait_over set enable_seqscan = off;
create trigger gromacs_wait_over after update on gromacs_to_tune
    for each row when (old.state is distinct from new.state and 'completed' in (old.state, new.state))
    execute function gromacs_wait_over();

-- What was never completed would count as completed.
create function gromacs_refuse_delete_waited_for() returns trigger language plpgsql security definer as $$
declare
    waiting bigint;
begin
    select min(q.id) into waiting from gromacs_to_tune q
        where q.after operator(pg_catalog.<>) '{}' and q.after operator(pg_catalog.@>) array[old.id]
            and q.state = 'queued' and q.waits_for_rows;
    if waiting is not null then
        raise exception using errcode = 'check_violation', constraint = 'gromacs_to_tune_delete_allowed',
            table = 'gromacs_to_tune', message = format('row %s is %s, and row %s waits for it: retry row %s, or change '
                'what row %s comes after (gromacs-submitter edit %s --no-after), or cancel row %s',
                old.id, old.state, waiting, old.id, waiting, waiting, waiting);
    end if;
    return old;
end
$$;
alter function gromacs_refuse_delete_waited_for set plan_cache_mode = force_generic_plan;
alter function gromacs_refuse_delete_waited_for set enable_seqscan = off;
create trigger gromacs_refuse_delete_waited_for before delete on gromacs_to_tune
    for each row when (old.state in ('failed', 'cancelled')) execute function gromacs_refuse_delete_waited_for();

-- With the rights of the role that asks.
create function gromacs_waits_for(of_row bigint, of_rows bigint[]) returns text language plpgsql stable as $$
declare
    lost gromacs_to_tune;
    named text[];
begin
    select p.* into lost from gromacs_to_tune p
        where p.id = any (of_rows) and p.state in ('failed', 'cancelled') order by p.id limit 1;
    if found then
        return format('row %s %s, and this row begins only after that is completed: retry row %s, or let this row go on '
            'without it (gromacs-submitter edit %s --no-after)',
            lost.id, case lost.state when 'failed' then 'failed' else 'was cancelled' end, lost.id, of_row);
    end if;
    named := array(
        select format('%s (%s)', p.id, p.state) from gromacs_to_tune p
        where p.id = any (of_rows) and p.state <> 'completed' order by p.id);
    return case cardinality(named)
        when 0 then null
        when 1 then concat('waits for row ', named[1])
        else concat('waits for rows ', array_to_string(named[1:5], ', '),
            case when cardinality(named) > 5 then concat(' and ', cardinality(named) - 5, ' more') end) end;
end
$$;
comment on function gromacs_waits_for is 'Which of its rows after the row waits for, and what to do if one of them has failed; null if they are completed.';

-- A row that is released is due at once.
create function gromacs_released() returns trigger language plpgsql as $$
begin
    new.next_attempt_time := now();
    perform pg_notify('gromacs_to_tune', '');
    return new;
end
$$;
create trigger gromacs_released before update of held on gromacs_to_tune
    for each row when (old.held and not new.held) execute function gromacs_released();

-- A retry that is asked for while the row has not ended would be carried out whenever it ends: a row that is cancelled
-- later would run again.
create function gromacs_retry_allowed() returns trigger language plpgsql as $$
begin
    if new.retry_requested and not old.retry_requested and new.state not in ('failed', 'cancelled') then
        raise exception 'row % is %, and only a row that failed or was cancelled can be tried again', new.id, new.state
            using errcode = 'check_violation', constraint = 'gromacs_to_tune_retry_allowed',
                table = 'gromacs_to_tune';
    end if;
    return new;
end
$$;
comment on function gromacs_retry_allowed is 'Lets retry_requested be set in state failed or cancelled only.';
create trigger gromacs_retry_allowed before update of retry_requested on gromacs_to_tune
    for each row execute function gromacs_retry_allowed();

-- A completed row goes on for longer: a request like a retry, which the submitter carries out. Fires before
-- gromacs_before_update, in the order of the names, which then makes the row due.
create function gromacs_before_extend() returns trigger language plpgsql as $$
declare
    refusal text := case
        when new.kind <> 'simulation' then format('row %s is a calibration, which cannot be extended; add another one', new.id)
        when new.state in ('failed', 'cancelled') then format('row %s is %s, and only a completed row can be extended: '
            'retry it first', new.id, new.state)
        when new.state <> 'completed' then format('row %s is %s, and only a completed row can be extended: wait for its '
            'end', new.id, new.state)
        when new.inspected ->> 'integrator' in ('steep', 'cg', 'l-bfgs') then format('row %s minimises an energy and has '
            'no length; only dynamics can be extended', new.id)
        when new.nsteps is null or new.dt_ps is null then format('nsteps or dt_ps of row %s is not known; add its file '
            'again', new.id)
        when new.extended_nsteps is null or new.extended_nsteps <= new.nsteps then format('row %s has done %s steps (%s ns) '
            'already; extend it to more', new.id, new.nsteps,
            trim_scale(round(new.nsteps::numeric * new.dt_ps::numeric / 1000, 6)))
    end;
begin
    if refusal is not null then
        raise exception using errcode = 'check_violation', constraint = 'gromacs_to_tune_extended_nsteps_allowed',
            table = 'gromacs_to_tune', message = refusal;
    end if;
    new.retry_requested := true;
    return new;
end
$$;
comment on function gromacs_before_extend is 'Lets extended_nsteps be set on completed simulations only, and requests that they go on.';
create trigger gromacs_before_extend before update of extended_nsteps on gromacs_to_tune
    for each row when (old.extended_nsteps is distinct from new.extended_nsteps)
    execute function gromacs_before_extend();

-- A request of the user makes the row due at once, whatever delay it sits out.
-- A cancel wins against a retry that was not carried out; what was cancelled once can be tried again.
create function gromacs_before_update() returns trigger language plpgsql as $$
begin
    if new.cancel_requested and not old.cancel_requested then
        new.retry_requested := false;
    elsif new.retry_requested and not old.retry_requested then
        new.cancel_requested := false;
    end if;
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
create trigger gromacs_before_update before update on gromacs_to_tune for each row
    when (old.state is distinct from new.state or (new.cancel_requested and not old.cancel_requested)
        or (new.retry_requested and not old.retry_requested))
    execute function gromacs_before_update();

-- The history is written with the rights of its owner, since nobody else may; and only if there is something to
-- write, since a claim should cost little. Every expression fits a function of pg_catalog exactly, so that nobody can
-- slip one in between.
create function gromacs_record_event() returns trigger language plpgsql security definer as $$
begin
    if tg_op = 'INSERT' then
        insert into gromacs_event (row_id, state, submission, configuration, message)
            values (new.id, new.state, new.submission, new.configuration, new.reason);
        return null;
    end if;
    -- A change of configuration is told in the words that announced it, also where the next attempt began meanwhile.
    if new.configuration is distinct from old.configuration and new.configuration = old.next_configuration and new.reason is distinct from old.reason then
        insert into gromacs_event (row_id, state, submission, configuration, message)
            values (new.id, old.state, new.submission, new.configuration, old.reason);
    end if;
    if new.state is distinct from old.state or new.submission is distinct from old.submission
        or new.configuration is distinct from old.configuration
    then
        insert into gromacs_event (row_id, state, submission, configuration, message)
            values (new.id, new.state, new.submission, new.configuration, new.reason);
    end if;
    if new.cancel_requested and not old.cancel_requested then
        insert into gromacs_event (row_id, state, submission, configuration, message)
            values (new.id, new.state, new.submission, new.configuration, concat('cancel requested by ', session_user));
    end if;
    if new.retry_requested and not old.retry_requested then
        insert into gromacs_event (row_id, state, submission, configuration, message)
            values (new.id, new.state, new.submission, new.configuration, case
                when new.extended_nsteps is distinct from old.extended_nsteps
                    then concat('extension to ', new.extended_nsteps, ' steps requested by ', session_user)
                else concat('retry requested by ', session_user) end);
    end if;
    return null;
end
$$;
create trigger gromacs_record_insert after insert on gromacs_to_tune
    for each row execute function gromacs_record_event();
create trigger gromacs_record_event after update on gromacs_to_tune for each row
    when (old.state is distinct from new.state or old.submission is distinct from new.submission
        or old.configuration is distinct from new.configuration or (new.cancel_requested and not old.cancel_requested)
        or (new.retry_requested and not old.retry_requested))
    execute function gromacs_record_event();

create function gromacs_record_late() returns trigger language plpgsql security definer as $$
declare
    minutes bigint := new.late_seconds / 60;
begin
    insert into gromacs_event (row_id, state, submission, configuration, message)
        values (new.id, new.state, new.submission, new.configuration, case
            when new.late_seconds is null then 'is expected to meet its deadline again'
            when minutes < 1 then 'will just miss its deadline'
            else concat('will miss its deadline by about ', case
                when minutes < 90 then concat(minutes, ' min')
                when minutes < 2880 then concat(minutes / 60, ' h')
                else concat(minutes / 1440, ' d') end) end);
    return null;
end
$$;
comment on function gromacs_record_late is 'Writes into the history that a row is expected to miss its deadline, or to meet it again.';
create trigger gromacs_record_late after update of late_seconds on gromacs_to_tune for each row
    when ((old.late_seconds is null) <> (new.late_seconds is null)
        and new.state not in ('completed', 'failed', 'cancelled') and new.deadline is not null)
    execute function gromacs_record_late();

create function gromacs_count_insert() returns trigger language plpgsql security definer as $$
begin
    insert into gromacs_state_count (state, rows) select n.state, count(*) from new_rows n group by n.state;
    return null;
end
$$;
create function gromacs_count_delete() returns trigger language plpgsql security definer as $$
begin
    insert into gromacs_state_count (state, rows) select o.state, -count(*) from old_rows o group by o.state;
    return null;
end
$$;
create function gromacs_count_update() returns trigger language plpgsql security definer as $$
begin
    insert into gromacs_state_count (state, rows) values (old.state, -1), (new.state, 1);
    return null;
end
$$;
create trigger gromacs_count_insert after insert on gromacs_to_tune
    referencing new table as new_rows for each statement execute function gromacs_count_insert();
create trigger gromacs_count_delete after delete on gromacs_to_tune
    referencing old table as old_rows for each statement execute function gromacs_count_delete();
create trigger gromacs_count_update after update on gromacs_to_tune
    for each row when (old.state is distinct from new.state) execute function gromacs_count_update();

create function gromacs_lock_adding() returns void language sql security definer as $$
    insert into gromacs_add_lock (owner) values (session_user)
        on conflict (owner) do update set owner = excluded.owner
$$;
comment on function gromacs_lock_adding is 'Waits until no other transaction of the same role adds rows.';

-- The rule of who is claimed stands here and nowhere else. It is a function because the room of the owners must be
-- counted after the lock is held: the statements of a function see what was committed before each of them, those of one
-- big statement only what was committed before it waited. Several statements of the client would see the same, with a
-- round trip each.
--
-- It runs with the rights of its caller: row level security and grants bind as they would without it. It commits
-- as every other write, not later: a lease that a crash of the server took back would let two submitters work on a row.
create function gromacs_claim(
    holder text, lease_seconds double precision, busy bigint[], wanted integer, early boolean, max_waiting integer)
returns setof gromacs_to_tune language plpgsql as $$
declare
    taken bigint[];
    queued bigint[];
    further bigint;
    was_cut boolean;
    share integer;
begin
    -- What people ask for comes first, even if there is no room for one more: few ask, and none waits behind rows that are
    -- due for longer.
    taken := array(
        select q.id from gromacs_to_tune q
        where q.cancel_requested and q.state in ('queued', 'inspecting', 'tuning', 'submitted', 'running', 'interrupted')
            and (early or q.next_attempt_time <= now())
            and (q.lease_until is null or q.lease_until < now() or q.lease_holder = holder)
            and q.id not in (select unnest(busy))
        order by q.id limit wanted for update skip locked);
    taken := taken || array(
        select q.id from gromacs_to_tune q
        where q.retry_requested and q.state in ('completed', 'failed', 'cancelled') and (early or q.next_attempt_time <= now())
            and (q.lease_until is null or q.lease_until < now() or q.lease_holder = holder)
            and q.id not in (select unnest(busy))
        order by q.id limit wanted - cardinality(taken) for update skip locked);

    -- Of what is left a quarter is for new rows, whatever is due, and one of two: a submitter that cannot keep up with the
    -- rows in work still begins others.
    share := wanted - cardinality(taken);
    share := case when share >= 2 then greatest(1, share / 4) else 0 end;

    -- Rows in work, the one that is due for longest first. A lease of this holder on a row that is not busy was left
    -- behind by a failed write, and is taken again.
    taken := taken || array(
        select q.id from gromacs_to_tune q
        where q.state in ('inspecting', 'tuning', 'submitted', 'running', 'interrupted')
            and (q.next_attempt_time <= now() or (early and q.failures = 0))
            and (q.lease_until is null or q.lease_until < now() or q.lease_holder = holder)
            and q.id <> all (busy || taken)
        order by q.next_attempt_time limit wanted - cardinality(taken) - share for update skip locked);

    -- New rows: who has least in the cluster comes first, then each owner's first rows in turn.
    if cardinality(taken) < wanted then
        -- One at a time, so that two submitters do not both count the same room under max_waiting. The one that has it waits
        -- for no row.
        lock table gromacs_claim_lock in exclusive mode;
        -- What somebody else writes at the moment is skipped. Only if rows were missed by that are more looked at than
        -- are wanted: a transaction that holds more than 8 holds up nobody else's.
        foreach further in array array[0, 8] loop
            -- Owners and their namespaces are found by skipping from one to the next in the index, so that neither a
            -- backlog of one nor its length costs the others anything. Only what is taken is locked.
            with recursive tenants as (
                (select q.owner, q.namespace from gromacs_to_tune q
                where q.state = 'queued' and not q.held and not q.waits_for_rows order by q.owner, q.namespace limit 1)
                union all
                select n.owner, n.namespace from tenants t, lateral (
                    select q.owner, q.namespace from gromacs_to_tune q
                    where q.state = 'queued' and not q.held and not q.waits_for_rows
                        and (q.owner, q.namespace) > (t.owner, t.namespace)
                    order by q.owner, q.namespace limit 1) n),
            -- A queued row counts while somebody works on it; a lease that has ended is as good as none.
            owners as materialized (
                -- What waits for something of its own does not count, up to nine times as many rows.
                select w.owner, greatest(count(*) filter (where not w.blocked), count(*) - 9 * max_waiting::bigint) as waiting
                from gromacs_to_tune w
                where (w.state in ('inspecting', 'tuning', 'submitted', 'interrupted')
                        or (w.state = 'queued' and w.lease_until is not null))
                    and (w.state <> 'queued' or (w.lease_until >= now()
                        and (w.lease_holder <> holder or w.id = any (busy))))
                group by w.owner),
            heads as materialized (
                select h.id, coalesce(o.waiting, 0) as waiting,
                    row_number() over (partition by t.owner order by h.priority desc, h.id) as turn
                from tenants t left join owners o using (owner),
                lateral (
                    select q.id, q.priority from gromacs_to_tune q
                    where q.state = 'queued' and not q.held and not q.waits_for_rows
                        and q.owner = t.owner and q.namespace = t.namespace
                        and (q.next_attempt_time <= now() or (early and q.failures = 0))
                        and (q.lease_until is null or q.lease_until < now() or q.lease_holder = holder)
                        and q.id <> all (busy || taken)
                    order by q.priority desc, q.id
                    limit greatest(0, least(wanted - cardinality(taken) + further, max_waiting - coalesce(o.waiting, 0), (
                        select l.max_rows_in_work - (select count(*) from gromacs_to_tune w
                            where w.owner = t.owner and w.namespace = t.namespace
                                and (w.state in ('inspecting', 'tuning', 'submitted', 'running', 'interrupted')
                                    or (w.state = 'queued' and w.lease_until is not null))
                                and (w.state <> 'queued' or (w.lease_until >= now()
                                    and (w.lease_holder <> holder or w.id = any (busy)))))
                        from gromacs_tenant l
                        where l.database_role = t.owner and l.namespace = t.namespace
                            and l.max_rows_in_work is not null)))) h)
            select
                array(
                    select l.id from (
                        select h.id, h.waiting + h.turn as turn from heads h
                        where h.waiting + h.turn <= max_waiting order by 2, h.id) p,
                    -- One row at a time by its key, in this order, until there are enough.
                    lateral (
                        select q.id from gromacs_to_tune q
                        where q.id = p.id and q.state = 'queued' and not q.held and not q.waits_for_rows
                            and (q.lease_until is null or q.lease_until < now() or q.lease_holder = holder)
                        for update skip locked) l
                    order by p.turn, p.id limit wanted - cardinality(taken)),
                exists (select from heads h where h.turn >= wanted - cardinality(taken))
            into queued, was_cut;
            exit when cardinality(queued) = wanted - cardinality(taken) or not was_cut;
        end loop;
        taken := taken || queued;
    end if;

    -- The share of new rows that there were none for.
    if cardinality(taken) < wanted then
        taken := taken || array(
            select q.id from gromacs_to_tune q
            where q.state in ('inspecting', 'tuning', 'submitted', 'running', 'interrupted')
                and (q.next_attempt_time <= now() or (early and q.failures = 0))
                and (q.lease_until is null or q.lease_until < now() or q.lease_holder = holder)
                and q.id <> all (busy || taken)
            order by q.next_attempt_time limit wanted - cardinality(taken) for update skip locked);
    end if;

    -- Rows that have ended and whose ScavengerJob is to be removed.
    if cardinality(taken) < wanted then
        taken := taken || array(
            select q.id from gromacs_to_tune q
            where q.job_expiry_time <= now() and q.state in ('completed', 'failed', 'cancelled')
                and (q.next_attempt_time <= now() or (early and q.failures = 0))
                and (q.lease_until is null or q.lease_until < now() or q.lease_holder = holder)
                and q.id <> all (busy || taken)
            order by q.job_expiry_time limit wanted - cardinality(taken) for update skip locked);
    end if;

    return query
        update gromacs_to_tune q
        set lease_holder = holder, lease_until = now() + make_interval(secs => lease_seconds)
        where q.id = any (taken) returning q.*;
end
$$;
comment on function gromacs_claim is 'Leases to holder, for lease_seconds, up to wanted rows that are due, but none of busy, and returns them: requests, then rows in work, of which a quarter is kept for new rows in turn from each owner as long as no more than max_waiting of an owner wait in the cluster (those that are blocked do not count, up to nine times as many), then finished ones to clean up after. With early also rows before their time, unless they sit out a delay after a failure. Rows that are held, or that come after rows that are not completed, are not begun.';
-- Planning takes several times as long as running it, and one plan is right for all arguments. The planner, which can
-- not know how few rows are wanted, must not think of reading the backlog.
alter function gromacs_claim set plan_cache_mode = force_generic_plan;
alter function gromacs_claim set enable_seqscan = off;
alter function gromacs_claim set enable_bitmapscan = off;

-- With the rights of the role that asks: nobody sees even a number of others' rows. Nobody counts further than to the limit.
create function gromacs_turn(of_owner text, of_namespace text) returns text language plpgsql stable as $$
declare
    seen gromacs_submitter_seen;
    most integer;
    found_rows bigint;
    all_rows bigint;
begin
    select s.* into seen from gromacs_submitter_seen s order by s.seen_time desc limit 1;
    if not found then
        return 'no submitter runs; start gromacs-submitter run';
    end if;
    if seen.seen_time < now() - interval '2 minutes' then
        return concat('no submitter has been heard of for ',
            (extract(epoch from now() - seen.seen_time) / 60)::bigint, ' min');
    end if;
    select t.max_rows_in_work into most from gromacs_tenant t
        where t.database_role = of_owner and t.namespace = of_namespace;
    if most is not null then
        select count(*) into found_rows from (
            select from gromacs_to_tune q where q.owner = of_owner and q.namespace = of_namespace
                and q.state in ('inspecting', 'tuning', 'submitted', 'running', 'interrupted') limit most) w;
        if found_rows >= most then
            return concat(found_rows, case when found_rows = 1 then ' row is' else ' rows are' end, ' in work in namespace ',
                of_namespace, ', the limit of the tenant is ', most);
        end if;
    end if;
    select count(*) into found_rows from (
        select from gromacs_to_tune q where q.owner = of_owner and not q.blocked
            and q.state in ('inspecting', 'tuning', 'submitted', 'interrupted') limit seen.max_waiting) w;
    if found_rows < seen.max_waiting then
        select count(*) into all_rows from (
            select from gromacs_to_tune q where q.owner = of_owner
                and q.state in ('inspecting', 'tuning', 'submitted', 'interrupted')
            limit 10 * seen.max_waiting::bigint) w;
        if all_rows >= 10 * seen.max_waiting::bigint then
            return concat(all_rows, ' rows of ', of_owner, ' wait in the cluster, most of them for something of their '
                'own (gromacs-submitter list says what for); remove its cause, or cancel them');
        end if;
    end if;
    if found_rows >= seen.max_waiting then
        return concat(found_rows, case when found_rows = 1 then ' row of ' || of_owner || ' waits'
            else ' rows of ' || of_owner || ' wait' end, ' in the cluster, the limit of the submitter is ', seen.max_waiting);
    end if;
    return null;
end
$$;
comment on function gromacs_turn is 'What a queued row of this owner and namespace waits for; null if it is simply not its turn.';

-- xmax is the transaction that locked or changed the row last. It has 32 bits, and is at most half of them away from
-- the transactions that run now, which are those beyond the snapshot's. Several that share a lock have a number of another
-- kind: it is taken for a transaction that is over, or that has not begun, which is an error.
create function gromacs_in_transaction(changed_by xid) returns boolean language plpgsql stable as $$
declare
    here bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    whole bigint := (here >> 32 << 32) | changed_by::text::bigint;
begin
    if changed_by = '0'::xid then
        return false;
    end if;
    if whole >= here + (1::bigint << 31) then
        whole := whole - (1::bigint << 32);
    end if;
    return whole > 0 and coalesce(pg_xact_status(whole::text::xid8) = 'in progress', false);
exception when invalid_parameter_value then
    return false;
end
$$;
comment on function gromacs_in_transaction is 'True if the transaction has not ended.';

-- A row that waits is late from its deadline on, whether anybody has looked at it or not.
create function gromacs_late_seconds(row_of gromacs_to_tune) returns bigint language sql stable as $$
    select nullif(greatest(0, case
        when (row_of).deadline is null or (row_of).state in ('failed', 'cancelled') then 0
        when (row_of).state = 'completed' then extract(epoch from (row_of).finish_time - (row_of).deadline)
        else greatest((row_of).late_seconds, extract(epoch from now() - (row_of).deadline)) end)::bigint, 0)
$$;
comment on function gromacs_late_seconds is 'Seconds by which a row has missed its deadline or is expected to miss it; null if it has none, or meets it.';

-- Functions find what they name where it was made, whatever search_path is set by who calls or fires them; pg_temp
-- would come first if it were not named. Nobody else may hang them onto a table of their own: that of the history
-- would then write whatever it is told.
do $$
declare
    made regprocedure;
begin
    for made in
        select p.oid from pg_proc p
        where p.pronamespace = current_schema()::regnamespace and p.proname like 'gromacs\_%'
    loop
        execute format('alter function %s set search_path = pg_catalog, %I, pg_temp', made, current_schema());
        execute format('revoke execute on function %s from public', made);
    end loop;
end
$$;

create view gromacs_queue with (security_invoker = true) as
select
    q.id,
    q.owner,
    q.namespace,
    q.tpr_path,
    q.state,
    case
        when q.state = 'queued' and q.held then 'is held; release it to begin'
        when q.state = 'queued' and q.waits_for_rows then gromacs_waits_for(q.id, q.after)
        -- Transactions that have changed or locked the row and have not committed.
        when q.state = 'queued' and q.lease_holder is null and gromacs_in_transaction(q.xmax)
            then 'waits for its turn: an open transaction holds the row; commit it'
        when q.reason is null and q.state = 'queued'
            then concat('waits for its turn', ': ' || gromacs_turn(q.owner, q.namespace))
        else q.reason
    end as reason,
    case when l.configuration is not null then
        trim_scale(l.cpu_millicores / 1000.0) || case when l.cpu_millicores = 1000 then ' core, ' else ' cores, ' end
        || case when l.gpus = 1 then '1 GPU, ' when l.gpus > 1 then l.gpus || ' GPUs, ' else '' end
        || ceil(l.memory_bytes / 1048576.0) || ' MiB, '
        || (l.layout ->> 'ntmpi') || 'x' || (l.layout ->> 'ntomp')
    end as configuration,
    l.configuration as configuration_number,
    r.configurations,
    q.step,
    least(9223372036854775807, coalesce(q.init_step, 0)::numeric + q.nsteps)::bigint as last_step,
    case when q.state = 'completed' and q.inspected ->> 'integrator' in ('steep', 'cg', 'l-bfgs') then 100.0
        when q.nsteps > 0 and q.step is not null then
        round((100.0 * greatest(0, least(q.step - coalesce(q.init_step, 0), q.nsteps)) / q.nsteps)::numeric, 1)
    end as percent,
    q.ns_per_day,
    case when q.state = 'running' and q.ns_per_day > 0 and q.step is not null then
        q.progress_time + make_interval(secs =>
            -- At most 30 years: a longer interval than Postgres knows would fail the whole view.
            least(1e9, round(greatest(0, coalesce(q.init_step, 0)::numeric + q.nsteps - q.step)
                * q.dt_ps::numeric / 1000 / q.ns_per_day::numeric * 86400, 3))::double precision)
    end as expected_finish_time,
    q.interruptions,
    a.attempts,
    q.creation_time,
    q.start_time,
    q.finish_time,
    -- Without a start there is none: greatest() passes over null.
    case when q.start_time is not null then
        greatest(0, extract(epoch from coalesce(q.finish_time, now()) - q.start_time))::bigint
    end as wall_seconds,
    a.run_seconds,
    a.lost_seconds,
    'gromacs-' || q.id || '-' || q.submission as scavenger_job,
    q.kind,
    q.project,
    q.labels,
    q.held,
    q.after,
    q.deadline,
    gromacs_late_seconds(q) as late_seconds,
    greatest(1, cardinality(q.multidir)) as simulations
from gromacs_to_tune q
left join lateral (
    select count(*) filter (where start_time is not null) as attempts,
        sum(greatest(0, extract(epoch from coalesce(t.end_time, now()) - t.start_time)))
            filter (where t.start_time is not null)::bigint as run_seconds,
        sum(t.lost_seconds)::bigint as lost_seconds,
        (array_agg(t.configuration order by t.submission desc, t.attempt desc) filter (where t.start_time is not null and t.submission = q.submission))[1] as last_configuration
    from gromacs_attempt t where t.row_id = q.id
) a on true
-- What really ran last; what is asked for until something did.
left join gromacs_ladder l on l.row_id = q.id and l.submission = q.submission
    and l.configuration = case when q.state in ('running', 'completed', 'failed') then coalesce(a.last_configuration, q.configuration) else q.configuration end
left join lateral (
    select count(*) as configurations from gromacs_ladder c where c.row_id = q.id and c.submission = q.submission
) r on true;
comment on view gromacs_queue is 'The queue for people and dashboards: state, why it waits, configuration, progress, interruptions.';
comment on column gromacs_queue.configuration is 'What it runs with, or asks for: cores, GPUs, memory, ranks x threads.';
comment on column gromacs_queue.configuration_number is 'Number in gromacs_ladder of that configuration, counted from 1; 1 is the largest.';
comment on column gromacs_queue.configurations is 'Number of configurations on the ladder.';
comment on column gromacs_queue.last_step is 'Step at which the simulation is complete.';
comment on column gromacs_queue.percent is 'Share of the steps done, in percent.';
comment on column gromacs_queue.expected_finish_time is 'When it will be complete at its present speed, if nothing interrupts it.';
comment on column gromacs_queue.attempts is 'How often mdrun was started.';
comment on column gromacs_queue.wall_seconds is 'Seconds from the first start to the end, interruptions included. Until it has ended, the start is by the clock of the node, and the present by that of the database.';
comment on column gromacs_queue.run_seconds is 'Seconds it really ran. Of an attempt that runs now the start is by the clock of its node, and the present by that of the database: nothing is decided by it.';
comment on column gromacs_queue.lost_seconds is 'Seconds of these after the last checkpoint of an attempt, as far as supervisors measured them; null if none did.';
comment on column gromacs_queue.scavenger_job is 'Name of its ScavengerJob.';
comment on column gromacs_queue.kind is 'simulation or calibration.';
comment on column gromacs_queue.project is 'What it belongs to.';
comment on column gromacs_queue.labels is 'Names and values that filters look for.';
comment on column gromacs_queue.held is 'True if it is not begun until it is released.';
comment on column gromacs_queue.after is 'Rows that must be completed before it begins.';
comment on column gromacs_queue.deadline is 'When it should be completed; null if it has no deadline.';
comment on column gromacs_queue.late_seconds is 'Seconds by which it has missed its deadline or is expected to miss it; null if it has none, or meets it.';
comment on column gromacs_queue.simulations is 'Number of simulations that it computes side by side; 1 without multidir.';

-- Rights that a default of the database gave go: they would reach columns that are not the people's.
do $$
declare
    given record;
begin
    for given in
        select distinct c.oid::regclass as relation, a.grantee
        from pg_class c, lateral (
            select grantee from aclexplode(c.relacl)
            union select x.grantee from pg_attribute t, aclexplode(t.attacl) x where t.attrelid = c.oid) a
        where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'v')
            and c.relname like 'gromacs\_%' and a.grantee <> c.relowner
    loop
        execute format('revoke all on %s from %s cascade', given.relation,
            case when given.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(given.grantee)) end);
    end loop;
    execute format('grant usage on schema %I to gromacs_chemist, gromacs_submitter, gromacs_tuner, gromacs_reader',
        current_schema());
    if to_regclass('_sqlx_migrations') is not null then
        grant select on _sqlx_migrations to gromacs_chemist, gromacs_submitter, gromacs_reader;
    end if;
end
$$;

grant select, delete on gromacs_to_tune to gromacs_chemist;
-- Project, labels, deadline and requests in any state, everything else as the trigger above lets it.
-- Generated from schema/src/row: rights
grant insert (namespace, persistent_volume_claim, tpr_path, multidir, image, run_as_user, run_as_group, append,
    checkpoint_path, mdrun_options, grompp_options, project, labels, node_labels, held, after, deadline, priority,
    max_cpu_millicores, max_memory_bytes, max_gpus, min_cpu_millicores, min_ns_per_day, interruption_after_seconds,
    fallback_after_seconds, min_efficiency, max_configurations, gpu_price, memory_price, atoms, box_nm, nsteps,
    init_step, dt_ps, cutoff_nm, rlist_nm, nstlist, pme_grid, pme_order, bonded_interactions, constraints,
    gpu_nonbonded, gpu_pme, gpu_bonded, gpu_update, gromacs_version, kind, benchmark_atoms, benchmark_ranks,
    benchmark_threads, benchmark_pme_ranks, benchmark_gpus, benchmark_node_labels) on gromacs_to_tune to gromacs_chemist;
grant update (image, append, mdrun_options, grompp_options, project, labels, node_labels, held, after, deadline,
    priority, max_cpu_millicores, max_memory_bytes, max_gpus, min_cpu_millicores, min_ns_per_day,
    interruption_after_seconds, fallback_after_seconds, min_efficiency, max_configurations, gpu_price, memory_price,
    atoms, box_nm, nsteps, init_step, dt_ps, cutoff_nm, rlist_nm, nstlist, pme_grid, pme_order, bonded_interactions,
    constraints, gpu_nonbonded, gpu_pme, gpu_bonded, gpu_update, gromacs_version, extended_nsteps, cancel_requested,
    retry_requested) on gromacs_to_tune to gromacs_chemist;
-- End of what is generated.
grant select on gromacs_ladder, gromacs_tuner_answer, gromacs_attempt, gromacs_observation, gromacs_event, gromacs_tenant,
    gromacs_queue
    to gromacs_chemist, gromacs_submitter, gromacs_reader;
grant select on gromacs_to_tune, gromacs_queue_identity, gromacs_end_report, gromacs_pool_seen
    to gromacs_submitter, gromacs_reader;
grant update on gromacs_to_tune to gromacs_submitter;
grant insert, update, delete on gromacs_ladder, gromacs_tuner_answer, gromacs_end_report to gromacs_submitter;
grant insert, update on gromacs_attempt, gromacs_pool_seen to gromacs_submitter;
grant insert on gromacs_observation, gromacs_event to gromacs_submitter;
grant select on gromacs_observation to gromacs_tuner;

-- Update for the locks: what another submitter sums up is left to it.
grant select, insert, update, delete on gromacs_state_count to gromacs_submitter;
grant select on gromacs_state_count to gromacs_reader;
grant select, insert, update, delete on gromacs_submitter_seen to gromacs_submitter;
grant select on gromacs_submitter_seen to gromacs_chemist, gromacs_reader;
grant update on gromacs_claim_lock to gromacs_submitter;
grant execute on function gromacs_claim to gromacs_submitter;
grant execute on function gromacs_lock_adding to gromacs_chemist;
grant execute on function gromacs_turn, gromacs_waits_for, gromacs_in_transaction, gromacs_late_seconds
    to gromacs_chemist, gromacs_submitter, gromacs_reader;

alter table gromacs_to_tune enable row level security;
alter table gromacs_ladder enable row level security;
alter table gromacs_tuner_answer enable row level security;
alter table gromacs_attempt enable row level security;
alter table gromacs_event enable row level security;
alter table gromacs_observation enable row level security;
alter table gromacs_tenant enable row level security;
alter table gromacs_queue_identity enable row level security;
alter table gromacs_state_count enable row level security;
alter table gromacs_submitter_seen enable row level security;
alter table gromacs_claim_lock enable row level security;
alter table gromacs_add_lock enable row level security;
alter table gromacs_end_report enable row level security;
alter table gromacs_pool_seen enable row level security;

-- session_user: what somebody logged in as, whatever role was set since.
create policy gromacs_to_tune_owner on gromacs_to_tune to gromacs_chemist
    using (owner = session_user::text) with check (owner = session_user::text);
create policy gromacs_to_tune_namespace on gromacs_to_tune as restrictive for insert to gromacs_chemist
    with check (exists (select from gromacs_tenant t
        where t.database_role = gromacs_to_tune.owner and t.namespace = gromacs_to_tune.namespace));
create policy gromacs_tenant_owner on gromacs_tenant for select to gromacs_chemist
    using (database_role = session_user::text);
create policy gromacs_observation_owner on gromacs_observation for select to gromacs_chemist
    using (owner = session_user::text);
-- Of the rows that gromacs_to_tune shows.
create policy gromacs_ladder_owner on gromacs_ladder for select to gromacs_chemist
    using (exists (select from gromacs_to_tune q where q.id = row_id));
create policy gromacs_tuner_answer_owner on gromacs_tuner_answer for select to gromacs_chemist
    using (exists (select from gromacs_to_tune q where q.id = row_id));
create policy gromacs_attempt_owner on gromacs_attempt for select to gromacs_chemist
    using (exists (select from gromacs_to_tune q where q.id = row_id));
create policy gromacs_event_owner on gromacs_event for select to gromacs_chemist
    using (exists (select from gromacs_to_tune q where q.id = row_id));

-- A role that works on all rows is kept from none; what it may do there, the grants say.
create policy gromacs_to_tune_submitter on gromacs_to_tune to gromacs_submitter using (true) with check (true);
create policy gromacs_ladder_submitter on gromacs_ladder to gromacs_submitter using (true) with check (true);
create policy gromacs_attempt_submitter on gromacs_attempt to gromacs_submitter using (true) with check (true);
create policy gromacs_observation_submitter on gromacs_observation to gromacs_submitter using (true) with check (true);
create policy gromacs_event_submitter on gromacs_event to gromacs_submitter using (true) with check (true);
create policy gromacs_tenant_submitter on gromacs_tenant for select to gromacs_submitter using (true);
create policy gromacs_queue_identity_submitter on gromacs_queue_identity for select to gromacs_submitter using (true);
create policy gromacs_observation_tuner on gromacs_observation for select to gromacs_tuner using (true);
create policy gromacs_to_tune_reader on gromacs_to_tune for select to gromacs_reader using (true);
create policy gromacs_ladder_reader on gromacs_ladder for select to gromacs_reader using (true);
create policy gromacs_attempt_reader on gromacs_attempt for select to gromacs_reader using (true);
create policy gromacs_observation_reader on gromacs_observation for select to gromacs_reader using (true);
create policy gromacs_event_reader on gromacs_event for select to gromacs_reader using (true);
create policy gromacs_tenant_reader on gromacs_tenant for select to gromacs_reader using (true);
create policy gromacs_queue_identity_reader on gromacs_queue_identity for select to gromacs_reader using (true);
create policy gromacs_claim_lock_submitter on gromacs_claim_lock to gromacs_submitter using (true);
create policy gromacs_state_count_submitter on gromacs_state_count to gromacs_submitter using (true) with check (true);
create policy gromacs_state_count_reader on gromacs_state_count for select to gromacs_reader using (true);
create policy gromacs_submitter_seen_submitter on gromacs_submitter_seen to gromacs_submitter using (true) with check (true);
create policy gromacs_submitter_seen_chemist on gromacs_submitter_seen for select to gromacs_chemist using (true);
create policy gromacs_submitter_seen_reader on gromacs_submitter_seen for select to gromacs_reader using (true);
create policy gromacs_end_report_submitter on gromacs_end_report to gromacs_submitter using (true) with check (true);
create policy gromacs_end_report_reader on gromacs_end_report for select to gromacs_reader using (true);
create policy gromacs_tuner_answer_submitter on gromacs_tuner_answer to gromacs_submitter using (true) with check (true);
create policy gromacs_tuner_answer_reader on gromacs_tuner_answer for select to gromacs_reader using (true);
create policy gromacs_pool_seen_submitter on gromacs_pool_seen to gromacs_submitter using (true) with check (true);
create policy gromacs_pool_seen_reader on gromacs_pool_seen for select to gromacs_reader using (true);
create policy gromacs_add_lock_nobody on gromacs_add_lock using (false);
