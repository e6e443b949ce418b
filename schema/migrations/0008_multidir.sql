-- An ensemble: one row that computes several simulations side by side, as mdrun's -multidir names them. tpr_path names
-- the file in each folder, and the folders stand beside it: ensemble/topol.tpr with {sim0,sim1} means
-- ensemble/sim0/topol.tpr and ensemble/sim1/topol.tpr.
--
-- What a folder may be called, the trigger below says in full; the constraint keeps the shape of what others write.
alter table gromacs_to_tune
    add column multidir text[] not null default '{}',
    add constraint gromacs_to_tune_multidir_valid check (
        cardinality(multidir) <> 1 and cardinality(multidir) <= 32 and coalesce(array_ndims(multidir), 1) = 1
        and array_position(multidir, null) is null);
comment on column gromacs_to_tune.multidir is 'Folders of several simulations that the row computes side by side, relative to the folder of tpr_path, such as {sim0,sim1,sim2,sim3}; 2 to 32. Each holds a file and, if the row starts from one, a checkpoint of the names that tpr_path and checkpoint_path end in. Empty for one simulation.';
comment on column gromacs_to_tune.tpr_path is 'Path of the .tpr file, relative to the root of the volume. With multidir its folder holds the folders of the simulations, and each of these a file of that name. A calibration makes its own: calibration-<id>/water.tpr.';
comment on column gromacs_to_tune.step is 'Last step seen; with multidir, that of the least advanced simulation.';
comment on column gromacs_to_tune.ns_per_day is 'Speed in ns of simulated time per day: estimated while it runs, measured by mdrun once it is completed; with multidir, that of the least advanced simulation, then that of the slowest.';
comment on column gromacs_ladder.layout is 'How mdrun divides them (ntmpi, ntomp, npme, ...); with multidir, how the mdrun of each simulation divides its share.';
comment on column gromacs_ladder.ns_per_day_p50 is 'Predicted speed in ns per day: median; with multidir, of each simulation.';

-- With the rights of the role that inserts: it reads nothing but the row.
create function gromacs_before_insert_multidir() returns trigger language plpgsql as $$
declare
    other text;
    why text;
begin
    if new.kind <> 'simulation' then
        why := 'a calibration runs one benchmark; leave multidir out';
    elsif coalesce(array_ndims(new.multidir), 1) <> 1 then
        why := 'multidir must be a list of folders, such as {sim0,sim1,sim2,sim3}';
    elsif cardinality(new.multidir) = 1 then
        why := 'multidir names 1 folder; name 2 to 32, or leave it out and give the path of the file';
    elsif cardinality(new.multidir) > 32 then
        why := format('multidir names %s folders; name 2 to 32, and add the others as another row',
            cardinality(new.multidir));
    end if;
    if why is null then
        select f.folder into other from unnest(new.multidir) with ordinality f (folder, place)
            where f.folder is null or f.folder = '' or octet_length(f.folder) > 200 or f.folder ~ '[[:cntrl:]]'
                or f.folder ~ '^/' or f.folder ~ '/$' or f.folder ~ '//' or f.folder ~ '(^|/)\.'
            order by f.place limit 1;
        if found then
            why := format('multidir names %s; name folders inside the folder of tpr_path, each at most 200 bytes, '
                'without control characters, and without names that are empty or begin with a dot',
                coalesce(to_json(left(other, 200))::text, 'nothing'));
        end if;
    end if;
    if why is null then
        select f.folder into other from unnest(new.multidir) f (folder) group by f.folder having count(*) > 1 limit 1;
        if found then
            why := format('multidir names the folder %s twice; leave one out', to_json(other));
        end if;
    end if;
    if why is null then
        select f.folder into other from unnest(new.multidir) f (folder)
            where octet_length(new.tpr_path) + octet_length(f.folder) >= 900 limit 1;
        if found then
            why := format('the path of tpr_path in the folder %s is longer than 900 bytes; shorten it', to_json(other));
        end if;
    end if;
    if why is not null then
        raise exception using errcode = 'check_violation', constraint = 'gromacs_to_tune_multidir_allowed',
            table = 'gromacs_to_tune', message = why;
    end if;
    return new;
end
$$;
comment on function gromacs_before_insert_multidir is 'Says what is wrong with the folders of several simulations.';
create trigger gromacs_before_insert_multidir before insert on gromacs_to_tune
    for each row when (new.multidir <> '{}') execute function gromacs_before_insert_multidir();

grant insert (multidir) on gromacs_to_tune to gromacs_chemist;

do $$
begin
    execute format('alter function gromacs_before_insert_multidir set search_path = pg_catalog, %I, pg_temp',
        current_schema());
    revoke execute on function gromacs_before_insert_multidir from public;
end
$$;
