-- What the tuner says of a ladder as a whole (a droplet, hardware that it does not know, years to the end) stays with the
-- ladder, and shows in the history of the row.
create table gromacs_tuner_answer (
    row_id bigint not null references gromacs_to_tune (id) on delete cascade,
    submission integer not null,
    notes text[] not null default '{}',
    model_version text not null,
    creation_time timestamptz not null default now(),
    primary key (row_id, submission)
);
comment on table gromacs_tuner_answer is 'What the tuner said of the configurations of a submission as a whole. Each configuration is a line of gromacs_ladder.';
comment on column gromacs_tuner_answer.row_id is 'The row of gromacs_to_tune.';
comment on column gromacs_tuner_answer.submission is 'The submission it was asked for.';
comment on column gromacs_tuner_answer.notes is 'Its notes, a message each: what is doubtful about the system, and hardware that it does not know. Empty if there is none.';
comment on column gromacs_tuner_answer.model_version is 'Version of the tuner''s model.';
comment on column gromacs_tuner_answer.creation_time is 'When the tuner was asked.';

grant select on gromacs_tuner_answer to gromacs_chemist, gromacs_submitter, gromacs_reader;
grant insert, update, delete on gromacs_tuner_answer to gromacs_submitter;
alter table gromacs_tuner_answer enable row level security;
-- Of the rows that gromacs_to_tune shows.
create policy gromacs_tuner_answer_owner on gromacs_tuner_answer for select to gromacs_chemist
    using (exists (select from gromacs_to_tune q where q.id = row_id));
create policy gromacs_tuner_answer_submitter on gromacs_tuner_answer to gromacs_submitter using (true) with check (true);
create policy gromacs_tuner_answer_reader on gromacs_tuner_answer for select to gromacs_reader using (true);
