//! Which folders a row of several simulations may name.

use super::*;

fn ensemble(folders: &[&str]) -> NewRow {
    NewRow {
        tpr_path: "ens/topol.tpr".to_owned(),
        multidir: Some(folders.iter().map(|folder| (*folder).to_owned()).collect()),
        ..new_row("chem")
    }
}

#[tokio::test]
async fn a_row_names_two_to_32_folders_beside_its_file() {
    let queue = Queue::new().await;
    let many: Vec<String> = (0..33).map(|number| number.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let (long, deep) = ("x".repeat(201), "y".repeat(190));
    for (folders, words) in [
        (vec!["sim0"], "multidir names 1 folder; name 2 to 32, or leave it out"),
        (many.clone(), "multidir names 33 folders; name 2 to 32"),
        (vec!["sim0", "sim1", "sim0"], "multidir names the folder \"sim0\" twice"),
        (vec!["sim0", "../sim1"], "multidir names \"../sim1\"; name folders inside"),
        (vec!["sim0", "a/../../b"], "multidir names \"a/../../b\""),
        (vec!["/data/sim0", "sim1"], "multidir names \"/data/sim0\""),
        (vec!["sim0", ""], "multidir names \"\""),
        (vec!["sim0", "."], "multidir names \".\""),
        (vec!["sim0", "sim1/"], "multidir names \"sim1/\""),
        (vec!["sim0", "a//b"], "multidir names \"a//b\""),
        (vec!["sim0", "a\nb"], "multidir names \"a\\nb\""),
        (vec!["sim0", &long], "each at most 200 bytes"),
    ] {
        let error = queue.alice.add(&ensemble(&folders)).await.expect_err(words);
        assert!(
            matches!(&error, StoreError::BreakRule(said) if said.contains(words)),
            "{folders:?}: {error}"
        );
    }
    let path = format!("{}/topol.tpr", "d/".repeat(360).trim_end_matches('/'));
    let too_deep = NewRow { tpr_path: path, ..ensemble(&["sim0", &deep]) };
    let error = queue.alice.add(&too_deep).await.expect_err("should be too long");
    assert!(error.to_string().contains("is longer than 900 bytes; shorten it"), "{error}");
    let good = ensemble(&["sim0", "lambda/0.1", "-x", "a b"]);
    let id = queue.alice.add(&good).await.expect("should add");
    let claim = queue.claim().await;
    assert_eq!((claim.row.id, claim.row.multidir.clone()), (id, good.multidir.expect("should have folders")));
    queue.alice.add(&ensemble(&many[..32])).await.expect("should add 32");
}

#[tokio::test]
async fn rows_of_one_file_in_other_folders_are_others() {
    let queue = Queue::new().await;
    let (first, second) = (ensemble(&["sim0", "sim1"]), ensemble(&["sim2", "sim3"]));
    let one = NewRow { multidir: None, ..first.clone() };
    let rows = [first.clone(), second, one, first.clone()];
    let keep = AddMode { keep_going: true, ..AddMode::default() };
    let (fates, _) = queue.alice.add_all(&rows, keep).await.expect("should add");
    let good: Vec<bool> = fates.iter().map(|fate| matches!(fate, Added::Row(_))).collect();
    assert_eq!(good, [true, true, true, false], "{fates:?}");
    let (fates, _) = queue.alice.add_all(&[first], AddMode::default()).await.expect("should look");
    assert!(
        matches!(&fates[0], Added::Refused(why) if why.contains("computes this file already")),
        "{fates:?}"
    );
}

#[tokio::test]
async fn a_calibration_has_no_folders() {
    let queue = Queue::new().await;
    let mut alice = queue.connect("alice").await;
    let error = alice
        .execute(
            "insert into gromacs_to_tune (kind, namespace, persistent_volume_claim, multidir, benchmark_atoms,
                benchmark_ranks, benchmark_threads, nsteps) values ('calibration', 'chem', 'data', '{a,b}', 11664, 1, 1, 1200)",
        )
        .await
        .expect_err("should refuse");
    assert!(error.to_string().contains("leave multidir out"), "{error}");
}
