-- What people and submitters ask again and again costs no scan of the table, however long it grows.

-- Row level security makes each chemist's question one about an owner.
create index gromacs_to_tune_owner on gromacs_to_tune (owner, id desc);
-- What has not ended: what a person watches.
create index gromacs_to_tune_open on gromacs_to_tune (owner, id desc)
    where state not in ('completed', 'failed', 'cancelled');
-- The foreign key to gromacs_tenant, and the counts of a tenant.
create index gromacs_to_tune_tenant on gromacs_to_tune (owner, namespace, state);

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
insert into gromacs_state_count (state, rows) select state, count(*) from gromacs_to_tune group by state;

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

-- Update for the locks: what another submitter sums up is left to it.
grant select, insert, update, delete on gromacs_state_count to gromacs_submitter;
grant select on gromacs_state_count to gromacs_reader;
alter table gromacs_state_count enable row level security;
create policy gromacs_state_count_submitter on gromacs_state_count to gromacs_submitter using (true) with check (true);
create policy gromacs_state_count_reader on gromacs_state_count for select to gromacs_reader using (true);

do $$
declare
    made regprocedure;
begin
    -- As 0003 does with the others: they find what they name where it was made, and only triggers call them.
    for made in select p.oid from pg_proc p
        where p.pronamespace = current_schema()::regnamespace and p.proname like 'gromacs\_count\_%'
    loop
        execute format('alter function %s set search_path = pg_catalog, %I, pg_temp', made, current_schema());
        execute format('revoke execute on function %s from public', made);
    end loop;
end
$$;
