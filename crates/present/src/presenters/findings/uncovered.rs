//! Time not covered by findings, as text and JSON.

use super::{base_of_percent, bounds, percent};
use crate::presenters::human::{count, duration};
use serde_json::{Value, json};
use stackline_findings::{ConcurrentGpuWork, Findings, LargeGroup, LargeKind, RankTimes};

/// Part of the time at one source location from which on the part is left out.
const NEARLY_ALL: f64 = 0.9;
/// Characters of names: those of kernels can be thousands long.
const NAME: usize = 72;

/// Large groups of time that no finding covers: a sentence, and a line (`- `) for each group. With several ranks,
/// groups of other ranks than the slowest follow a second sentence. Empty if findings cover all large groups.
pub fn uncovered(found: &Findings) -> Vec<String> {
    let is_others = |group: &&LargeGroup| !other_rank_suffix(found, group).is_empty();
    let (others, own): (Vec<_>, Vec<_>) = found.uncovered.groups.iter().partition(is_others);
    let lines = |head: String, groups: Vec<&LargeGroup>| {
        let head = Some(head).filter(|_| !groups.is_empty());
        head.into_iter().chain(groups.into_iter().map(|group| format!("- {}", line(found, group)))).collect::<Vec<_>>()
    };
    let of_others = lines("Large parts of the time of other ranks that no finding covers:".to_owned(), others);
    lines(head(found), own).into_iter().chain(of_others).collect()
}

/// Sentence before the groups of a single rank or of the slowest one, with the share that findings cover.
fn head(found: &Findings) -> String {
    let covered = found.uncovered.covered_percent.unwrap_or(0.0);
    match found.uncovered.is_most() {
        true if found.findings.is_empty() => match slowest_rank_suffix(found).as_str() {
            "" => "Largest parts of the time that no finding covers:".to_owned(),
            rank => format!("Largest parts of the time that no finding covers{rank}:"),
        },
        true => {
            let (all, rank) = (whole(found), slowest_rank_suffix(found));
            format!("Findings cover {covered:.0} % of {all}{rank}. Largest parts of the time that no finding covers:")
        }
        false => match slowest_rank_suffix(found).as_str() {
            "" => "Large parts of the time that no finding covers:".to_owned(),
            rank => format!("Large parts of the time that no finding covers{rank}:"),
        },
    }
}

/// Line on a group of events that no finding covers: name, count, location, share and gain if removed.
fn line(found: &Findings, group: &LargeGroup) -> String {
    let name = cut(&group.name);
    let place = group.place.text();
    // The name of a user's function contains its file. For a function of a library, show the calling location.
    let is_its_place = |file: &String| group.kind == LargeKind::Frame && group.name.starts_with(&format!("{file}("));
    let is_place = group.place.file.as_ref().is_some_and(|file| !is_its_place(file));
    let (of_window, of_path) = (group.percent, group.path_percent);
    let all = whole(found);
    // Compare with the share that the line shows first.
    let share = if group.is_of_window() { of_window } else { of_path };
    let place = match group.place_percent {
        _ if !is_place => String::new(),
        Some(there) if there < NEARLY_ALL * share => {
            let base = if group.is_of_window() && !found.is_of_calls { "the window" } else { all };
            format!(", the largest part ({there:.0} % of {base}) at {place}")
        }
        _ => format!(" at {place}"),
    };
    // A waiting call is not on the path; the awaited work is.
    let share = if found.is_of_calls {
        format!("{of_path:.0} % of the thread's time")
    } else if group.is_wait() && group.kind.is_of_events() {
        let waits = group.wait_percent;
        format!(
            "{of_window:.0} % of the window; meanwhile, the critical path waits for an unrecorded cause ({waits:.0} % \
             of the path)"
        )
    } else if group.kind == LargeKind::Call && of_window > of_path {
        format!("{of_window:.0} % of the window, {of_path:.0} % of the critical path")
    } else if group.kind == LargeKind::Frame {
        format!("{of_window:.0} % of the window; {of_path:.0} % of the critical path, including called functions")
    } else {
        format!("{of_path:.0} % of the critical path")
    };
    let meanwhile = group.concurrent_span.as_ref().map(|(name, percent)| {
        let name = cut(name);
        format!("; for {percent:.0} % of this time, {name} runs on another thread")
    });
    let share = share + &meanwhile.unwrap_or_default() + &gpu_work_words(group);
    let gain = match group.gain {
        _ if !group.kind.is_of_events() => String::new(),
        Some(gain) if group.is_wait() => {
            let (low, high) = (percent(found, gain.low_ns), percent(found, gain.high_ns));
            let base = base_of_percent(found);
            format!("; estimated gain if removed: unknown, bounds {low} to {high} {base}")
        }
        Some(gain) => {
            format!(
                "; estimated gain if removed: {} {}{}",
                percent(found, gain.likely_ns),
                base_of_percent(found),
                bounds(found, gain)
            )
        }
        None => "; gain if removed: unknown, because the removal cannot be simulated".to_owned(),
    };
    let advice = match group.advice {
        "" => String::new(),
        advice => format!(". For details: {advice}"),
    };
    let words = match found.is_of_calls && group.kind == LargeKind::Frame {
        true if group.count == 1 => "sample",
        true => "samples",
        false => group.kind.words(group.count),
    };
    let rank = other_rank_suffix(found, group);
    let longest = group.longest_gap_ns.map(|ns| format!(", longest {}", duration(ns))).unwrap_or_default();
    format!("{name} ({} {words}{longest}{place}{rank}): {share}{gain}{advice}", count(group.count as u64))
}

/// Words for the GPU work that runs during a group of waits; empty if the GPU is mostly idle.
fn gpu_work_words(group: &LargeGroup) -> String {
    let Some(ConcurrentGpuWork { percent, longest }) = &group.concurrent_gpu_work else { return String::new() };
    let names: Vec<String> = longest.iter().map(|(name, part)| format!("{} {part:.0} %", cut(name))).collect();
    format!("; for {percent:.0} % of this time, GPU work runs ({})", names.join(", "))
}

/// Words that name the slowest of several ranks; empty for a single rank.
fn slowest_rank_suffix(found: &Findings) -> String {
    let slowest = RankTimes::slowest(&found.ranks);
    let words = |times: &RankTimes| format!(" on rank {}, {}", times.rank, times.slowness(&found.ranks).in_words());
    slowest.map(words).unwrap_or_default()
}

/// Words that name the rank of a group of time, unless the rank is the slowest one.
fn other_rank_suffix(found: &Findings, group: &LargeGroup) -> String {
    let slowest = RankTimes::slowest(&found.ranks).map(|times| times.rank);
    group.rank.filter(|rank| Some(*rank) != slowest).map(|rank| format!(", rank {rank}")).unwrap_or_default()
}

/// Words for the total to which percentages of uncovered time refer: the critical path, or the thread's time for call
/// trees.
fn whole(found: &Findings) -> &'static str {
    if found.is_of_calls { "the thread's time" } else { "the critical path" }
}

/// Shorten a name to fit into a line.
fn cut(name: &str) -> String {
    let kept: String = name.chars().take(NAME).collect();
    if kept.len() < name.len() { format!("{kept}…") } else { kept }
}

/// GPU work during a group of waits as a JSON document.
fn gpu_work_document(work: &ConcurrentGpuWork) -> Value {
    let named = |(name, percent): &(String, f64)| json!({"name": name, "percent": percent});
    json!({"percent": work.percent, "longest": work.longest.iter().map(named).collect::<Vec<_>>()})
}

/// Time not covered by findings as a JSON document for programs.
pub(super) fn document(found: &Findings) -> Value {
    let gain = |group: &LargeGroup| {
        group.gain.map(|gain| json!({"ns": gain.likely_ns, "low_ns": gain.low_ns, "high_ns": gain.high_ns}))
    };
    let row = |group: &LargeGroup| {
        json!({
            "kind": group.kind.name(),
            "rank": group.rank,
            "name": group.name,
            "file": group.place.file,
            "line": group.place.line,
            "function": group.place.function,
            "place_percent": group.place_percent,
            "count": group.count,
            "percent": group.percent,
            "path_percent": group.path_percent,
            "wait_percent": group.wait_percent,
            "meanwhile": group
                .concurrent_span
                .as_ref()
                .map(|(name, percent)| json!({"name": name, "percent": percent})),
            "gpu_work": group.concurrent_gpu_work.as_ref().map(gpu_work_document),
            "longest_gap_ns": group.longest_gap_ns,
            "advice": group.advice,
            "gain": gain(group),
            "edits": group.edits,
        })
    };
    json!({
        "covered_percent": found.uncovered.covered_percent,
        "groups": found.uncovered.groups.iter().map(row).collect::<Vec<_>>(),
    })
}
