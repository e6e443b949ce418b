-- Ends of rows that are to be reported to the webhook of the submitter. A submitter that has a webhook adds a line in the
-- transaction that records the end, and removes it when the endpoint has taken it: so no end is lost when a submitter
-- stops, and nothing is reported that ended before there was a webhook.
create table gromacs_end_report (
    id bigint generated always as identity primary key,
    row_id bigint not null references gromacs_to_tune (id) on delete cascade,
    document jsonb not null,
    tries integer not null default 0,
    next_try_time timestamptz not null default now(),
    creation_time timestamptz not null default now(),
    constraint gromacs_end_report_document_valid check (jsonb_typeof(document) = 'object'),
    constraint gromacs_end_report_tries_valid check (tries >= 0)
);
create index gromacs_end_report_due on gromacs_end_report (next_try_time);
create index gromacs_end_report_of_row on gromacs_end_report (row_id);
comment on table gromacs_end_report is 'Ends of rows that the submitter has yet to report to its webhook; a line is removed when it is delivered or given up.';
comment on column gromacs_end_report.id is 'Number of the report.';
comment on column gromacs_end_report.row_id is 'The row of gromacs_to_tune.';
comment on column gromacs_end_report.document is 'What is sent, as it was when the row ended.';
comment on column gromacs_end_report.tries is 'How often it was sent.';
comment on column gromacs_end_report.next_try_time is 'When it is sent next; while a submitter sends it, when another one may.';
comment on column gromacs_end_report.creation_time is 'When the row ended.';

grant select, insert, update, delete on gromacs_end_report to gromacs_submitter;
grant select on gromacs_end_report to gromacs_reader;
alter table gromacs_end_report enable row level security;
create policy gromacs_end_report_submitter on gromacs_end_report to gromacs_submitter using (true) with check (true);
create policy gromacs_end_report_reader on gromacs_end_report for select to gromacs_reader using (true);
