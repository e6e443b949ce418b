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

-- How configurations are chosen is a question of the site, of a group and of a simulation: an idle GPU is worth less than
-- a busy one. What a row leaves open its tenant says, then the ScavengerPool, then the submitter, each time the tuner is
-- asked.
alter table gromacs_to_tune
    add column min_efficiency double precision,
    add column max_configurations integer,
    add column gpu_price double precision,
    add column memory_price double precision,
    add constraint gromacs_to_tune_min_efficiency_valid check (min_efficiency >= 0.01 and min_efficiency <= 1),
    add constraint gromacs_to_tune_max_configurations_valid check (max_configurations between 1 and 32),
    add constraint gromacs_to_tune_gpu_price_valid check (gpu_price >= 0 and gpu_price <= 1000000),
    add constraint gromacs_to_tune_memory_price_valid check (memory_price >= 0 and memory_price <= 1000000),
    add constraint gromacs_to_tune_ladder_of_calibration check (
        kind <> 'calibration' or num_nonnulls(min_efficiency, max_configurations, gpu_price, memory_price) = 0);
comment on column gromacs_to_tune.min_efficiency is 'Share of the best speed per price that the first configuration has at least, 0.01 to 1; that of its tenant, the pool or the submitter if null.';
comment on column gromacs_to_tune.max_configurations is 'Most configurations that are tried, 1 to 32; those of its tenant, the pool or the submitter if null.';
comment on column gromacs_to_tune.gpu_price is 'Cores that a GPU counts as; those of its tenant, the pool or the submitter if null.';
comment on column gromacs_to_tune.memory_price is 'Cores that a GiB of memory counts as; those of its tenant, the pool or the submitter if null.';
grant insert (min_efficiency, max_configurations, gpu_price, memory_price),
    update (min_efficiency, max_configurations, gpu_price, memory_price) on gromacs_to_tune to gromacs_chemist;
create trigger gromacs_edit_allowed_ladder before update of min_efficiency, max_configurations, gpu_price, memory_price
    on gromacs_to_tune for each row execute function gromacs_edit_allowed();

alter table gromacs_tenant
    add column min_efficiency double precision,
    add column max_configurations integer,
    add column gpu_price double precision,
    add column memory_price double precision,
    add constraint gromacs_tenant_min_efficiency_valid check (min_efficiency >= 0.01 and min_efficiency <= 1),
    add constraint gromacs_tenant_max_configurations_valid check (max_configurations between 1 and 32),
    add constraint gromacs_tenant_gpu_price_valid check (gpu_price >= 0 and gpu_price <= 1000000),
    add constraint gromacs_tenant_memory_price_valid check (memory_price >= 0 and memory_price <= 1000000);
comment on column gromacs_tenant.min_efficiency is 'Share of the best speed per price that the first configuration of rows that say none has at least, 0.01 to 1; that of the pool or the submitter if null.';
comment on column gromacs_tenant.max_configurations is 'Most configurations that are tried of rows that say none, 1 to 32; those of the pool or the submitter if null.';
comment on column gromacs_tenant.gpu_price is 'Cores that a GPU counts as for rows that say none; those of the pool or the submitter if null.';
comment on column gromacs_tenant.memory_price is 'Cores that a GiB of memory counts as for rows that say none; those of the pool or the submitter if null.';
comment on table gromacs_tenant is 'Which database role may run simulations in which namespace, with what defaults and limits. Written by the admin; all but max_rows_in_work, and what chooses configurations, is read when a row is inserted.';

alter table gromacs_tuner_answer
    add column min_efficiency double precision,
    add column max_configurations integer,
    add column gpu_price double precision,
    add column memory_price double precision,
    add column set_by jsonb not null default '{}';
comment on column gromacs_tuner_answer.min_efficiency is 'Share of the best speed per price that was asked for; null for a calibration.';
comment on column gromacs_tuner_answer.max_configurations is 'Most configurations that were asked for; null for a calibration.';
comment on column gromacs_tuner_answer.gpu_price is 'Cores that a GPU counted as; null for a calibration.';
comment on column gromacs_tuner_answer.memory_price is 'Cores that a GiB of memory counted as; null for a calibration.';
comment on column gromacs_tuner_answer.set_by is 'Who set each of these by the name of the column: row, tenant, pool or submitter.';
