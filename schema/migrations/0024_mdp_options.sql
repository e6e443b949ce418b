-- Settings for grompp that differ from row to row, as those of a sweep do: the column mdp_options, beside grompp_options.

-- Generated from schema/src/row: further columns
alter table gromacs_to_tune
    add column mdp_options jsonb not null default '{}',
    add constraint gromacs_to_tune_mdp_options_valid check (jsonb_typeof(mdp_options) = 'object' and octet_length(mdp_options::text) <= 4096
        and not jsonb_path_exists(mdp_options, '$.* ? (@.type() != "string")')
        and not jsonb_path_exists(mdp_options, '$.keyvalue().key ? (!(@ like_regex "^[A-Za-z][-A-Za-z0-9_]{0,62}$"))')
        and not jsonb_path_exists(mdp_options, '$.keyvalue().value ? (@ like_regex "[[:cntrl:];]")')),
    add constraint gromacs_to_tune_mdp_options_grompp check (mdp_options = '{}' or grompp_options <> '{}');
-- End of what is generated.
-- Generated from schema/src/row: comments
comment on column gromacs_to_tune.mdp_options is 'Settings that grompp reads instead of those of its -f file, names of the .mdp format and texts, such as {"init-lambda-state": "3"}. They hold for a copy in the folder of the row, changed.mdp; the file stays as it is. Only of a row with grompp_options.';
-- End of what is generated.
-- Generated from schema/src/row: rights
grant insert (mdp_options) on gromacs_to_tune to gromacs_chemist;
grant update (mdp_options) on gromacs_to_tune to gromacs_chemist;
-- End of what is generated.
drop trigger gromacs_edit_allowed on gromacs_to_tune;
-- Generated from schema/src/row: trigger of edits
create trigger gromacs_edit_allowed before update of command, cpu_millicores, memory_bytes, image, append,
    mdrun_options, grompp_options, mdp_options, node_labels, held, after, after_any, priority, max_cpu_millicores,
    max_memory_bytes, max_gpus, min_cpu_millicores, min_ns_per_day, interruption_after_seconds,
    fallback_after_seconds, min_efficiency, max_configurations, gpu_price, memory_price, atoms, box_nm, nsteps,
    init_step, dt_ps, cutoff_nm, rlist_nm, nstlist, pme_grid, pme_order, bonded_interactions, constraints,
    gpu_nonbonded, gpu_pme, gpu_bonded, gpu_update, gromacs_version
    on gromacs_to_tune for each row execute function gromacs_edit_allowed();
-- End of what is generated.

-- A submitter of an earlier version would compute such a row with the settings of the file. It refuses options of grompp that it
-- does not know, so there is one.
create function gromacs_mark_settings() returns trigger language plpgsql as $$
begin
    new.grompp_options := array_remove(new.grompp_options, '-mdp');
    if new.mdp_options <> '{}' and new.grompp_options <> '{}' then
        new.grompp_options := new.grompp_options || '{-mdp}';
    end if;
    return new;
end
$$;
comment on function gromacs_mark_settings is 'Keeps the word -mdp in grompp_options as long as there are mdp_options: a submitter that does not know these fails the row.';
create trigger gromacs_mark_settings before insert or update of grompp_options, mdp_options on gromacs_to_tune
    for each row when (coalesce(array_ndims(new.grompp_options), 1) = 1
        and (new.mdp_options <> '{}' or array_position(new.grompp_options, '-mdp') is not null))
    execute function gromacs_mark_settings();

-- A new function has no settings.
do $$
begin
    execute format('alter function gromacs_mark_settings set search_path = pg_catalog, %I, pg_temp', current_schema());
end
$$;
revoke execute on function gromacs_mark_settings from public;

-- As before, with both columns. The mark is there by then: triggers go by the order of their names.
comment on function gromacs_read_again is 'Lets the file of a row be made and read again once its grompp_options or mdp_options are others.';
drop trigger gromacs_read_again on gromacs_to_tune;
create trigger gromacs_read_again before update of grompp_options, mdp_options on gromacs_to_tune
    for each row when (old.grompp_options is distinct from new.grompp_options or old.mdp_options is distinct from new.mdp_options)
    execute function gromacs_read_again();
