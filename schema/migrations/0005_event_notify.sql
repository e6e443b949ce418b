-- Wakes those who follow the queue when the history of a row grows: each change of state or configuration. The same
-- words twice in a transaction are one notification, so a thousand rows in one INSERT are one, too.
create function gromacs_notify_event() returns trigger language plpgsql as $$
begin
    perform pg_notify('gromacs_event', '');
    return null;
end
$$;
create trigger gromacs_notify_event after insert on gromacs_event
    for each statement execute function gromacs_notify_event();

-- As 0003 does with the others: it finds what it names where it was made, and only triggers call it.
do $$
begin
    execute format('alter function gromacs_notify_event() set search_path = pg_catalog, %I, pg_temp', current_schema());
    execute 'revoke execute on function gromacs_notify_event() from public';
end
$$;
