//! Which candidates become configurations of the ladder.
//!
//! A line is what is predicted on one kind of hardware, with or without its GPU. Lines are chosen one by one: what
//! one kind of hardware offers is no reason to leave out another, which may be what has capacity when it counts.

use scavenger_schema::bounds::{Bounds, WHOLE_CORE};
use scavenger_schema::tuning::{Layout, Limits, Resources};

use super::candidates::{Candidate, Question, price};
use crate::hardware::Hardware;

/// Speed of a configuration relative to the one before it in its line. More often is a small gain for a whole round of
/// waiting; less often leaves out what would have had capacity.
const SPEED_STEP: Bounds<f64> = Bounds { min: 0.35, max: 0.6 };
/// Relative speeds that are aimed at in turn until there are no more configurations than asked for. The last ones are
/// below the least step: the limit on their number counts more.
const TARGETS: [f64; 9] = [0.6, 0.55, 0.5, 0.45, 0.4, 0.35, 0.2, 0.1, 0.03];

/// The candidates of one kind of hardware.
pub(crate) struct Line {
    /// Without a GPU, if the candidates use none.
    hardware: Hardware,
    /// Best speed per core on it, for what uses no GPU.
    best_per_core: f64,
    /// Best speed in all.
    fastest: f64,
    /// Best speed per price.
    best_value: f64,
    /// Most CPU of a candidate.
    most_cpu: u32,
    /// Those that are not dominated, fastest first.
    candidates: Vec<Candidate>,
}

impl Line {
    fn of(question: &Question<'_>, hardware: Hardware, all: &[&Candidate]) -> Self {
        let mut line = Self {
            hardware,
            best_per_core: 0.0,
            fastest: 0.0,
            best_value: 0.0,
            most_cpu: 0,
            candidates: Vec::new(),
        };
        for candidate in all {
            line.best_per_core = line.best_per_core.max(per_core(candidate.alone, &candidate.resources));
            line.fastest = line.fastest.max(candidate.speed);
            line.best_value = line.best_value.max(candidate.value());
            line.most_cpu = line.most_cpu.max(candidate.resources.cpu_millicores);
        }
        // Its small configurations may be predicted on slower hardware that holds them too. Efficiency would then be
        // relative to a configuration with many cores, so a single core of the node of the largest is looked at as well.
        let largest = all.iter().max_by_key(|one| one.resources.cpu_millicores);
        if let Some(on) = largest.map(|one| one.slowest).filter(|_| hardware.gpu.is_none()) {
            let memory_bytes = all.iter().map(|one| one.resources.memory_bytes).min().unwrap_or(0);
            let core = Resources { cpu_millicores: WHOLE_CORE, memory_bytes, gpus: 0 };
            let &Question { model, job, .. } = question;
            let speed = model.speed_alone(job, &Hardware { gpu: None, ..on }, &Layout::cpu(1, 1), WHOLE_CORE);
            line.best_per_core = line.best_per_core.max(speed);
            line.best_value = line.best_value.max(speed / price(&core, &question.limits.weights));
        }
        line
    }

    /// Parallel efficiency, 0 to 1. Without a GPU: speed per core relative to the best speed per core on this hardware, as if
    /// nothing else ran there.
    /// With a GPU: speed relative to the best with that GPU, whatever the cores beside it.
    pub(crate) fn efficiency(&self, candidate: &Candidate) -> f64 {
        let share = if self.hardware.gpu.is_some() {
            candidate.speed / self.fastest
        } else {
            per_core(candidate.alone, &candidate.resources) / self.best_per_core
        };
        share.min(1.0)
    }

    /// True if the candidate is predicted on the hardware of this line.
    pub(crate) fn is_of(&self, candidate: &Candidate) -> bool {
        hardware_of(candidate) == self.hardware
    }

    /// True if no candidate of the line has more CPU.
    pub(crate) fn is_largest(&self, candidate: &Candidate) -> bool {
        candidate.resources.cpu_millicores >= self.most_cpu
    }

    fn pays(&self, candidate: &Candidate, limits: &Limits) -> bool {
        candidate.value() >= limits.min_efficiency * self.best_value
    }
}

fn hardware_of(candidate: &Candidate) -> Hardware {
    let gpu = candidate.slowest.gpu.filter(|_| candidate.resources.gpus > 0);
    // Nodes of all sizes are of one kind.
    Hardware { gpu, node_cpus: None, ..candidate.slowest }
}

fn per_core(speed: f64, resources: &Resources) -> f64 {
    speed / f64::from(resources.cpu_millicores) * f64::from(WHOLE_CORE)
}

/// The lines of all candidates, those of equal hardware together.
pub(crate) fn lines_of(question: &Question<'_>, all: &[Candidate]) -> Vec<Line> {
    let mut groups: Vec<(Hardware, Vec<&Candidate>)> = Vec::new();
    for candidate in all {
        let hardware = hardware_of(candidate);
        match groups.iter_mut().find(|(known, _)| *known == hardware) {
            Some((_, group)) => group.push(candidate),
            None => groups.push((hardware, vec![candidate])),
        }
    }
    let lines = groups.into_iter().map(|(hardware, group)| {
        let mut line = Line::of(question, hardware, &group);
        line.candidates = group.into_iter().filter(|one| !is_dominated(one, all)).cloned().collect();
        line.candidates.sort_by(|a, b| {
            b.speed.total_cmp(&a.speed).then(a.resources.cpu_millicores.cmp(&b.resources.cpu_millicores))
        });
        line
    });
    lines.collect()
}

/// True if another candidate that may run wherever this one may asks for no more of anything and is faster, or as fast
/// with less. The price plays no part: a GPU that is cheap for its speed is of no use while others have it.
pub(crate) fn is_dominated(one: &Candidate, all: &[Candidate]) -> bool {
    all.iter().any(|other| dominates(other, one))
}

fn dominates(other: &Candidate, one: &Candidate) -> bool {
    let is_for_more =
        || other.bound.is_none() || (one.bound.is_some() && hardware_of(one) == hardware_of(other));
    let is_less = other.resources != one.resources && other.resources.fits_in(&one.resources);
    other.speed >= one.speed && is_less && is_for_more()
}

/// A configuration of the ladder.
pub(crate) struct Chosen<'l> {
    pub(crate) candidate: Candidate,
    pub(crate) line: &'l Line,
    /// Speed and CPU of the one before it in its line.
    pub(crate) above: Option<(f64, u32)>,
}

/// Picks the configurations: of each line the largest that pays, then at steps of speed; fastest first.
pub(crate) fn choose<'l>(question: &Question<'_>, lines: &'l [Line], all: &[Candidate]) -> Vec<Chosen<'l>> {
    let most = question.limits.max_configurations as usize;
    let mut by_line = by_steps(question, lines, most);
    // Nothing pays where the limit is high and a core of a kind is better than all that it offers: the best counts then.
    if by_line.iter().all(Vec::is_empty) {
        let best =
            all.iter().filter(|one| one.bound.is_none()).max_by(|a, b| a.value().total_cmp(&b.value()));
        let place = |best: &&Candidate| lines.iter().position(|line| line.candidates.contains(best));
        if let Some((best, line)) = best.and_then(|best| Some((best, place(&best)?))) {
            by_line[line].push(best.clone());
        }
    }
    let mut chosen: Vec<(usize, Chosen<'l>)> = Vec::new();
    for (line, candidates) in lines.iter().zip(by_line) {
        let mut above = None;
        for (place, candidate) in candidates.into_iter().enumerate() {
            let next = Some((candidate.speed, candidate.resources.cpu_millicores));
            chosen.push((place, Chosen { candidate, line, above }));
            above = next;
        }
    }
    // Where there are more lines than places, the first of each counts more than the second of any.
    chosen.sort_by(|(a_place, a), (b_place, b)| a_place.cmp(b_place).then(fastest_first(a, b)));
    chosen.truncate(most);
    let mut chosen: Vec<Chosen<'l>> = chosen.into_iter().map(|(_, chosen)| chosen).collect();
    chosen.sort_by(fastest_first);
    chosen
}

/// The configurations of each line, `most` in all if steps of any length allow that. What is for one kind of node alone gives
/// way to what may run anywhere, the slowest first.
fn by_steps(question: &Question<'_>, lines: &[Line], most: usize) -> Vec<Vec<Candidate>> {
    let at = |target: f64, whole: bool| -> Vec<Vec<Candidate>> {
        lines.iter().map(|line| spaced(question, line, whole, target)).collect()
    };
    let count = |by_line: &[Vec<Candidate>]| by_line.iter().map(Vec::len).sum::<usize>();
    let mut by_line = Vec::new();
    for target in TARGETS.into_iter().filter(|target| *target >= SPEED_STEP.min) {
        by_line = at(target, true);
        if count(&by_line) <= most {
            break;
        }
    }
    while count(&by_line) > most {
        let end =
            |line: &Vec<Candidate>| line.last().filter(|last| last.bound.is_some()).map(|last| last.speed);
        let ends = by_line.iter_mut().filter_map(|line| Some((end(line)?, line)));
        let Some((_, line)) = ends.min_by(|(a, _), (b, _)| a.total_cmp(b)) else { break };
        line.pop();
    }
    if count(&by_line) <= most && by_line.iter().flatten().any(|one| one.bound.is_none()) {
        return by_line;
    }
    for target in TARGETS {
        by_line = at(target, false);
        if count(&by_line) <= most {
            break;
        }
    }
    by_line
}

/// Fastest first; of equal speed what asks for less.
fn fastest_first(a: &Chosen<'_>, b: &Chosen<'_>) -> std::cmp::Ordering {
    let asks = |one: &Chosen<'_>| {
        let Resources { cpu_millicores, memory_bytes, gpus } = one.candidate.resources;
        (gpus, cpu_millicores, memory_bytes)
    };
    b.candidate.speed.total_cmp(&a.candidate.speed).then(asks(a).cmp(&asks(b)))
}

/// The largest that pays, then each time the next at about `target` of the speed before; of the `whole` line, or of what may
/// run anywhere.
fn spaced(question: &Question<'_>, line: &Line, whole: bool, target: f64) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    let is_meant = |one: &&Candidate| (whole || one.bound.is_none()) && line.pays(one, question.limits);
    let mut rest: Vec<&Candidate> = line.candidates.iter().filter(is_meant).collect();
    if rest.is_empty() {
        return found;
    }
    found.push(rest.remove(0).clone());
    while let Some(last) = found.last() {
        let share = |candidate: &Candidate| candidate.speed / last.speed;
        rest.retain(|candidate| {
            share(candidate) <= SPEED_STEP.max
                && candidate.resources.cpu_millicores < last.resources.cpu_millicores
                && candidate.resources.memory_bytes <= last.resources.memory_bytes
        });
        let in_step = |candidate: &Candidate| SPEED_STEP.contain(&share(candidate));
        // Fastest first, so the first at or below the target is the nearest to it.
        let at_target =
            rest.iter().position(|one| share(one) <= target && (target < SPEED_STEP.min || in_step(one)));
        // Sizes may allow no such step: then one above the target, else the longer one.
        let place = at_target.or_else(|| rest.iter().rposition(|one| in_step(one))).or(if rest.is_empty() {
            None
        } else {
            Some(0)
        });
        let Some(place) = place else { break };
        found.push(rest.remove(place).clone());
    }
    found
}
