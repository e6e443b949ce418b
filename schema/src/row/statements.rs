//! Statements about rows that people's programs run: `gromacs-submitter`, and the Python package, into which
//! `cargo xtask generate` writes them. Values are bound to them, and never become part of their text.

/// The condition of a filter: $1 numbers of rows, $2 states, $3 owner, $4 namespace, $5 project, $6 labels, $7 whether late,
/// $8 ended before when. Null, and no state, is no condition.
macro_rules! matches {
    () => {
        matches!("")
    };
    ($or_state:expr) => {
        concat!(
            "($1::bigint[] is null or q.id = any($1)) and (cardinality($2::text[]) = 0 or q.state = any($2)",
            $or_state,
            ")
            and ($3::text is null or q.owner = $3) and ($4::text is null or q.namespace = $4)
            and ($5::text is null or q.project = $5) and ($6::jsonb is null or q.labels @> $6)
            and (not $7 or (q.deadline is not null and gromacs_late_seconds(q) is not null))
            and ($8::timestamptz is null or q.finish_time < $8)"
        )
    };
}

/// A row `q` of the view `gromacs_queue` as a JSON object, with the seconds that are left by the database's clock, and whether
/// it has ended: what is asked to go on has not, although its state says so until the submitter has heard it.
#[macro_export]
macro_rules! queue_row {
    () => {
        "to_jsonb(q) || jsonb_build_object('seconds_left',
        case when q.expected_finish_time is not null then
            greatest(0, extract(epoch from q.expected_finish_time - now()))::bigint end,
        'has_ended', q.state in ('completed', 'failed', 'cancelled') and not exists (
            select from gromacs_to_tune t where t.id = q.id and t.retry_requested))"
    };
}

/// Rows of the view `gromacs_queue` that a filter selects, the newest first, one JSON object each: $9 rows in any case, $10 how
/// many of the newest. The rows are chosen by an index, and only for these the view is worked out. Those that are asked to go on
/// count as queued, too.
pub const LIST: &str = concat!(
    "select ",
    queue_row!(),
    "
    from gromacs_queue q where q.id = any(array(
        select q.id from gromacs_to_tune q where ",
    matches!(
        " or (q.retry_requested and q.state in ('completed', 'failed', 'cancelled') and 'queued' = any($2))"
    ),
    " order by q.id desc limit $10) || $9::bigint[]) order by q.id desc"
);

/// Number and state of the rows that a filter selects.
pub const SELECT: &str =
    concat!("select q.id, q.state from gromacs_to_tune q where ", matches!(), " order by q.id");

/// The rows that a filter selects, summed up by project.
pub const PROJECTS: &str = concat!(
    "with chosen as materialized (
        select q.project, q.state, regexp_replace(left(q.reason, 120), '[0-9]+', 'N', 'g') as why,
            q.nsteps * q.dt_ps / 1000 as ns,
            case when q.kind = 'command' then 0
                else greatest(0, q.nsteps - greatest(0, coalesce(q.step, 0) - coalesce(q.init_step, 0)))
                    * q.dt_ps / 1000 end as ns_left,
            case when q.state = 'running' then q.ns_per_day end as speed
        from gromacs_to_tune q where ",
    matches!(),
    "),
    sums as (
        select project, count(*) as rows,
            count(*) filter (where state = 'completed') as completed,
            count(*) filter (where state = 'failed') as failed,
            count(*) filter (where state = 'cancelled') as cancelled,
            count(*) filter (where state = 'running') as running,
            avg(ns) as usual, sum(speed) as speed,
            sum(ns_left) filter (where state not in ('completed', 'failed', 'cancelled')) as ns_left,
            count(*) filter (where ns_left is null and state not in ('completed', 'failed', 'cancelled'))
                as unknown
        from chosen group by project)
    select project, rows, completed, failed, cancelled, running,
        rows - completed - failed - cancelled - running as waiting,
        case when speed > 0 and rows > completed + failed + cancelled
            then (coalesce(ns_left, 0) + case when unknown > 0 then unknown * usual else 0 end) / speed * 86400
        end::double precision as seconds_left,
        (select coalesce(jsonb_agg(jsonb_build_array(why, times) order by times desc, why), '[]')
            from (select coalesce(c.why, '') as why, count(*) as times from chosen c
                where c.state = 'failed' and c.project is not distinct from s.project group by 1) f)
            as failures
    from sums s order by project nulls last"
);

/// Every attempt of the rows of a filter that ran at some time since $9, in the order of its start.
pub const RAN: &str = concat!(
    "select q.id as row_id, q.owner, q.namespace, q.tpr_path, q.kind, a.submission, a.attempt, a.cpu_millicores,
        a.memory_bytes, a.gpus, (l.layout ->> 'ntmpi')::integer as ntmpi,
        (l.layout ->> 'ntomp')::integer as ntomp, a.start_time, a.end_time, a.outcome, a.reason,
        a.first_step, case when a.end_time is null and q.submission = a.submission and q.attempt = a.attempt
            then greatest(a.last_step, q.step) else a.last_step end as last_step,
        q.dt_ps, case when a.end_time is null and q.submission = a.submission and q.attempt = a.attempt
            then coalesce(a.ns_per_day, q.ns_per_day) else a.ns_per_day end as ns_per_day,
        a.lost_seconds, o.node_cpu_millicores, o.node_requested_millicores
    from gromacs_attempt a join gromacs_to_tune q on q.id = a.row_id
    left join gromacs_ladder l
        on l.row_id = a.row_id and l.submission = a.submission and l.configuration = a.configuration
    left join gromacs_observation o
        on o.row_id = a.row_id and o.submission = a.submission and o.attempt = a.attempt
            and o.ns_per_day is not null
    where a.start_time is not null and coalesce(a.end_time, now()) >= $9 and ",
    matches!(),
    " order by a.start_time, a.row_id, a.attempt"
);

/// One command of a role at a time, or two of them would both find that a file has no row yet. Others see other rows, and hold
/// nobody up.
pub const LOCK_ADDING: &str = "select gromacs_lock_adding()";

/// Rows that compute the files of new rows already: place among the new rows, counted from 1, number and state. $1 namespaces,
/// $2 claims, $3 paths, $4 whether rows that have ended count, $5 the folders of several simulations, a JSON list each.
pub const DUPLICATES: &str = "select distinct on (n.place) n.place, t.id, t.state
    from unnest($1::text[], $2::text[], $3::text[], $5::jsonb[])
        with ordinality as n(namespace, persistent_volume_claim, tpr_path, multidir, place)
    join gromacs_to_tune t on t.namespace = n.namespace
        and t.persistent_volume_claim = n.persistent_volume_claim and t.tpr_path = n.tpr_path
        and to_jsonb(t.multidir) = n.multidir
    where $4 or t.state not in ('completed', 'failed', 'cancelled')
    order by n.place, (t.state in ('completed', 'failed', 'cancelled')), t.id desc";

/// Asks to cancel those of the rows $1 that have not ended; returns these.
pub const CANCEL: &str = "update gromacs_to_tune set cancel_requested = true
    where id = any($1) and state not in ('completed', 'failed', 'cancelled') returning id";

/// Asks to retry those of the rows $1 that failed or were cancelled; returns these.
pub const RETRY: &str = "update gromacs_to_tune set retry_requested = true
    where id = any($1) and state in ('failed', 'cancelled') returning id";

/// Holds those of the rows $1 that are queued if $2, else releases them; returns these.
pub const SET_HELD: &str =
    "update gromacs_to_tune set held = $2 where id = any($1) and state = 'queued' returning id";

/// Deletes those of the rows $1 that have ended, with their history; returns these.
pub const REMOVE: &str = "delete from gromacs_to_tune where id = any($1)
    and state in ('completed', 'failed', 'cancelled') returning id";

/// Asks that the completed rows $1 go on for $2 ns longer if $3, else until $2 ns in all; returns number, length before and
/// after in ns, and the latter in steps. What does not fit is far beyond the rule for the column, which has the better message.
pub const EXTEND: &str = "update gromacs_to_tune set extended_nsteps = least(1e18,
        case when $3 then nsteps else 0 end + round($2::numeric * 1000 / dt_ps::numeric))::bigint
    where id = any($1)
    returning id, nsteps * dt_ps / 1000 as from_ns, extended_nsteps * dt_ps / 1000 as to_ns, extended_nsteps";
