//! One request after the other.

use std::iter;

use http::{Method, StatusCode, header};
use http_body_util::StreamBody;

use super::*;
use crate::reports::desk::PATH;

#[tokio::test(start_paused = true)]
async fn a_report_names_the_pod_of_its_token_whatever_it_says() {
    let mut played = Played::new();
    let token = played.time.token("water-1-x");
    let body = BODY.replacen('{', "{\"pod\":\"other\",\"namespace\":\"other\",\"uid\":\"other\",", 1);
    let answer = played.post(&token, &body).await;
    assert_eq!((answer.status(), text(answer).await.as_str()), (StatusCode::OK, "{\"checkpoint\":false}"));
    let report = played.link.reports.try_recv().unwrap();
    assert_eq!(
        report,
        Report {
            namespace: "lab".to_owned(),
            pod: "water-1-x".to_owned(),
            pod_uid: "uid-water-1-x".to_owned(),
            checkpoint: Some(report.received - SignedDuration::from_secs(30)),
            seen: 2,
            progress: Some(0.5),
            cpu: None,
            received: report.received,
        }
    );
    // The answer asks the pod whose UID the view holds, and no other.
    let (other, own) = (Name::from("uid-other"), Name::from("uid-water-1-x"));
    played.link.requests.ask(iter::once((&other, report.received)));
    assert_eq!(text(played.post(&token, "{}").await).await, "{\"checkpoint\":false}");
    played.link.requests.ask(iter::once((&own, report.received)));
    assert_eq!(text(played.post(&token, "{}").await).await, "{\"checkpoint\":true}");
    tokio::time::advance(Duration::from_secs(20)).await;
    // A checkpoint of before does not answer, and a report that brings a later one is not asked again.
    assert_eq!(text(played.post(&token, &body).await).await, "{\"checkpoint\":true}");
    played.link.requests.ask(iter::once((&own, report.received - SignedDuration::from_secs(31))));
    assert_eq!(text(played.post(&token, &body).await).await, "{\"checkpoint\":false}");
    assert_eq!(played.reviewed.count(), 1, "the token is known");
}

#[tokio::test(start_paused = true)]
async fn tokens_of_others_are_refused() {
    let mut played = Played::new();
    let hour = played.time.now() + SignedDuration::from_hours(1);
    let useless = [
        token("https://kubernetes.default.svc", hour, "signed-a"),
        token(AUDIENCE, played.time.now() - SignedDuration::from_secs(1), "signed-a"),
        "nonsense".to_owned(),
        String::new(),
    ];
    for token in &useless {
        assert_eq!(played.status(token, BODY).await, 401, "{token}");
    }
    assert_eq!(played.reviewed.count(), 0, "nobody was asked about what is certainly useless");
    let forged = token(AUDIENCE, hour, "forged");
    for _ in 0..100 {
        assert_eq!(played.status(&forged, BODY).await, 401);
    }
    assert_eq!(played.reviewed.count(), 1, "once is enough for a while");
    let mut bare = request("", BODY);
    bare.headers_mut().remove(header::AUTHORIZATION);
    assert_eq!(played.desk.answer(PEER, bare).await.status(), 401);
    let mut twice = request(&played.time.token("a"), BODY);
    twice.headers_mut().append(header::AUTHORIZATION, "Bearer x".parse().unwrap());
    assert_eq!(played.desk.answer(PEER, twice).await.status(), 401);
    assert!(played.link.reports.try_recv().is_err());
    assert_eq!(played.metrics.reports.answered_so_far("unauthenticated"), 106);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_known_until_it_expires() {
    let mut played = Played::new();
    let token = played.time.token("a");
    for minute in 0..59 {
        assert_eq!(played.status(&token, BODY).await, 200, "minute {minute}");
        played.link.reports.try_recv().unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    assert_eq!(played.reviewed.count(), 1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(played.status(&token, BODY).await, 401);
    assert_eq!(played.reviewed.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_reports_a_second_are_three_at_once_and_then_one_in_ten_seconds() {
    let played = Played::new();
    let token = played.time.token("a");
    assert_eq!(played.status(&token, BODY).await, 200);
    assert_eq!(played.statuses(&token, 1000).await, BTreeMap::from([(200, 2), (429, 998)]));
    let refused = played.post(&token, BODY).await;
    assert_eq!(refused.headers()[header::RETRY_AFTER], "10");
    assert_eq!(played.status(&played.time.token("b"), BODY).await, 200, "another pod");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(played.statuses(&token, 1000).await, BTreeMap::from([(200, 1), (429, 999)]));
}

#[tokio::test(start_paused = true)]
async fn nonsense_is_refused_and_reaches_nobody() {
    let mut played = Played::new();
    let long = format!("{{\"x\":\"{}\"}}", "x".repeat(4096));
    let bodies = [
        ("", 400),
        ("<html>", 400),
        ("[]", 400),
        ("{\"checkpoint\":{\"time\":\"soon\",\"ageSeconds\":1,\"seen\":1}}", 400),
        ("{\"checkpoint\":{\"time\":\"2026-01-02T03:04:05Z\",\"ageSeconds\":1e999,\"seen\":1}}", 400),
        ("{\"checkpoint\":{\"time\":\"2026-01-02T03:04:05Z\",\"ageSeconds\":NaN,\"seen\":1}}", 400),
        ("{\"checkpoint\":{\"time\":\"2026-01-02T03:04:05Z\",\"ageSeconds\":1,\"seen\":-1}}", 400),
        ("{\"progress\":\"half\"}", 400),
        (long.as_str(), 413),
    ];
    for (number, (body, status)) in bodies.into_iter().enumerate() {
        let token = played.time.token(&format!("pod-{number}"));
        assert_eq!(played.status(&token, body).await, status, "{body}");
    }
    let token = played.time.token("a");
    let mut elsewhere = request(&token, BODY);
    *elsewhere.uri_mut() = "/metrics".parse().unwrap();
    assert_eq!(played.desk.answer(PEER, elsewhere).await.status(), 404);
    let mut get = request(&token, "");
    *get.method_mut() = Method::GET;
    assert_eq!(played.desk.answer(PEER, get).await.status(), 405);
    // A body that never ends, and none that breaks off.
    let slow = StreamBody::new(futures::stream::pending::<Result<http_body::Frame<Bytes>, std::io::Error>>());
    let slow = Request::post(PATH).header("authorization", format!("Bearer {token}")).body(slow).unwrap();
    assert_eq!(played.desk.answer(PEER, slow).await.status(), 408);
    let broken = StreamBody::new(futures::stream::iter([
        Ok(http_body::Frame::data(Bytes::from_static(b"{}"))),
        Err(std::io::Error::other("gone")),
    ]));
    let broken = Request::post(PATH).header("authorization", format!("Bearer {token}")).body(broken).unwrap();
    assert_eq!(played.desk.answer(PEER, broken).await.status(), 400);
    assert!(played.link.reports.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_stands_by_asks_nobody_and_takes_nothing() {
    let mut played = Played::new();
    let token = played.time.token("a");
    for state in [Leadership::Unknown, Leadership::Standby, Leadership::Lost] {
        played.leadership.send_replace(state);
        assert_eq!(played.status(&token, BODY).await, 421);
        assert_eq!(played.status("nonsense", "nonsense").await, 421);
    }
    // Frozen for too long: nobody has said so yet.
    played.leadership.send_replace(Leadership::Leader { until: Instant::now() });
    assert_eq!(played.status(&token, BODY).await, 421);
    assert_eq!(played.reviewed.count(), 0);
    played.leadership.send_replace(leader());
    assert_eq!(played.status(&token, BODY).await, 200);
    assert!(played.link.reports.try_recv().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_takes_reports_when_it_knows_the_pods() {
    let mut played = Played::new();
    let token = played.time.token("a");
    played.link.begin();
    assert_eq!(played.status(&token, BODY).await, 421);
    assert_eq!(played.reviewed.count(), 0, "nobody is asked whose token it is");
    played.link.requests.ask(iter::empty());
    assert_eq!(played.status(&token, BODY).await, 200);
    assert!(played.link.reports.try_recv().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_loses_the_lease_in_the_middle_takes_nothing() {
    let mut played = Played::with(|reviewed| {
        let reviewer = reviewed.reviewer();
        Arc::new(move |token, kind| {
            let review = reviewer(token, kind);
            let slow = async move {
                let answer = review.await;
                tokio::time::sleep(Duration::from_secs(1)).await;
                answer
            };
            slow.boxed()
        })
    });
    let token = played.time.token("a");
    let (desk, sent) = (Arc::clone(&played.desk), request(&token, BODY));
    let answer = tokio::spawn(async move { desk.answer(PEER, sent).await });
    within(Duration::from_millis(500), "the review is under way", || played.reviewed.count() == 1).await;
    played.leadership.send_replace(Leadership::Lost);
    assert_eq!(answer.await.unwrap().status(), 421);
    assert!(played.link.reports.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn what_the_loop_has_no_time_for_is_sent_again_later() {
    let mut played = Played::new();
    let mut taken = 0;
    let refused = loop {
        let token = played.time.token(&format!("pod-{taken}"));
        // One review after the other.
        let answer = played.post(&token, BODY).await;
        if answer.status() != 200 {
            break answer;
        }
        taken += 1;
    };
    assert_eq!((refused.status().as_u16(), taken), (503, CHANNEL));
    assert!(refused.headers().contains_key(header::RETRY_AFTER));
    let token = played.time.token(&format!("pod-{taken}"));
    played.link.reports.try_recv().unwrap();
    assert_eq!(played.status(&token, BODY).await, 200);
    drop(played.link);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let answer = played.desk.answer(PEER, request(&token, BODY)).await;
    assert_eq!(answer.status(), 421, "a loop that has ended leads no more");
}
