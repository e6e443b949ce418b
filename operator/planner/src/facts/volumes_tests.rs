//! Whose data of a volume goes when.

use super::volumes::Volumes;
use crate::{
    fixtures::{key, pod, sj},
    values::{Access, Key, Name, NodeTerm, Volume},
};

fn volume(name: &str, claim: Option<&str>, nodes: &[&str], access: Access) -> Volume {
    let affinity = match nodes {
        [] => Vec::new(),
        nodes => vec![NodeTerm::nodes(nodes.iter().map(|node| Name::from(*node)).collect())],
    };
    Volume { name: name.into(), claim: claim.map(key), affinity, access }
}

fn known(volumes: &Volumes) -> (bool, Option<Access>) {
    (volumes.unbound(&sj("a").mounting("c")).is_empty(), volumes.limit(&key("c")))
}

#[test]
fn what_a_volume_said_goes_with_that_volume_alone() {
    for released in [false, true] {
        let mut volumes = Volumes::default();
        volumes.set(volume("old", Some("c"), &["n1"], Access::ManyNodes));
        volumes.set(volume("new", Some("c"), &["n2"], Access::OneNode));
        // The claim was deleted and made again; of the old volume it shows late.
        let concerned: Vec<Key> = match released {
            true => volumes.set(volume("old", None, &["n1"], Access::ManyNodes)),
            false => volumes.remove(&"old".into()).into_iter().collect(),
        };
        assert!(concerned.is_empty());
        assert_eq!(known(&volumes), (true, Some(Access::OneNode)));
        let mut there = sj("a").mounting("c");
        volumes.place_sj(&mut there);
        let demand = there.spec.unwrap().demand;
        assert_eq!(demand.placement.volumes, [[NodeTerm::nodes(vec!["n2".into()])]]);
        assert_eq!(volumes.remove(&"new".into()), Some(key("c")));
        assert_eq!(known(&volumes), (false, None));
    }
}

#[test]
fn what_a_claim_asks_for_counts_until_it_is_bound() {
    let mut volumes = Volumes::default();
    assert_eq!(volumes.set_fresh(key("c"), Access::OneNode), Some(key("c")));
    assert_eq!(volumes.set_fresh(key("c"), Access::OneNode), None, "no news");
    assert_eq!(known(&volumes), (false, Some(Access::OneNode)));
    volumes.set(volume("v", Some("c"), &[], Access::ManyNodes));
    assert_eq!(known(&volumes), (true, None));
    assert_eq!(volumes.set_fresh(key("c"), Access::OneNode), None, "it is bound");
    volumes.remove(&"v".into());
    assert_eq!(known(&volumes), (false, None), "it was of the claim before");
}

#[test]
fn a_pod_that_is_replaced_under_its_name_mounts_nothing_of_the_one_before() {
    let mut volumes = Volumes::default();
    for claim in ["c", "d"] {
        volumes.set(volume(&format!("of-{claim}"), Some(claim), &[], Access::OnePod));
    }
    let mounting = |claims: &[&str]| {
        let mut pod = pod("web-0", 1).on("n1");
        pod.claims = claims.iter().map(|claim| Name::from(*claim)).collect();
        pod
    };
    let waits = |volumes: &Volumes, claim: &str| {
        volumes.keeps_waiting(&sj("a").mounting(claim), std::iter::empty()).is_some()
    };
    for (claims, in_use) in [
        (&["c"][..], [true, false]),
        (&["d"], [false, true]),
        (&[], [false, false]),
        (&["c", "d"], [true, true]),
    ] {
        volumes.note_pod(&mounting(claims));
        assert_eq!(["c", "d"].map(|claim| waits(&volumes, claim)), in_use, "{claims:?}");
    }
    volumes.forget_pod(&key("web-0"));
    assert_eq!(["c", "d"].map(|claim| waits(&volumes, claim)), [false, false]);
}
