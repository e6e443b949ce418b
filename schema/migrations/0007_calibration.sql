-- Rows of kind calibration: short benchmarks that tell the tuner how fast a kind of node is (docs/calibration.md).
--
-- A calibration runs one configuration, and no other, on a box of water that is made where it runs. So it names no
-- file and describes no system: a calibration is its benchmark_* columns and its steps, and the inspection of what was
-- made fills the others.

alter table gromacs_to_tune
    add column kind text not null default 'simulation',
    add column benchmark_atoms integer,
    add column benchmark_ranks integer,
    add column benchmark_threads integer,
    add column benchmark_pme_ranks integer,
    add column benchmark_gpus integer,
    add column benchmark_node_labels jsonb,
    add constraint gromacs_to_tune_kind_valid check (kind in ('simulation', 'calibration')),
    add constraint gromacs_to_tune_benchmark_of_simulation check (kind = 'calibration' or num_nonnulls(benchmark_atoms,
        benchmark_ranks, benchmark_threads, benchmark_pme_ranks, benchmark_gpus, benchmark_node_labels) = 0),
    add constraint gromacs_to_tune_benchmark_complete check (kind <> 'calibration' or num_nulls(benchmark_atoms,
        benchmark_ranks, benchmark_threads, benchmark_pme_ranks, benchmark_gpus, benchmark_node_labels, nsteps) = 0),
    -- The smallest is 2 x 2 x 2 copies of 216 molecules: 3.7 nm, room for a cut-off of 1 nm to either side.
    add constraint gromacs_to_tune_benchmark_atoms_valid check (benchmark_atoms between 5184 and 10000000),
    -- A thousand cores, as max_cpu_millicores; mdrun is compiled for at most 128 threads in a rank.
    add constraint gromacs_to_tune_benchmark_ranks_valid check (benchmark_ranks between 1 and 1024),
    add constraint gromacs_to_tune_benchmark_threads_valid check (
        benchmark_threads between 1 and 128 and benchmark_ranks::bigint * benchmark_threads <= 1024),
    add constraint gromacs_to_tune_benchmark_pme_ranks_valid check (
        benchmark_pme_ranks >= 0 and benchmark_pme_ranks <= benchmark_ranks / 2),
    add constraint gromacs_to_tune_benchmark_gpus_valid check (benchmark_gpus in (0, 1)),
    -- Half of the steps are measured, the other half is for caches and clocks to settle.
    add constraint gromacs_to_tune_benchmark_steps_valid check (
        kind <> 'calibration' or nsteps between 200 and 200000000),
    -- As labels of a node are, at most 32 of them: the program that reads a row relies on it.
    add constraint gromacs_to_tune_benchmark_node_labels_valid check (
        case when jsonb_typeof(benchmark_node_labels) = 'object' then
            jsonb_array_length(jsonb_path_query_array(benchmark_node_labels, '$.keyvalue()')) <= 32
            and not jsonb_path_exists(benchmark_node_labels, '$.* ? (@.type() != "string")')
            and not jsonb_path_exists(benchmark_node_labels, '$.keyvalue().value
                ? (!(@ like_regex "^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"))')
            and not jsonb_path_exists(benchmark_node_labels, '$.keyvalue().key
                ? (!(@ like_regex "^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"))')
        else benchmark_node_labels is null end);
comment on column gromacs_to_tune.kind is 'simulation: computes the .tpr file. calibration: measures how fast a kind of node is.';
comment on column gromacs_to_tune.benchmark_atoms is 'Atoms of the box of water, about: it is made of whole copies of 648 atoms. Only of a calibration, as all benchmark_ columns; its nsteps are given, too.';
comment on column gromacs_to_tune.benchmark_ranks is 'Thread-MPI ranks of mdrun, those for PME included. It takes a core per rank and thread.';
comment on column gromacs_to_tune.benchmark_threads is 'OpenMP threads of each rank.';
comment on column gromacs_to_tune.benchmark_pme_ranks is 'Ranks for PME alone; 0 if not given.';
comment on column gromacs_to_tune.benchmark_gpus is 'GPUs, 0 or 1; 0 if not given.';
comment on column gromacs_to_tune.benchmark_node_labels is 'Labels that the node must have, such as {"node.kubernetes.io/instance-type": "c6a.16xlarge"}; any node of the pool if not given.';
comment on column gromacs_to_tune.tpr_path is 'Path of the .tpr file, relative to the root of the volume. A calibration makes its own: calibration-<id>/water.tpr.';

-- After gromacs_before_insert, in the order of the names: the tenant's limits are in the row by then.
create function gromacs_before_insert_benchmark() returns trigger language plpgsql as $$
declare
    cores numeric := new.benchmark_ranks::numeric * new.benchmark_threads;
begin
    if new.tpr_path is not null then
        raise exception using errcode = 'check_violation', constraint = 'gromacs_to_tune_tpr_path_allowed',
            message = 'a calibration makes its own run input; leave tpr_path out';
    end if;
    if num_nonnulls(new.atoms, new.box_nm, new.init_step, new.dt_ps, new.cutoff_nm, new.rlist_nm, new.nstlist,
        new.pme_grid, new.pme_order, new.bonded_interactions, new.constraints, new.gpu_nonbonded, new.gpu_pme,
        new.gpu_bonded, new.gpu_update, new.gromacs_version) > 0
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

-- As 0003 does with the others: it finds what it names where it was made, and only triggers call it.
do $$
begin
    execute format('alter function gromacs_before_insert_benchmark() set search_path = pg_catalog, %I, pg_temp',
        current_schema());
    execute 'revoke execute on function gromacs_before_insert_benchmark() from public';
end
$$;

grant insert (kind, benchmark_atoms, benchmark_ranks, benchmark_threads, benchmark_pme_ranks, benchmark_gpus,
    benchmark_node_labels) on gromacs_to_tune to gromacs_chemist;

alter table gromacs_observation
    drop constraint gromacs_observation_source_valid,
    add constraint gromacs_observation_source_valid check (
        source in ('simulation', 'calibration', 'benchmark', 'import'));
comment on column gromacs_observation.source is 'Kind of the row it came from, simulation or calibration; benchmark or import if it came from elsewhere.';

-- As it was, and the kind.
create or replace view gromacs_queue with (security_invoker = true) as
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
    least(9223372036854775807, coalesce(q.init_step, 0)::numeric + q.nsteps)::bigint as last_step,
    case when q.nsteps > 0 and q.step is not null then
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
    extract(epoch from coalesce(q.finish_time, now()) - q.start_time)::bigint as wall_seconds,
    a.run_seconds,
    'gromacs-' || q.id || '-' || q.submission as scavenger_job,
    q.kind
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
comment on column gromacs_queue.kind is 'simulation or calibration.';
