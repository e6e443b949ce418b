-- What people may say of a row, and change while nothing works on it: its project and labels, whether it is held, and
-- what it asks for.

alter table gromacs_to_tune
    add column project text,
    add column labels jsonb not null default '{}',
    add column held boolean not null default false,
    add column pinned_image text,
    add constraint gromacs_to_tune_project_valid check (
        length(project) between 1 and 100 and project !~ '[[:cntrl:]]'),
    add constraint gromacs_to_tune_labels_valid check (
        jsonb_typeof(labels) = 'object' and length(labels::text) <= 4096
        and not jsonb_path_exists(labels, '$.* ? (@.type() != "string")')
        and not jsonb_path_exists(labels, '$.keyvalue().key ? (!(@ like_regex "^[^[:cntrl:]=,]{1,63}$"))'));
comment on column gromacs_to_tune.project is 'What it belongs to, for filters and for the sums of gromacs-submitter list --by-project.';
comment on column gromacs_to_tune.labels is 'Names and values that filters look for, such as {"T": "310", "lambda": "0.3"}.';
comment on column gromacs_to_tune.pinned_image is 'The image by its digest, as the inspection ran it: what a tag names later does not matter. Null until then, where the node names no digest, and after image was changed.';
comment on column gromacs_to_tune.held is 'True if it is not begun, nor begun again, until it is released.';

alter table gromacs_attempt add column image text;
comment on column gromacs_attempt.image is 'Image it ran in, by its digest where that is known; the submitter''s --gromacs-image if null.';

create index gromacs_to_tune_project on gromacs_to_tune (owner, project, id desc) where project is not null;
create index gromacs_to_tune_labels on gromacs_to_tune using gin (labels jsonb_path_ops) where labels <> '{}';

grant insert (project, labels, held) on gromacs_to_tune to gromacs_chemist;
-- In any state: they change nothing of what runs.
grant update (project, labels) on gromacs_to_tune to gromacs_chemist;
grant update (held, image, priority, max_cpu_millicores, max_memory_bytes, max_gpus, interruption_after_seconds,
    fallback_after_seconds, append, atoms, box_nm, nsteps, init_step, dt_ps, cutoff_nm, rlist_nm, nstlist, pme_grid,
    pme_order, bonded_interactions, constraints, gpu_nonbonded, gpu_pme, gpu_bonded, gpu_update, gromacs_version)
    on gromacs_to_tune to gromacs_chemist;

-- What a ScavengerJob was made from stays while there is one. The submitter writes some of these columns itself.
create function gromacs_edit_allowed() returns trigger language plpgsql as $$
begin
    if new.image is distinct from old.image then
        new.pinned_image := null;
        new.inspect_again := true;
    end if;
    if new.state not in ('queued', 'completed', 'failed', 'cancelled')
        and not pg_has_role(session_user, 'gromacs_submitter', 'member')
    then
        raise exception using errcode = 'check_violation', constraint = 'gromacs_to_tune_edit_allowed',
            table = 'gromacs_to_tune', message = format('row %s is %s, and a row can be changed only while it is '
                'queued or has ended: cancel it, change it, and retry', new.id, new.state);
    end if;
    return new;
end
$$;
comment on function gromacs_edit_allowed is 'Lets what a row asks for be changed only while it is queued or has ended.';
create trigger gromacs_edit_allowed before update of held, image, priority, max_cpu_millicores, max_memory_bytes,
    max_gpus, interruption_after_seconds, fallback_after_seconds, append, atoms, box_nm, nsteps, init_step, dt_ps,
    cutoff_nm, rlist_nm, nstlist, pme_grid, pme_order, bonded_interactions, constraints, gpu_nonbonded, gpu_pme,
    gpu_bonded, gpu_update, gromacs_version on gromacs_to_tune
    for each row execute function gromacs_edit_allowed();
-- The tenant's limits hold for what is changed as for what is inserted.
create trigger gromacs_before_edit before update of image, max_cpu_millicores, max_memory_bytes, max_gpus,
    interruption_after_seconds on gromacs_to_tune
    for each row when (old.image is distinct from new.image or old.max_cpu_millicores is distinct from new.max_cpu_millicores
        or old.max_memory_bytes is distinct from new.max_memory_bytes or old.max_gpus is distinct from new.max_gpus
        or old.interruption_after_seconds is distinct from new.interruption_after_seconds)
    execute function gromacs_before_insert();

-- A row that is released is due at once.
create function gromacs_released() returns trigger language plpgsql as $$
begin
    new.next_attempt_time := now();
    perform pg_notify('gromacs_to_tune', '');
    return new;
end
$$;
create trigger gromacs_released before update of held on gromacs_to_tune
    for each row when (old.held and not new.held) execute function gromacs_released();

do $$
begin
    -- As 0003 does with the others: they find what they name where it was made, and only triggers call them.
    execute format('alter function gromacs_edit_allowed() set search_path = pg_catalog, %I, pg_temp', current_schema());
    execute format('alter function gromacs_released() set search_path = pg_catalog, %I, pg_temp', current_schema());
    execute 'revoke execute on function gromacs_edit_allowed(), gromacs_released() from public';
end
$$;
