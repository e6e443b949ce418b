//! `scavenger-operator tenants`: how tenants share the pool.

use jiff::Timestamp;
use scavenger_planner::{
    report::{SharesReport, TenantReport},
    values::Order,
};
use serde::Serialize;

use super::{
    snapshot::{Listing, Snapshot},
    text::{Output, age, json_lines, percent, table},
};

/// List the tenants of the pool: what each may use, holds and used, and who waits
///
/// Looks at the cluster once, or at a snapshot of it. SHARE is the largest share of any of the pool's resources that the
/// tenant holds now. USED is the average of that, in which what was held a half-life ago counts half as much (shareHalfLife).
/// With order FairShare the tenant with the smallest USED for its WEIGHT comes first. MAX SHARE is the limit of the tenant.
/// LONGEST WAITING names the ScavengerJob that has waited longest, whatever it waits for.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    listing: Listing,
}

/// A tenant, as it is printed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    weight: f64,
    /// From 0 to 1, as are the next two.
    share: f64,
    used: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_share: Option<f64>,
    paused: bool,
    running: usize,
    waiting: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    longest_waiting: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_since: Option<Timestamp>,
}

pub(super) async fn exec(options: &Options) -> anyhow::Result<()> {
    let Listing { output, source } = &options.listing;
    let snapshot = source.read().await?;
    let text = answer(&snapshot, *output)?;
    snapshot.print(*output, &text)
}

fn answer(snapshot: &Snapshot, output: Output) -> anyhow::Result<String> {
    let planner = snapshot.planner();
    let shares = planner.shares(snapshot.time);
    let rows: Vec<Row> = shares.iter().flat_map(|shares| &shares.tenants).map(row).collect();
    if output == Output::Json {
        return json_lines(&rows);
    }
    let sharing = planner.settings().ok().and_then(|settings| settings.sharing.as_deref());
    let Some((shares, sharing)) = shares.as_ref().zip(sharing) else {
        return Ok("the pool says nothing of tenants (spec.order, spec.tenants)\n".to_owned());
    };
    let order = match sharing.order {
        Order::Interruptions => "those that have waited longest come first (order Interruptions)",
        Order::FairShare => "the tenant that used least for its weight comes first (order FairShare)",
    };
    Ok(format!("{}{order}\n{}", lines(&rows, snapshot.time), notes(shares)))
}

fn notes(shares: &SharesReport) -> &'static str {
    match shares.labels_known {
        true => "",
        false => "namespaces cannot be listed: each is a tenant by its own name\n",
    }
}

fn row(tenant: &TenantReport) -> Row {
    Row {
        name: tenant.name.to_string(),
        weight: tenant.rules.weight.number(),
        share: tenant.share,
        used: tenant.used,
        max_share: tenant.rules.max_share.map(|share| share.fraction()),
        paused: tenant.rules.paused,
        running: tenant.running,
        waiting: tenant.waiting,
        longest_waiting: tenant.longest_waiting.as_ref().map(|(_, sj)| sj.to_string()),
        waiting_since: tenant.longest_waiting.as_ref().map(|(since, _)| *since),
    }
}

fn lines(rows: &[Row], now: Timestamp) -> String {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let limit = row.max_share.map_or("-".to_owned(), percent);
            let waits = row.waiting_since.map(|since| age(now.duration_since(since)));
            [
                row.name.clone(),
                row.weight.to_string(),
                percent(row.share),
                percent(row.used),
                if row.paused { "paused".to_owned() } else { limit },
                row.running.to_string(),
                row.waiting.to_string(),
                row.longest_waiting.iter().zip(waits).map(|(sj, waits)| format!("{sj} ({waits})")).collect(),
            ]
        })
        .collect();
    let header = ["TENANT", "WEIGHT", "SHARE", "USED", "MAX SHARE", "RUNNING", "WAITING", "LONGEST WAITING"];
    table(header, &rows)
}

#[cfg(test)]
mod tests {
    use scavenger_planner::{
        fixtures::{at, node, settings, sj},
        resources::Share,
        values::{Counted, Observation, Settings},
    };

    use super::*;

    fn snapshot(settings: Settings) -> Snapshot {
        let waits = |name: &str, since| {
            let mut sj = sj(name).in_namespace("lab-a").asking(90_000);
            sj.creation_time = at(since);
            Observation::ScavengerJob(Box::new(sj))
        };
        let used = [("lab-b".into(), [("cpu".into(), 2.0)].into())].into();
        let observations = vec![
            Observation::Node(node("n1", 10_000)),
            Observation::Pool(Box::new(Ok(settings))),
            Observation::Counted(Some(Box::new(Counted { until: at(1000), used }))),
            waits("late", 900),
            waits("early", 400),
        ];
        Snapshot::new(at(1000), observations)
    }

    #[test]
    fn tenants_are_listed_with_what_they_used_and_who_waits() {
        let settings = settings().shared(&[("lab-a", 2.5)]).with_tenant("lab-b", |tenant| {
            tenant.max_share = Some(Share::from_fraction(0.25));
        });
        let snapshot = snapshot(settings);
        let text = answer(&snapshot, Output::Text).unwrap();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["lab-b", "1", "0.0%", "20.0%", "25.0%", "0", "0"]);
        assert_eq!(lines[2], ["lab-a", "2.5", "0.0%", "0.0%", "-", "0", "2", "lab-a/early", "(10m0s)"]);
        assert!(text.ends_with("(order FairShare)\n"), "{text}");
        let json = answer(&snapshot, Output::Json).unwrap();
        let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
        assert_eq!(
            (&first["name"], &first["used"], &first["maxShare"]),
            (&"lab-b".into(), &0.2.into(), &0.25.into())
        );
    }

    #[test]
    fn a_pool_without_tenants_says_so() {
        let text = answer(&snapshot(settings()), Output::Text).unwrap();
        assert_eq!(text, "the pool says nothing of tenants (spec.order, spec.tenants)\n");
    }
}
