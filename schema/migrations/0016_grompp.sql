-- A chain of minimisation, equilibration and production runs unattended if each row makes its .tpr file of what the row
-- before it computed.
alter table gromacs_to_tune
    add column grompp_options text[] not null default '{}',
    add constraint gromacs_to_tune_grompp_options_valid check (
        cardinality(grompp_options) <= 100 and coalesce(array_ndims(grompp_options), 1) = 1
        and array_position(grompp_options, null) is null and octet_length(grompp_options::text) <= 8192),
    add constraint gromacs_to_tune_benchmark_grompp_options check (kind <> 'calibration' or grompp_options = '{}'),
    add constraint gromacs_to_tune_multidir_grompp_options check (multidir = '{}' or grompp_options = '{}');
comment on column gromacs_to_tune.grompp_options is 'Options of gmx grompp and their values, each a word of its own, such as {-f,md.mdp,-c,gromacs-6/confout.gro,-p,topol.top}: the .tpr file is made with them in its folder before it is read, as long as nothing has been computed. {after} in a path stands for the row in after. Empty if the file is there.';
grant insert (grompp_options), update (grompp_options) on gromacs_to_tune to gromacs_chemist;

-- With the rights of the role that edits.
create function gromacs_read_again() returns trigger language plpgsql as $$
begin
    new.inspect_again := true;
    return new;
end
$$;
comment on function gromacs_read_again is 'Lets the file of a row be made and read again once its grompp_options are others.';
create trigger gromacs_edit_allowed_grompp before update of grompp_options on gromacs_to_tune
    for each row execute function gromacs_edit_allowed();
create trigger gromacs_read_again before update of grompp_options on gromacs_to_tune
    for each row when (old.grompp_options is distinct from new.grompp_options) execute function gromacs_read_again();

do $$
begin
    execute format('alter function gromacs_read_again set search_path = pg_catalog, %I, pg_temp', current_schema());
    revoke execute on function gromacs_read_again from public;
end
$$;
