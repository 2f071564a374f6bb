//! Selection of one cycle of a recording: the steps between two pauses, in all processes.
//!
//! A pause of the recording between steps ([`Trace::pauses`]) is neither busy nor idle, but a window across the pause
//! would count it as idle. So a window contains the steps of one cycle: the cycle with the most steps, and the
//! last one of equal cycles, because it has the least warm-up. Steps of a process that ended earlier, or began later,
//! count as another process, not as another cycle.

use stackline_model::format::{count, duration};
use stackline_model::{Key, Pause, Step, Trace};
use std::collections::{BTreeMap, BTreeSet};

/// Selected cycle of a recording: steps without a pause between them, and the cycles that are excluded.
#[derive(Clone, Debug, Default)]
pub struct Cycle<'a> {
    /// The steps, in time order.
    pub steps: Vec<&'a Step>,
    /// The other cycles, in time order.
    others: Vec<OtherCycle>,
    /// True if a step of another cycle has the number of one of these steps.
    pub has_same_numbers: bool,
    /// True if all other steps are of processes without steps in this cycle.
    are_others_of_other_processes: bool,
    /// The pauses between the cycles.
    pauses: Vec<Pause>,
}

/// Cycle of the recording that is excluded: its number and step numbers.
#[derive(Clone, Copy, Debug)]
struct OtherCycle {
    /// Number of the cycle, as in [`AmbiguousCycle`].
    number: usize,
    /// Numbers of its first and last step.
    steps: (i64, i64),
}

impl<'a> Cycle<'a> {
    /// Select the cycle with the most steps (the last of equal ones) in a range of step numbers; `None` selects all
    /// numbers.
    pub fn from_trace(trace: &'a Trace, numbers: Option<(i64, i64)>) -> Self {
        let chosen = |step: &&Step| numbers.is_none_or(|(first, last)| (first..=last).contains(&step.number));
        let steps: Vec<&Step> = trace.steps.iter().filter(chosen).collect();
        let pauses = trace.pauses();
        if pauses.is_empty() {
            return Self { steps, ..Self::default() };
        }
        let mut cycles = group_by_cycle(steps, pauses);
        let found: Vec<usize> = cycles.keys().copied().collect();
        let pauses = match found[..] {
            [first, .., last] => pauses[first..last].to_vec(),
            _ => Vec::new(),
        };
        let Some(most) = found.into_iter().max_by_key(|cycle| cycles[cycle].len()) else { return Self::default() };
        let steps = cycles.remove(&most).unwrap_or_default();
        let numbers: BTreeSet<i64> = steps.iter().map(|step| step.number).collect();
        let has_same_numbers = cycles.values().flatten().any(|step| numbers.contains(&step.number));
        let own: BTreeSet<Key> = steps.iter().map(|step| trace.process_of(step)).collect();
        let are_others_of_other_processes =
            cycles.values().flatten().all(|step| !own.contains(&trace.process_of(step)));
        let all = cycle_numbers(trace);
        let other = |(at, steps): (usize, Vec<&Step>)| {
            Some(OtherCycle { number: *all.get(&at)?, steps: number_range(&steps)? })
        };
        let others = cycles.into_iter().filter_map(other).collect();
        Self { steps, others, has_same_numbers, are_others_of_other_processes, pauses }
    }

    /// Note about pauses of the recording between the cycles, or about processes that ran at another time; `None` if
    /// there are none.
    pub fn note(&self, trace: &Trace) -> Option<String> {
        if self.are_others_of_other_processes && !self.others.is_empty() {
            return self.note_of_other_processes(trace);
        }
        let longest = self.pauses.iter().max_by_key(|pause| pause.length_ns())?;
        let (length, Pause { before, after, .. }) = (duration(longest.length_ns()), longest);
        let (first, last) = number_range(&self.steps)?;
        let pauses = match self.pauses.len() {
            1 => String::new(),
            several => format!(" (the longest of {} pauses)", count(several as i64)),
        };
        let others = self.how_to_choose_others();
        let of = match processes(trace, self.steps.iter().copied())[..] {
            [process] if processes(trace, &trace.steps).len() > 1 => format!(" of process {}", trace.key_text(process)),
            _ => String::new(),
        };
        Some(format!(
            "the recording pauses for {length} between steps {before} and {after}{pauses}, so the window covers only \
             {}{of}; {others}",
            format_numbers((first, last)),
        ))
    }

    /// Note about excluded steps of processes whose steps do not overlap the selected ones in time.
    fn note_of_other_processes(&self, trace: &Trace) -> Option<String> {
        let own = processes(trace, self.steps.iter().copied());
        let others: Vec<Key> =
            processes(trace, &trace.steps).into_iter().filter(|process| !own.contains(process)).collect();
        let own = format_processes(trace, &own);
        Some(format!(
            "the steps of {} and those of {own} do not overlap in time, so the window covers only {} of {own}; {}",
            format_processes(trace, &others),
            format_numbers(number_range(&self.steps)?),
            self.how_to_choose_others(),
        ))
    }

    /// Sentence on the options that select the excluded cycles.
    fn how_to_choose_others(&self) -> String {
        let is_ambiguous = self.has_same_numbers || self.have_others_same_numbers();
        let option = |other: &OtherCycle| {
            let (from, to) = other.steps;
            let cycle = if is_ambiguous { format!("@{}", other.number) } else { String::new() };
            format!("--steps {from}..{to}{cycle}")
        };
        let mut others: Vec<String> = self.others.iter().take(MAX_NAMED).map(option).collect();
        if self.others.len() > MAX_NAMED {
            others.push("…".to_owned());
        }
        format!("to select the other steps, give {}", others.join(" or "))
    }

    /// Test if the ranges of step numbers of two excluded cycles overlap.
    fn have_others_same_numbers(&self) -> bool {
        let mut ranges: Vec<(i64, i64)> = self.others.iter().map(|other| other.steps).collect();
        ranges.sort_unstable();
        ranges.windows(2).any(|pair| pair[1].0 <= pair[0].1)
    }
}

/// Format step numbers as `step 3` or `steps 3 to 9`.
fn format_numbers((first, last): (i64, i64)) -> String {
    if first == last { format!("step {first}") } else { format!("steps {first} to {last}") }
}

/// Format process IDs as `process 7` or `processes 7, 8`.
fn format_processes(trace: &Trace, processes: &[Key]) -> String {
    let named: Vec<String> = processes.iter().take(MAX_NAMED).map(|&process| trace.key_text(process)).collect();
    let more = if processes.len() > MAX_NAMED { ", …" } else { "" };
    let noun = if processes.len() == 1 { "process" } else { "processes" };
    format!("{noun} {}{more}", named.join(", "))
}

/// Group steps into cycles, by the number of pauses of the recording before them.
fn group_by_cycle<'a>(steps: Vec<&'a Step>, pauses: &[Pause]) -> BTreeMap<usize, Vec<&'a Step>> {
    let mut cycles: BTreeMap<usize, Vec<&Step>> = BTreeMap::new();
    for step in steps {
        cycles.entry(pauses_before(step, pauses)).or_default().push(step);
    }
    cycles
}

/// Number of pauses of the recording before a step.
fn pauses_before(step: &Step, pauses: &[Pause]) -> usize {
    pauses.partition_point(|pause| pause.end <= step.start)
}

/// Number the cycles from 1 in time order. Returns the number of each cycle by the number of pauses before it.
fn cycle_numbers(trace: &Trace) -> BTreeMap<usize, usize> {
    let pauses = trace.pauses();
    let found: BTreeSet<usize> = trace.steps.iter().map(|step| pauses_before(step, pauses)).collect();
    found.into_iter().zip(1..).collect()
}

/// Remove all steps except those of one cycle, by its number ([`AmbiguousCycle::number`]). Traces without steps stay as
/// they are.
///
/// # Errors
/// If the trace has no cycle of this number: the number of its cycles.
pub fn keep_cycle(trace: &mut Trace, number: usize) -> Result<(), usize> {
    let cycles = cycle_numbers(trace);
    let found = cycles.iter().find(|&(_, known)| *known == number).map(|(at, _)| *at);
    match found {
        None if cycles.is_empty() => Ok(()),
        None => Err(cycles.len()),
        Some(own) => {
            let pauses = trace.pauses().to_vec();
            trace.keep_steps(|step| pauses_before(step, &pauses) == own);
            Ok(())
        }
    }
}

/// Cycle of a recording whose step numbers may also occur in another cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmbiguousCycle {
    /// Number of the cycle among all of the trace, from 1 in time order.
    pub number: usize,
    /// Numbers of its first and last step.
    pub numbers: (i64, i64),
    /// Window from the start of its first to the end of its last step on the CPU, in ns since the first event of the
    /// trace.
    pub time_ns: (i64, i64),
}

/// Cycles with steps in a range of numbers (both ends included), in time order, if several cycles share a number in it.
/// Numbers are then ambiguous. Empty otherwise.
pub fn ambiguous_cycles(trace: &Trace, (first, last): (i64, i64)) -> Vec<AmbiguousCycle> {
    // Traces that keep only steps have no events.
    if trace.events.is_empty() || trace.pauses().is_empty() {
        return Vec::new();
    }
    let cycles = group_by_cycle(trace.steps.iter().collect(), trace.pauses());
    let numbers = |steps: &[&Step]| steps.iter().map(|step| step.number).collect::<BTreeSet<i64>>();
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    cycles.values().flat_map(|steps| numbers(steps)).for_each(|number| *counts.entry(number).or_default() += 1);
    let is_requested = |number: i64| (first..=last).contains(&number);
    if !counts.iter().any(|(number, count)| is_requested(*number) && *count > 1) {
        return Vec::new();
    }
    let begin = trace.span().map_or(0, |(begin, _)| begin);
    let of = |(number, steps): (usize, &Vec<&Step>)| {
        let (start, end) = (steps.iter().map(|step| step.start).min()?, steps.iter().map(|step| step.end).max()?);
        let time_ns = (start.saturating_sub(begin), end.saturating_sub(begin));
        Some(AmbiguousCycle { number, numbers: number_range(steps)?, time_ns })
    };
    let has_requested = |(_, steps): &(usize, &Vec<&Step>)| steps.iter().any(|step| is_requested(step.number));
    (1..).zip(cycles.values()).filter(has_requested).filter_map(of).collect()
}

/// Smallest and largest number of the steps; none without steps.
fn number_range(steps: &[&Step]) -> Option<(i64, i64)> {
    let numbers = || steps.iter().map(|step| step.number);
    Some((numbers().min()?, numbers().max()?))
}

/// Steps in a range of step numbers, both ends included, that are in the cycle of the recording with the most of them.
pub fn numbered_steps(trace: &Trace, (first, last): (i64, i64)) -> Vec<&Step> {
    Cycle::from_trace(trace, Some((first, last))).steps
}

/// Distinct processes of some steps, in the order of their first steps.
pub fn processes<'a>(trace: &Trace, steps: impl IntoIterator<Item = &'a Step>) -> Vec<Key> {
    let mut known: BTreeSet<Key> = BTreeSet::new();
    steps.into_iter().map(|step| trace.process_of(step)).filter(|&process| known.insert(process)).collect()
}

/// Note on the window and the step count if several processes have steps; `None` for one process.
pub(crate) fn note_of_processes(trace: &Trace, steps: &[&Step]) -> Option<String> {
    let processes = processes(trace, steps.iter().copied());
    if processes.len() < 2 {
        return None;
    }
    let named: Vec<String> = processes.iter().take(MAX_NAMED).map(|&process| trace.key_text(process)).collect();
    let more = if processes.len() > MAX_NAMED { ", …" } else { "" };
    Some(format!(
        "{} processes have steps ({}{more}): the window covers the steps of all of them, and times per step are totals \
         divided by the largest number of steps of one process",
        processes.len(),
        named.join(", ")
    ))
}

/// Maximum number of processes and cycles that a note names.
const MAX_NAMED: usize = 8;
