-- How a row goes on from its checkpoint: with new output files where the file system cannot lock, never from an older
-- checkpoint than there was, and with the file as it is after a retry.

alter table gromacs_to_tune
    add column append boolean,
    add column checkpoint_step bigint,
    add column speed_ratio double precision,
    add column inspect_again boolean not null default false;
comment on column gromacs_to_tune.append is 'True if mdrun goes on in its output files, which it must be able to lock; false if each restart writes new parts (md.part0002.log and so on). The inspection finds out if not given.';
comment on column gromacs_to_tune.checkpoint_step is 'Step that a checkpoint is known to have reached; an attempt that starts before it is stopped.';
comment on column gromacs_to_tune.speed_ratio is 'Measured speed divided by the predicted one, in this submission; null until something was measured.';
comment on column gromacs_to_tune.inspect_again is 'True if the .tpr file is read again before the next submission, since a retry was requested.';

grant insert (append) on gromacs_to_tune to gromacs_chemist;
