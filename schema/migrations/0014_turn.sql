-- Why a queued row is not begun, and who could begin it.

create table gromacs_submitter_seen (
    holder text primary key,
    max_waiting integer not null,
    seen_time timestamptz not null default now()
);
comment on table gromacs_submitter_seen is 'Submitters that work on the queue: each writes its line every 30 seconds, and takes it away when it ends.';
comment on column gromacs_submitter_seen.holder is 'The submitter, as in gromacs_to_tune.lease_holder.';
comment on column gromacs_submitter_seen.max_waiting is 'Most rows of an owner that it lets wait in the cluster (--max-waiting).';
comment on column gromacs_submitter_seen.seen_time is 'When it was alive.';
grant select, insert, update, delete on gromacs_submitter_seen to gromacs_submitter;
grant select on gromacs_submitter_seen to gromacs_chemist, gromacs_reader;
alter table gromacs_submitter_seen enable row level security;
create policy gromacs_submitter_seen_submitter on gromacs_submitter_seen to gromacs_submitter using (true) with check (true);
-- Whose it is says nothing of anybody's rows.
create policy gromacs_submitter_seen_chemist on gromacs_submitter_seen for select to gromacs_chemist using (true);
create policy gromacs_submitter_seen_reader on gromacs_submitter_seen for select to gromacs_reader using (true);

-- With the rights of the role that asks: nobody sees even a number of others' rows. Nobody counts further than to the limit.
create function gromacs_turn(of_owner text, of_namespace text) returns text language plpgsql stable as $$
declare
    seen gromacs_submitter_seen;
    most integer;
    found_rows bigint;
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
        select from gromacs_to_tune q where q.owner = of_owner
            and q.state in ('inspecting', 'tuning', 'submitted', 'interrupted') limit seen.max_waiting) w;
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

do $$
declare
    made regprocedure;
begin
    foreach made in array array['gromacs_turn(text, text)', 'gromacs_in_transaction(xid)']::regprocedure[] loop
        execute format('alter function %s set search_path = pg_catalog, %I, pg_temp', made, current_schema());
        execute format('revoke execute on function %s from public', made);
        execute format('grant execute on function %s to gromacs_chemist, gromacs_submitter, gromacs_reader', made);
    end loop;
end
$$;

-- As it was, with what a queued row waits for, and what it belongs to.
create or replace view gromacs_queue with (security_invoker = true) as
select
    q.id,
    q.owner,
    q.namespace,
    q.tpr_path,
    q.state,
    case
        when q.state = 'queued' and q.held then 'is held; release it to begin'
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
    q.kind,
    q.project,
    q.labels,
    q.held
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
comment on column gromacs_queue.project is 'What it belongs to.';
comment on column gromacs_queue.labels is 'Names and values that filters look for.';
comment on column gromacs_queue.held is 'True if it is not begun until it is released.';
