-- What a row's life needs beyond its first attempt: more memory after it ran out, how much it took, the end of the
-- log of what failed, who follows its progress, and when the finished ScavengerJob is removed.

alter table gromacs_to_tune
    add column outgrown_memory_bytes bigint,
    add column peak_memory_bytes bigint,
    add column job_expiry_time timestamptz,
    add column follower text,
    add column followed_until timestamptz;
comment on column gromacs_to_tune.outgrown_memory_bytes is 'Most memory, in bytes, with which mdrun was killed for using more; a configuration must have more than that. Null if that never happened.';
comment on column gromacs_to_tune.peak_memory_bytes is 'Most memory that the attempt was seen to use, in bytes; null where the cluster does not measure it.';
comment on column gromacs_to_tune.job_expiry_time is 'When the ScavengerJob of a row that has ended is removed; null if nothing is left to remove.';
comment on column gromacs_to_tune.follower is 'Submitter that follows the log of the running attempt.';
comment on column gromacs_to_tune.followed_until is 'Until when it does without another sign of life; later another one may.';

-- Rows whose ScavengerJob is due to be removed; a backlog of finished rows costs nothing.
create index gromacs_to_tune_expiring on gromacs_to_tune (job_expiry_time) where job_expiry_time is not null;

alter table gromacs_attempt
    add column peak_memory_bytes bigint,
    add column log_end text;
comment on column gromacs_attempt.peak_memory_bytes is 'Most memory it was seen to use, in bytes; the limit if it was killed for using more; null if not measured.';
comment on column gromacs_attempt.log_end is 'Last lines of the log of an attempt that failed, without progress lines.';
