-- Deadlines, and a ladder that is asked for again after an interruption.

alter table gromacs_to_tune
    add column deadline timestamptz,
    add column late_seconds bigint,
    add column ladder_interruptions integer not null default 0,
    -- Beyond that programs cannot read a time, and infinity is none.
    add constraint gromacs_to_tune_deadline_valid check (
        deadline between '2000-01-01 00:00:00+00' and '9000-01-01 00:00:00+00'),
    add constraint gromacs_to_tune_benchmark_deadline check (kind <> 'calibration' or deadline is null);
comment on column gromacs_to_tune.deadline is 'When it should be completed. It orders the choice of configurations, and lets the row grow earlier; nothing is stopped for it. No deadline if null.';
comment on column gromacs_to_tune.late_seconds is 'Seconds by which it is expected to miss its deadline, at the slow end of what is predicted or measured; null if it is expected to meet it.';
comment on column gromacs_to_tune.ladder_interruptions is 'The number of interruptions when the tuner was asked last: it is asked once after each.';
-- What has one, for those who look for rows that are late.
create index gromacs_to_tune_deadline on gromacs_to_tune (owner, id desc) where deadline is not null;
create index gromacs_to_tune_open_deadline on gromacs_to_tune (deadline)
    where deadline is not null and state not in ('completed', 'failed', 'cancelled');
grant insert (deadline), update (deadline) on gromacs_to_tune to gromacs_chemist;

alter table gromacs_ladder
    add column place integer,
    add column replaced boolean not null default false;
comment on column gromacs_ladder.place is 'Where it stands among those that are tried, counted from 1, the largest first; as its number if null.';
comment on column gromacs_ladder.replaced is 'True if the tuner, asked again after an interruption, does not propose it any more: it is not tried again, and stays for the attempts that ran with it.';
comment on column gromacs_ladder.rung is 'Number of the configuration, counted from 1, the largest first; what the tuner proposes after an interruption has the next numbers.';

-- A row that waits is late from its deadline on, whether anybody has looked at it or not.
create function gromacs_late_seconds(row_of gromacs_to_tune) returns bigint language sql stable as $$
    select nullif(greatest(0, case
        when (row_of).deadline is null or (row_of).state in ('failed', 'cancelled') then 0
        when (row_of).state = 'completed' then extract(epoch from (row_of).finish_time - (row_of).deadline)
        else greatest((row_of).late_seconds, extract(epoch from now() - (row_of).deadline)) end)::bigint, 0)
$$;
comment on function gromacs_late_seconds is 'Seconds by which a row has missed its deadline or is expected to miss it; null if it has none, or meets it.';

create function gromacs_record_late() returns trigger language plpgsql security definer as $$
declare
    minutes bigint := new.late_seconds / 60;
begin
    insert into gromacs_event (row_id, state, submission, rung, message)
        values (new.id, new.state, new.submission, new.rung, case
            when new.late_seconds is null then 'is expected to meet its deadline again'
            when minutes < 1 then 'will just miss its deadline'
            else concat('will miss its deadline by about ', case
                when minutes < 90 then concat(minutes, ' min')
                when minutes < 2880 then concat(minutes / 60, ' h')
                else concat(minutes / 1440, ' d') end) end);
    return null;
end
$$;
comment on function gromacs_record_late is 'Writes into the history that a row is expected to miss its deadline, or to meet it again.';
create trigger gromacs_record_late after update of late_seconds on gromacs_to_tune for each row
    when ((old.late_seconds is null) <> (new.late_seconds is null)
        and new.state not in ('completed', 'failed', 'cancelled') and new.deadline is not null)
    execute function gromacs_record_late();

do $$
declare
    made text;
begin
    foreach made in array array['gromacs_late_seconds', 'gromacs_record_late'] loop
        execute format('alter function %I set search_path = pg_catalog, %I, pg_temp', made, current_schema());
        execute format('revoke execute on function %I from public', made);
    end loop;
end
$$;
grant execute on function gromacs_late_seconds to gromacs_chemist, gromacs_submitter, gromacs_reader;
