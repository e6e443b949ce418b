//! The writes of one step.

use scavenger_schema::row::Value;
use scavenger_schema::simulation::{GromacsToTune, LadderRung, RowStatus, State, outcome_name};
use scavenger_schema::tuning::Build;
use scavenger_vocabulary::Reason;
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, Postgres, QueryBuilder, Transaction};

use super::statement::push_value;
use super::{COLUMNS, Changes, Claim, Store, StoreError, answer, end_report, sql_time};
use crate::advance::{AttemptRecord, Observation, Place};
use crate::probe::{Inspection, file_system};

impl Store {
    /// Writes what a step decided, if this process still holds the row; returns the row as it is then.
    ///
    /// # Errors
    /// [`StoreError::LoseLease`] if another process holds it by now, or the database's.
    pub async fn record(
        &self,
        claim: &Claim,
        status: &RowStatus,
        changes: &Changes,
    ) -> Result<Claim, StoreError> {
        let mut transaction = self.pool.begin().await?;
        write_changes(&mut transaction, &claim.row, changes).await?;
        let written = write_status(&mut transaction, self, claim, status, changes).await?;
        if let Some(answer) = &changes.answer {
            answer::keep(&mut transaction, &written.row, answer).await?;
        }
        transaction.commit().await?;
        Ok(written)
    }
}

async fn write_changes(
    transaction: &mut Transaction<'_, Postgres>,
    row: &GromacsToTune,
    changes: &Changes,
) -> Result<(), StoreError> {
    if let Some(inspection) = &changes.inspection {
        fill_system(transaction, row, inspection).await?;
    }
    if let Some(ladder) = &changes.ladder {
        write_ladder(transaction, row, REPLACE, ladder).await?;
    }
    if let Some(ladder) = &changes.renewed {
        write_ladder(transaction, row, RENEW, ladder).await?;
    }
    for attempt in &changes.attempts {
        upsert_attempt(transaction, row, attempt).await?;
    }
    if !changes.lost.is_empty() {
        write_lost(transaction, row, &changes.lost).await?;
    }
    if let Some(message) = &changes.went_back {
        write_event(transaction, row, message).await?;
    }
    for observation in &changes.observations {
        insert_observation(transaction, row, observation).await?;
    }
    if let Some(refused) = &changes.refused {
        sqlx::query(
            "update gromacs_ladder set refused = $4 where row_id = $1 and submission = $2 and configuration = $3",
        )
        .bind(row.id)
        .bind(row.status.submission)
        .bind(refused.rung)
        .bind(&refused.words)
        .execute(&mut **transaction)
        .await?;
    }
    for (is_wanted, statement) in [
        (changes.stops_appending, "update gromacs_to_tune set append = false where id = $1"),
        (changes.forgets_image, "update gromacs_to_tune set pinned_image = null where id = $1"),
        (
            changes.clears_requests,
            "update gromacs_to_tune set cancel_requested = false, retry_requested = false where id = $1",
        ),
        // A person may have changed the image or the file since.
        (
            changes.clears_requests,
            "update gromacs_ladder set refused = null where row_id = $1 and refused is not null",
        ),
    ] {
        if is_wanted {
            sqlx::query(statement).bind(row.id).execute(&mut **transaction).await?;
        }
    }
    Ok(())
}

/// Writes the status of a row that this process holds. A row that was woken while it was worked on is due again.
async fn write_status(
    transaction: &mut Transaction<'_, Postgres>,
    store: &Store,
    claim: &Claim,
    status: &RowStatus,
    changes: &Changes,
) -> Result<Claim, StoreError> {
    let update = format!(
        "update gromacs_to_tune set
            state = $7, reason = $8, submission = $9, job_uid = $10, configuration = $11, next_configuration = $12, attempt = $13,
            first_step = $14, step = $15, ns_per_day = $16, progress_time = $17, interruptions = $18,
            start_time = $19, finish_time = $20, failures = $21, peak_memory_bytes = $22, job_expiry_time = $23,
            inspect_again = $24, blocked = $25, late_seconds = $26, submitter_state = $27,
            next_attempt_time = case when wakes = $4 then $5 else now() end,
            lease_holder = case when $6 then null else lease_holder end,
            lease_until = case when $6 then null else now() + make_interval(secs => $3) end
        where id = $1 and lease_holder = $2 returning {}",
        *COLUMNS
    );
    if matches!(status.state, State::Cancelled | State::Failed) {
        close_attempts(transaction, &claim.row, status).await?;
    }
    let written: Claim = sqlx::query_as(AssertSqlSafe(update))
        .bind(claim.row.id)
        .bind(&store.holder)
        .bind(store.lease.as_secs_f64())
        .bind(claim.wakes)
        .bind(status.next_attempt_time)
        .bind(changes.releases)
        .bind(status.state.as_str())
        .bind(&status.reason)
        .bind(status.submission)
        .bind(&status.job_uid)
        .bind(status.rung)
        .bind(status.next_rung)
        .bind(status.attempt)
        .bind(status.first_step)
        .bind(status.step)
        .bind(status.ns_per_day)
        .bind(status.progress_time)
        .bind(status.interruptions)
        .bind(status.start_time)
        .bind(status.finish_time)
        .bind(status.failures)
        .bind(status.peak_memory_bytes)
        .bind(status.job_expiry_time)
        .bind(status.inspect_again)
        .bind(status.blocked)
        .bind(status.late_seconds)
        .bind(Json(&status.private))
        .fetch_optional(&mut **transaction)
        .await?
        .ok_or(StoreError::LoseLease(claim.row.id))?;
    if store.reports_ends && status.state.is_final() && !claim.row.status.state.is_final() {
        end_report::add(transaction, claim.row.id).await?;
    }
    store.clock.set(written.read_time.to_jiff());
    Ok(written)
}

/// An attempt whose ScavengerJob was deleted under it has nobody left to tell its end.
async fn close_attempts(
    transaction: &mut Transaction<'_, Postgres>,
    row: &GromacsToTune,
    status: &RowStatus,
) -> Result<(), StoreError> {
    let reason = if status.state == State::Cancelled { "Cancelled" } else { Reason::Deleted.name() };
    sqlx::query(
        "update gromacs_attempt set end_time = coalesce($4, now()), reason = $5,
            outcome = case when start_time is null then 'withdrawn' else 'interrupted' end,
            last_step = case when attempt = $3 and first_step is not null then greatest(last_step, $6)
                else last_step end
        where row_id = $1 and submission = $2 and outcome is null",
    )
    .bind(row.id)
    .bind(row.status.submission)
    .bind(row.status.attempt)
    .bind(status.finish_time)
    .bind(reason)
    .bind(row.status.step)
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

/// Values that the user gave win; what an earlier inspection had found gives way to what this one found.
async fn fill_system(
    transaction: &mut Transaction<'_, Postgres>,
    row: &GromacsToTune,
    inspection: &Inspection,
) -> Result<(), StoreError> {
    let system = inspection.system.kept_from(&row.system, &file_system(row));
    let mut query = QueryBuilder::new("update gromacs_to_tune set inspected = ");
    query
        .push_bind(Json(&inspection.values))
        .push(", append = coalesce(append, ")
        .push_bind(inspection.append);
    query.push("), pinned_image = ").push_bind(&inspection.image);
    for (column, value) in system.values() {
        query.push(", ").push(column).push(" = ");
        push_value(&mut query, value.unwrap_or(Value::Null));
    }
    query.push(" where id = ").push_bind(row.id);
    query.build().persistent(false).execute(&mut **transaction).await?;
    Ok(())
}

/// What becomes of the configurations that a submission had when the tuner is asked first.
const REPLACE: &str = "delete from gromacs_ladder where row_id = $1 and submission = $2";

/// The same after an interruption. A configuration keeps its number for as long as attempts may have run with it.
const RENEW: &str =
    "update gromacs_ladder set replaced = true, place = null where row_id = $1 and submission = $2";

async fn write_ladder(
    transaction: &mut Transaction<'_, Postgres>,
    row: &GromacsToTune,
    before: &'static str,
    ladder: &[LadderRung],
) -> Result<(), StoreError> {
    sqlx::query(before).bind(row.id).bind(row.status.submission).execute(&mut **transaction).await?;
    for (place, rung) in (1..).zip(ladder) {
        write_rung(transaction, row, rung, place).await?;
    }
    Ok(())
}

async fn write_rung(
    transaction: &mut Transaction<'_, Postgres>,
    row: &GromacsToTune,
    rung: &LadderRung,
    place: i32,
) -> Result<(), StoreError> {
    sqlx::query(
        "insert into gromacs_ladder (row_id, submission, configuration, cpu_millicores, memory_bytes, gpus, layout,
            ns_per_day_p10, ns_per_day_p50, ns_per_day_p90, hours_to_finish, efficiency, predicted_memory_bytes,
            hardware_class, fits_now, reason, model_version, node_labels, place)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
        on conflict (row_id, submission, configuration) do update set
            ns_per_day_p10 = excluded.ns_per_day_p10, ns_per_day_p50 = excluded.ns_per_day_p50,
            ns_per_day_p90 = excluded.ns_per_day_p90, hours_to_finish = excluded.hours_to_finish,
            efficiency = excluded.efficiency, predicted_memory_bytes = excluded.predicted_memory_bytes,
            hardware_class = excluded.hardware_class, fits_now = excluded.fits_now, reason = excluded.reason,
            model_version = excluded.model_version, place = excluded.place, replaced = false",
    )
    .bind(row.id)
    .bind(row.status.submission)
    .bind(rung.rung)
    .bind(rung.cpu_millicores)
    .bind(rung.memory_bytes)
    .bind(rung.gpus)
    .bind(rung.layout)
    .bind(rung.ns_per_day_p10)
    .bind(rung.ns_per_day_p50)
    .bind(rung.ns_per_day_p90)
    .bind(rung.hours_to_finish)
    .bind(rung.efficiency)
    .bind(rung.predicted_memory_bytes)
    .bind(&rung.hardware_class)
    .bind(rung.fits_now)
    .bind(&rung.reason)
    .bind(&rung.model_version)
    .bind(&rung.node_labels)
    .bind(place)
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

/// What was written before is not written again.
async fn write_lost(
    transaction: &mut Transaction<'_, Postgres>,
    row: &GromacsToTune,
    lost: &[(i32, i64)],
) -> Result<(), StoreError> {
    let (attempts, seconds): (Vec<i32>, Vec<i64>) = lost.iter().copied().unzip();
    sqlx::query(
        "update gromacs_attempt a set lost_seconds = m.lost_seconds
        from unnest($3::integer[], $4::bigint[]) as m (attempt, lost_seconds)
        where a.row_id = $1 and a.submission = $2 and a.attempt = m.attempt
            and a.lost_seconds is distinct from m.lost_seconds",
    )
    .bind(row.id)
    .bind(row.status.submission)
    .bind(attempts)
    .bind(seconds)
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

/// A line of the history, once: the log that says it is read more than once.
async fn write_event(
    transaction: &mut Transaction<'_, Postgres>,
    row: &GromacsToTune,
    message: &str,
) -> Result<(), StoreError> {
    sqlx::query(
        "insert into gromacs_event (row_id, state, submission, configuration, message)
        select $1, $2, $3, $4, $5
        where not exists (select from gromacs_event where row_id = $1 and submission = $3 and message = $5)",
    )
    .bind(row.id)
    .bind(row.status.state.as_str())
    .bind(row.status.submission)
    .bind(row.status.rung)
    .bind(message)
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

/// What was known of an attempt stays known: a later look at the ScavengerJob may no longer show its log.
async fn upsert_attempt(
    transaction: &mut Transaction<'_, Postgres>,
    row: &GromacsToTune,
    attempt: &AttemptRecord,
) -> Result<(), StoreError> {
    let view = &attempt.view;
    let place = Place::of(view);
    sqlx::query(
        "insert into gromacs_attempt (row_id, submission, attempt, configuration, cpu_millicores, memory_bytes, gpus,
            mdrun_args, creation_time, start_time, end_time, outcome, reason, message, first_step, last_step,
            ns_per_day, peak_memory_bytes, log_end, image, node, node_labels, hardware_class, gromacs_version,
            gromacs_build, lost_seconds, restart_seconds)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
            $23, $24, $25, $26, $27)
        on conflict (row_id, submission, attempt) do update set
            configuration = excluded.configuration, cpu_millicores = excluded.cpu_millicores, memory_bytes = excluded.memory_bytes,
            gpus = excluded.gpus, mdrun_args = excluded.mdrun_args,
            start_time = coalesce(excluded.start_time, gromacs_attempt.start_time),
            end_time = coalesce(excluded.end_time, gromacs_attempt.end_time),
            outcome = coalesce(excluded.outcome, gromacs_attempt.outcome),
            reason = coalesce(excluded.reason, gromacs_attempt.reason),
            message = coalesce(excluded.message, gromacs_attempt.message),
            first_step = coalesce(excluded.first_step, gromacs_attempt.first_step),
            last_step = coalesce(excluded.last_step, gromacs_attempt.last_step),
            ns_per_day = coalesce(excluded.ns_per_day, gromacs_attempt.ns_per_day),
            peak_memory_bytes = greatest(excluded.peak_memory_bytes, gromacs_attempt.peak_memory_bytes),
            lost_seconds = coalesce(excluded.lost_seconds, gromacs_attempt.lost_seconds),
            restart_seconds = coalesce(excluded.restart_seconds, gromacs_attempt.restart_seconds),
            log_end = coalesce(excluded.log_end, gromacs_attempt.log_end),
            node = coalesce(excluded.node, gromacs_attempt.node),
            node_labels = coalesce(excluded.node_labels, gromacs_attempt.node_labels),
            hardware_class = coalesce(excluded.hardware_class, gromacs_attempt.hardware_class)",
    )
    .bind(row.id)
    .bind(row.status.submission)
    .bind(view.number)
    .bind(view.rung)
    .bind(view.cpu_millicores)
    .bind(view.memory_bytes)
    .bind(view.gpus)
    .bind(&view.args)
    .bind(sql_time(view.creation_time))
    .bind(view.start_time.map(sql_time))
    .bind(view.end_time.map(sql_time))
    .bind(view.outcome.map(outcome_name))
    .bind(view.reason.as_ref().map(Reason::name))
    .bind(&view.message)
    .bind(attempt.first_step)
    .bind(attempt.last_step)
    .bind(attempt.measured.map(|measured| measured.ns_per_day))
    .bind(attempt.peak_memory_bytes)
    .bind(&attempt.log_end)
    .bind(image(row))
    .bind(place.as_ref().and_then(|place| place.node.as_ref()))
    .bind(place.as_ref().map(|place| Json(&place.labels)))
    .bind(place.as_ref().map(|place| &place.class))
    .bind(version(row))
    .bind(build(row))
    .bind(view.lost_seconds)
    .bind(attempt.restart_seconds)
    .execute(&mut **transaction)
    .await?;
    let Some(first_step) = attempt.first_step else { return Ok(()) };
    // The checkpoint it started from was written by the attempt before, whose log may have been gone too early.
    sqlx::query(
        "update gromacs_attempt set last_step = greatest(last_step, $4)
        where row_id = $1 and submission = $2 and attempt = (
            select max(attempt) from gromacs_attempt
            where row_id = $1 and submission = $2 and attempt < $3 and start_time is not null)",
    )
    .bind(row.id)
    .bind(row.status.submission)
    .bind(view.number)
    .bind(first_step)
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

/// The image that the row runs in, as exactly as is known.
fn image(row: &GromacsToTune) -> Option<&String> {
    row.pinned_image.as_ref().or(row.image.as_ref())
}

fn version(row: &GromacsToTune) -> Option<String> {
    file_system(row).gromacs_version.or_else(|| row.system.gromacs_version.clone())
}

fn build(row: &GromacsToTune) -> Option<Json<Build>> {
    Some(row.build()).filter(|build| !build.is_unknown()).map(Json)
}

async fn insert_observation(
    transaction: &mut Transaction<'_, Postgres>,
    row: &GromacsToTune,
    observation: &Observation,
) -> Result<(), StoreError> {
    sqlx::query(
        "insert into gromacs_observation (row_id, submission, attempt, owner, source, atoms, system, cpu_millicores,
            gpus, layout, hardware_class, node_labels, gromacs_version, ns_per_day, steps, wall_seconds,
            peak_memory_bytes, gromacs_build, killed_for_memory, node, image, node_cpu_millicores,
            node_requested_millicores)
        select $1, $2, $3, $4, $14, $5, $6, l.cpu_millicores, l.gpus, l.layout, $16, $7, $8, $9,
            $10, $11, $13, $15, $17, $18, $19, $20, $21
        from gromacs_ladder l where l.row_id = $1 and l.submission = $2 and l.configuration = $12
        on conflict on constraint gromacs_observation_once do nothing",
    )
    .bind(row.id)
    .bind(row.status.submission)
    .bind(observation.attempt)
    .bind(&row.owner)
    .bind(i64::try_from(observation.system.atoms).unwrap_or(i64::MAX))
    .bind(Json(&observation.system))
    .bind(Json(observation.place.as_ref().map(|place| place.labels.clone()).unwrap_or_default()))
    .bind(version(row))
    .bind(observation.measured.map(|measured| measured.ns_per_day))
    .bind(observation.measured.map(|measured| measured.steps))
    .bind(observation.measured.map(|measured| measured.wall_seconds))
    .bind(observation.rung)
    .bind(observation.peak_memory_bytes)
    .bind(row.kind.as_str())
    .bind(build(row))
    .bind(observation.place.as_ref().map(|place| &place.class))
    .bind(observation.killed_for_memory)
    .bind(observation.place.as_ref().and_then(|place| place.node.as_ref()))
    .bind(image(row))
    .bind(observation.place.as_ref().and_then(|place| place.cpu_millicores))
    .bind(observation.place.as_ref().and_then(|place| place.requested_millicores))
    .execute(&mut **transaction)
    .await?;
    Ok(())
}
