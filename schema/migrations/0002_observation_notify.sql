-- Wakes the tuners when a run was measured; once per statement, and delivered when the transaction commits.
create function gromacs_notify_observation() returns trigger language plpgsql as $$
begin
    perform pg_notify('gromacs_observation', '');
    return null;
end
$$;
create trigger gromacs_notify_observation after insert on gromacs_observation
    for each statement execute function gromacs_notify_observation();
