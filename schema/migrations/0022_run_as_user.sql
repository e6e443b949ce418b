-- As whom simulations run and files are brought onto a volume: one rule, for rows and for those who ask before there is a row.
create function gromacs_run_as_user(asked bigint, of_tenant bigint) returns bigint language sql immutable as $$
    select coalesce(asked, of_tenant, 1000)
$$;
comment on function gromacs_run_as_user is 'User id of a row: the one that is asked for, else that of the tenant, else 1000.';

-- As before, with that function.
create or replace function gromacs_before_insert() returns trigger language plpgsql as $$
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
    new.run_as_user := gromacs_run_as_user(new.run_as_user, tenant.run_as_user);
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

-- A function that is replaced forgets its settings, and a new one has none.
do $$
declare
    made regprocedure;
begin
    for made in
        select p.oid from pg_proc p
        where p.pronamespace = current_schema()::regnamespace
            and p.proname in ('gromacs_run_as_user', 'gromacs_before_insert')
    loop
        execute format('alter function %s set search_path = pg_catalog, %I, pg_temp', made, current_schema());
        execute format('revoke execute on function %s from public', made);
    end loop;
end
$$;
grant execute on function gromacs_run_as_user to gromacs_chemist, gromacs_submitter, gromacs_reader;
