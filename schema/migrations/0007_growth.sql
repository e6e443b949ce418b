-- A growth that comes to nothing costs a restart, so the next one is tried after twice the time.
alter table gromacs_to_tune add column growth_failures integer not null default 0;
comment on column gromacs_to_tune.growth_failures is 'Times in a row that it stopped to go on with a larger configuration and went back to the one that it had; the time before the next one grows with it.';
