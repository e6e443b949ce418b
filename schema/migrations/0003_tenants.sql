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
    constraint gromacs_tenant_max_rows_in_work_valid check (max_rows_in_work between 0 and 1000000)
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

-- Rows that are there already go on: their owners become tenants without limits.
insert into gromacs_tenant (database_role, namespace) select distinct owner, namespace from gromacs_to_tune;

alter table gromacs_to_tune
    add column service_account text,
    add constraint gromacs_to_tune_namespace_tenant foreign key (owner, namespace)
        references gromacs_tenant (database_role, namespace),
    -- The tenant has the say in these; a column's default would come before it.
    alter column run_as_user drop default,
    alter column interruption_after_seconds drop default,
    -- A row that no program can read would hold up all others. Existing rows were read, so they are not checked again.
    add constraint gromacs_to_tune_box_nm_dimensions check (
        array_ndims(box_nm) = 1 and array_lower(box_nm, 1) = 1) not valid,
    add constraint gromacs_to_tune_pme_grid_dimensions check (
        array_ndims(pme_grid) = 1 and array_lower(pme_grid, 1) = 1) not valid;
comment on column gromacs_to_tune.service_account is 'ServiceAccount that it runs as, from gromacs_tenant; the namespace''s default one if null.';
comment on column gromacs_to_tune.run_as_user is 'User id the simulation runs as; it must be able to write beside the .tpr file. The tenant''s, or 1000, if not given.';
comment on column gromacs_to_tune.run_as_group is 'Group id the simulation runs as; the tenant''s, or run_as_user, if not given.';
comment on column gromacs_to_tune.image is 'Container image with GROMACS; the tenant''s, or the submitter''s --gromacs-image, if not given.';
comment on column gromacs_to_tune.interruption_after_seconds is 'Seconds of run time between checkpoints: what an interruption can cost at most. 600, or what the tenant''s limits make of it, if not given.';

-- Claims look at the head of the queue of each owner in each namespace, and count what is in work there.
drop index gromacs_to_tune_queued;
create index gromacs_to_tune_queued on gromacs_to_tune (owner, namespace, priority desc, id) where state = 'queued';
create index gromacs_to_tune_in_work on gromacs_to_tune (owner, namespace)
    where state in ('inspecting', 'tuning', 'submitted', 'running', 'interrupted')
        or (state = 'queued' and lease_until is not null);

-- The tenant's defaults and limits. It runs with the rights of whoever inserts, who sees only its own tenants.
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

-- Whose a row is and where it runs was checked when it was inserted, and stays.
create function gromacs_refuse_change() returns trigger language plpgsql as $$
begin
    raise exception using errcode = 'insufficient_privilege', constraint = 'gromacs_to_tune_change_allowed',
        message = 'id, owner and namespace of a row never change; insert another row';
end
$$;
create trigger gromacs_refuse_change before update of id, owner, namespace on gromacs_to_tune
    for each row when (old.id <> new.id or old.owner <> new.owner or old.namespace <> new.namespace)
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

-- The history is written with the rights of its owner, since nobody else may; and only if there is something to
-- write, since a claim should cost little. Every expression fits a function of pg_catalog exactly, so that nobody can
-- slip one in between.
create or replace function gromacs_record_event() returns trigger language plpgsql security definer as $$
begin
    if tg_op = 'INSERT' then
        insert into gromacs_event (row_id, state, submission, rung, message)
            values (new.id, new.state, new.submission, new.rung, new.reason);
        return null;
    end if;
    if new.state is distinct from old.state or new.submission is distinct from old.submission
        or new.rung is distinct from old.rung
    then
        insert into gromacs_event (row_id, state, submission, rung, message)
            values (new.id, new.state, new.submission, new.rung, new.reason);
    end if;
    if new.cancel_requested and not old.cancel_requested then
        insert into gromacs_event (row_id, state, submission, rung, message)
            values (new.id, new.state, new.submission, new.rung, concat('cancel requested by ', session_user));
    end if;
    if new.retry_requested and not old.retry_requested then
        insert into gromacs_event (row_id, state, submission, rung, message)
            values (new.id, new.state, new.submission, new.rung, concat('retry requested by ', session_user));
    end if;
    return null;
end
$$;
drop trigger gromacs_before_update on gromacs_to_tune;
create trigger gromacs_before_update before update on gromacs_to_tune for each row
    when (old.state is distinct from new.state or (new.cancel_requested and not old.cancel_requested)
        or (new.retry_requested and not old.retry_requested))
    execute function gromacs_before_update();
drop trigger gromacs_record_event on gromacs_to_tune;
create trigger gromacs_record_insert after insert on gromacs_to_tune
    for each row execute function gromacs_record_event();
create trigger gromacs_record_event after update on gromacs_to_tune for each row
    when (old.state is distinct from new.state or old.submission is distinct from new.submission
        or old.rung is distinct from new.rung or (new.cancel_requested and not old.cancel_requested)
        or (new.retry_requested and not old.retry_requested))
    execute function gromacs_record_event();

-- As it was, but for numbers that a bigint or a double cannot hold: one such row would fail the view for all who see
-- it.
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

-- Trigger functions find what they name where it was made, whatever search_path whoever fires them has set; pg_temp
-- would come first if it were not named. Nobody else may hang them onto a table of their own: that of the history
-- would then write whatever it is told.
do $$
declare
    trigger_function regprocedure;
begin
    for trigger_function in
        select p.oid from pg_proc p
        where p.pronamespace = current_schema()::regnamespace and p.prorettype = 'trigger'::regtype
            and p.proname like 'gromacs\_%'
    loop
        execute format('alter function %s set search_path = pg_catalog, %I, pg_temp', trigger_function, current_schema());
        execute format('revoke execute on function %s from public', trigger_function);
    end loop;
end
$$;

-- Rights that were given by hand go: they would reach columns that are not the people's.
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

-- Whoever had put rows into the queue before may go on doing so.
do $$
declare
    person name;
begin
    for person in
        select r.rolname from pg_roles r
        where r.rolname in (select database_role from gromacs_tenant)
            and not pg_has_role(r.oid, 'gromacs_chemist', 'member') and r.rolname <> current_user
    loop
        begin
            execute format('grant gromacs_chemist to %I', person);
        exception when insufficient_privilege then
            raise warning 'role % has rows in the queue but is no member of gromacs_chemist; grant it', person;
        end;
    end loop;
end
$$;

grant select, delete on gromacs_to_tune to gromacs_chemist;
grant insert (namespace, persistent_volume_claim, tpr_path, image, run_as_user, run_as_group, priority,
    max_cpu_millicores, max_memory_bytes, max_gpus, interruption_after_seconds, fallback_after_seconds,
    atoms, box_nm, nsteps, init_step, dt_ps, cutoff_nm, rlist_nm, nstlist, pme_grid, pme_order, bonded_interactions,
    constraints, gpu_nonbonded, gpu_pme, gpu_bonded, gpu_update, gromacs_version) on gromacs_to_tune to gromacs_chemist;
grant update (cancel_requested, retry_requested) on gromacs_to_tune to gromacs_chemist;
grant select on gromacs_ladder, gromacs_attempt, gromacs_observation, gromacs_event, gromacs_tenant, gromacs_queue
    to gromacs_chemist, gromacs_submitter, gromacs_reader;
grant select on gromacs_to_tune, gromacs_queue_identity to gromacs_submitter, gromacs_reader;
grant update on gromacs_to_tune to gromacs_submitter;
grant insert, update, delete on gromacs_ladder to gromacs_submitter;
grant insert, update on gromacs_attempt to gromacs_submitter;
grant insert on gromacs_observation, gromacs_event to gromacs_submitter;
grant select on gromacs_observation to gromacs_tuner;

alter table gromacs_to_tune enable row level security;
alter table gromacs_ladder enable row level security;
alter table gromacs_attempt enable row level security;
alter table gromacs_event enable row level security;
alter table gromacs_observation enable row level security;
alter table gromacs_tenant enable row level security;
alter table gromacs_queue_identity enable row level security;

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
create policy gromacs_attempt_owner on gromacs_attempt for select to gromacs_chemist
    using (exists (select from gromacs_to_tune q where q.id = row_id));
create policy gromacs_event_owner on gromacs_event for select to gromacs_chemist
    using (exists (select from gromacs_to_tune q where q.id = row_id));

-- Whoever works on all rows is kept from none; what it may do there, the grants say.
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
