//! One line, from and to text.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{Class, Event, HEADER, Line, Node, Pod};

/// The version of the format, which stands in each line `begin`.
const VERSION: &str = "recording-1";

/// The most of a resource that a line may name: far more than any node has, and far from what a sum can hold.
const MOST: i64 = 1 << 40;

/// Columns of a line, by name.
#[derive(Debug, Default)]
struct Fields<'a> {
    name: &'a str,
    node: &'a str,
    cpu_milli: Option<i64>,
    memory_mib: Option<i64>,
    gpus: Option<i64>,
    max_pods: Option<i64>,
    priority: Option<i32>,
    class: &'a str,
    state: &'a str,
    labels: String,
}

impl Line {
    /// The line with its end.
    #[must_use]
    pub fn text(&self) -> String {
        let time = Timestamp::from_second(self.time.as_second()).unwrap_or(self.time);
        let (event, fields) = fields(&self.event);
        let number = |number: Option<i64>| number.map(|number| number.to_string()).unwrap_or_default();
        let columns = [
            time.to_string(),
            event.to_owned(),
            fields.name.to_owned(),
            fields.node.to_owned(),
            number(fields.cpu_milli),
            number(fields.memory_mib),
            number(fields.gpus),
            number(fields.max_pods),
            number(fields.priority.map(i64::from)),
            fields.class.to_owned(),
            fields.state.to_owned(),
            fields.labels,
        ];
        columns.join(",") + "\n"
    }

    /// The event of a line, which is given without its end.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let columns: Vec<&str> = text.split(',').collect();
        let most = HEADER.split(',').count();
        let [time, event, name, node, cpu, memory, gpus, pods, priority, class, state, labels] = columns[..]
        else {
            return Err(format!("it has {} columns where the header has {most}", columns.len()));
        };
        let time: Timestamp =
            time.parse().map_err(|_| format!("time {time:?} must look like 2027-01-31T08:00:00Z"))?;
        let amounts = || -> Result<(i64, i64), String> {
            Ok((amount("cpu_milli", cpu)?, amount("memory_mib", memory)?))
        };
        let name = || match name {
            "" => Err(format!("name is missing, and {event} needs it")),
            name => Ok(name.to_owned()),
        };
        let event = match event {
            // Of an old format nothing is known yet; a newer one has another version.
            "begin" if name()? != VERSION => {
                return Err(format!("format {:?} is unknown; this program reads {VERSION}", name()?));
            }
            "begin" => Event::Begin,
            "mark" => Event::Mark,
            "full" => Event::Full,
            "node" => {
                let (cpu_milli, memory_mib) = amounts()?;
                let (gpus, max_pods) = (amount("gpus", gpus)?, amount("max_pods", pods)?);
                let (is_open, labels) = (is_open(state)?, parse_labels(labels)?);
                Event::Node(Node { name: name()?, cpu_milli, memory_mib, gpus, max_pods, is_open, labels })
            }
            "node-gone" => Event::NodeGone { name: name()? },
            "pod" => {
                let (cpu_milli, memory_mib) = amounts()?;
                let gpus = amount("gpus", gpus)?;
                let wrong = |_| format!("priority {priority:?} must be a whole number");
                let priority = priority.parse().map_err(wrong)?;
                let class = parse_class(class)?;
                Event::Pod(Pod { name: name()?, cpu_milli, memory_mib, gpus, priority, class })
            }
            "bound" if node.is_empty() => return Err("node is missing, and bound needs it".to_owned()),
            "bound" => Event::Bound { name: name()?, node: node.to_owned() },
            "started" => Event::Started { name: name()? },
            "ended" => Event::Ended { name: name()? },
            "use" => {
                let (cpu_milli, memory_mib) = amounts()?;
                Event::Use { name: name()?, cpu_milli, memory_mib }
            }
            other => {
                let known = "begin, mark, full, node, node-gone, pod, bound, started, ended and use";
                return Err(format!("event {other:?} is unknown; there are {known}"));
            }
        };
        Ok(Self { time, event })
    }
}

fn fields(event: &Event) -> (&'static str, Fields<'_>) {
    let named = |name| Fields { name, ..Fields::default() };
    match event {
        Event::Begin => ("begin", named(VERSION)),
        Event::Mark => ("mark", Fields::default()),
        Event::Full => ("full", Fields::default()),
        Event::Node(node) => {
            let labels: Vec<String> =
                node.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let fields = Fields {
                cpu_milli: Some(node.cpu_milli),
                memory_mib: Some(node.memory_mib),
                gpus: Some(node.gpus),
                max_pods: Some(node.max_pods),
                state: if node.is_open { "open" } else { "closed" },
                labels: labels.join(" "),
                ..named(&node.name)
            };
            ("node", fields)
        }
        Event::NodeGone { name } => ("node-gone", named(name)),
        Event::Pod(pod) => {
            let fields = Fields {
                cpu_milli: Some(pod.cpu_milli),
                memory_mib: Some(pod.memory_mib),
                gpus: Some(pod.gpus),
                priority: Some(pod.priority),
                class: match pod.class {
                    Class::Ordinary => "ordinary",
                    Class::Daemon => "daemon",
                    Class::Scavenger => "scavenger",
                },
                ..named(&pod.name)
            };
            ("pod", fields)
        }
        Event::Bound { name, node } => ("bound", Fields { node, ..named(name) }),
        Event::Started { name } => ("started", named(name)),
        Event::Ended { name } => ("ended", named(name)),
        Event::Use { name, cpu_milli, memory_mib } => {
            let (cpu_milli, memory_mib) = (Some(*cpu_milli), Some(*memory_mib));
            ("use", Fields { cpu_milli, memory_mib, ..named(name) })
        }
    }
}

fn amount(name: &str, text: &str) -> Result<i64, String> {
    match text.parse() {
        Ok(amount) if (0..MOST).contains(&amount) => Ok(amount),
        _ => Err(format!("{name} {text:?} must be a whole number from 0 to {}", MOST - 1)),
    }
}

fn is_open(state: &str) -> Result<bool, String> {
    match state {
        "open" => Ok(true),
        "closed" => Ok(false),
        other => Err(format!("state {other:?} must be open or closed")),
    }
}

fn parse_class(class: &str) -> Result<Class, String> {
    match class {
        "ordinary" => Ok(Class::Ordinary),
        "daemon" => Ok(Class::Daemon),
        "scavenger" => Ok(Class::Scavenger),
        other => Err(format!("class {other:?} must be ordinary, daemon or scavenger")),
    }
}

fn parse_labels(text: &str) -> Result<BTreeMap<String, String>, String> {
    let pair = |label: &str| {
        let pair = label.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        pair.ok_or_else(|| format!("label {label:?} must be a key, \"=\" and a value"))
    };
    text.split_whitespace().map(pair).collect()
}
