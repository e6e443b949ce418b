//! Of 1,000 random rows none is expected to be done later than by the rules that each place had of its own before, and no row is
//! moved about.

use std::collections::BTreeMap;

use scavenger_schema::tuning::Resources;
use sqlx::types::Json;

use super::*;
use crate::advance::deadline::Outlook;
use crate::advance::ladder::{below, rest_seconds};

const PATIENCE: f64 = 600.0;

/// Numbers that look random, and are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.below(1 << 20) as f64 / f64::from(1 << 20)
    }

    fn is_so(&mut self, of_hundred: u64) -> bool {
        self.below(100) < of_hundred
    }

    /// Two to six configurations, largest and mostly fastest first; some with a GPU, some for one kind of node.
    fn ladder(&mut self) -> Vec<LadderRung> {
        let count = 2 + self.below(5);
        let mut speed = self.between(50.0, 200.0);
        let rungs = (1..).zip((0..count).rev()).map(|(rung, left)| {
            speed *= self.between(0.4, 1.0);
            let labels = BTreeMap::from([("kind".to_owned(), "fast".to_owned())]);
            LadderRung {
                rung,
                cpu_millicores: 500 * (i32::try_from(left).expect("should be few") + 1),
                gpus: i32::from(self.is_so(20)),
                node_labels: Json(if self.is_so(20) { labels } else { BTreeMap::new() }),
                ns_per_day_p10: speed * self.between(0.3, 1.0),
                ns_per_day_p50: speed,
                ..ladder().remove(0)
            }
        });
        rungs.collect()
    }

    fn free(&mut self) -> Resources {
        let cpu_millicores = 500 * u32::try_from(self.below(8)).expect("should be few");
        Resources { cpu_millicores, memory_bytes: 4 << 30, gpus: u32::from(self.is_so(50)) }
    }

    /// A row that waits or runs with one of its configurations.
    fn scene(&mut self) -> Scene {
        let ladder = self.ladder();
        let rung = 1 + i32::try_from(self.below(ladder.len() as u64)).expect("should be few");
        let mut row = submitted();
        row.system.nsteps = Some(i64::try_from(1 + self.below(50_000_000)).expect("should be few"));
        row.status.rung = Some(rung);
        row.status.private.speed_ratio = self.is_so(50).then(|| self.between(0.3, 2.0));
        row.deadline =
            self.is_so(30).then(|| (now() + SignedDuration::from_secs_f64(self.between(0.0, 4e5))).into());
        let reason = [
            WaitingReason::NoCapacity,
            WaitingReason::NeverFits,
            WaitingReason::QuotaExceeded,
            WaitingReason::BehindInQueue,
            WaitingReason::BackingOff,
        ][usize::try_from(self.below(5)).expect("should be few")];
        let waited = SignedDuration::from_secs_f64(self.between(0.0, 1e5));
        let waiting = JobView { waiting_since: Some(now() - waited), ..waits(rung, reason) };
        let mut scene = Scene::with_job(row, waiting);
        scene.quota = Some(quota(4000, 1000 * self.below(8).min(4)));
        scene.row.status.private.no_room_seconds = self.between(0.0, 2.0 * PATIENCE);
        if self.is_so(40) {
            scene.row.status.state = State::Interrupted;
            (scene.row.status.attempt, scene.row.status.private.attempts_recorded) = (1, 1);
            scene.row.status.private.interruption_time = Some(now());
            let job = scene.job.take().expect("should be there");
            let ended = AttemptView { rung: Some(rung), ..attempt(1, 1, Some(Outcome::Interrupted)) };
            scene.job =
                Some(JobView { attempts: vec![ended], has_run: true, phase: Phase::Interrupted, ..job });
        } else if self.is_so(30) {
            let status = &mut scene.row.status;
            (status.state, status.attempt, status.first_step, status.step) =
                (State::Running, 1, Some(0), Some(1));
            (status.private.progress_from_step, status.private.progress_from_time) = (Some(0), Some(now()));
            let predicted = ladder[usize::try_from(rung - 1).expect("should be few")].ns_per_day_p50;
            status.ns_per_day = Some(predicted * self.between(0.3, 2.0));
            let ran = AttemptView { rung: Some(rung), ..attempt(1, 1, None) };
            scene.job = Some(JobView { attempts: vec![ran], has_run: true, ..job(Phase::Running, rung) });
        }
        scene.ladder = ladder;
        let pool = scene.pool.as_mut().expect("should have a pool");
        let mut fast = pool.nodes[0].clone();
        fast.labels = BTreeMap::from([("kind".to_owned(), "fast".to_owned())]);
        fast.largest_free = Some(self.free());
        pool.nodes[0].largest_free = Some(self.free());
        pool.nodes.push(fast);
        scene.after(1000);
        scene
    }
}

fn quota(hard_millicores: u64, used_millicores: u64) -> QuotaRoom {
    let cpu = |millicores: u64| serde_json::json!({ "cpu": format!("{millicores}m") });
    let quota = serde_json::json!({
        "spec": {}, "status": { "hard": cpu(hard_millicores), "used": cpu(used_millicores) },
    });
    QuotaRoom::of(&[serde_json::from_value(quota).expect("should be a quota")])
}

/// The rules of before, each with the configuration that it took; none if it left the row as it was.
struct Before<'a>(&'a Scene);

impl<'a> Before<'a> {
    fn has_room(&self, rung: &LadderRung) -> bool {
        self.0.pool.as_ref().is_some_and(|pool| pool.has_room_for(rung))
    }

    fn rest(&self, rung: &LadderRung) -> f64 {
        self.seconds(rung, false)
    }

    fn seconds(&self, rung: &LadderRung, slow: bool) -> f64 {
        let seconds = rest_seconds(&self.0.row, &self.0.row.status, rung, &self.0.ladder, slow);
        seconds.expect("the row has an end")
    }

    fn current(&self) -> &'a LadderRung {
        self.0.ladder.iter().find(|rung| Some(rung.rung) == self.0.row.status.rung).expect("should be there")
    }

    fn smaller(&self) -> impl Iterator<Item = &'a LadderRung> + use<'a> {
        below(&self.0.ladder, self.current().rung).iter()
    }

    fn misses(&self, rung: &LadderRung, wait: f64) -> bool {
        let outlook = Outlook::new(&self.0.row, &self.0.row.status, &self.0.ladder, self.0.now);
        outlook.is_some_and(|outlook| outlook.misses(rung, wait))
    }

    fn soonest(&self, of: impl Iterator<Item = &'a LadderRung>, slow: bool) -> Option<&'a LadderRung> {
        let seconds = |rung: &LadderRung| self.seconds(rung, slow);
        of.filter(|rung| self.has_room(rung)).min_by(|one, other| seconds(one).total_cmp(&seconds(other)))
    }

    fn fall_back(&self) -> Option<&'a LadderRung> {
        let in_time = self
            .soonest(self.smaller(), true)
            .filter(|found| self.0.row.deadline.is_some() && !self.misses(found, 0.0));
        in_time.or_else(|| self.smaller().find(|rung| !rung.is_bound() || self.has_room(rung)))
    }

    /// All of these rows could grow from there.
    fn pressed(&self, wait: f64) -> Option<&'a LadderRung> {
        self.soonest(self.smaller(), true).filter(|_| self.misses(self.current(), wait))
    }

    fn in_line(&self, waited: f64) -> Option<&'a LadderRung> {
        let done_by_now = self.smaller().filter(|rung| self.rest(rung) <= waited);
        self.soonest(done_by_now, false).or_else(|| self.pressed(waited))
    }

    fn elsewhere(&self, wait: f64) -> Option<&'a LadderRung> {
        let current = self.current();
        let best = self.soonest(self.0.ladder.iter().filter(|rung| rung.rung != current.rung), false)?;
        let share = if self.misses(current, wait) { 1.0 } else { 0.9 };
        (self.rest(best) < (self.rest(current) + wait) * share).then_some(best)
    }

    fn grown(&self) -> Option<&'a LadderRung> {
        let current = self.current();
        let larger = self.0.ladder.iter().filter(|rung| rung.ns_per_day_p50 > current.ns_per_day_p50);
        let seconds = |rung: &LadderRung| self.when_grown(rung);
        let best = larger
            .filter(|rung| self.has_room(rung))
            .min_by(|one, other| seconds(one).total_cmp(&seconds(other)))?;
        let share = if self.misses(current, 0.0) { 0.9 } else { 0.5 };
        (seconds(best) < self.rest(current) * share).then_some(best)
    }

    /// A restart costs 60 s, and another kind of processor may be slow.
    fn when_grown(&self, rung: &LadderRung) -> f64 {
        let is_of_one_kind = rung.gpus == self.current().gpus;
        let rest = self.rest(rung);
        60.0 + if is_of_one_kind { rest } else { rest * rung.ns_per_day_p50 / rung.ns_per_day_p10 }
    }

    /// What they took, and seconds until the row was expected to be done then.
    fn decide(&self) -> (Option<i32>, impl Fn(Option<i32>) -> f64 + use<'_, 'a>) {
        let job = self.0.job.as_ref().expect("should be there");
        let runs = job.phase == Phase::Running;
        let why = job.waiting_reason;
        let left = (PATIENCE - self.0.row.status.private.no_room_seconds).max(0.0);
        let waited = job.waiting_since.map_or(0.0, |since| self.0.now.duration_since(since).as_secs_f64());
        let is_bound = self.current().is_bound();
        let left = if is_bound { (90.0 - self.0.row.status.private.no_room_seconds).max(0.0) } else { left };
        let current = self.current();
        // What is refused is not to be had.
        let (next, wait) = match why {
            _ if runs => (self.grown(), 0.0),
            Some(WaitingReason::NoCapacity | WaitingReason::BackingOff) if job.has_run => {
                let has_room = why == Some(WaitingReason::BackingOff) && self.has_room(current);
                let wait = if has_room { 0.0 } else { left };
                let next = self.elsewhere(wait);
                let falls = why == Some(WaitingReason::NoCapacity) && next.is_none();
                let next = next.or_else(|| self.pressed(left).filter(|_| falls));
                (next.or_else(|| self.fall_back().filter(|_| falls && left <= 0.0)), wait)
            }
            Some(WaitingReason::NoCapacity) => {
                (self.pressed(left).or_else(|| self.fall_back().filter(|_| left <= 0.0)), left)
            }
            Some(WaitingReason::NeverFits) => (self.fall_back(), f64::INFINITY),
            Some(WaitingReason::QuotaExceeded) => {
                let room = self.0.quota.as_ref().expect("should be there");
                let holds = |rung: &&LadderRung| room.holds(&rung.resources(), crate::gpus::USUAL);
                (self.smaller().find(holds), f64::INFINITY)
            }
            Some(WaitingReason::BehindInQueue) => (self.in_line(waited), waited),
            _ => (None, 0.0),
        };
        let done = move |choice: Option<i32>| {
            let Some(rung) = self.0.ladder.iter().find(|rung| Some(rung.rung) == choice) else {
                return wait + self.rest(current);
            };
            // No row waits for one kind of node alone.
            let patience = if rung.is_bound() { f64::INFINITY } else { PATIENCE };
            let wait = if self.has_room(rung) { 0.0 } else { patience };
            if runs { self.when_grown(rung) } else { wait + self.rest(rung) }
        };
        (next.map(|next| next.rung), done)
    }
}

#[test]
fn none_is_expected_to_be_done_later_than_by_the_rules_before() {
    let mut random = Random(2_026);
    let (mut sooner, mut changes) = (0, BTreeMap::new());
    for number in 0..1000 {
        let scene = random.scene();
        let rules = Before(&scene);
        let (before, done) = rules.decide();
        let step = scene.step();
        let next = step.status.next_rung;
        // Where nothing smaller is left it starts over after a delay, before as now.
        let (now_done, before_done) = (done(next), done(before));
        assert!(
            now_done <= before_done,
            "{number}: {next:?} in {now_done}, {before:?} in {before_done}; {step:?}"
        );
        sooner += i32::from(now_done < before_done);
        if let Some(next) = next {
            let why = scene.job.as_ref().and_then(|job| job.waiting_reason).map(|why| why.name());
            *changes.entry(why).or_insert(0) += 1;
            assert!(reason(&step).contains(&format!("configuration {next} of")), "{}", reason(&step));
        }
    }
    assert!(sooner > 20, "{sooner}");
    assert!(
        changes.len() == 6 && changes.values().all(|count| *count > 10),
        "each rule has its share: {changes:?}"
    );
}

#[test]
fn what_rules_out_a_faster_one_is_said() {
    let mut scene = Scene::with_job(submitted(), waits(1, WaitingReason::QuotaExceeded));
    scene.quota = Some(quota(4000, 3500));
    let why = reason(&scene.step()).to_owned();
    let falls = "the operator's sentence; falls back to configuration 3 of 3, 0.5 cores; not 2: more than the quota leaves";
    assert_eq!(why, falls);
    // Neither the quota nor the pool has room for more than half a core.
    let mut scene = Random(1).scene();
    scene.row.status = submitted().status;
    scene.ladder = ladder();
    scene.job = Some(JobView {
        waiting_since: Some(now() - SignedDuration::from_hours(99)),
        ..waits(1, WaitingReason::BehindInQueue)
    });
    let free = Resources { cpu_millicores: 500, memory_bytes: 4 << 30, gpus: 0 };
    for node in &mut scene.pool.as_mut().expect("should have a pool").nodes {
        node.largest_free = Some(free);
    }
    let why = reason(&scene.step()).to_owned();
    assert!(why.contains("with configuration 3 of 3, 0.5 cores; not 2: no free capacity, "), "{why}");
}

/// Room comes and goes every minute, for a day.
#[test]
fn none_is_changed_twice_within_an_hour_unless_it_is_refused() {
    let mut random = Random(7);
    let mut changes = 0;
    for number in 0..40 {
        let mut scene = random.scene();
        scene.row.deadline = None;
        scene.row.system.nsteps = Some(500_000_000);
        let runs = number % 2 == 0;
        let rung = i32::try_from(scene.ladder.len()).expect("should be few");
        if runs {
            start(&mut scene, rung);
        } else {
            scene.row.status = submitted().status;
            scene.job =
                Some(JobView { waiting_since: Some(scene.now), ..waits(1, WaitingReason::BehindInQueue) });
            scene.row.system.nsteps = Some(2_000_000);
        }
        let mut last: Option<Timestamp> = None;
        for _ in 0..24 * 60 {
            scene.after(60);
            scene.pool.as_mut().expect("should have a pool").nodes[0].largest_free = Some(random.free());
            let step = scene.go();
            let Some(next) = step.status.next_rung else { continue };
            if let Some(last) = last.replace(scene.now) {
                let since = scene.now.duration_since(last).as_secs();
                assert!(since >= 3600, "{number}: {since} s; {}", reason(&step));
            }
            changes += 1;
            if runs {
                start(&mut scene, next);
            } else {
                let job = scene.job.take().expect("should be there");
                scene.job = Some(JobView { rung: Some(next), change_time: Some(scene.now), ..job });
                scene.go();
            }
        }
    }
    assert!(changes > 40, "{changes}");
}

/// It runs with a configuration from now on; with another one before, it was stopped for that.
fn start(scene: &mut Scene, rung: i32) {
    let mut attempts = scene.job.take().map(|job| job.attempts).unwrap_or_default();
    for before in &mut attempts {
        (before.outcome, before.reason) = (Some(Outcome::Interrupted), Some(Reason::Suspended));
    }
    let number = 1 + i32::try_from(attempts.len()).expect("should be few");
    attempts.push(AttemptView {
        number,
        rung: Some(rung),
        creation_time: scene.now,
        ..attempt(number, 1, None)
    });
    scene.job = Some(JobView { attempts, has_run: true, ..job(Phase::Running, rung) });
    let predicted =
        scene.ladder.iter().find(|found| found.rung == rung).expect("should be there").ns_per_day_p50;
    let status = &mut scene.row.status;
    (status.next_rung, status.private.grown_from, status.private.growth_failures) = (None, None, 0);
    (status.state, status.rung, status.attempt) = (State::Running, Some(rung), number);
    status.private.attempts_recorded = number - 1;
    (status.first_step, status.step, status.ns_per_day) = (Some(0), Some(1000), Some(predicted));
    (status.private.progress_from_step, status.private.progress_from_time) = (Some(0), Some(scene.now));
}
