use super::*;

const HOUR: i64 = 3600;

fn small() -> Class {
    Class::of(Kind::Single, 1.0)
}

fn waiting(id: u64) -> Waiting {
    Waiting { id, class: small(), interrupted: false }
}

/// One that has seen one start in each of so many ten minutes, while two others waited. Returns the time, too.
fn taught(starts: i64) -> (Forecaster, i64) {
    let mut forecaster = Forecaster::default();
    for number in 0..starts {
        let id = number as u64;
        forecaster.observe_waiting(number * 600, &[waiting(id), waiting(id + 1), waiting(id + 2)]);
        forecaster.observe_start(number * 600 + 599, &waiting(id));
    }
    (forecaster, starts * 600)
}

fn bounds(forecast: Forecast) -> [i64; 3] {
    let Forecast::Between { from, expected, to } = forecast else { panic!("{forecast:?}") };
    [from, expected, to]
}

#[test]
fn too_few_starts_are_no_promise() {
    let (mut forecaster, now) = taught(29);
    assert_eq!(forecaster.forecast(now, &waiting(100), 0), Forecast::Unknown { starts_seen: 29 });
    forecaster.observe_start(now, &waiting(29));
    assert!(matches!(forecaster.forecast(now, &waiting(100), 0), Forecast::Between { .. }));
    // Of this class none was seen to start.
    let large = Waiting { class: Class::of(Kind::Single, 32.0), ..waiting(101) };
    assert_eq!(forecaster.forecast(now, &large, 0), Forecast::Unknown { starts_seen: 30 });
}

#[test]
fn who_has_more_of_its_class_before_it_waits_longer_and_the_rate_says_how_long() {
    let (forecaster, now) = taught(300);
    let expected = |before| bounds(forecaster.forecast(now, &waiting(999), before))[1] - now;
    for before in 0..50 {
        assert!(expected(before) < expected(before + 1), "{before}");
    }
    // Six an hour.
    assert!((3 * HOUR..5 * HOUR).contains(&expected(23)), "{}", expected(23));
    let queue: Vec<Waiting> = (0..4).map(|id| waiting(1000 + id)).collect();
    let several = forecaster.forecasts(now, &queue);
    for (before, one) in several.iter().enumerate() {
        assert_eq!(*one, forecaster.forecast(now, &queue[before], before as u32));
        let [from, expected, to] = bounds(*one);
        assert!(now <= from && from <= expected && expected <= to);
    }
}

#[test]
fn what_starts_always_as_the_rate_says_gets_a_narrow_interval() {
    let width = |starts| {
        let (forecaster, now) = taught(starts);
        let [from, _, to] = bounds(forecaster.forecast(now, &waiting(9999), 2));
        to - from
    };
    assert!(width(2000) * 2 < width(40), "{} {}", width(2000), width(40));
}

#[test]
fn a_forecast_is_decided_by_the_start_or_by_its_end_and_not_by_one_that_goes() {
    let (mut forecaster, now) = taught(60);
    let before = forecaster.results();
    let decided = |results: Results| results.held + results.earlier + results.later;
    forecaster.observe_waiting(now, &[waiting(500)]);
    forecaster.observe_gone(500);
    for hour in 1..200 {
        forecaster.observe_waiting(now + hour * HOUR, &[]);
    }
    let open = decided(forecaster.results()) - decided(before);
    assert!(open <= 2, "{open}: only those of the two that waited before");
    forecaster.observe_waiting(now + 200 * HOUR, &[waiting(501)]);
    for hour in 201..400 {
        forecaster.observe_waiting(now + hour * HOUR, &[waiting(501)]);
    }
    assert!(forecaster.results().later > before.later, "it never starts");
}

#[test]
fn hours_in_which_more_starts_are_known_after_some_days() {
    let mut forecaster = Forecaster::default();
    let mut id = 0;
    // Ten an hour from noon on, one an hour in the morning.
    for minute in 0..14 * 1440 {
        let is_busy = minute % 1440 >= 720;
        if minute % 6 == 0 && (is_busy || minute % 60 == 0) {
            forecaster.observe_start(minute * 60, &waiting(id));
            id += 1;
        }
        if minute % 10 == 0 {
            let queue: Vec<Waiting> = (id..id + 200).map(waiting).collect();
            forecaster.observe_waiting(minute * 60, &queue);
        }
    }
    let midnight = 14 * 24 * HOUR;
    let expected = |now| bounds(forecaster.forecast(now, &waiting(id), 20))[1] - now;
    let (in_the_morning, at_noon) = (expected(midnight + HOUR), expected(midnight + 12 * HOUR));
    assert!(in_the_morning > 5 * HOUR && at_noon < 4 * HOUR, "{in_the_morning} {at_noon}");
}

#[test]
fn what_was_learnt_goes_on_from_a_text_of_bounded_length() {
    let (forecaster, now) = taught(500);
    let text = forecaster.remember();
    let again = Forecaster::recall(&text).unwrap();
    for before in [0, 5, 100] {
        let [a, b] = [&forecaster, &again].map(|one| bounds(one.forecast(now, &waiting(7), before)));
        for (a, b) in a.iter().zip(b) {
            // Numbers have four digits.
            assert!((a - b).abs() <= 1 + (b - now) / 100, "{a} {b}");
        }
    }
    assert_eq!(again.remember(), Forecaster::recall(&again.remember()).unwrap().remember());
    for wrong in
        ["", "{}", &text.replace("\"version\":1", "\"version\":2"), &text.replace("[0,[", "[60000,[")]
    {
        assert_eq!(Forecaster::recall(wrong), None, "{wrong}");
    }
}

#[test]
fn the_text_is_never_longer_than_an_object_bears() {
    let mut forecaster = Forecaster::default();
    let classes: Vec<Class> = (0..8)
        .flat_map(|size| {
            [Kind::Single, Kind::Gang, Kind::Device].map(|kind| Class::of(kind, 2.0_f64.powi(size) / 2.0))
        })
        .collect();
    let mut id = 0;
    for hour in 0..2000 {
        let queue: Vec<Waiting> = (0..2400)
            .map(|place| Waiting {
                id: id + place,
                class: classes[place as usize % classes.len()],
                interrupted: place % 7 == 0,
            })
            .collect();
        forecaster.observe_waiting(hour * HOUR, &queue);
        for one in &queue[..queue.len().min(1 + (hour as usize * 7) % 300)] {
            forecaster.observe_start(hour * HOUR + 60, one);
            id += 1;
        }
    }
    let length = forecaster.remember().len();
    assert!(length < 40_000, "{length}");
}
