-- The least that the rows of a tenant run with, unless they say otherwise: a group whose systems are all large need not
-- say in each row that half a core is no use.
alter table gromacs_tenant
    add column min_cpu_millicores integer,
    add column min_ns_per_day double precision,
    add constraint gromacs_tenant_min_cpu_millicores_valid check (min_cpu_millicores between 0 and 1024000),
    add constraint gromacs_tenant_min_ns_per_day_valid check (min_ns_per_day >= 0 and min_ns_per_day <= 1000000);
comment on column gromacs_tenant.min_cpu_millicores is 'Least CPU that its rows run with unless they say otherwise, in thousandths of a core; none if null.';
comment on column gromacs_tenant.min_ns_per_day is 'Least predicted speed that its rows run with unless they say otherwise, in ns of simulated time per day; none if null.';

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

do $$
begin
    execute format('alter function gromacs_before_insert_minimum set search_path = pg_catalog, %I, pg_temp',
        current_schema());
    revoke execute on function gromacs_before_insert_minimum from public;
end
$$;
