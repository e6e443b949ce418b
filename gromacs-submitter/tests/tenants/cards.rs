//! The card of a tenant, with the real program.

use super::*;

/// What an admin hands out: it holds no secret, and what it says to set is enough.
#[tokio::test]
async fn a_card_of_a_tenant_lets_a_person_begin() {
    let queue = Queue::new().await;
    let change = Tenant { run_as_group: Some(3001), max_put_bytes: Some(1000), ..tenant("alice", "chem") };
    queue.admin.add_tenant(&change, false).await.expect("should change");
    let admin = Program::new(queue.url.replace("tester@", "tester:very-secret@"));
    let before = admin.good(&["tenant", "card", "alice"]);
    for words in [
        "as role alice",
        "files       belong to user 1000 and group 3001",
        "1000 bytes in one put",
        "no claim is known",
    ] {
        assert!(before.contains(words), "{words}: {before}");
    }
    queue.alice.add(&new_row("chem")).await.expect("should add");
    let card = admin.json(&["tenant", "card", "alice"]);
    assert_eq!(
        (&card["persistent_volume_claim"], &card["kubeconfig"]),
        (&"data".into(), &serde_json::Value::Null)
    );
    let named = admin.json(&["tenant", "card", "alice", "chem", "--pvc", "simulations"]);
    assert_eq!(named["environment"]["SCAVENGER_SUBMITTER_PVC"], "simulations");

    let output = admin.run(&["tenant", "card", "alice"]);
    let printed = text(&output.stdout) + &text(&output.stderr) + &card.to_string();
    assert!(!printed.contains("very-secret"), "{printed}");
    assert!(text(&output.stderr).contains("only this machine reaches Postgres"), "{}", text(&output.stderr));
    let elsewhere = admin.run(&["tenant", "card", "alice", "--database-address", "postgres.example:5433"]);
    assert!(elsewhere.stderr.is_empty(), "{}", text(&elsewhere.stderr));
    assert!(
        text(&elsewhere.stdout).contains("export DATABASE_URL=postgres://alice@postgres.example:5433/test_")
    );

    // The variables alone, as somebody else who has nothing.
    let mut command = std::process::Command::new(program::SUBMITTER);
    command.args(["add", "b.tpr"]).env_clear();
    for (name, value) in card["environment"].as_object().expect("should be variables") {
        command.env(name, value.as_str().expect("should be text"));
    }
    let added = command.output().expect("should start");
    assert!(added.status.success(), "{}", text(&added.stderr));
    let owner: String = sqlx::query_scalar("select owner from gromacs_to_tune where tpr_path = 'b.tpr'")
        .fetch_one(queue.admin.pool())
        .await
        .expect("should be there");
    assert_eq!(owner, "alice");
}

#[tokio::test]
async fn a_card_of_nobody_names_those_who_are_there() {
    let queue = Queue::new().await;
    queue.admin.add_tenant(&tenant("alice", "bio"), false).await.expect("should add");
    let admin = Program::new(queue.url.clone());
    let folder = tempfile::tempdir().expect("should make a folder");
    let file = folder.path().join("kubeconfig").to_string_lossy().into_owned();
    for (arguments, code, words) in [
        (&["alcie"][..], 1, "there is no tenant alcie; did you mean alice?"),
        (&["mallory"][..], 1, "these are there: alice, bob"),
        (&["bob", "chem"][..], 1, "bob is no tenant in namespace chem; name one of these: phys"),
        (&["alice"][..], 2, "in several namespaces; name one of these behind it: bio, chem"),
        (&["bob", "--overwrite"][..], 2, "--write-kubeconfig"),
        (
            &["bob", "--write-kubeconfig", &file, "--expires-in", "5m"][..],
            2,
            "90d, 12h or, at the least, 10m",
        ),
        (&["bob", "--write-kubeconfig", &file][..], 2, "no Kubernetes cluster is configured"),
    ] {
        let output = admin.run(&[&["tenant", "card"], arguments].concat());
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(words), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("should be read").count(), 0, "a file is left");
    // She sees her own tenants, so she can look at her own card.
    let bob = Program::new(as_role(&queue.url, "bob"));
    assert_eq!(bob.json(&["tenant", "card", "bob"])["namespace"], "phys");
    assert_eq!(bob.run(&["tenant", "card", "alice"]).status.code(), Some(1));
    // Roles belong to the server, where other tests log in.
    let mut tester = queue.connect("tester").await;
    tester.execute("create role retired").await.expect("should make a role");
    queue.admin.add_tenant(&tenant("retired", "phys"), false).await.expect("should add");
    let output = admin.run(&["tenant", "card", "retired"]);
    assert!(text(&output.stderr).contains("nobody can log in as retired"), "{}", text(&output.stderr));
}
