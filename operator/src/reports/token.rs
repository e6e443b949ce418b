//! Tokens and TokenReviews as values.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use futures::{FutureExt as _, future::BoxFuture};
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::{
    Client,
    api::{ObjectMeta, PostParams},
};
use scavenger_program::objects::Objects;
use serde::Deserialize;

/// For whom the tokens are made that pods send here. A token of another audience, the API server's above all, must not
/// be sent to the operator, nor one of the operator's be good for the API server.
pub(crate) const AUDIENCE: &str = "scavenger.dev/supervisor";

/// After this no answer of the API server is waited for.
const WITHIN: Duration = Duration::from_secs(5);

/// A token of a service account has about 1,200 bytes.
const LONGEST: usize = 8192;

/// The pod that a token is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pod {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// Asks whose token it is: nobody's, or that of a pod. An error is not an answer.
pub(super) type Reviewer =
    Arc<dyn Fn(String) -> BoxFuture<'static, Result<Option<Pod>, String>> + Send + Sync>;

/// Asks the API server.
pub(super) fn reviewer(client: &Client) -> Reviewer {
    let api: Objects<TokenReview> = Objects::all(client.clone());
    Arc::new(move |token| {
        let api = api.clone();
        async move {
            let review = TokenReview {
                metadata: ObjectMeta::default(),
                spec: TokenReviewSpec { audiences: Some(vec![AUDIENCE.to_owned()]), token },
                status: None,
            };
            let asked = tokio::time::timeout(WITHIN, api.create(&PostParams::default(), &review)).await;
            // The error of a request does not carry the request, and with it the token.
            let answer = asked.map_err(|_| format!("no answer within {} s", WITHIN.as_secs()))?;
            let answer = answer.map_err(|error| error.to_string())?;
            pod(answer.status.unwrap_or_default())
        }
        .boxed()
    })
}

/// What the API server says of a token.
fn pod(status: TokenReviewStatus) -> Result<Option<Pod>, String> {
    if status.authenticated != Some(true) {
        return Ok(None);
    }
    // An API server that knows no audiences returns none. Its answer would be about any token of anybody.
    if !status.audiences.unwrap_or_default().iter().any(|audience| audience == AUDIENCE) {
        return Ok(None);
    }
    let user = status.user.unwrap_or_default();
    let extra = user.extra.unwrap_or_default();
    let extra = |key: &str| match extra.get(key).map(Vec::as_slice) {
        Some([value]) if !value.is_empty() => Some(value.clone()),
        _ => None,
    };
    let namespace = user.username.as_deref().and_then(namespace);
    Ok((|| {
        Some(Pod {
            namespace: namespace?.to_owned(),
            name: extra("authentication.kubernetes.io/pod-name")?,
            uid: extra("authentication.kubernetes.io/pod-uid")?,
        })
    })())
}

/// The namespace in the user name of a service account.
fn namespace(user: &str) -> Option<&str> {
    let (namespace, account) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (!namespace.is_empty() && !account.is_empty()).then_some(namespace)
}

/// What a token says of itself. Nobody has checked it: it is good for not asking about what is certainly useless.
#[derive(Deserialize)]
struct Claims {
    exp: f64,
    aud: Audience,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

/// When the token expires, if it is one that could be meant for us.
pub(super) fn expires(token: &str) -> Option<Timestamp> {
    if token.len() > LONGEST {
        return None;
    }
    let [_, payload, signature] = token.split('.').collect::<Vec<_>>()[..] else { return None };
    if signature.is_empty() {
        return None;
    }
    let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).ok()?;
    let claims: Claims = serde_json::from_slice(&payload).ok()?;
    let is_for_us = match claims.aud {
        Audience::One(audience) => audience == AUDIENCE,
        Audience::Several(audiences) => audiences.iter().any(|audience| audience == AUDIENCE),
    };
    // A number beyond what a timestamp can be is none.
    is_for_us.then(|| Timestamp::from_second(claims.exp as i64).ok()).flatten()
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::authentication::v1::UserInfo;
    use serde_json::json;

    use super::*;

    /// A token with these claims, of a signature that a reviewer in a test may believe.
    pub(in super::super) fn token(audience: &str, expires: Timestamp, signature: &str) -> String {
        let claims = json!({ "aud": [audience], "exp": expires.as_second() }).to_string();
        format!("e30.{}.{signature}", BASE64_URL_SAFE_NO_PAD.encode(claims))
    }

    fn status(audiences: &[&str], user: &str, extra: &[(&str, &str)]) -> TokenReviewStatus {
        let extra: BTreeMap<_, _> = extra
            .iter()
            .map(|(key, value)| (format!("authentication.kubernetes.io/{key}"), vec![(*value).to_owned()]))
            .collect();
        TokenReviewStatus {
            audiences: Some(audiences.iter().map(|audience| (*audience).to_owned()).collect()),
            authenticated: Some(true),
            error: None,
            user: Some(UserInfo {
                username: Some(user.to_owned()),
                extra: Some(extra),
                ..UserInfo::default()
            }),
        }
    }

    #[test]
    fn only_a_token_for_us_that_is_bound_to_a_pod_names_one() {
        let user = "system:serviceaccount:lab:default";
        let bound = [("pod-name", "water-1-x"), ("pod-uid", "u")];
        let expected = Pod { namespace: "lab".to_owned(), name: "water-1-x".to_owned(), uid: "u".to_owned() };
        assert_eq!(pod(status(&[AUDIENCE], user, &bound)), Ok(Some(expected)));
        for refused in [
            status(&[], user, &bound),
            status(&["https://kubernetes.default.svc"], user, &bound),
            status(&[AUDIENCE], "alice", &bound),
            status(&[AUDIENCE], "system:serviceaccount:lab", &bound),
            status(&[AUDIENCE], "system:serviceaccount::default", &bound),
            status(&[AUDIENCE], user, &bound[..1]),
            status(&[AUDIENCE], user, &[("pod-name", "water-1-x"), ("pod-uid", "")]),
            status(&[AUDIENCE], user, &[("node-name", "n"), ("pod-uid", "u")]),
            TokenReviewStatus { authenticated: Some(false), ..status(&[AUDIENCE], user, &bound) },
            TokenReviewStatus { authenticated: None, ..status(&[AUDIENCE], user, &bound) },
            TokenReviewStatus::default(),
        ] {
            assert_eq!(pod(refused.clone()), Ok(None), "{refused:?}");
        }
    }

    #[test]
    fn nobody_is_asked_about_what_cannot_be_a_token_for_us() {
        let time = Timestamp::from_second(2_000_000_000).unwrap();
        assert_eq!(expires(&token(AUDIENCE, time, "s")), Some(time));
        let encoded = |claims: &str| format!("e30.{}.s", BASE64_URL_SAFE_NO_PAD.encode(claims));
        assert_eq!(
            expires(&encoded("{\"exp\":2000000000,\"aud\":\"scavenger.dev/supervisor\"}")),
            Some(time)
        );
        for useless in [
            String::new(),
            "password".to_owned(),
            "a.b".to_owned(),
            "..".to_owned(),
            "e30.!!.s".to_owned(),
            token("https://kubernetes.default.svc", time, "s"),
            token(AUDIENCE, time, ""),
            token(AUDIENCE, time, &"s".repeat(LONGEST)),
            encoded("{\"exp\":1e300,\"aud\":\"scavenger.dev/supervisor\"}"),
            encoded("{\"aud\":[\"scavenger.dev/supervisor\"]}"),
            encoded("[]"),
        ] {
            assert_eq!(expires(&useless), None, "{useless}");
        }
    }
}
