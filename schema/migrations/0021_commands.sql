-- Rows that run a command instead of a simulation. A row is one if it has the column command: no row is without it that is
-- of kind command, and none of another kind has it.

-- Generated from schema/src/row: further columns
alter table gromacs_to_tune
    add column command text[],
    add column folder text,
    add column cpu_millicores integer,
    add column memory_bytes bigint,
    add constraint gromacs_to_tune_command_valid check (cardinality(command) between 1 and 256 and array_ndims(command) = 1 and array_lower(command, 1) = 1
        and array_position(command, null) is null and command[1] <> '' and octet_length(replace(command::text, '$', '$$')) <= 16384),
    add constraint gromacs_to_tune_folder_valid check (octet_length(folder) between 1 and 900 and folder !~ '[[:cntrl:]]' and folder !~ '(^|/)(\.\.?)?(/|$)'),
    add constraint gromacs_to_tune_cpu_millicores_valid check (cpu_millicores between 100 and 1024000 and cpu_millicores <= max_cpu_millicores),
    add constraint gromacs_to_tune_memory_bytes_valid check (memory_bytes >= 16777216 and memory_bytes <= max_memory_bytes),
    add constraint gromacs_to_tune_command_kind check ((kind = 'command') = (command is not null)),
    add constraint gromacs_to_tune_command_alone check (kind = 'command' or num_nonnulls(folder, cpu_millicores, memory_bytes) = 0),
    add constraint gromacs_to_tune_command_resources check (kind <> 'command' or num_nulls(cpu_millicores, memory_bytes) = 0),
    add constraint gromacs_to_tune_command_image check (kind <> 'command' or image is not null),
    add constraint gromacs_to_tune_command_extension check (kind <> 'command' or extended_nsteps is null),
    add constraint gromacs_to_tune_command_simulation check (kind <> 'command' or (num_nonnulls(append, checkpoint_path, deadline, min_cpu_millicores, min_ns_per_day, fallback_after_seconds, min_efficiency, max_configurations, gpu_price, memory_price, atoms, box_nm, nsteps, init_step, dt_ps, cutoff_nm, rlist_nm, nstlist, pme_grid, pme_order, bonded_interactions, constraints, gpu_nonbonded, gpu_pme, gpu_bonded, gpu_update, gromacs_version) = 0 and multidir = '{}' and mdrun_options = '{}' and grompp_options = '{}'));
-- End of what is generated.
-- Generated from schema/src/row: changed columns
alter table gromacs_to_tune
    drop constraint gromacs_to_tune_tpr_path_valid,
    add constraint gromacs_to_tune_tpr_path_valid check (kind = 'command' or (octet_length(tpr_path) <= 900 and tpr_path !~ '[[:cntrl:]]' and tpr_path !~ '^/' and tpr_path !~ '//' and tpr_path !~ '(^|/)\.\.?(/|$)' and tpr_path ~ '[^/]\.tpr$')),
    drop constraint gromacs_to_tune_kind_valid,
    add constraint gromacs_to_tune_kind_valid check (kind in ('simulation', 'calibration', 'command'));
comment on column gromacs_to_tune.tpr_path is 'Path of the .tpr file, relative to the root of the volume. With multidir its folder holds the folders of the simulations, and each of these a file of that name. A calibration makes its own: calibration-<id>/water.tpr. A command has none: its working directory stands there, gromacs-<id> in folder.';
comment on column gromacs_to_tune.kind is 'simulation: computes the .tpr file. calibration: measures how fast a kind of node is. command: runs a command; a row that is added with one is of this kind.';
-- End of what is generated.
-- Generated from schema/src/row: comments
comment on column gromacs_to_tune.command is 'Program and arguments that the row runs instead of a simulation, each a word of its own, such as {gmx,-nobackup,trjconv,-f,../gromacs-7/traj_comp.xtc,-o,whole.xtc}. No shell reads them. The working directory is gromacs-<id> in folder.';
comment on column gromacs_to_tune.folder is 'Folder on the volume in which a command works, relative to the root; it must be there. The root if not given.';
comment on column gromacs_to_tune.cpu_millicores is 'CPU that a command asks for, in thousandths of a core.';
comment on column gromacs_to_tune.memory_bytes is 'Memory that a command asks for, in bytes. It is killed if it uses more.';
-- End of what is generated.
-- Generated from schema/src/row: rights
grant insert (command, folder, cpu_millicores, memory_bytes) on gromacs_to_tune to gromacs_chemist;
grant update (command, cpu_millicores, memory_bytes) on gromacs_to_tune to gromacs_chemist;
-- End of what is generated.
drop trigger gromacs_edit_allowed on gromacs_to_tune;
-- Generated from schema/src/row: trigger of edits
create trigger gromacs_edit_allowed before update of command, cpu_millicores, memory_bytes, image, append,
    mdrun_options, grompp_options, node_labels, held, after, after_any, priority, max_cpu_millicores,
    max_memory_bytes, max_gpus, min_cpu_millicores, min_ns_per_day, interruption_after_seconds,
    fallback_after_seconds, min_efficiency, max_configurations, gpu_price, memory_price, atoms, box_nm, nsteps,
    init_step, dt_ps, cutoff_nm, rlist_nm, nstlist, pme_grid, pme_order, bonded_interactions, constraints,
    gpu_nonbonded, gpu_pme, gpu_bonded, gpu_update, gromacs_version
    on gromacs_to_tune for each row execute function gromacs_edit_allowed();
-- End of what is generated.

-- Before every other trigger of an INSERT, in the order of the names: the kind is known to them.
create function gromacs_before_command() returns trigger language plpgsql as $$
begin
    -- Programs write a text where they have no path.
    if new.tpr_path <> '' then
        raise exception using errcode = 'check_violation', constraint = 'gromacs_to_tune_tpr_path_allowed',
            table = 'gromacs_to_tune', message = 'a command has no .tpr file; leave tpr_path out, and name the folder that '
                'it works in as folder';
    end if;
    new.kind := 'command';
    new.tpr_path := concat(new.folder || '/', 'gromacs-', new.id);
    return new;
end
$$;
comment on function gromacs_before_command is 'Makes a row with a command one of that kind, and says where it works.';
create trigger gromacs_before_command before insert on gromacs_to_tune
    for each row when (new.command is not null) execute function gromacs_before_command();

-- As before, without commands: what these say of rows is about calibrations, and constraints say what a command lacks.
drop trigger gromacs_before_insert_multidir on gromacs_to_tune;
create trigger gromacs_before_insert_multidir before insert on gromacs_to_tune
    for each row when (new.multidir <> '{}' and new.kind <> 'command') execute function gromacs_before_insert_multidir();
drop trigger gromacs_before_extend on gromacs_to_tune;
create trigger gromacs_before_extend before update of extended_nsteps on gromacs_to_tune
    for each row when (old.extended_nsteps is distinct from new.extended_nsteps and new.kind <> 'command')
    execute function gromacs_before_extend();

-- A new function has no settings.
do $$
begin
    execute format('alter function gromacs_before_command set search_path = pg_catalog, %I, pg_temp', current_schema());
end
$$;
revoke execute on function gromacs_before_command from public;

-- As before, with what a command runs, and with what.
create or replace view gromacs_queue with (security_invoker = true) as
select
    q.id,
    q.owner,
    q.namespace,
    q.tpr_path,
    q.state,
    case
        when q.state = 'queued' and q.held then 'is held; release it to begin'
        when q.state = 'queued' and q.waits_for_rows then gromacs_waits_for(q.id, q.after, q.after_any)
        -- Transactions that have changed or locked the row and have not committed.
        when q.state = 'queued' and q.lease_holder is null and gromacs_in_transaction(q.xmax)
            then 'waits for its turn: an open transaction holds the row; commit it'
        when q.reason is null and q.state = 'queued'
            then concat('waits for its turn', ': ' || gromacs_turn(q.owner, q.namespace))
        else q.reason
    end as reason,
    case when l.configuration is not null then
        trim_scale(l.cpu_millicores / 1000.0) || case when l.cpu_millicores = 1000 then ' core, ' else ' cores, ' end
        || case when l.gpus = 1 then '1 GPU, ' when l.gpus > 1 then l.gpus || ' GPUs, ' else '' end
        || ceil(l.memory_bytes / 1048576.0) || ' MiB, '
        || (l.layout ->> 'ntmpi') || 'x' || (l.layout ->> 'ntomp')
        when q.kind = 'command' then
        trim_scale(q.cpu_millicores / 1000.0) || case when q.cpu_millicores = 1000 then ' core, ' else ' cores, ' end
        || ceil(q.memory_bytes / 1048576.0) || ' MiB'
    end as configuration,
    l.configuration as configuration_number,
    r.configurations,
    q.step,
    least(9223372036854775807, coalesce(q.init_step, 0)::numeric + q.nsteps)::bigint as last_step,
    case when q.state = 'completed' and q.inspected ->> 'integrator' in ('steep', 'cg', 'l-bfgs') then 100.0
        when q.nsteps > 0 and q.step is not null then
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
    -- Without a start there is none: greatest() passes over null.
    case when q.start_time is not null then
        greatest(0, extract(epoch from coalesce(q.finish_time, now()) - q.start_time))::bigint
    end as wall_seconds,
    a.run_seconds,
    a.lost_seconds,
    'gromacs-' || q.id || '-' || q.submission as scavenger_job,
    q.kind,
    q.project,
    q.labels,
    q.held,
    q.after,
    q.deadline,
    gromacs_late_seconds(q) as late_seconds,
    greatest(1, cardinality(q.multidir)) as simulations,
    q.after_any,
    q.command
from gromacs_to_tune q
left join lateral (
    select count(*) filter (where start_time is not null) as attempts,
        sum(greatest(0, extract(epoch from coalesce(t.end_time, now()) - t.start_time)))
            filter (where t.start_time is not null)::bigint as run_seconds,
        sum(t.lost_seconds)::bigint as lost_seconds,
        (array_agg(t.configuration order by t.submission desc, t.attempt desc) filter (where t.start_time is not null and t.submission = q.submission))[1] as last_configuration
    from gromacs_attempt t where t.row_id = q.id
) a on true
-- What really ran last; what is asked for until something did.
left join gromacs_ladder l on l.row_id = q.id and l.submission = q.submission
    and l.configuration = case when q.state in ('running', 'completed', 'failed') then coalesce(a.last_configuration, q.configuration) else q.configuration end
left join lateral (
    select count(*) as configurations from gromacs_ladder c where c.row_id = q.id and c.submission = q.submission
) r on true;
comment on column gromacs_queue.kind is 'simulation, calibration or command.';
comment on column gromacs_queue.configuration is 'What it runs with, or asks for: cores, GPUs, memory, ranks x threads; of a command cores and memory.';
comment on column gromacs_queue.attempts is 'How often mdrun, or the command, was started.';
comment on column gromacs_queue.start_time is 'When mdrun, or the command, first ran.';
comment on column gromacs_queue.command is 'Program and arguments of a command; null for other kinds.';
