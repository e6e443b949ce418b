//! What mdrun writes to standard error with `-v`, which is the log of its pod.
//!
//! Progress lines end in a carriage return, not a newline, so a container runtime holds them back until 16 kB have
//! come together; [`step_interval`] chooses `-stepout` accordingly.

/// What a log says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogFacts {
    /// Step at which mdrun started; 0 if it did not continue from a checkpoint. None if the start is not in the text.
    pub first_step: Option<i64>,
    /// Last step it printed.
    pub last_step: Option<i64>,
    /// Seconds it thought to need from there.
    pub remaining_seconds: Option<f64>,
    /// True if it wrote the final coordinates: at the last step of the run input file, or where a minimisation ends.
    pub reached_the_end: bool,
    /// The largest force at the end of a minimisation, kJ/mol/nm; not finite where atoms overlap.
    pub largest_force: Option<f64>,
    /// Speed of its last `Performance:` line: ns per day.
    pub ns_per_day: Option<f64>,
    /// Wall time beside it, in seconds.
    pub wall_seconds: Option<f64>,
    /// Which checkpoint took the place of one that cannot be read, as the script says that starts mdrun; one line for each
    /// simulation.
    pub restored: Vec<String>,
}

/// What the script says in such a line, behind the simulation's name where there are several.
const RESTORED: &str = "goes on from state_prev.cpt at step ";

/// What mdrun says at its last step: of dynamics, and of a minimisation.
const ENDS: [&str; 2] = ["Writing final coordinates", "writing lowest energy coordinates"];

/// Reads a log or a part of it.
#[must_use]
pub fn parse(text: &str) -> LogFacts {
    let mut facts = LogFacts::default();
    let mut started = false;
    // What comes after the last line end may be cut off in the middle of a number.
    let whole = text.rfind(['\n', '\r']).map_or("", |end| &text[..end]);
    for line in whole.split(['\n', '\r']).map(str::trim) {
        if line.starts_with("starting mdrun") {
            // Only what follows the last start counts, and how that was made possible.
            facts = LogFacts { restored: facts.restored, ..LogFacts::default() };
            started = true;
        } else if !started && line.contains(RESTORED) {
            facts.restored.push(line.to_owned());
        } else if is_start_of_minimisation(line) {
            facts = LogFacts { first_step: Some(0), ..LogFacts::default() };
        } else if let Some(first_step) = start_line(line).filter(|_| started && facts.first_step.is_none()) {
            facts.first_step = Some(first_step);
        } else if let Some(step) = minimised_line(line) {
            facts.last_step = Some(step);
        } else if let Some((step, remaining)) = progress_line(line) {
            facts.last_step = Some(step);
            facts.remaining_seconds = remaining;
        } else if ENDS.iter().any(|words| line.starts_with(words)) {
            facts.reached_the_end = true;
        } else if let Some(force) = line.strip_prefix("Maximum force").and_then(force_behind) {
            facts.largest_force = Some(force);
        } else if let Some(rest) = line.strip_prefix("Performance:") {
            facts.ns_per_day = positive(rest.split_whitespace().next());
        } else if let Some(rest) = line.strip_prefix("Time:") {
            facts.wall_seconds = positive(rest.split_whitespace().nth(1));
        }
    }
    facts
}

/// `4000 steps,      8.0 ps (continuing from step 1120,      2.2 ps).`, or without the bracket.
fn start_line(line: &str) -> Option<i64> {
    let (count, rest) = line.split_once(" steps,")?;
    if count != "-1" && count.parse::<u64>().is_err() {
        return None;
    }
    match rest.split_once("continuing from step ") {
        Some((_, behind)) => behind.split(',').next()?.trim().parse().ok(),
        None => Some(0),
    }
}

/// `Number of steps    =           50`, where a minimisation begins: always from the beginning.
fn is_start_of_minimisation(line: &str) -> bool {
    line.strip_prefix("Number of steps").is_some_and(|rest| rest.trim_start().starts_with('='))
}

/// `Step=   33, Dmax= 1.0e-02 nm, Epot= -9.9e+03 Fmax= 8.6e+02, atom= 103`, or `Step 3, Epot=-1.42e+00, Fnorm=...`.
fn minimised_line(line: &str) -> Option<i64> {
    let (step, rest) = line.strip_prefix("Step")?.trim_start_matches('=').split_once(',')?;
    rest.contains("Epot=").then(|| step.trim().parse().ok())?
}

/// `step 1200, remaining wall clock time:    17 s`, `step 20` or `step 1200, will finish Sat Nov 21 10:00:00 2026`. With
/// several domains the load stands behind it: `step 40vol 0.92! imb F  5%`. A build for library MPI begins no line with
/// a carriage return, and has the load in front of the next step.
fn progress_line(line: &str) -> Option<(i64, Option<f64>)> {
    let (before, rest) = line.split_once("step ")?;
    let rest = rest.trim_start();
    let (step, behind) = rest.split_at(rest.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(rest.len()));
    if !is_load(before) || !(behind.starts_with(',') || is_load(behind)) {
        return None;
    }
    let remaining = behind
        .strip_prefix(", remaining wall clock time:")
        .and_then(|time| time.split_whitespace().next()?.parse().ok());
    Some((step.parse().ok()?, remaining))
}

/// True for a line that says how far mdrun is, and nothing else.
pub(crate) fn is_progress(line: &str) -> bool {
    progress_line(line).is_some()
}

/// True for words on the load of the domains, such as `vol 0.94! imb F  2% pme/F 0.92`, and for none at all.
fn is_load(words: &str) -> bool {
    words.split_whitespace().all(|word| {
        matches!(word, "vol" | "imb" | "F" | "pme/F")
            || word.trim_end_matches(['%', '!']).parse::<f64>().is_ok()
    })
}

/// `     =            inf on atom 1`, where the name of the force stands in front.
fn force_behind(line: &str) -> Option<f64> {
    line.trim_start().strip_prefix('=')?.split_whitespace().next()?.parse().ok()
}

fn positive(text: Option<&str>) -> Option<f64> {
    text?.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0)
}

/// Titles of messages that blame what the program was given.
const OF_INPUT: [&str; 3] =
    ["Error in user input:", "Inconsistency in user input:", "Feature not implemented:"];

/// The message of a GROMACS program that gave up, as one line; none if the text holds no such message.
#[must_use]
pub fn error_message(text: &str) -> Option<String> {
    last_message(text).map(|message| message.text)
}

/// The last message of a GROMACS program that gave up.
pub(crate) fn last_message(text: &str) -> Option<Message> {
    const TITLES: [&str; 7] = [
        "Fatal error:",
        "File input/output error:",
        "Internal error (bug):",
        "Assertion failed:",
        "System I/O error:",
        "File not found:",
        "Simulation instability detected:",
    ];
    let lines: Vec<&str> = text.split(['\n', '\r']).map(str::trim).collect();
    let is_title = |line: &str| TITLES.contains(&line) || OF_INPUT.contains(&line);
    let mut titles: Vec<usize> = (0..lines.len()).filter(|at| is_title(lines[*at])).collect();
    if titles.is_empty() {
        titles = titles_of_programs(&lines);
    }
    // Ranks say the same at the same time, and the first one that ends cuts off the others in the middle of a word.
    let mut messages: Vec<Message> = titles.into_iter().rev().map(|title| message(&lines[title..])).collect();
    let last = messages.iter().position(|message| message.is_whole).unwrap_or(0);
    (!messages.is_empty()).then(|| messages.swap_remove(last)).filter(|last| !last.text.is_empty())
}

/// What a program says when it gives up.
pub(crate) struct Message {
    /// What stands below its title, as one line.
    pub(crate) text: String,
    /// True if its title blames what the program was given.
    pub(crate) blames_input: bool,
    /// True if it has words, and an end with more behind it.
    is_whole: bool,
}

/// The message whose title is the first of `lines`.
fn message(lines: &[&str]) -> Message {
    let (title, below) = lines.split_first().unwrap_or((&"", &[]));
    let is_end = |line: &&str| line.is_empty() || line.starts_with("For more information");
    let end = below.iter().position(is_end).unwrap_or(below.len());
    let text = below[..end].join(" ");
    Message {
        is_whole: !text.is_empty() && end + 1 < below.len(),
        blames_input: OF_INPUT.contains(title),
        text,
    }
}

/// Titles are many, and change with releases. All stand behind an empty line in the block that begins with the name of the
/// program.
fn titles_of_programs(lines: &[&str]) -> Vec<usize> {
    let programs = (0..lines.len()).filter(|at| lines[*at].starts_with("Program:"));
    let titles = programs.filter_map(|program| {
        let title = program + lines[program..].iter().position(|line| line.is_empty())? + 1;
        lines.get(title).filter(|line| line.ends_with(':')).map(|_| title)
    });
    titles.collect()
}

/// What mdrun says behind its last words: how fast it was, and where the load was.
const ACCOUNTS: [&str; 3] = ["Core t (s)", "Dynamic load balancing report:", "NOTE:"];

/// The last line in which mdrun says something of its run: not of its progress, load or speed. None if there is none.
#[must_use]
pub fn last_words(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.split(['\n', '\r']).map(str::trim).collect();
    let started = lines.iter().rposition(|line| line.starts_with("starting mdrun"))?;
    let lines = lines.get(started + 1..)?;
    let end = lines.iter().position(|line| ACCOUNTS.iter().any(|words| line.starts_with(words)));
    let is_said = |line: &&&str| {
        !is_load(line)
            && start_line(line).is_none()
            && progress_line(line).is_none()
            && minimised_line(line).is_none()
    };
    lines[..end.unwrap_or(lines.len())].iter().rfind(is_said).map(|line| (*line).to_owned())
}

/// How much of the end of a failed log is kept.
const KEPT_LINES: usize = 40;
const KEPT_BYTES: usize = 4096;

/// The last lines of a log for people, without empty ones, and without the thousands of lines on progress and load; none
/// if there are none.
#[must_use]
pub fn last_lines(text: &str) -> Option<String> {
    let mut kept: Vec<&str> = Vec::new();
    let mut bytes = 0;
    for line in text.rsplit(['\n', '\r']).map(str::trim_end) {
        let trimmed = line.trim();
        if is_load(trimmed) || progress_line(trimmed).is_some() || minimised_line(trimmed).is_some() {
            continue;
        }
        bytes += line.len() + 1;
        if kept.len() == KEPT_LINES || bytes > KEPT_BYTES {
            break;
        }
        kept.push(line);
    }
    kept.reverse();
    (!kept.is_empty()).then(|| kept.join("\n"))
}

/// Progress line as a container runtime counts it.
const PROGRESS_LINE_BYTES: f64 = 55.0;

/// How much a container runtime collects before it writes a line that does not end (containerd, CRI-O).
const RUNTIME_BUFFER_BYTES: f64 = 16384.0;

/// Seconds between two signs of progress: about two hundred in the run, and at least one every 2 minutes, but not more often
/// than every 2 seconds.
#[must_use]
pub fn progress_seconds(hours_to_finish: Option<f64>) -> f64 {
    (hours_to_finish.unwrap_or(24.0) * 3600.0 / 200.0).clamp(2.0, 120.0)
}

/// Steps between progress lines (`-stepout`), such that progress shows up every [`progress_seconds`].
#[must_use]
pub fn step_interval(ns_per_day: f64, dt_ps: f64, hours_to_finish: Option<f64>) -> i64 {
    let steps_per_second = ns_per_day * 1000.0 / dt_ps / 86400.0;
    let lines_per_buffer = RUNTIME_BUFFER_BYTES / PROGRESS_LINE_BYTES;
    let interval = steps_per_second * progress_seconds(hours_to_finish) / lines_per_buffer;
    if interval.is_finite() { (interval as i64).clamp(1, 1_000_000) } else { 100 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_no_progress_and_no_account() {
        let words = |text: &str| last_words(text);
        let terminated = include_str!("../tests/fixtures/mdrun-terminated.txt");
        assert_eq!(words(terminated).as_deref(), Some("Received the TERM signal, stopping within 40 steps"));
        let newer = include_str!("../tests/fixtures/mdrun-2025.txt");
        assert_eq!(words(newer).as_deref(), Some("Received the TERM signal, stopping within 200 steps"));
        let balanced = "starting mdrun 'W'\n400 steps, 0.8 ps.\nstep 100\rIt ends.\n\nDynamic load balancing report:\n \
                        DLB was off\n Average load imbalance: 3.2%.\n\n";
        assert_eq!(words(balanced).as_deref(), Some("It ends."));
        for silent in ["", "starting mdrun 'W'\n400 steps, 0.8 ps.\nstep 100\r", "no start\nIt ends.\n"] {
            assert_eq!(words(silent), None, "{silent}");
        }
    }

    #[test]
    fn a_message_that_another_rank_cut_off_is_not_the_last_word() {
        // Two ranks of GROMACS 2022.5; the first one that has printed it ends the process.
        let block = |rank: usize, title: &str| {
            format!(
                "\n-------------------------------------------------------\n\
                 Program:     gmx mdrun, version 2022.5-Debian_2022.5_2\n\
                 Source file: src/gromacs/listed_forces/disre.cpp (line 168)\nMPI rank:    {rank} (out of 2)\n\n\
                 {title}\nWith MPI parallelization distance-restraint pair output is not supported. Use\n\
                 nstdisreout=0 or use OpenMP parallelization on a single node.\n\n\
                 For more information and tips for troubleshooting, please check the GROMACS\n\
                 website at http://www.gromacs.org/Documentation/Errors\n\
                 -------------------------------------------------------\n"
            )
        };
        for title in ["Fatal error:", "A title of a later release:"] {
            let (first, second) = (block(1, title), block(0, title));
            let whole = error_message(&first).expect("it is whole");
            assert!(whole.starts_with("With MPI") && whole.ends_with("single node."), "{whole}");
            for cut in 0..=second.len() {
                let text = format!("{first}{}", &second[..cut]);
                assert_eq!(error_message(&text).as_ref(), Some(&whole), "{text}");
            }
        }
    }

    #[test]
    fn a_run_that_was_terminated_did_not_reach_its_end() {
        let facts = parse(include_str!("../tests/fixtures/mdrun-terminated.txt"));
        assert_eq!(
            facts,
            LogFacts {
                first_step: Some(0),
                last_step: Some(1120),
                remaining_seconds: Some(15.0),
                reached_the_end: false,
                largest_force: None,
                ns_per_day: Some(31.422),
                wall_seconds: Some(6.165),
                restored: Vec::new(),
            }
        );
    }

    #[test]
    fn a_run_that_continued_tells_from_where() {
        let facts = parse(include_str!("../tests/fixtures/mdrun-continued.txt"));
        assert_eq!(
            (facts.first_step, facts.last_step, facts.reached_the_end),
            (Some(1120), Some(4000), true)
        );
        assert_eq!(facts.ns_per_day, Some(29.768));
    }

    #[test]
    fn minimisations_tell_their_steps_and_their_end() {
        // As 2022.5 prints them; the lines of steepest descents end in a carriage return.
        let text = "Steepest Descents:\n   Tolerance (Fmax)   =  1.0e+01\n   Number of steps    =           50\n\
            Step=    0, Dmax= 1.0e-02 nm, Epot= -9.92931e+03 Fmax= 8.59929e+02, atom= 103\r\
            Step=   50, Dmax= 5.0e-03 nm, Epot= -1.16489e+04 Fmax= 2.94433e+02, atom= 202\n";
        let facts = parse(text);
        assert_eq!((facts.first_step, facts.last_step, facts.reached_the_end), (Some(0), Some(50), false));
        assert!(parse(&format!("{text}\nwriting lowest energy coordinates.\n")).reached_the_end);
        let conjugate = "   Number of steps    =           50\n\nStep 3, Epot=-1.423153e+00, Fnorm=6.074e-02, Fmax=8.628e-02 \
            (atom 33)\n";
        assert_eq!(parse(conjugate).last_step, Some(3));
        // The next attempt begins again.
        assert_eq!(parse(&format!("{text}{conjugate}")).last_step, Some(3));
        assert_eq!(last_lines(text).map(|kept| kept.lines().count()), Some(3));
    }

    #[test]
    fn the_largest_force_of_a_minimisation_is_read_whether_it_is_finite_or_not() {
        let force = |text: &str| parse(&format!("{text}\n")).largest_force;
        assert_eq!(force("Maximum force     =  8.59929e+02 on atom 103"), Some(859.929));
        assert_eq!(force("Maximum force     =            inf on atom 1"), Some(f64::INFINITY));
        assert!(force("Maximum force     =            nan on atom 1").is_some_and(f64::is_nan));
        assert!(force("Maximum force     =           -nan on atom 1").is_some_and(f64::is_nan));
        // Two atoms on each other, as 2022.5 prints it.
        let seen = parse(include_str!("../tests/fixtures/minimisation-infinite.txt"));
        assert!(seen.reached_the_end && seen.largest_force == Some(f64::INFINITY), "{seen:?}");
        assert_eq!(force("Maximum force is large"), None);
        assert_eq!(force("Norm of force     =            inf"), None);
    }

    /// Terminated again after it had continued; the last steps are those of the checkpoints.
    #[test]
    fn releases_before_and_after_are_read_the_same() {
        let older = parse(include_str!("../tests/fixtures/mdrun-2020.txt"));
        assert_eq!((older.first_step, older.last_step, older.reached_the_end), (Some(320), Some(600), false));
        let newer = parse(include_str!("../tests/fixtures/mdrun-2025.txt"));
        assert_eq!(
            (newer.first_step, newer.last_step, newer.reached_the_end),
            (Some(520), Some(1120), false)
        );
        assert_eq!((newer.remaining_seconds, newer.ns_per_day), (Some(41.0), Some(11.978)));
    }

    #[test]
    fn a_run_that_had_finished_before_says_so_again() {
        let facts = parse(include_str!("../tests/fixtures/mdrun-again.txt"));
        assert_eq!(
            (facts.first_step, facts.last_step, facts.reached_the_end),
            (Some(4000), Some(4000), true)
        );
    }

    #[test]
    fn the_end_of_a_log_is_enough_for_progress() {
        let facts = parse(
            "ll clock time:    16 s          \rstep 20, remaining wall clock time:     5 s      \rstep 4",
        );
        // `step 4` may be the beginning of `step 40`.
        assert_eq!((facts.first_step, facts.last_step), (None, Some(20)));
        let long = parse("step 1200, will finish Sat Nov 21 10:00:00 2026\r");
        assert_eq!((long.last_step, long.remaining_seconds), (Some(1200), None));
    }

    /// Two domains, with `-dlb yes`.
    #[test]
    fn the_load_of_several_domains_hides_no_progress() {
        let text = include_str!("../tests/fixtures/mdrun-domains.txt");
        let facts = parse(text);
        assert_eq!((facts.first_step, facts.last_step, facts.reached_the_end), (Some(0), Some(100), true));
        let end = last_lines(text).expect("should keep the end");
        assert!(!end.contains("imb F") && !end.contains("step 98"), "{end}");
        for (line, step, remaining) in [
            // Thread-MPI: behind the line before.
            ("step 7vol 0.95! imb F  4% ", 7, None),
            (
                "step 40, remaining wall clock time:     3 s          vol 0.92! imb F  5% pme/F 0.92 ",
                40,
                Some(3.0),
            ),
            ("step 40, will finish Sat Nov 21 10:00:00 2026imb F  1% ", 40, None),
            // Library MPI: in front of the next one.
            (
                "vol 0.94  imb F  2% pme/F 0.92 step 10000, remaining wall clock time:     0 s",
                10_000,
                Some(0.0),
            ),
            ("imb F  1% step 25, will finish Wed Nov 25 04:10:23 2026", 25, None),
        ] {
            assert_eq!(progress_line(line.trim()), Some((step, remaining)), "{line}");
        }
        for line in [
            "step 80 Turning on dynamic load balancing, because the performance loss is 3.2 %.",
            "step  200: timed with pme grid 42 42 42, coulomb cutoff 0.900: 1234.5 M-cycles",
            "step 0: One or more water molecules can not be settled.",
            "Note: at step 5, remaining",
        ] {
            assert_eq!(progress_line(line), None, "{line}");
        }
    }

    #[test]
    fn only_the_last_start_and_the_last_performance_count() {
        let text = format!(
            "{}{}",
            include_str!("../tests/fixtures/mdrun-terminated.txt"),
            include_str!("../tests/fixtures/mdrun-continued.txt")
        );
        assert_eq!(parse(&text), parse(include_str!("../tests/fixtures/mdrun-continued.txt")));
    }

    #[test]
    fn garbage_says_nothing() {
        assert_eq!(parse("step x\nPerformance: nan\nTime: 1\n4 steps,\u{0}"), LogFacts::default());
        assert_eq!(parse(""), LogFacts::default());
    }

    #[test]
    fn gromacs_own_message_is_found() {
        assert_eq!(
            error_message(include_str!("../tests/fixtures/dump-newer.txt")).as_deref(),
            Some("reading tpx file (newer.tpr) version 143 with version 127 program")
        );
        let missing =
            error_message(include_str!("../tests/fixtures/mdrun-no-file.txt")).expect("should be there");
        assert!(missing.contains("File 'nope.tpr' does not exist or is not accessible."), "{missing}");
        assert_eq!(error_message("GROMACS reminds you"), None);
    }

    #[test]
    fn a_message_is_found_whatever_its_title() {
        for title in [
            "Range checking error",
            "Parallel consistency error",
            "Memory allocation/freeing error",
            "Software inconsistency error",
            "Communication (parallel processing) problem",
        ] {
            let text = format!(
                "starting mdrun 'W'\n\n-------\nProgram:     gmx mdrun, version 2022.5\nSource file: x.cpp (line 1)\n\
                 MPI rank:    0 (out of 2)\n\n{title}:\nOne or more atoms moved\ntoo far.\n\nFor more information\n"
            );
            assert_eq!(error_message(&text).as_deref(), Some("One or more atoms moved too far."), "{title}");
        }
        assert_eq!(error_message("Program:     gmx mdrun\n\nno title\n"), None);
    }

    #[test]
    fn progress_lines_fill_the_runtimes_buffer_in_time() {
        // 78 ns/day at 2 fs are 451 steps/s. A run of 2 minutes shows progress every 2 s: 298 lines in 903 steps.
        assert_eq!(step_interval(78.0, 0.002, Some(2.0 / 60.0)), 3);
        assert_eq!(step_interval(78.0, 0.002, Some(100.0)), 181);
        assert_eq!(step_interval(0.01, 0.002, Some(100.0)), 1);
        assert_eq!(step_interval(f64::NAN, 0.002, None), 100);
    }

    #[test]
    fn the_end_of_a_failed_log_is_kept_without_its_progress() {
        let progress: String =
            (0..1000).map(|step| format!("\rstep {step}, remaining wall clock time:  1 s")).collect();
        let text =
            format!("starting mdrun 'W'\n{progress}\n\nFatal error:\nToo many LINCS warnings (1001)\n\n");
        assert_eq!(
            last_lines(&text).as_deref(),
            Some("starting mdrun 'W'\nFatal error:\nToo many LINCS warnings (1001)")
        );
        assert_eq!(last_lines("\n \n\rstep 1\r"), None);
        let long: String = (0..1000).map(|line| format!("line {line}\n")).collect();
        let kept = last_lines(&long).expect("should keep the end");
        assert_eq!((kept.lines().count(), kept.lines().last()), (KEPT_LINES, Some("line 999")));
        assert!(last_lines(&"x".repeat(KEPT_BYTES + 1)).is_none(), "one endless line is no line");
    }
}
