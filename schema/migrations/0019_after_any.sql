-- Rows that begin when others have ended, however these ended: the column after_any, beside after.

-- Generated from schema/src/row: further columns
alter table gromacs_to_tune
    add column after_any bigint[] not null default '{}',
    add constraint gromacs_to_tune_after_any_valid check (cardinality(after_any) <= 100 and coalesce(array_ndims(after_any), 1) = 1 and array_position(after_any, null) is null);
-- End of what is generated.
-- Generated from schema/src/row: comments
comment on column gromacs_to_tune.after_any is 'Rows of the same owner that must have ended before this one begins: completed, failed or cancelled. A row that was removed has ended.';
-- End of what is generated.
-- Generated from schema/src/row: rights
grant insert (after_any) on gromacs_to_tune to gromacs_chemist;
grant update (after_any) on gromacs_to_tune to gromacs_chemist;
-- End of what is generated.
drop trigger gromacs_edit_allowed on gromacs_to_tune;
-- Generated from schema/src/row: trigger of edits
create trigger gromacs_edit_allowed before update of image, append, mdrun_options, grompp_options, node_labels,
    held, after, after_any, priority, max_cpu_millicores, max_memory_bytes, max_gpus, min_cpu_millicores,
    min_ns_per_day, interruption_after_seconds, fallback_after_seconds, min_efficiency, max_configurations,
    gpu_price, memory_price, atoms, box_nm, nsteps, init_step, dt_ps, cutoff_nm, rlist_nm, nstlist, pme_grid,
    pme_order, bonded_interactions, constraints, gpu_nonbonded, gpu_pme, gpu_bonded, gpu_update, gromacs_version
    on gromacs_to_tune for each row execute function gromacs_edit_allowed();
-- End of what is generated.
comment on column gromacs_to_tune.waits_for_rows is 'True if a row of the column after is not completed, or one of after_any has not ended: the row is not begun. Kept by triggers.';

-- Who waits for a row: asked when a row ends.
create index gromacs_to_tune_after_any on gromacs_to_tune using gin (after_any) where after_any <> '{}';

-- The rule of after and of after_any. A row that was removed counts as completed, and as ended.
create function gromacs_must_wait(of_after bigint[], of_after_any bigint[]) returns boolean language sql stable as $$
    select exists (select from gromacs_to_tune p where p.id = any (of_after) and p.state <> 'completed')
        or exists (select from gromacs_to_tune p
            where p.id = any (of_after_any) and p.state not in ('completed', 'failed', 'cancelled'))
$$;
comment on function gromacs_must_wait is 'True if one of the first rows is not completed, or one of the second has not ended.';

-- As before, with both columns.
create or replace function gromacs_wait() returns trigger language plpgsql as $$
declare
    is_changed boolean := tg_op = 'INSERT' or new.after is distinct from old.after
        or new.after_any is distinct from old.after_any;
    other bigint;
    naming text;
begin
    if tg_op = 'UPDATE' and is_changed then
        -- Two changes at a time could close a circle that neither of them sees.
        perform gromacs_lock_adding();
    end if;
    perform from gromacs_to_tune p where p.id = any (new.after || new.after_any) and p.id <> new.id order by p.id for share;
    if is_changed then
        select a.id, a.named into other, naming from (
                select b.id, 'after' as named, b.place from unnest(new.after) with ordinality b (id, place)
                union all
                select b.id, 'after_any', b.place from unnest(new.after_any) with ordinality b (id, place)) a
            where a.id is not null
                and not exists (select from gromacs_to_tune p where p.id = a.id and p.owner = new.owner)
            order by a.named, a.place limit 1;
        if found then
            raise exception using errcode = 'check_violation', constraint = format('gromacs_to_tune_%s_allowed', naming),
                table = 'gromacs_to_tune', message = format('%s names row %s, and %s has no row %s; name rows '
                    'that %s added before', naming, other, new.owner, other, new.owner);
        end if;
    end if;
    if tg_op = 'UPDATE' and is_changed then
        with recursive before (named, id) as (
            select a, a from unnest(new.after || new.after_any) a
            union
            select b.named, a from before b join gromacs_to_tune p on p.id = b.id, unnest(p.after || p.after_any) a
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
    new.waits_for_rows := gromacs_must_wait(new.after, new.after_any);
    if tg_op = 'UPDATE' and old.waits_for_rows and not new.waits_for_rows then
        new.next_attempt_time := now();
        perform pg_notify('gromacs_to_tune', '');
    end if;
    return new;
end
$$;
comment on function gromacs_wait is 'Checks the columns after and after_any, and works out waits_for_rows.';
drop trigger gromacs_wait_insert on gromacs_to_tune;
create trigger gromacs_wait_insert before insert on gromacs_to_tune
    for each row when (new.after <> '{}' or new.after_any <> '{}') execute function gromacs_wait();
drop trigger gromacs_wait_update on gromacs_to_tune;
create trigger gromacs_wait_update before update of after, after_any, state on gromacs_to_tune
    for each row when (old.after is distinct from new.after or old.after_any is distinct from new.after_any
        or ((new.after <> '{}' or new.after_any <> '{}') and new.state = 'queued' and old.state <> 'queued'
            and (new.inspected is null or new.waits_for_rows)))
    execute function gromacs_wait();

-- Operators are named with their schema: the function runs with its owner's rights.
create or replace function gromacs_wait_over() returns trigger language plpgsql security definer as $$
declare
    waiting bigint[];
begin
    if new.state in ('completed', 'failed', 'cancelled') then
        waiting := array(
            select q.id from gromacs_to_tune q
            where q.waits_for_rows and (
                (q.after operator(pg_catalog.<>) '{}' and q.after operator(pg_catalog.@>) array[new.id])
                or (q.after_any operator(pg_catalog.<>) '{}' and q.after_any operator(pg_catalog.@>) array[new.id]))
            order by q.id for update);
        if cardinality(waiting) > 0 then
            update gromacs_to_tune q set waits_for_rows = false, next_attempt_time = now()
            where q.id = any (waiting) and not gromacs_must_wait(q.after, q.after_any);
            if found then
                perform pg_notify('gromacs_to_tune', '');
            end if;
        end if;
    else
        update gromacs_to_tune q set waits_for_rows = true
        where q.state = 'queued' and q.inspected is null and not q.waits_for_rows and (
            (old.state = 'completed'
                and q.after operator(pg_catalog.<>) '{}' and q.after operator(pg_catalog.@>) array[new.id])
            or (q.after_any operator(pg_catalog.<>) '{}' and q.after_any operator(pg_catalog.@>) array[new.id]));
    end if;
    return null;
end
$$;
comment on function gromacs_wait_over is 'Lets rows go on that waited for a row that has ended now.';
drop trigger gromacs_wait_over on gromacs_to_tune;
create trigger gromacs_wait_over after update on gromacs_to_tune
    for each row when (old.state is distinct from new.state
        and (old.state in ('completed', 'failed', 'cancelled') or new.state in ('completed', 'failed', 'cancelled')))
    execute function gromacs_wait_over();

-- What a row waits for. The function of two arguments stays for the programs of the version before.
create function gromacs_waits_for(of_row bigint, of_after bigint[], of_after_any bigint[])
returns text language plpgsql stable as $$
declare
    of_completed text := gromacs_waits_for(of_row, of_after);
    named text[];
begin
    if starts_with(of_completed, 'row ') then
        -- It says what to do, which comes first.
        return of_completed;
    end if;
    named := array(
        select format('%s (%s)', p.id, p.state) from gromacs_to_tune p
        where p.id = any (of_after_any) and p.state not in ('completed', 'failed', 'cancelled') order by p.id);
    if cardinality(named) = 0 then
        return of_completed;
    end if;
    return concat(of_completed, case when of_completed is not null then ', and ' end, 'waits for the end of ',
        case when cardinality(named) = 1 then 'row ' else 'rows ' end, array_to_string(named[1:5], ', '),
        case when cardinality(named) > 5 then concat(' and ', cardinality(named) - 5, ' more') end);
end
$$;
comment on function gromacs_waits_for(bigint, bigint[], bigint[]) is 'Which of its rows after and after_any the row waits for, and what to do if one of after has failed; null if it waits for none.';

-- A function that is replaced forgets its settings, and a new one has none.
do $$
declare
    made regprocedure;
begin
    for made in
        select p.oid from pg_proc p
        where p.pronamespace = current_schema()::regnamespace
            and p.proname in ('gromacs_must_wait', 'gromacs_wait', 'gromacs_wait_over', 'gromacs_waits_for')
    loop
        execute format('alter function %s set search_path = pg_catalog, %I, pg_temp', made, current_schema());
        execute format('revoke execute on function %s from public', made);
    end loop;
end
$$;
alter function gromacs_wait_over set plan_cache_mode = force_generic_plan;
alter function gromacs_wait_over set enable_seqscan = off;
grant execute on function gromacs_must_wait, gromacs_waits_for(bigint, bigint[], bigint[])
    to gromacs_chemist, gromacs_submitter, gromacs_reader;

-- As before, with after_any.
create or replace view gromacs_queue with (security_invoker = true) as
select
    q.id,
    q.owner,
    q.namespace,
    q.tpr_path,
    q.state,
    case
        when q.state = 'queued' and q.held then 'is held; release it to begin'
        when q.state = 'queued' and q.waits_for_rows then gromacs_waits_for(q.id, q.after, q.after_any)
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
    greatest(1, cardinality(q.multidir)) as simulations,
    q.after_any
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
comment on column gromacs_queue.after_any is 'Rows that must have ended before it begins.';
