//! Times that come again each week, and the pool's calendar: windows of time with thresholds of their own.

use std::collections::BTreeMap;

use jiff::{
    Timestamp, ToSpan,
    civil::{Date, Time},
    tz::TimeZone,
};
use serde::{Deserialize, Serialize};

use super::{
    Filling, Name,
    resources::{Share, Thresholds},
};

/// Windows of time with thresholds of their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calendar {
    windows: Vec<Window>,
    /// While none is open.
    otherwise: Filling,
    highest: Thresholds,
}

/// A window of time with thresholds of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// What people call it.
    pub name: Name,
    /// When it is open.
    #[serde(flatten)]
    pub schedule: Schedule,
    /// What holds while it is open.
    pub filling: Filling,
}

/// Times that come again each week: each opens on some days, and may close on the day after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Whether it opens on a day, Monday first.
    pub days: [bool; 7],
    /// When it opens.
    pub start: Time,
    /// When it closes: on the next day if that is not after `start`.
    pub end: Time,
    /// Whose clocks these are.
    #[serde(with = "jiff::fmt::serde::tz::required")]
    pub time_zone: TimeZone,
}

impl Schedule {
    /// From when until when it is open that opens on this day; nothing if it does not. Where clocks are put forward, a time
    /// that they leave out is as much later as they are put; of a time that they show twice it is the first.
    fn on(&self, day: Date) -> Option<(Timestamp, Timestamp)> {
        if !self.days[usize::try_from(day.weekday().to_monday_zero_offset()).ok()?] {
            return None;
        }
        let last_day = if self.end > self.start { day } else { day.tomorrow().ok()? };
        let moment = |day: Date, time| self.time_zone.to_timestamp(day.to_datetime(time)).ok();
        Some((moment(day, self.start)?, moment(last_day, self.end)?))
    }

    /// Those that can be open now, and at least the next one: it opens at least once a week.
    fn around(&self, now: Timestamp) -> impl Iterator<Item = (Timestamp, Timestamp)> {
        let today = self.time_zone.to_datetime(now).date();
        let days = (-1..=7).filter_map(move |days| today.checked_add(days.days()).ok());
        days.filter_map(|day| self.on(day))
    }

    pub(crate) fn is_open(&self, now: Timestamp) -> bool {
        self.around(now).any(|(start, end)| start <= now && now < end)
    }

    /// When it opens or closes next.
    pub(crate) fn turns_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.around(now).flat_map(|(start, end)| [start, end]).filter(|time| *time > now).min()
    }
}

impl Calendar {
    /// The first window that is open counts.
    #[must_use]
    pub fn new(windows: Vec<Window>, otherwise: Filling) -> Self {
        let all = || {
            windows
                .iter()
                .map(|window| &window.filling)
                .chain([&otherwise])
                .map(|filling| &filling.start_thresholds)
        };
        let highest = |name: Option<&str>| {
            let share = |of: &Thresholds| name.map_or(of.default, |name| of.share(name));
            all().map(share).max().unwrap_or(Share::from_fraction(0.0))
        };
        let names = all().flat_map(|thresholds| thresholds.overrides.keys());
        let overrides: BTreeMap<_, _> = names.map(|name| (name.clone(), highest(Some(name)))).collect();
        let highest = Thresholds { default: highest(None), overrides };
        Self { windows, otherwise, highest }
    }

    /// What holds at a time, and the name of the window that is open then.
    pub(super) fn at(&self, now: Timestamp) -> (Option<&Name>, &Filling) {
        let open = self.windows.iter().find(|window| window.schedule.is_open(now));
        open.map_or((None, &self.otherwise), |window| (Some(&window.name), &window.filling))
    }

    /// When a window opens or closes next.
    pub(super) fn turns_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.windows.iter().filter_map(|window| window.schedule.turns_at(now)).min()
    }

    /// Up to where ScavengerJobs start when they may fill the most.
    pub(super) fn highest(&self) -> &Thresholds {
        &self.highest
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::time;

    use super::*;
    use crate::{fixtures, values::Settings};

    /// Open from the evening to the morning.
    fn nights(time_zone: TimeZone) -> Window {
        let settings = fixtures::settings().filled_to(0.95);
        Window {
            name: "nights".into(),
            schedule: Schedule { time_zone, ..fixtures::daily(time(20, 0, 0, 0), time(6, 0, 0, 0)) },
            filling: Filling { start_thresholds: settings.start_thresholds, headroom: settings.headroom },
        }
    }

    /// Clocks of central Europe, without a file that says so.
    fn europe() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    fn moment(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn with(windows: Vec<Window>) -> Settings {
        let settings = fixtures::settings();
        let otherwise = Filling {
            start_thresholds: settings.start_thresholds.clone(),
            headroom: settings.headroom.clone(),
        };
        Settings { calendar: Some(Calendar::new(windows, otherwise).into()), ..settings }
    }

    #[test]
    fn a_window_over_midnight_is_open_on_both_days() {
        let settings = with(vec![nights(TimeZone::UTC)]);
        for (now, window, share, next) in [
            ("2026-11-24T19:59:59Z", None, "70%", "2026-11-24T20:00:00Z"),
            ("2026-11-24T20:00:00Z", Some("nights"), "95%", "2026-11-25T06:00:00Z"),
            ("2026-11-25T05:59:59Z", Some("nights"), "95%", "2026-11-25T06:00:00Z"),
            ("2026-11-25T06:00:00Z", None, "70%", "2026-11-25T20:00:00Z"),
        ] {
            let at = settings.clone().at(moment(now));
            assert_eq!(at.window.as_deref(), window, "{now}");
            assert_eq!(at.start_thresholds.default.to_string(), share, "{now}");
            assert_eq!(at.turn_at(moment(now)), Some(moment(next)), "{now}");
            // Back to what holds otherwise.
            assert_eq!(at.at(moment("2026-11-24T12:00:00Z")).start_thresholds.default.to_string(), "70%");
        }
    }

    #[test]
    fn a_day_is_the_one_on_which_it_opens() {
        let friday = [false, false, false, false, true, false, false];
        let mut on_fridays = nights(TimeZone::UTC);
        on_fridays.schedule.days = friday;
        let settings = with(vec![on_fridays]);
        // 2026-11-27 is a Friday.
        for (now, is_open) in [
            ("2026-11-26T23:00:00Z", false),
            ("2026-11-27T03:00:00Z", false),
            ("2026-11-27T23:00:00Z", true),
            ("2026-11-28T03:00:00Z", true),
            ("2026-11-28T23:00:00Z", false),
        ] {
            assert_eq!(settings.clone().at(moment(now)).window.is_some(), is_open, "{now}");
        }
        let saturday = moment("2026-11-28T06:00:00Z");
        assert_eq!(settings.turn_at(saturday), Some(moment("2026-12-04T20:00:00Z")));
    }

    #[test]
    fn whole_days_follow_each_other_without_a_gap() {
        let midnight = time(0, 0, 0, 0);
        let schedule = Schedule { time_zone: europe(), ..fixtures::daily(midnight, midnight) };
        let settings = with(vec![Window { schedule, ..nights(europe()) }]);
        for now in ["2026-11-24T00:00:00Z", "2026-11-24T22:59:59Z", "2026-11-24T23:00:00Z"] {
            assert!(settings.clone().at(moment(now)).window.is_some(), "{now}");
        }
    }

    #[test]
    fn clocks_that_are_put_forward_or_back_move_the_window() {
        let settings = with(vec![nights(europe())]);
        // Winter: one hour ahead; from 2026-03-29 on two.
        assert_eq!(settings.turn_at(moment("2026-03-28T12:00:00Z")), Some(moment("2026-03-28T19:00:00Z")));
        assert_eq!(settings.turn_at(moment("2026-03-28T20:00:00Z")), Some(moment("2026-03-29T04:00:00Z")));
        assert_eq!(settings.turn_at(moment("2026-03-29T12:00:00Z")), Some(moment("2026-03-29T18:00:00Z")));
        // A time that the clocks leave out comes an hour later, and one that they show twice is the first.
        let at_half_past_two = fixtures::daily(time(2, 30, 0, 0), time(4, 0, 0, 0));
        let schedule = Schedule { time_zone: europe(), ..at_half_past_two };
        let at_half_past_two = Window { schedule, ..nights(europe()) };
        let settings = with(vec![at_half_past_two]);
        assert_eq!(settings.turn_at(moment("2026-03-29T00:00:00Z")), Some(moment("2026-03-29T01:30:00Z")));
        assert_eq!(settings.turn_at(moment("2026-10-24T12:00:00Z")), Some(moment("2026-10-25T00:30:00Z")));
    }

    #[test]
    fn the_first_open_window_counts() {
        let christmas = Window { name: "christmas".into(), ..nights(TimeZone::UTC) };
        let settings = with(vec![christmas, nights(TimeZone::UTC)]);
        assert_eq!(settings.at(moment("2026-11-24T21:00:00Z")).window.as_deref(), Some("christmas"));
    }

    #[test]
    fn the_most_is_what_any_window_allows() {
        let mut few = nights(TimeZone::UTC);
        few.filling.start_thresholds.default = Share::from_fraction(0.1);
        few.filling.start_thresholds.overrides.insert("gpu".into(), Share::from_fraction(1.0));
        let settings = with(vec![few]);
        assert_eq!(settings.highest_thresholds().default.to_string(), "70%");
        assert_eq!(settings.highest_thresholds().share("gpu").to_string(), "100%");
        assert_eq!(fixtures::settings().highest_thresholds(), &fixtures::settings().start_thresholds);
    }
}
