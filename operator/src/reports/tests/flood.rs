//! Many at once.

use std::{collections::HashSet, time::Instant as StdInstant};

use scavenger_reporting::schedule::{Outcome, Schedule};

use super::*;

/// The most reviews within any second.
fn most_in_a_second(asked: &[Instant]) -> usize {
    let second = Duration::from_secs(1);
    let within = |from: usize| asked[from..].iter().take_while(|at| **at - asked[from] < second).count();
    (0..asked.len()).map(within).max().unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn many_requests_with_one_token_are_one_review() {
    let played = Played::new();
    let token = played.time.token("a");
    let answers = (0..100).map(|_| played.post(&token, BODY));
    let answers = futures::future::join_all(answers).await;
    assert_eq!(played.reviewed.count(), 1);
    let statuses: HashSet<u16> = answers.iter().map(|answer| answer.status().as_u16()).collect();
    assert_eq!(statuses, HashSet::from([200, 429]));
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_is_asked_again_and_no_more_often() {
    let played = Played::new();
    let token = played.time.token("a");
    *played.reviewed.fails.lock().unwrap() = true;
    for tries in 1..=20 {
        assert_eq!(played.status(&token, BODY).await, 503);
        assert_eq!(played.reviewed.count(), tries);
    }
    assert!(most_in_a_second(&played.reviewed.asked.lock().unwrap()) <= 5);
    *played.reviewed.fails.lock().unwrap() = false;
    assert_eq!(played.status(&token, BODY).await, 200);
}

#[tokio::test(start_paused = true)]
async fn a_review_that_panics_keeps_nobody_waiting() {
    let played = Played::with(|_| Arc::new(|_, _| async { panic!("played") }.boxed()));
    let token = played.time.token("a");
    for _ in 0..2 {
        assert_eq!(played.status(&token, BODY).await, 503);
    }
}

#[tokio::test(start_paused = true)]
async fn who_sends_forged_tokens_keeps_nobody_else_out() {
    let played = Played::new();
    let hour = played.time.now() + SignedDuration::from_hours(1);
    let mut statuses = BTreeMap::new();
    for number in 0..1000 {
        let forged = token(AUDIENCE, hour, &format!("forged-{number}"));
        *statuses.entry(played.status(&forged, BODY).await).or_insert(0) += 1;
    }
    assert_eq!(statuses, BTreeMap::from([(401, 5), (429, 995)]));
    let honest = request(&played.time.token("a"), BODY);
    let other = IpAddr::from([10, 0, 0, 2]);
    assert_eq!(played.desk.answer(other, honest).await.status(), 200);
    // All at once: five of them are asked about, and the honest one waits for its turn behind them.
    let forged = (0..1000).map(|number| token(AUDIENCE, hour, &format!("more-{number}"))).collect::<Vec<_>>();
    let third = IpAddr::from([10, 0, 0, 3]);
    let desk = &played.desk;
    let flood =
        forged.iter().map(|token| async move { desk.answer(third, request(token, BODY)).await.status() });
    let honest = request(&played.time.token("b"), BODY);
    let began = Instant::now();
    let honest = async { (desk.answer(other, honest).await.status().as_u16(), began.elapsed()) };
    let (_, (status, waited)) = futures::join!(futures::future::join_all(flood), honest);
    assert_eq!((status, waited < Duration::from_secs(2)), (200, true), "{waited:?}");
}

/// How many reported, and how often.
struct Supervisors {
    played: Played,
    /// Pods of which a report was taken.
    taken: Mutex<HashSet<usize>>,
    reports: Mutex<u64>,
}

impl Supervisors {
    /// A pod whose workload writes a checkpoint each minute, as its supervisor reports it.
    async fn play(&self, pod: usize, until: Duration) {
        let name = format!("pod-{pod}");
        // The kubelet replaces a token after 48 minutes.
        let lasts = Duration::from_secs(48 * 60);
        let (base, start) = (StdInstant::now(), Instant::now());
        let now = || base + start.elapsed();
        let jitter = |report: u32| {
            f64::from((pod as u32).wrapping_mul(2_654_435_761).wrapping_add(report) % 1000) / 1000.0
        };
        let every = Duration::from_secs(60);
        let mut schedule = Schedule::new(now(), every, false, jitter(0));
        // They did not all start in one second.
        tokio::time::sleep(every.mul_f64(jitter(1))).await;
        let (mut token, mut made) = (self.played.time.token(&name), start.elapsed());
        for report in 2_u32.. {
            if start.elapsed() >= made + lasts {
                (token, made) = (self.played.time.token(&name), start.elapsed());
            }
            schedule.news();
            tokio::time::sleep(schedule.due().saturating_duration_since(now())).await;
            if start.elapsed() >= until {
                return;
            }
            schedule.sending();
            // Behind a node each, so that addresses are shared by a hundred pods.
            let peer = IpAddr::from([10, 1, 0, u8::try_from(pod % 100).unwrap()]);
            let status = self.played.desk.answer(peer, request(&token, BODY)).await.status().as_u16();
            assert!(matches!(status, 200 | 429), "{status}");
            *self.reports.lock().unwrap() += 1;
            if status == 200 {
                self.taken.lock().unwrap().insert(pod);
            }
            let outcome = if status == 200 { Outcome::Taken } else { Outcome::Failed };
            schedule.ended(now(), outcome, jitter(report));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn thousands_of_pods_cost_five_reviews_a_second() {
    // A quick run has fewer, which wait for the same five reviews a second, and ends before their tokens are renewed.
    let in_full = proptest::prelude::ProptestConfig::default().cases > 256;
    let (pods, minutes) = if in_full { (10_000, 60) } else { (2_000, 40) };
    let until = Duration::from_secs(60 * minutes);
    let mut played = Played::new();
    let (mut reports, _) = {
        let (link, ends) = link();
        (std::mem::replace(&mut played.link, link).reports, ends)
    };
    let drained = tokio::spawn(async move { while reports.recv().await.is_some() {} });
    let reviewed = played.reviewed.clone();
    let supervisors = Arc::new(Supervisors { played, taken: Mutex::default(), reports: Mutex::default() });
    let tasks: Vec<_> = (0..pods)
        .map(|pod| {
            let supervisors = Arc::clone(&supervisors);
            tokio::spawn(async move { supervisors.play(pod, until).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    drained.abort();
    let asked = reviewed.asked.lock().unwrap();
    let (most, reports) = (most_in_a_second(&asked), *supervisors.reports.lock().unwrap());
    let taken = supervisors.played.metrics.reports.answered_so_far("taken");
    println!(
        "{pods} pods in {} min: {reports} reports, {taken} taken, {} reviews, at most {most} in a second",
        until.as_secs() / 60,
        asked.len()
    );
    assert!(most <= 5, "{most}");
    let heard = supervisors.taken.lock().unwrap().len();
    assert_eq!(heard, pods, "pods that were heard");
    // Each token once.
    assert!((pods..2 * pods).contains(&asked.len()), "{}", asked.len());
}
