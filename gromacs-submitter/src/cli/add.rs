//! `add`: puts simulations into the queue.

use std::time::Duration;

use super::{Outcome, open, print_line};
use crate::config::{AddOptions, Database, OutputFormat};
use crate::store::{NewRow, StoreError};

pub(super) async fn exec(database: &Database, options: AddOptions) -> anyhow::Result<Outcome> {
    let store = open(database)?;
    let mut outcome = Outcome::Done;
    for tpr_path in &options.tpr_path {
        if options.dry_run {
            print_line(&format!(
                "would add {tpr_path} of {} in namespace {}",
                options.persistent_volume_claim, options.namespace
            ));
            continue;
        }
        match store.add(&new_row(&options, tpr_path)?).await {
            Ok(id) => print_line(&match options.output {
                OutputFormat::Text => format!("row {id}: {tpr_path}"),
                OutputFormat::Json => serde_json::json!({ "id": id, "tpr_path": tpr_path }).to_string(),
            }),
            // One bad path does not keep the others out.
            Err(error @ StoreError::BreakRule(_)) => {
                eprintln!("error: {tpr_path}: {error}");
                outcome = Outcome::Failed;
            }
            Err(error) => return Err(error.into()),
        }
    }
    store.close().await;
    Ok(outcome)
}

fn new_row(options: &AddOptions, tpr_path: &str) -> anyhow::Result<NewRow> {
    let seconds = |duration: Option<Duration>| duration.map(|time| i32::try_from(time.as_secs())).transpose();
    Ok(NewRow {
        namespace: options.namespace.clone(),
        persistent_volume_claim: options.persistent_volume_claim.clone(),
        tpr_path: tpr_path.to_owned(),
        image: options.image.clone(),
        run_as_user: options.run_as_user,
        priority: options.priority,
        max_cpu_millicores: options.max_cpu_millicores,
        interruption_after_seconds: seconds(options.interruption_after)?,
        fallback_after_seconds: seconds(options.fallback_after)?,
    })
}
