-- Deadlines and rows of several simulations show in the view, as all else that people ask about a row. New columns stand
-- behind those that were there: programs of before read on.
--
-- Times of a kubelet and of the operator stand beside the database's own clock, which may be behind: nothing lasts for less
-- than no time.
create or replace view gromacs_queue with (security_invoker = true) as
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
        (array_agg(t.rung order by t.submission desc, t.attempt desc) filter (where t.start_time is not null and t.submission = q.submission))[1] as last_rung
    from gromacs_attempt t where t.row_id = q.id
) a on true
-- What really ran last; what is asked for until something did.
left join gromacs_ladder l on l.row_id = q.id and l.submission = q.submission
    and l.rung = case when q.state in ('running', 'completed', 'failed') then coalesce(a.last_rung, q.rung) else q.rung end
left join lateral (
    select count(*) as rungs from gromacs_ladder c where c.row_id = q.id and c.submission = q.submission
) r on true;
comment on column gromacs_queue.wall_seconds is 'Seconds from the first start to the end, interruptions included. Until it has ended, the start is by the clock of the node, and the present by that of the database.';
comment on column gromacs_queue.run_seconds is 'Seconds it really ran. Of an attempt that runs now the start is by the clock of its node, and the present by that of the database: nothing is decided by it.';
comment on column gromacs_queue.deadline is 'When it should be completed; null if it has no deadline.';
comment on column gromacs_queue.late_seconds is 'Seconds by which it has missed its deadline or is expected to miss it; null if it has none, or meets it.';
comment on column gromacs_queue.simulations is 'Number of simulations that it computes side by side; 1 without multidir.';

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
grant select, insert, update on gromacs_pool_seen to gromacs_submitter;
grant select on gromacs_pool_seen to gromacs_reader;
alter table gromacs_pool_seen enable row level security;
create policy gromacs_pool_seen_submitter on gromacs_pool_seen to gromacs_submitter using (true) with check (true);
create policy gromacs_pool_seen_reader on gromacs_pool_seen for select to gromacs_reader using (true);

-- What a restart costs is measured: the time in which an attempt is there and computes nothing yet.
alter table gromacs_to_tune add column attempt_seen_time timestamptz;
comment on column gromacs_to_tune.attempt_seen_time is 'When the attempt was first seen.';
alter table gromacs_attempt
    add column restart_seconds integer,
    add constraint gromacs_attempt_restart_seconds_valid check (restart_seconds >= 0);
comment on column gromacs_attempt.restart_seconds is 'Seconds from when the attempt was first seen until it computed its first step; null if that was not seen.';
-- The newest rows of an owner that have run, without those that wait.
create index gromacs_to_tune_started on gromacs_to_tune (owner, id desc) where start_time is not null;
