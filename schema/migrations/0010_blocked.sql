-- Rows that wait for something of their own, one clock for what is measured, and configurations for one kind of node.

alter table gromacs_to_tune
    add column blocked boolean not null default false,
    add column progress_from_step bigint,
    add column progress_from_time timestamptz,
    add column interruption_time timestamptz;
comment on column gromacs_to_tune.blocked is 'True if it waits in the cluster for something that other rows of its owner do not wait for, such as its volume: others begin meanwhile.';
comment on column gromacs_to_tune.progress_from_step is 'Step of the attempt when its progress was first seen; what it does per day is counted from there.';
comment on column gromacs_to_tune.progress_from_time is 'When that was.';
comment on column gromacs_to_tune.interruption_time is 'When the last interruption of this submission came to be known.';

alter table gromacs_ladder
    add column node_labels jsonb not null default '{}',
    add constraint gromacs_ladder_node_labels_valid check (jsonb_typeof(node_labels) = 'object');
comment on column gromacs_ladder.node_labels is 'Labels of the kind of node that the configuration is for, beside those of the row; it runs nowhere else. Any node if empty.';

-- The rule of who is claimed stands here and nowhere else: as before, but for rows that are blocked. It is a function
-- because the room of the owners must be
-- counted after the lock is held: the statements of a function see what was committed before each of them, those of one
-- big statement only what was committed before it waited. Several statements of the client would see the same, with a
-- round trip each.
--
-- It runs with the rights of its caller: row level security and grants bind as they would without it. It commits
-- as every other write, not later: a lease that a crash of the server took back would let two submitters work on a row.
create or replace function gromacs_claim(
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
-- Planning takes several times as long as running it, and one plan is right for all arguments. The planner, which cannot
-- know how few rows are wanted, must not think of reading the backlog.
alter function gromacs_claim set plan_cache_mode = force_generic_plan;
alter function gromacs_claim set enable_seqscan = off;
alter function gromacs_claim set enable_bitmapscan = off;

-- With the rights of the role that asks: nobody sees even a number of others' rows. Nobody counts further than to the limit.
create or replace function gromacs_turn(of_owner text, of_namespace text) returns text language plpgsql stable as $$
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

-- What is replaced loses its settings.
do $$
begin
    execute format('alter function gromacs_claim set search_path = pg_catalog, %I, pg_temp', current_schema());
    execute format('alter function gromacs_turn set search_path = pg_catalog, %I, pg_temp', current_schema());
end
$$;
