-- The comments of columns say "capacity", "configuration" and "message", as the pages and the programs do.
comment on column gromacs_to_tune.fallback_after_seconds is 'Seconds it waits for free capacity before the next smaller configuration is tried; the submitter''s --fallback-after if null.';
comment on column gromacs_to_tune.reason is 'Message: why the row is in this state.';
comment on column gromacs_to_tune.rung is 'Number in gromacs_ladder of the configuration in use, counted from 1.';
comment on column gromacs_to_tune.next_rung is 'Number in gromacs_ladder of the configuration that is about to replace it; null otherwise.';
comment on column gromacs_to_tune.laps is 'How often every configuration was tried and none found free capacity.';
comment on column gromacs_to_tune.no_room_since is 'Since when it waits for free capacity with this configuration; null while it waits for anything else.';
comment on column gromacs_to_tune.no_room_seconds is 'Seconds it waited for free capacity with this configuration before no_room_since.';
comment on column gromacs_ladder.rung is 'Number of the configuration, counted from 1; 1 is the largest.';
comment on column gromacs_ladder.fits_now is 'True if a node had enough free capacity for it when the tuner was asked.';
comment on column gromacs_attempt.rung is 'Number in gromacs_ladder of the configuration it ran with; null if it ran with another one.';
comment on column gromacs_attempt.message is 'Message that belongs to the reason.';
comment on column gromacs_event.message is 'Message: why it happened.';
comment on column gromacs_queue.rung is 'Number in gromacs_ladder of that configuration, counted from 1; 1 is the largest.';
