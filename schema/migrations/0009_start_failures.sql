-- What follows when mdrun ended before its first step: a configuration that it refused is not tried again, and what
-- goes by without a person is tried again after a delay.

alter table gromacs_ladder add column refused text;
comment on column gromacs_ladder.refused is 'Why mdrun refused to start with it, in mdrun''s words; null if it did not. Forgotten when the row is retried.';

alter table gromacs_to_tune
    add column start_failures integer not null default 0,
    add column not_before timestamptz;
comment on column gromacs_to_tune.start_failures is 'Starts in a row that ended before the first step for a reason that goes by (a lock that is held, a full volume); the delay before the next one grows with it.';
comment on column gromacs_to_tune.not_before is 'Before this time its next submission is not begun; null if nothing holds it.';
