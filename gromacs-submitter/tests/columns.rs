//! Whatever a row says, it says the same after the way through the database, its export and a CSV file.

mod postgres;
mod program;

use std::collections::BTreeMap;

use gromacs_submitter::store::{AddMode, Labels, Moment, NewRow};
use program::{Program, text};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use scavenger_schema::row::{self, Check, Column, Kind, Value};

/// Values that a column may hold. Where its check is no range, the numbers are small, which all of them let pass.
fn value(column: &'static Column) -> BoxedStrategy<Value> {
    let (min, max) = match column.check {
        Some(Check::Range { min, max, .. }) => (min, max),
        _ if column.name == "max_memory_bytes" => (1e9, 1e12),
        _ if column.name == "memory_bytes" => (16_777_216.0, 1e9),
        _ => (1.0, 400.0),
    };
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let labels = || btree_map("[A-Za-z]{1,8}", "[A-Za-z0-9]{0,8}", 0..3);
    match (column.kind, column.name) {
        (_, "namespace") => Just(Value::Text("lab".to_owned())).boxed(),
        (_, "persistent_volume_claim") => "[a-z0-9]{1,20}".prop_map(Value::Text).boxed(),
        (_, "tpr_path") => "[a-zé\", ]{1,12}/[a-z]{1,5}\\.tpr".prop_map(Value::Text).boxed(),
        (_, "checkpoint_path") => "[a-zé\", ]{1,12}/[a-z]{1,5}\\.cpt".prop_map(Value::Text).boxed(),
        (_, "folder") => "[a-zé\", ]{1,12}/[a-z]{1,5}".prop_map(Value::Text).boxed(),
        (_, "command") => vec("[ -~é\n]{1,20}", 1..5).prop_map(Value::Texts).boxed(),
        (_, "cpu_millicores") => (100..500).prop_map(Value::Integer).boxed(),
        (_, "image") => "[a-z0-9:./]{1,30}".prop_map(Value::Text).boxed(),
        (_, "engine") => prop_oneof![Just("thread-mpi"), Just("mpi")]
            .prop_map(|name: &str| Value::Text(name.to_owned()))
            .boxed(),
        (Kind::Text, _) => "[a-zé\", ]{1,40}".prop_map(Value::Text).boxed(),
        (_, "grompp_options") => {
            Just(Value::Texts(words(&["-f", "md.mdp", "-c", "a.gro", "-p", "topol.top"]))).boxed()
        }
        (_, "mdrun_options") => {
            let plumed = ["-dlb", "no", "-plumed", "meta/plumed.dat"];
            prop_oneof![Just(words(&["-dlb", "yes"])), Just(words(&plumed))].prop_map(Value::Texts).boxed()
        }
        (Kind::Texts, _) => Just(Value::Texts(words(&["sim0", "a/sim1"]))).boxed(),
        // The row that is there already.
        (Kind::Bigints, _) => Just(Value::Bigints(vec![1])).boxed(),
        (Kind::Integer, _) => (min as i32..=max as i32).prop_map(Value::Integer).boxed(),
        (Kind::Bigint, _) => (min as i64..=max as i64).prop_map(Value::Bigint).boxed(),
        (Kind::Real, _) if column.check.is_some_and(|check| matches!(check, Check::Sql { .. })) => {
            (1e-6..1.0).prop_map(Value::Real).boxed()
        }
        (Kind::Real, _) => (min..max).prop_map(Value::Real).boxed(),
        (Kind::Boolean, _) => any::<bool>().prop_map(Value::Boolean).boxed(),
        (Kind::Integers, _) => vec(4..=4096, 3).prop_map(Value::Integers).boxed(),
        (Kind::Reals, _) => vec(0.1..1e5, 3).prop_map(Value::Reals).boxed(),
        // One name for each, whatever GROMACS leaves out when it compares names.
        (_, "mdp_options") => btree_map("[a-z]{1,8}", "[ -:<-~é]{0,12}", 0..3)
            .prop_map(|settings| Value::Labels(Labels(settings)))
            .boxed(),
        (Kind::Labels, _) => labels().prop_map(|labels| Value::Labels(Labels(labels))).boxed(),
        (Kind::Time, _) => (1_000_000_000_000_000..4_000_000_000_000_000_i64)
            .prop_map(|micros| jiff::Timestamp::from_microsecond(micros).expect("should be a time"))
            .prop_map(|time| Value::Time(Moment::At(time)))
            .boxed(),
    }
}

/// A row that gives about half of the columns.
fn new_row() -> impl Strategy<Value = NewRow> {
    let given = |column: &'static Column| match column.is_required {
        true => value(column).prop_map(Some).boxed(),
        false => proptest::option::of(value(column)).boxed(),
    };
    let values: Vec<BoxedStrategy<Option<Value>>> = row::COLUMNS.iter().map(given).collect();
    values.prop_map(|values| {
        let mut row = NewRow::default();
        for (column, value) in row::COLUMNS.iter().zip(values) {
            if let Some(value) = value {
                row.set(column.name, value);
            }
        }
        // What rules about several columns exclude.
        if row.command.is_some() {
            return NewRow {
                namespace: row.namespace,
                persistent_volume_claim: row.persistent_volume_claim,
                command: row.command,
                folder: row.folder,
                cpu_millicores: row.cpu_millicores.or(Some(100)),
                memory_bytes: row.memory_bytes.or(Some(1 << 24)),
                image: row.image.or(Some("image".to_owned())),
                labels: row.labels,
                after: row.after,
                priority: row.priority,
                max_cpu_millicores: row.max_cpu_millicores,
                max_memory_bytes: row.max_memory_bytes,
                ..NewRow::default()
            };
        }
        (row.folder, row.cpu_millicores, row.memory_bytes) = (None, None, None);
        row.append = row.append.filter(|_| row.checkpoint_path.is_none());
        row.grompp_options = row.grompp_options.filter(|_| row.multidir.is_none());
        row.mdp_options = row.mdp_options.filter(|_| row.grompp_options.is_some());
        row
    })
}

/// The columns of all rows behind the first.
async fn exported(store: &gromacs_submitter::store::Store) -> Vec<BTreeMap<String, serde_json::Value>> {
    let rows: Vec<sqlx::types::Json<BTreeMap<String, serde_json::Value>>> =
        sqlx::query_scalar("select to_jsonb(q) from gromacs_to_tune q where id > 1 order by id")
            .fetch_all(store.pool())
            .await
            .expect("should read");
    let is_given = |name: &String| row::all().any(|column| column.name == name);
    rows.into_iter().map(|row| row.0.into_iter().filter(|(name, _)| is_given(name)).collect()).collect()
}

/// The cell of a column: words of a command and settings are quoted, and a command has no file.
fn cell_of(column: &Column, row: &BTreeMap<String, serde_json::Value>) -> String {
    match (column.name, row["command"].as_array()) {
        ("command", Some(words)) => {
            let words = words.iter().filter_map(serde_json::Value::as_str);
            shlex::try_join(words).expect("should hold no NUL")
        }
        ("tpr_path", Some(_)) => String::new(),
        ("mdp_options", _) => {
            let settings = row["mdp_options"].as_object().into_iter().flatten();
            let pairs: Vec<String> =
                settings.map(|(name, value)| format!("{name}={}", cell(value))).collect();
            shlex::try_join(pairs.iter().map(String::as_str)).expect("should hold no NUL")
        }
        (name, _) => cell(&row[name]),
    }
}

/// A value of the export as a cell.
fn cell(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(" "),
        serde_json::Value::Object(labels) => {
            labels.iter().map(|(name, value)| format!("{name}={}", cell(value))).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

#[test]
fn a_row_is_the_same_after_its_export_and_import() {
    let runtime = tokio::runtime::Runtime::new().expect("should make a runtime");
    let (store, url) = runtime.block_on(postgres::migrated_store("tests"));
    let program = Program::new(url);
    program.good(&["add", "first.tpr"]);
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(8) };
    let property = |rows: Vec<NewRow>| {
        let mode = AddMode { allow_duplicate: true, ..AddMode::default() };
        let (fates, is_there) = runtime.block_on(store.add_all(&rows, mode)).expect("should answer");
        prop_assert!(is_there, "{fates:?}");
        let before = runtime.block_on(exported(&store));

        let mut table = csv::Writer::from_writer(Vec::new());
        table.write_record(row::COLUMNS.iter().map(|column| column.name)).expect("should write");
        for row in &before {
            table.write_record(row::COLUMNS.iter().map(|column| cell_of(column, row))).expect("should write");
        }
        let table = table.into_inner().expect("should be whole");
        let added = program.with_stdin(&["add", "--from", "-", "--allow-duplicate"], &table);
        prop_assert!(added.status.success(), "{}", text(&added.stderr));

        let all = runtime.block_on(exported(&store));
        let (imported, own) = (all.len() / 2, before.len());
        prop_assert_eq!((own, imported), (rows.len(), rows.len()));
        // The path of a command has the number of its row.
        let without_number = |rows: &[BTreeMap<String, serde_json::Value>]| -> Vec<_> {
            let without = |mut row: BTreeMap<String, serde_json::Value>| {
                if !row["command"].is_null() {
                    row.remove("tpr_path");
                }
                row
            };
            rows.iter().cloned().map(without).collect()
        };
        prop_assert_eq!(without_number(&all[own..]), without_number(&before));
        let clear = sqlx::query("delete from gromacs_to_tune where id > 1");
        let cleared = "update gromacs_to_tune set state = 'cancelled' where id > 1";
        for statement in [sqlx::query(cleared), clear] {
            runtime.block_on(statement.execute(store.pool())).expect("should clear");
        }
        Ok(())
    };
    TestRunner::new(config).run(&vec(new_row(), 1..40), property).expect("every row should come back");
}
