//! Whatever a name is, a request asks for the object of that name, or is not made.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
};

use http::{Request, Response, Uri};
use kube::client::Body;
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A client whose requests are written down and answered with 404.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<Uri>>>);

impl Asked {
    fn client(&self) -> Client {
        let asked = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            asked.0.lock().unwrap_or_else(PoisonError::into_inner).push(request.uri().clone());
            let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404 });
            let answer = Response::builder().status(404).body(Body::from(status.to_string().into_bytes()));
            std::future::ready(Ok::<_, Infallible>(answer.unwrap()))
        });
        Client::new(service, "default")
    }

    fn take(&self) -> Vec<Uri> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Each request about an object, and what follows its name.
async fn ask_everything(pods: &Objects<Pod>, name: &str) -> Vec<(&'static str, Option<kube::Error>)> {
    let (patch, pod) = (Patch::Merge(json!({})), Pod::default());
    let any = GetParams::any();
    vec![
        ("", pods.get(name).await.err()),
        ("", pods.get_with(name, &any).await.err()),
        ("", pods.get_opt(name).await.err()),
        ("", pods.get_metadata(name).await.err()),
        ("", pods.get_metadata_opt(name).await.err()),
        ("", pods.get_metadata_opt_with(name, &any).await.err()),
        ("", pods.replace(name, &PostParams::default(), &pod).await.err()),
        ("/status", pods.replace_status(name, &PostParams::default(), &pod).await.err()),
        ("", pods.patch(name, &PatchParams::default(), &patch).await.err()),
        ("", pods.patch_metadata(name, &PatchParams::default(), &patch).await.err()),
        ("/status", pods.patch_status(name, &PatchParams::default(), &patch).await.err()),
        ("", pods.delete(name, &DeleteParams::default()).await.err()),
        ("/eviction", pods.evict(name, &EvictParams::default()).await.err()),
        ("/log", pods.log_stream(name, &LogParams::default()).await.err()),
    ]
}

/// What a request may say behind `?` of its own.
fn is_own(query: &str) -> bool {
    ["", "resourceVersion=0"].contains(&query.trim_start_matches('&'))
}

fn check(namespace: &str, name: &str) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let asked = Asked::default();
    let answers = runtime.block_on(async {
        let pods = Objects::<Pod>::namespaced(asked.client(), namespace);
        ask_everything(&pods, name).await
    });
    let uris = asked.take();
    let is_name = |text: &str| segment("", text).is_ok();
    if !is_name(namespace) || !is_name(name) {
        prop_assert!(uris.is_empty(), "{:?}", uris);
        let wrong = if is_name(namespace) { name } else { namespace };
        for (_, error) in answers {
            let error = error.expect("nothing was asked");
            let why = wrong_name(&error).expect("the name is to blame");
            prop_assert!(why.contains(&format!("{wrong:?}")), "{} does not name {:?}", why, wrong);
        }
        return Ok(());
    }
    prop_assert_eq!(uris.len(), answers.len());
    for (uri, (below, _)) in uris.iter().zip(answers) {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}{below}");
        prop_assert_eq!(uri.path(), path);
        prop_assert_eq!(uri.path().split('/').count(), 7 + usize::from(!below.is_empty()));
        prop_assert!(is_own(uri.query().unwrap_or_default()), "{}", uri);
    }
    Ok(())
}

/// Names as they are, and what would lead elsewhere.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9]([-a-z0-9.]{0,20}[a-z0-9])?",
        r"[-a-z./%?#&=\\ ]{0,8}",
        any::<String>(),
        proptest::sample::select(vec![
            "",
            ".",
            "..",
            "../x",
            "x/..",
            "x/status",
            "x?dryRun=All",
            "x#y",
            "%2e%2e",
            "A B",
            "a\r\nb",
            "//x",
            "x/",
        ])
        .prop_map(str::to_owned),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_name_is_one_segment_or_no_request_is_made(namespace in name(), name in name()) {
        check(&namespace, &name)?;
    }

    #[test]
    fn a_name_in_an_honest_namespace(name in name()) {
        check("lab", &name)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_token_is_asked_for_of_the_account_that_is_named(name in name()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let asked = Asked::default();
        let error = runtime.block_on(async {
            let accounts = Objects::<ServiceAccount>::namespaced(asked.client(), "lab");
            let request = TokenRequest::default();
            accounts.create_token_request(&name, &PostParams::default(), &request).await.unwrap_err()
        });
        let paths: Vec<String> = asked.take().iter().map(|uri| uri.path().to_owned()).collect();
        if segment("", &name).is_ok() {
            prop_assert_eq!(paths, [format!("/api/v1/namespaces/lab/serviceaccounts/{name}/token")]);
        } else {
            prop_assert!(paths.is_empty() && wrong_name(&error).is_some(), "{paths:?}: {error}");
        }
    }
}

#[test]
fn what_would_lead_elsewhere_is_refused_and_what_kubernetes_calls_objects_is_not() {
    for name in ["../x", "..", ".", "", "x/status", "x?a", "x#a", "x%2e", "A B", "x\n", "\u{e4}", "x\\y"] {
        let error = segment("PersistentVolumeClaim", name).unwrap_err();
        let why = wrong_name(&error).unwrap();
        assert!(why.starts_with(&format!("PersistentVolumeClaim {name:?} cannot exist")), "{why}");
    }
    assert!(segment("Pod", &"a".repeat(LONGEST + 1)).is_err());
    for name in ["water-3-0-x7k2p", "scavengerjobs.scavenger.dev", "system:node", &"a".repeat(LONGEST)] {
        assert_eq!(segment("Pod", name).unwrap(), name);
    }
}

#[tokio::test]
async fn a_list_of_a_namespace_that_cannot_exist_is_not_asked_for() {
    let asked = Asked::default();
    let pods = Objects::<Pod>::namespaced(asked.client(), "../kube-system");
    let error = pods.list(&ListParams::default()).await.unwrap_err();
    assert!(wrong_name(&error).unwrap().contains("Namespace \"../kube-system\""));
    assert!(pods.create(&PostParams::default(), &Pod::default()).await.is_err() && pods.unnamed().is_err());
    assert_eq!(asked.take(), Vec::<Uri>::new());
}
