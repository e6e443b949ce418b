-- Two things that any role that may log in could do to everybody's rows.

-- Who claims new rows holds a lock. An advisory lock anybody may take; this table only the submitter may lock.
create table gromacs_claim_lock ();
comment on table gromacs_claim_lock is 'Empty. Whoever claims new rows locks it, so that two submitters do not both count the same room.';
grant update on gromacs_claim_lock to gromacs_submitter;
alter table gromacs_claim_lock enable row level security;
create policy gromacs_claim_lock_submitter on gromacs_claim_lock to gromacs_submitter using (true);

do $$
declare
    was text := pg_get_functiondef('gromacs_claim'::regproc);
    becomes text := replace(was, 'perform pg_advisory_xact_lock(hashtext(''gromacs_to_tune claim''))',
        'lock table gromacs_claim_lock in exclusive mode');
begin
    if was = becomes then
        raise exception 'gromacs_claim takes no advisory lock; was it changed by hand?';
    end if;
    -- The rule of who is claimed stands in 0006 and stays as it is there.
    execute becomes;
end
$$;

-- A retry that is asked for while the row has not ended would be carried out whenever it ends: a row that is cancelled
-- later would run again.
create function gromacs_retry_allowed() returns trigger language plpgsql as $$
begin
    if new.retry_requested and not old.retry_requested and new.state not in ('failed', 'cancelled') then
        raise exception 'row % is %, and only a row that failed or was cancelled can be tried again', new.id, new.state
            using errcode = 'check_violation', constraint = 'gromacs_to_tune_retry_allowed',
                table = 'gromacs_to_tune';
    end if;
    return new;
end
$$;
comment on function gromacs_retry_allowed is 'Lets retry_requested be set in state failed or cancelled only.';
create trigger gromacs_retry_allowed before update of retry_requested on gromacs_to_tune
    for each row execute function gromacs_retry_allowed();
do $$
begin
    -- As 0003 does with the others: it finds what it names where it was made.
    execute format('alter function gromacs_retry_allowed set search_path = pg_catalog, %I, pg_temp', current_schema());
end
$$;
revoke execute on function gromacs_retry_allowed from public;
