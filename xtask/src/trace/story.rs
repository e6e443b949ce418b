//! What a test gave the planner, and the first of its answers that differs, as text.

use std::fmt::Write as _;

/// Lines that are the same, shown around those that differ.
const AROUND: usize = 3;

/// One plan of a trace.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan<'a> {
    /// What the planner was given since the plan before.
    given: Vec<&'a str>,
    /// The time, and the answer.
    answer: Vec<&'a str>,
    hash: &'a str,
}

/// The first plan that differs between two traces, what was given before it, and both answers.
pub(super) fn of(before: &str, now: &str, most: usize) -> String {
    let (before, now) = (plans(before), plans(now));
    let same = before.iter().zip(&now).take_while(|(before, now)| before.hash == now.hash).count();
    let mut text = String::new();
    let (old, new) = match (before.get(same), now.get(same)) {
        (None, None) => return format!("all {same} plans are the same\n"),
        (Some(_), None) => return format!("{} plans, and now only the first {same} of them\n", before.len()),
        (None, Some(_)) => {
            return format!("the {same} plans are the same, and now {} come after them\n", now.len() - same);
        }
        (Some(old), Some(new)) => (old, new),
    };
    let _ = writeln!(text, "plan {} of {} differs", same + 1, now.len());
    let given: Vec<&str> = now[..=same].iter().flat_map(|plan| plan.given.iter().copied()).collect();
    let left_out = given.len().saturating_sub(most);
    let _ = writeln!(text, "\nThe planner was given (after {left_out} other things):");
    for line in &given[left_out..] {
        let _ = writeln!(text, "  {line}");
    }
    if old.given != new.given {
        text.push_str("\nThe test itself gives it something else than before:\n");
        text.push_str(&difference(&old.given, &new.given));
    }
    let _ = writeln!(text, "\nIts answer at {}, - before, + now:", new.answer.first().unwrap_or(&""));
    text.push_str(&difference(&old.answer, &new.answer));
    text
}

fn plans(trace: &str) -> Vec<Plan<'_>> {
    let mut all = Vec::new();
    let mut plan = Plan::default();
    for line in trace.lines() {
        if let Some(given) = line.strip_prefix("< ") {
            plan.given.push(given);
        } else if let Some(hash) = line.strip_prefix("= ") {
            plan.hash = hash;
            all.push(std::mem::take(&mut plan));
        } else {
            plan.answer.push(line.strip_prefix("> ").unwrap_or(line));
        }
    }
    all
}

/// The lines between the first and the last that differ, with a few around them.
fn difference(before: &[&str], now: &[&str]) -> String {
    let head = before.iter().zip(now).take_while(|(before, now)| before == now).count();
    let rest = |lines: &[&str]| lines.len() - head;
    let tail = before.iter().rev().zip(now.iter().rev()).take_while(|(before, now)| before == now).count();
    let tail = tail.min(rest(before)).min(rest(now));
    let mut text = String::new();
    let mut show = |mark: &str, lines: &[&str]| {
        for line in lines {
            let _ = writeln!(text, "{mark} {line}");
        }
    };
    show(" ", &now[head.saturating_sub(AROUND)..head]);
    show("-", &before[head..before.len() - tail]);
    show("+", &now[head..now.len() - tail]);
    let end = now.len() - tail;
    show(" ", &now[end..(end + AROUND).min(now.len())]);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "< a node\n> 08:00\nPlan {\n    start a,\n}\n= 1\n< a pod\n< a job\n> 08:01\nPlan {\n    wait,\n}\n= 2\n";

    #[test]
    fn the_first_plan_that_differs_is_shown_with_what_came_before_it() {
        let now = BEFORE.replace("    wait,", "    start b,").replace("= 2", "= 3");
        let expected = "plan 2 of 2 differs\n\nThe planner was given (after 1 other things):\n  a pod\n  a job\n\nIts answer at \
                        08:01, - before, + now:\n  08:01\n  Plan {\n-     wait,\n+     start b,\n  }\n";
        assert_eq!(of(BEFORE, &now, 2), expected);
    }

    #[test]
    fn a_test_that_gives_something_else_is_no_change_of_the_planner() {
        let now = BEFORE.replace("a job", "another job").replace("= 2", "= 3");
        let story = of(BEFORE, &now, 10);
        assert!(story.contains("The test itself gives it something else"), "{story}");
        assert!(story.contains("- a job\n+ another job\n"), "{story}");
    }

    #[test]
    fn traces_of_other_lengths_are_told() {
        let more = format!("{BEFORE}> 08:02\nPlan\n= 3\n");
        assert_eq!(of(BEFORE, BEFORE, 5), "all 2 plans are the same\n");
        assert_eq!(of(BEFORE, &more, 5), "the 2 plans are the same, and now 1 come after them\n");
        assert_eq!(of(&more, BEFORE, 5), "3 plans, and now only the first 2 of them\n");
    }
}
