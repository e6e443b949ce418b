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
use scavenger_schema::{names, node_agent};
use serde::Deserialize;

/// For whom the tokens are made that supervisors send here. A token of another audience, the API server's above all, must
/// not be sent to the operator, nor one of the operator's be good for the API server.
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

/// Who sent a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sender {
    /// The supervisor of this pod.
    Pod(Pod),
    /// The agent of the node of this name.
    Node(String),
}

/// What a token is for. The operator's tokens of one kind are no good where it asks for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Supervisor,
    NodeAgent,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Supervisor, Self::NodeAgent];

    fn audience(self) -> &'static str {
        match self {
            Self::Supervisor => AUDIENCE,
            Self::NodeAgent => node_agent::AUDIENCE,
        }
    }
}

/// Asks whose token of this kind it is: nobody's, or that of a sender. An error is not an answer.
pub(super) type Reviewer =
    Arc<dyn Fn(String, Kind) -> BoxFuture<'static, Result<Option<Sender>, String>> + Send + Sync>;

/// Asks the API server. The agents of nodes have their account in the namespace `agents`.
pub(super) fn reviewer(client: &Client, agents: &str) -> Reviewer {
    let api: Objects<TokenReview> = Objects::all(client.clone());
    let agents: Arc<str> = agents.into();
    Arc::new(move |token, kind| {
        let (api, agents) = (api.clone(), Arc::clone(&agents));
        async move {
            let review = TokenReview {
                metadata: ObjectMeta::default(),
                spec: TokenReviewSpec { audiences: Some(vec![kind.audience().to_owned()]), token },
                status: None,
            };
            let asked = tokio::time::timeout(WITHIN, api.create(&PostParams::default(), &review)).await;
            // The error of a request does not carry the request, and with it the token.
            let answer = asked.map_err(|_| format!("no answer within {} s", WITHIN.as_secs()))?;
            let answer = answer.map_err(|error| error.to_string())?;
            Ok(sender(answer.status.unwrap_or_default(), kind, &agents))
        }
        .boxed()
    })
}

/// What the API server says of a token.
fn sender(status: TokenReviewStatus, kind: Kind, agents: &str) -> Option<Sender> {
    if status.authenticated != Some(true) {
        return None;
    }
    // An API server that knows no audiences returns none. Its answer would be about any token of anybody.
    if !status.audiences.unwrap_or_default().iter().any(|audience| audience == kind.audience()) {
        return None;
    }
    let user = status.user.unwrap_or_default();
    let (namespace, account) = account(user.username.as_deref()?)?;
    let extra = user.extra.unwrap_or_default();
    let extra = |key: &str| match extra.get(key).map(Vec::as_slice) {
        Some([value]) if !value.is_empty() => Some(value.clone()),
        _ => None,
    };
    let pod = Pod {
        namespace: namespace.to_owned(),
        name: extra("authentication.kubernetes.io/pod-name")?,
        uid: extra("authentication.kubernetes.io/pod-uid")?,
    };
    match kind {
        Kind::Supervisor => Some(Sender::Pod(pod)),
        // The API server knows where the pod was bound; a token that is bound to a node alone is none of a pod.
        Kind::NodeAgent if (namespace, account) == (agents, names::NODE_AGENT) => {
            extra("authentication.kubernetes.io/node-name").map(Sender::Node)
        }
        Kind::NodeAgent => None,
    }
}

/// Namespace and name in the user name of a service account.
fn account(user: &str) -> Option<(&str, &str)> {
    let (namespace, account) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (!namespace.is_empty() && !account.is_empty()).then_some((namespace, account))
}

/// What a token says of itself. Nobody has checked it: it is good for not asking about what is certainly useless.
#[derive(Deserialize)]
struct Claims {
    exp: f64,
    aud: Audiences,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audiences {
    One(String),
    Several(Vec<String>),
}

impl Audiences {
    fn has(&self, wanted: &str) -> bool {
        match self {
            Self::One(audience) => audience == wanted,
            Self::Several(audiences) => audiences.iter().any(|audience| audience == wanted),
        }
    }
}

/// What the token is for, and when it expires, if it is one that could be meant for us.
pub(super) fn claims(token: &str) -> Option<(Kind, Timestamp)> {
    if token.len() > LONGEST {
        return None;
    }
    let [_, payload, signature] = token.split('.').collect::<Vec<_>>()[..] else { return None };
    if signature.is_empty() {
        return None;
    }
    let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).ok()?;
    let claims: Claims = serde_json::from_slice(&payload).ok()?;
    let kind = Kind::ALL.into_iter().find(|kind| claims.aud.has(kind.audience()))?;
    // A number beyond what a timestamp can be is none.
    Some((kind, Timestamp::from_second(claims.exp as i64).ok()?))
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

    /// The namespace of the agents.
    const AGENTS: &str = "agents";

    #[test]
    fn only_a_token_for_us_that_is_bound_to_a_pod_names_one() {
        let user = "system:serviceaccount:lab:default";
        let bound = [("pod-name", "water-1-x"), ("pod-uid", "u")];
        let pod = |status| sender(status, Kind::Supervisor, AGENTS);
        let expected = Pod { namespace: "lab".to_owned(), name: "water-1-x".to_owned(), uid: "u".to_owned() };
        assert_eq!(pod(status(&[AUDIENCE], user, &bound)), Some(Sender::Pod(expected)));
        for refused in [
            status(&[], user, &bound),
            status(&["https://kubernetes.default.svc"], user, &bound),
            status(&[node_agent::AUDIENCE], user, &bound),
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
            assert_eq!(pod(refused.clone()), None, "{refused:?}");
        }
    }

    #[test]
    fn only_the_agents_account_speaks_for_a_node_and_for_that_of_its_pod_alone() {
        let user = "system:serviceaccount:agents:scavenger-node-agent";
        let bound = [("node-name", "n1"), ("pod-name", "agent-x"), ("pod-uid", "u")];
        let node = |status| sender(status, Kind::NodeAgent, AGENTS);
        let audience = node_agent::AUDIENCE;
        assert_eq!(node(status(&[audience], user, &bound)), Some(Sender::Node("n1".to_owned())));
        for refused in [
            status(&[AUDIENCE], user, &bound),
            status(&[audience], "system:serviceaccount:agents:default", &bound),
            status(&[audience], "system:serviceaccount:lab:scavenger-node-agent", &bound),
            status(&[audience], "system:node:n1", &bound),
            // Bound to a node, and not to a pod on it.
            status(&[audience], user, &bound[..1]),
            // Before the pod is bound, and by an API server that does not say where it is.
            status(&[audience], user, &bound[1..]),
            status(&[audience], user, &[("node-name", ""), bound[1], bound[2]]),
        ] {
            assert_eq!(node(refused.clone()), None, "{refused:?}");
        }
    }

    #[test]
    fn nobody_is_asked_about_what_cannot_be_a_token_for_us() {
        let time = Timestamp::from_second(2_000_000_000).unwrap();
        assert_eq!(claims(&token(AUDIENCE, time, "s")), Some((Kind::Supervisor, time)));
        assert_eq!(claims(&token(node_agent::AUDIENCE, time, "s")), Some((Kind::NodeAgent, time)));
        let encoded = |claims: &str| format!("e30.{}.s", BASE64_URL_SAFE_NO_PAD.encode(claims));
        assert_eq!(
            claims(&encoded("{\"exp\":2000000000,\"aud\":\"scavenger.dev/supervisor\"}")),
            Some((Kind::Supervisor, time))
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
            assert_eq!(claims(&useless), None, "{useless}");
        }
    }
}
