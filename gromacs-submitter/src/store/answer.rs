//! What the tuner said of the configurations of a submission as a whole.

use scavenger_schema::simulation::GromacsToTune;
use sqlx::types::Json;
use sqlx::{Postgres, Transaction};

use super::StoreError;
use crate::ladder_settings::Chosen;

/// A line of `gromacs_tuner_answer`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// Its notes, a message each.
    pub notes: Vec<String>,
    /// Version of its model.
    pub model_version: String,
    /// How it was asked to choose the configurations; none for a calibration, which has one.
    pub chosen: Option<Chosen>,
}

/// Keeps the answer for the present submission of a row. Notes that the row has not had before get a line of its history
/// each, in the state that the row has by then.
pub(super) async fn keep(
    transaction: &mut Transaction<'_, Postgres>,
    row: &GromacsToTune,
    answer: &Answer,
) -> Result<(), StoreError> {
    let settings = answer.chosen.as_ref().map(|chosen| chosen.settings).unwrap_or_default();
    let set_by = answer.chosen.as_ref().map(|chosen| Json(&chosen.set_by));
    sqlx::query(
        "insert into gromacs_tuner_answer (row_id, submission, notes, model_version, min_efficiency,
            max_configurations, gpu_price, memory_price, set_by)
        values ($1, $2, $3, $4, $5, $6, $7, $8, coalesce($9, '{}'::jsonb))
        on conflict (row_id, submission) do update set
            notes = excluded.notes, model_version = excluded.model_version, creation_time = excluded.creation_time,
            min_efficiency = excluded.min_efficiency, max_configurations = excluded.max_configurations,
            gpu_price = excluded.gpu_price, memory_price = excluded.memory_price, set_by = excluded.set_by",
    )
    .bind(row.id)
    .bind(row.status.submission)
    .bind(&answer.notes)
    .bind(&answer.model_version)
    .bind(settings.min_efficiency)
    .bind(settings.max_configurations)
    .bind(settings.gpu_price)
    .bind(settings.memory_price)
    .bind(set_by)
    .execute(&mut **transaction)
    .await?;
    let messages: Vec<String> = answer.notes.iter().map(|note| format!("the tuner notes: {note}")).collect();
    sqlx::query(
        "insert into gromacs_event (row_id, state, submission, configuration, message)
        select $1, $2, $3, $4, n.message from unnest($5::text[]) with ordinality n (message, place)
        where not exists (select from gromacs_event e where e.row_id = $1 and e.message = n.message)
        order by n.place",
    )
    .bind(row.id)
    .bind(row.status.state.as_str())
    .bind(row.status.submission)
    .bind(row.status.rung)
    .bind(messages)
    .execute(&mut **transaction)
    .await?;
    Ok(())
}
