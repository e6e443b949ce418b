use super::*;

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// One of each kind.
fn events() -> Vec<Event> {
    let labels = [("disk", "ssd"), ("topology.kubernetes.io/zone", "")];
    let node = Node {
        name: "node-1".to_owned(),
        cpu_milli: 8000,
        memory_mib: 16_384,
        gpus: 1,
        max_pods: 110,
        is_open: true,
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
    };
    let pod = |class| Pod {
        name: "pod-1".to_owned(),
        cpu_milli: 500,
        memory_mib: 512,
        gpus: 0,
        priority: -5,
        class,
    };
    let name = || "pod-1".to_owned();
    vec![
        Event::Begin,
        Event::Node(node.clone()),
        Event::Node(Node { is_open: false, labels: BTreeMap::new(), ..node }),
        Event::Pod(pod(Class::Ordinary)),
        Event::Pod(pod(Class::Daemon)),
        Event::Pod(pod(Class::Scavenger)),
        Event::Bound { name: name(), node: "node-1".to_owned() },
        Event::Started { name: name() },
        Event::Use { name: name(), cpu_milli: 12, memory_mib: 90 },
        Event::Ended { name: name() },
        Event::NodeGone { name: "node-1".to_owned() },
        Event::Mark,
        Event::Full,
    ]
}

fn written(events: Vec<Event>) -> (String, Vec<Line>) {
    let lines: Vec<Line> =
        events.into_iter().zip(0..).map(|(event, second)| Line { time: time(second), event }).collect();
    let text = lines.iter().map(Line::text).fold(HEADER.to_owned(), |all, line| all + &line);
    (text, lines)
}

fn all(text: &str) -> Result<(Vec<Line>, Read), String> {
    let mut lines = Vec::new();
    let read = read(text.as_bytes(), |_, line| {
        lines.push(line);
        Ok(())
    })?;
    Ok((lines, read))
}

#[test]
fn what_is_written_is_read_again() {
    let (text, lines) = written(events());
    let whole = Read { bytes: text.len() as u64, half: None };
    assert_eq!(all(&text).unwrap(), (lines, whole));
    assert_eq!(text.lines().nth(2).unwrap().split(',').count(), HEADER.split(',').count());
}

#[test]
fn a_recording_that_was_cut_anywhere_is_read_up_to_its_last_whole_line() {
    let (text, lines) = written(events());
    for cut in 0..text.len() {
        let (found, read) = all(&text[..cut]).unwrap();
        let ends = text[..cut].matches('\n').count();
        assert_eq!(found, lines[..ends.saturating_sub(1)], "cut at {cut}");
        let is_half = cut > 0 && !text[..cut].ends_with('\n');
        assert_eq!(read.half, is_half.then_some(ends as u64 + 1), "cut at {cut}");
        assert_eq!(read.bytes as usize, text[..cut].rfind('\n').map_or(0, |end| end + 1), "cut at {cut}");
    }
}

#[test]
fn a_line_that_makes_no_sense_is_named_by_its_number() {
    let begin = Line { time: time(0), event: Event::Begin }.text();
    for (line, said) in [
        ("yesterday,mark,,,,,,,,,,", "time \"yesterday\" must look like"),
        ("2027-01-31T08:00:00Z,party,,,,,,,,,,", "event \"party\" is unknown; there are begin, mark"),
        ("2027-01-31T08:00:00Z,begin,recording-9,,,,,,,,,", "format \"recording-9\" is unknown"),
        ("2027-01-31T08:00:00Z,mark", "it has 2 columns where the header has 12"),
        ("2027-01-31T08:00:00Z,ended,,,,,,,,,,", "name is missing, and ended needs it"),
        ("2027-01-31T08:00:00Z,bound,pod-1,,,,,,,,,", "node is missing, and bound needs it"),
        ("2027-01-31T08:00:00Z,use,pod-1,,-3,1,,,,,,", "cpu_milli \"-3\" must be a whole number from 0"),
        (
            "2027-01-31T08:00:00Z,pod,pod-1,,1,99999999999999,0,,0,ordinary,,",
            "memory_mib \"99999999999999\" must",
        ),
        (
            "2027-01-31T08:00:00Z,pod,pod-1,,1,1,0,,high,ordinary,,",
            "priority \"high\" must be a whole number",
        ),
        ("2027-01-31T08:00:00Z,pod,pod-1,,1,1,0,,0,odd,,", "class \"odd\" must be ordinary, daemon or"),
        ("2027-01-31T08:00:00Z,node,node-1,,1,1,0,110,,,ajar,", "state \"ajar\" must be open or closed"),
        ("2027-01-31T08:00:00Z,node,node-1,,1,1,0,110,,,open,ssd", "label \"ssd\" must be a key"),
    ] {
        let error = all(&format!("{HEADER}{begin}{line}\n")).unwrap_err();
        assert!(error.starts_with(&format!("line 3: {said}")), "{line}: {error}");
    }
    for text in ["kind,name\nnode,a\n", "notes", "\u{1}\u{2}\n"] {
        let error = all(text).unwrap_err();
        assert!(error.starts_with("line 1: it is not the header of a recording"), "{text:?}: {error}");
    }
    let refused = read(format!("{HEADER}{begin}").as_bytes(), |_, _| Err("it is not wanted".to_owned()));
    assert_eq!(refused.unwrap_err(), "line 2: it is not wanted");
}
