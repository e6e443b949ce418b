-- Where the time of a measured run went: what mdrun's log says at its end.
alter table gromacs_observation
    add column cycles jsonb,
    add constraint gromacs_observation_cycles_valid check (
        cycles is null or jsonb_typeof(cycles) = 'object' and ns_per_day is not null);
comment on column gromacs_observation.cycles is 'Seconds of wall time by activity, as the accounting at the end of md.log has them; null if nobody read them.';
