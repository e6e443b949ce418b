//! Defaults and limits of tenants.

use gromacs_submitter::ladder_settings::choose;
use gromacs_submitter::store::Edit;
use scavenger_schema::simulation::LadderSettings;

use super::*;

#[tokio::test]
async fn rows_that_say_no_minimum_have_the_tenants() {
    let queue = Queue::new().await;
    let change = Tenant {
        min_cpu_millicores: Some(4000),
        min_ns_per_day: Some(2.5),
        max_cpu_millicores: Some(8000),
        ..tenant("alice", "chem")
    };
    assert_eq!(queue.admin.add_tenant(&change, false).await.expect("should change"), Change::Changed);
    assert_eq!(queue.admin.add_tenant(&change, false).await.expect("should see"), Change::Unchanged);
    let row = |max: Option<i32>, min: Option<i32>, speed: Option<f64>| NewRow {
        max_cpu_millicores: max,
        min_cpu_millicores: min,
        min_ns_per_day: speed,
        ..new_row("chem")
    };
    for (given, expected) in [
        (row(None, None, None), (Some(8000), Some(4000), Some(2.5))),
        (row(Some(2000), None, None), (Some(2000), Some(2000), Some(2.5))),
        (row(None, Some(500), Some(0.0)), (Some(8000), Some(500), Some(0.0))),
        (row(None, Some(0), None), (Some(8000), Some(0), Some(2.5))),
    ] {
        let id = queue.alice.add(&given).await.expect("should add");
        let found: (Option<i32>, Option<i32>, Option<f64>) = sqlx::query_as(
            "select max_cpu_millicores, min_cpu_millicores, min_ns_per_day from gromacs_to_tune where id = $1",
        )
        .bind(id)
        .fetch_one(queue.alice.pool())
        .await
        .expect("should read");
        assert_eq!(found, expected, "{given:?}");
    }
    let error = queue.alice.add(&row(Some(2000), Some(3000), None)).await.expect_err("should refuse");
    assert!(error.to_string().contains("min_cpu_millicores"), "{error}");
}

#[tokio::test]
async fn defaults_and_limits_are_the_tenants() {
    let queue = Queue::new().await;
    let change = Tenant {
        service_account: Some("simulations".to_owned()),
        image: Some("registry.example/lab/gromacs:2024".to_owned()),
        image_patterns: vec!["registry.example/lab/*".to_owned(), "gromacs_100%:*".to_owned()],
        run_as_user: Some(2001),
        run_as_group: Some(3001),
        max_cpu_millicores: Some(4000),
        max_memory_bytes: Some(1 << 30),
        max_gpus: Some(1),
        min_interruption_after_seconds: Some(900),
        max_interruption_after_seconds: Some(3600),
        max_rows_in_work: Some(1),
        ..tenant("alice", "chem")
    };
    assert_eq!(queue.admin.add_tenant(&change, false).await.expect("should change"), Change::Changed);
    assert_eq!(queue.admin.add_tenant(&change, false).await.expect("should see"), Change::Unchanged);
    queue.alice.add(&new_row("chem")).await.expect("should add");
    let hers = queue.claim().await;
    let row = &hers.row;
    assert_eq!(row.owner, "alice");
    assert_eq!(row.service_account.as_deref(), Some("simulations"));
    assert_eq!(row.image.as_deref(), Some("registry.example/lab/gromacs:2024"));
    assert_eq!((row.run_as_user, row.run_as_group), (2001, Some(3001)));
    assert_eq!(
        (row.max_cpu_millicores, row.max_memory_bytes, row.max_gpus),
        (Some(4000), Some(1 << 30), Some(1))
    );
    assert_eq!(row.interruption_after_seconds, 900);

    let mut alice = queue.connect("alice").await;
    for (columns, rule) in [
        ("image) values ('registry.example/labs/x'", "image \"registry.example/labs/x\" is not allowed"),
        ("image) values ('registry_example/lab/x'", "image"),
        ("image) values ('gromacsX100%:1'", "image"),
        ("run_as_user) values (1000", "rows in namespace chem run as 2001"),
        ("run_as_group) values (1000", "rows in namespace chem run as 3001"),
        (
            "max_cpu_millicores) values (4001",
            "max_cpu_millicores is 4001, but namespace chem allows at most 4000",
        ),
        ("max_memory_bytes) values (1073741825", "max_memory_bytes"),
        ("max_gpus) values (2", "max_gpus"),
        ("interruption_after_seconds) values (899", "allows 900 to 3600"),
        ("interruption_after_seconds) values (3601", "allows 900 to 3600"),
    ] {
        let statement = format!(
            "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path, {columns}, 'chem', 'd', 'x.tpr')"
        );
        // The column under test stands last in the list, and its value first.
        let statement = statement.replace("(namespace, persistent_volume_claim, tpr_path, ", "(");
        let statement =
            statement.replace(") values", ", namespace, persistent_volume_claim, tpr_path) values");
        let error = alice.execute(sqlx::AssertSqlSafe(statement.clone())).await.expect_err(&statement);
        let error = StoreError::from(error);
        assert!(matches!(error, StoreError::BreakRule(_)), "{error}");
        assert!(error.to_string().contains(rule), "{statement}: {error}");
    }
    alice
        .execute(
            "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path, image, run_as_user, max_gpus)
            values ('chem', 'd', 'x.tpr', 'gromacs_100%:1', 2001, 0)",
        )
        .await
        .expect("should allow what is within the limits");
    // One of hers is in work, and that is all she may have there.
    let claim = || async { queue.submitter.claim(&others(&hers)).await.expect("should claim") };
    assert!(claim().await.is_empty());
    queue.bob.add(&new_row("phys")).await.expect("should add");
    let his = claim().await.remove(0);
    assert_eq!(his.row.owner, "bob");
    queue.fail(&his).await;
    let more = Tenant { max_rows_in_work: Some(2), ..change };
    queue.admin.add_tenant(&more, false).await.expect("should change");
    assert_eq!(claim().await.remove(0).row.max_gpus, Some(0));
}

#[tokio::test]
async fn a_limit_in_one_namespace_leaves_the_owners_others_alone() {
    let queue = Queue::new().await;
    let stopped = Tenant { max_rows_in_work: Some(0), ..tenant("alice", "chem") };
    queue.admin.add_tenant(&stopped, false).await.expect("should change");
    queue.admin.add_tenant(&tenant("alice", "bio"), false).await.expect("should add");
    for _ in 0..3 {
        queue.alice.add(&new_row("chem")).await.expect("should add");
    }
    let free = NewRow { priority: Some(-1), ..new_row("bio") };
    queue.alice.add(&free).await.expect("should add");
    let claim = queue.claim().await;
    assert_eq!(claim.row.namespace, "bio");
    // What she asks for is heard all the same.
    sqlx::query("update gromacs_to_tune set cancel_requested = true where namespace = 'chem'")
        .execute(queue.alice.pool())
        .await
        .expect("should ask");
    assert_eq!(queue.submitter.claim(&others(&claim)).await.expect("should claim").len(), 3);
}

#[tokio::test]
async fn what_the_tuner_notes_is_for_the_owner_of_the_row() {
    let queue = Queue::new().await;
    let id = queue.alice.add(&new_row("chem")).await.expect("should add");
    let claim = queue.claim().await;
    let status = RowStatus { state: State::Submitted, rung: Some(1), ..claim.row.status.clone() };
    let said = |notes: &[&str]| Changes {
        ladder: Some(vec![rung(1, 2000)]),
        answer: Some(Answer {
            notes: notes.iter().map(ToString::to_string).collect(),
            model_version: "7".to_owned(),
            chosen: None,
        }),
        ..Changes::default()
    };
    let first = said(&["it takes years"]);
    let claim = queue.submitter.record(&claim, &status, &first).await.expect("should record");
    let again = said(&["it takes years", "the CPU is unknown"]);
    queue.submitter.record(&claim, &status, &again).await.expect("should record");

    let story = queue.alice.show(id).await.expect("should show").expect("should be there");
    let notes = &story["tuner_answers"][0]["notes"];
    assert_eq!(notes, &serde_json::json!(["it takes years", "the CPU is unknown"]));
    let events = story["events"].as_array().expect("should have a history");
    let told: Vec<&str> = events
        .iter()
        .filter(|event| event["state"] == "submitted")
        .filter_map(|event| event["message"].as_str()?.strip_prefix("the tuner notes: "))
        .collect();
    assert_eq!(told, ["it takes years", "the CPU is unknown"], "each once");
    let mut bob = queue.connect("bob").await;
    assert_eq!(count(&mut bob, "gromacs_tuner_answer").await, 0);
    let mut alice = queue.connect("alice").await;
    refused(&mut alice, "update gromacs_tuner_answer set notes = '{}'").await;
    refused(&mut bob, "delete from gromacs_tuner_answer").await;
}

#[tokio::test]
async fn how_configurations_are_chosen_is_said_by_the_row() {
    let queue = Queue::new().await;
    let of_row =
        LadderSettings { min_efficiency: Some(0.5), gpu_price: Some(0.0), ..LadderSettings::default() };
    let id =
        queue.alice.add(&NewRow { ladder_settings: of_row, ..new_row("chem") }).await.expect("should add");
    let more = LadderSettings { memory_price: Some(0.125), ..LadderSettings::default() };
    let edit = Edit { ladder_settings: more, ..Edit::default() };
    assert_eq!(queue.alice.edit(&[id], &edit, false).await.expect("should change"), [id]);
    let claim = queue.claim().await;
    let found = claim.row.ladder_settings;
    assert_eq!(found, LadderSettings { memory_price: Some(0.125), ..of_row });

    let of_pool =
        LadderSettings { max_configurations: Some(5), gpu_price: Some(2.0), ..LadderSettings::default() };
    let chosen = choose(&found, &of_pool);
    let answer = Answer { notes: Vec::new(), model_version: "7".to_owned(), chosen: Some(chosen) };
    let status = RowStatus { state: State::Submitted, rung: Some(1), ..claim.row.status.clone() };
    let changes = Changes { ladder: Some(vec![rung(1, 2000)]), answer: Some(answer), ..Changes::default() };
    queue.submitter.record(&claim, &status, &changes).await.expect("should record");
    let story = queue.alice.show(id).await.expect("should show").expect("should be there");
    let answer = &story["tuner_answers"][0];
    assert_eq!((answer["gpu_price"].as_f64(), answer["max_configurations"].as_i64()), (Some(0.0), Some(5)));
    assert_eq!(
        (&answer["set_by"]["gpu_price"], &answer["set_by"]["max_configurations"]),
        (&"row".into(), &"pool".into())
    );
    let error = queue.alice.edit(&[id], &edit, false).await.expect_err("should refuse what is in work");
    assert!(error.to_string().contains("can be changed only while it is queued or has ended"), "{error}");

    for (bad, words) in [
        (LadderSettings { min_efficiency: Some(0.0), ..of_row }, "min_efficiency must be between 0.01 and 1"),
        (
            LadderSettings { max_configurations: Some(33), ..of_row },
            "max_configurations must be between 1 and 32",
        ),
        (LadderSettings { gpu_price: Some(f64::NAN), ..of_row }, "gpu_price must be between 0 and 1000000"),
        (LadderSettings { memory_price: Some(-1.0), ..of_row }, "memory_price must be between 0 and 1000000"),
    ] {
        let row = NewRow { ladder_settings: bad, ..new_row("chem") };
        let error = queue.alice.add(&row).await.expect_err("should refuse").to_string();
        assert!(error.starts_with(words), "{error}");
    }
    let mut alice = queue.connect("alice").await;
    let calibration =
        "insert into gromacs_to_tune (kind, namespace, persistent_volume_claim, benchmark_atoms,
            benchmark_ranks, benchmark_threads, nsteps, gpu_price)
        values ('calibration', 'chem', 'data', 10000, 1, 1, 1000, 5)";
    let error = refused(&mut alice, calibration).await;
    assert!(error.starts_with("a calibration runs with one configuration; leave min_efficiency"), "{error}");
}

#[tokio::test]
async fn the_command_line_says_how_configurations_are_chosen() {
    let program = Program::migrated().await;
    program.good(&["add", "a.tpr", "--min-efficiency", "0.5", "--gpu-price", "3"]);
    let table = program.with_stdin(&["add", "--from", "-"], "tpr_path,max_configurations\nb.tpr,4\n");
    assert!(table.status.success(), "{}", text(&table.stderr));
    let story = program.good(&["show", "1"]);
    let told = "first configuration with at least 50 % of the best speed per price, a GPU counted as 3 cores";
    assert!(story.contains(told), "{story}");
    program.good(&["edit", "1", "--memory-price", "1", "--max-configurations", "2"]);
    let row = &program.json(&["show", "1"])["simulation"];
    assert_eq!((row["memory_price"].as_f64(), row["max_configurations"].as_i64()), (Some(1.0), Some(2)));
    assert_eq!(program.json(&["show", "2"])["simulation"]["max_configurations"], 4);
    let refused = program.run(&["edit", "1", "--min-efficiency", "2"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("must be between 0.01 and 1"), "{}", text(&refused.stderr));
}

#[tokio::test]
async fn what_counts_for_files_is_the_tenants_and_in_use_is_what_has_not_ended() {
    let queue = Queue::new().await;
    let change = Tenant {
        run_as_user: Some(2001),
        service_account: Some("simulations".to_owned()),
        max_put_bytes: Some(5_000_000_000),
        ..tenant("alice", "chem")
    };
    queue.admin.add_tenant(&change, false).await.expect("should change");
    let ask =
        || async { queue.alice.destination("chem").await.expect("should ask").expect("should be hers") };
    let found = ask().await;
    assert_eq!((found.run_as_user, found.run_as_group), (Some(2001), None));
    assert_eq!(found.service_account.as_deref(), Some("simulations"));
    assert_eq!((found.max_put_bytes, found.image), (Some(5_000_000_000), None));

    // The newest row has the image if the tenant has none.
    let row = NewRow { image: Some("gromacs:1".to_owned()), ..new_row("chem") };
    let row = queue.alice.add(&row).await.expect("should add");
    queue.alice.add(&NewRow { tpr_path: "b.tpr".to_owned(), ..new_row("chem") }).await.expect("should add");
    assert_eq!(ask().await.image.as_deref(), Some("gromacs:1"));
    let tenants = Tenant { image: Some("gromacs:2".to_owned()), ..change };
    queue.admin.add_tenant(&tenants, false).await.expect("should change");
    assert_eq!(ask().await.image.as_deref(), Some("gromacs:2"));

    let claim = new_row("chem").persistent_volume_claim;
    let in_use = || async { queue.alice.in_use("chem", &claim).await.expect("should ask") };
    let paths: Vec<String> = in_use().await.into_iter().map(|row| row.tpr_path).collect();
    assert_eq!(paths, [new_row("chem").tpr_path, "b.tpr".to_owned()]);
    assert!(queue.bob.in_use("chem", &claim).await.expect("should ask").is_empty(), "they are alice's");
    let mut admin = queue.connect("tester").await;
    let end = format!("update gromacs_to_tune set state = 'failed' where id = {row}");
    admin.execute(sqlx::AssertSqlSafe(end)).await.expect("should end");
    assert_eq!(in_use().await.len(), 1);
    assert!(queue.alice.in_use("chem", "another").await.expect("should ask").is_empty());
}

/// Files are brought as the user as whom a row runs that says nothing: the database has one rule for both.
#[tokio::test]
async fn files_belong_to_the_user_of_rows_that_name_none() {
    let queue = Queue::new().await;
    for (tenants, user) in [(None, 1000), (Some(2001), 2001)] {
        let change = Tenant { run_as_user: tenants, ..tenant("alice", "chem") };
        queue.admin.add_tenant(&change, false).await.expect("should change");
        let row = queue.alice.add(&new_row("chem")).await.expect("should add");
        let of_row: i64 = sqlx::query_scalar("select run_as_user from gromacs_to_tune where id = $1")
            .bind(row)
            .fetch_one(queue.alice.pool())
            .await
            .expect("should read");
        let found = queue.alice.destination("chem").await.expect("should ask").expect("should be hers");
        assert_eq!((of_row, found.default_user), (user, user));
    }
}
