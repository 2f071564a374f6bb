//! Report for AI agents (`report --for-agent`): a short text for a language model.

mod calls;
mod diagnostics;
mod memory;
mod names;
mod ranks;

pub(super) use calls::report_calls;
pub(super) use memory::report_memory;

use super::process_ends::how_it_ended;
use crate::args::{SourceArgs, options_for};
use crate::failure::command_line;
use crate::session::Session;
use crate::view::{number, rows, text};
use anyhow::Result;
use ranks::Summed;
use stackline_engine::Run;
use stackline_findings::{Finding, Findings, RankTimes};
use stackline_model::{AttrValue, EventId, EventKind, Table, Trace};
use stackline_present::findings::{bounds_are_unknown, memory_gain, ranks_with};
use stackline_present::human;
use stackline_query::Content;
use stackline_timeline::Scope;
use stackline_timeline::kernel_type::KernelType;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Bytes of the text at most.
const MOST: usize = 4096;
/// Kernels and findings that are listed.
const KERNELS: usize = 10;
const FINDINGS: usize = 5;
/// No limit on the number of lines.
const ALL: usize = usize::MAX;
/// Characters of names and titles, where there is room.
const NAME: usize = 72;
const TITLE: usize = 110;

/// Limits that shorten the report: maximum numbers of lines, and maximum lengths of names, shapes and titles.
#[derive(Clone, Copy)]
struct Lengths {
    /// Traces, steps and critical paths that are listed.
    ranks: usize,
    name: usize,
    shape: usize,
    title: usize,
    /// Length of a line on uncovered time.
    uncovered: usize,
    /// Maximum number of findings and of lines on uncovered time.
    lines: usize,
    /// Keep complete file paths.
    whole_paths: bool,
}

/// The longest lines first: shorter ones are taken where else a section would not fit.
const LENGTHS: [Lengths; 9] = [
    Lengths { ranks: 4, name: NAME, shape: 56, title: TITLE, uncovered: 2 * TITLE, lines: ALL, whole_paths: true },
    Lengths { ranks: 4, name: NAME, shape: 56, title: TITLE, uncovered: 2 * TITLE, lines: ALL, whole_paths: false },
    Lengths { ranks: 2, name: 56, shape: 40, title: TITLE, uncovered: 2 * TITLE, lines: ALL, whole_paths: false },
    Lengths { ranks: 2, name: 40, shape: 24, title: TITLE, uncovered: 2 * TITLE, lines: ALL, whole_paths: false },
    Lengths { ranks: 2, name: 40, shape: 24, title: 90, uncovered: 160, lines: ALL, whole_paths: false },
    Lengths { ranks: 1, name: 40, shape: 16, title: 72, uncovered: 120, lines: ALL, whole_paths: false },
    Lengths { ranks: 1, name: 36, shape: 12, title: 64, uncovered: 90, lines: ALL, whole_paths: false },
    Lengths { ranks: 1, name: 36, shape: 12, title: 64, uncovered: 90, lines: 4, whole_paths: false },
    Lengths { ranks: 1, name: 36, shape: 12, title: 64, uncovered: 90, lines: 2, whole_paths: false },
];

/// Text of the report for AI agents, with as much detail as fits; longer text is cut at the end of a line.
pub(super) fn text_for_agent(session: &Session<'_>, run: &Run, content: &Content, source: &SourceArgs) -> String {
    let found = super::findings::find_in_session(session, run);
    let work = Work::new(session, content);
    let all = LENGTHS.iter().map(|lengths| text_of_lengths(session, (content, &work), &found, *lengths));
    let options = |command| options_for(command, session.common, Some(source));
    let more = |command| command_line(command, run.inputs(), &options(command));
    let [findings, report] = ["findings", "report"].map(more);
    let more = format!("{findings}, {report} --format json");
    let fitting = first_fitting(all, |text| text.len() + more.len() + ROOM <= MOST);
    cut(fitting, &more)
}

/// Space for the text that [`cut`] adds to the commands.
const ROOM: usize = 16;

/// First of the texts that fits; the last text if none fits.
fn first_fitting(texts: impl Iterator<Item = String>, fits: impl Fn(&str) -> bool) -> String {
    let mut last = String::new();
    for text in texts {
        last = text;
        if fits(&last) {
            break;
        }
    }
    last
}

/// Time by GPU category, kernel and operator, summed once for all attempts to fit the text.
struct Work<'t> {
    gpu_time: String,
    kernels: Option<Kernels>,
    operators: Vec<Summed<'t>>,
}

impl<'t> Work<'t> {
    fn new(session: &Session<'_>, content: &'t Content) -> Self {
        let find = |name: &str| content.tables.iter().find(|table| table.name == name).filter(|table| table.rows() > 0);
        let mut gpu_time = String::new();
        if let Some(time) = find("gpu_time") {
            ranks::gpu_time(time, &mut gpu_time);
        }
        let kernels = find("gpu_kernels").map(|kernels| Kernels::new(kernels, session));
        let operators = find("operators").filter(|_| kernels.is_none());
        let operators = operators.map(|table| ranks::by_name(table, &["host_self_us", "calls"])).unwrap_or_default();
        Self { gpu_time, kernels, operators }
    }
}

/// Text of the report for AI agents with the given limits on lines and names.
fn text_of_lengths(
    session: &Session<'_>,
    (content, work): (&Content, &Work<'_>),
    found: &Result<Findings>,
    lengths: Lengths,
) -> String {
    let mut out =
        String::from("Performance report of a deep-learning trace. Numbers are measured unless marked as predicted.\n");
    out.push_str(&stackline_present::truncation_warnings(&session.set));
    out.push_str(&crate::output::failed_checks(session));
    let are_inferred = found.as_ref().is_ok_and(|found| found.are_inferred);
    head(session, (content, are_inferred), lengths, &mut out);
    out.push_str(&work.gpu_time);
    match found {
        Ok(found) => findings_of(found, lengths, &mut out),
        Err(error) => {
            let _ = writeln!(
                out,
                "\nFindings: none, because the rules could not run: {}",
                short(&error.to_string(), 2 * TITLE)
            );
        }
    }
    if let Some(kernels) = &work.kernels {
        kernels.write(lengths, &mut out);
    } else if !work.operators.is_empty() {
        operators_of(&work.operators, session.infos.len(), lengths, &mut out);
    }
    out
}

/// Write traces, windows, steps, critical paths and missing records. Findings may refer to inferred steps.
fn head(session: &Session<'_>, (content, are_inferred): (&Content, bool), lengths: Lengths, out: &mut String) {
    let name = |name: &str| if lengths.whole_paths { name.to_owned() } else { names::without_folders(name) };
    for info in session.infos.iter().take(lengths.ranks) {
        let window =
            info.window_ns().map_or("no timed events".to_owned(), |ns| format!("window {}", human::duration(ns)));
        let gpu =
            info.gpus.first().and_then(|gpu| gpu.name.as_deref()).map_or(String::new(), |name| format!(", {name}"));
        let _ = writeln!(
            out,
            "Trace {} ({}), rank {}: {window}, {} events, {} GPU operations{gpu}",
            name(&info.name),
            info.format,
            info.rank,
            human::count(info.events),
            human::count(info.gpu_operations),
        );
    }
    more(session.infos.len(), lengths.ranks, "traces", out);
    if let Some(reason) = &content.rank_conflict {
        let reason = short(reason, lengths.uncovered);
        let _ = writeln!(out, "Warning: the traces are not ranks of one job: {reason}; sums over ranks are not valid.");
    }
    let spread = content.tables.iter().find(|table| table.name == "steps_spread").filter(|table| table.rows() > 0);
    let are_inferred = are_inferred || content.paths.iter().any(|path| path.is_of_inferred_steps);
    steps(spread, are_inferred, lengths.ranks, out);
    for path in content.paths.iter().take(lengths.ranks) {
        let _ = writeln!(out, "{}", stackline_present::terminal::clean(&path.line));
    }
    more(content.paths.len(), lengths.ranks, "critical paths", out);
    let ended = how_it_ended(session.set.traces.iter().map(|trace| &trace.report));
    for line in ended.lines().take(lengths.ranks) {
        let _ = writeln!(out, "{}", short(&name(line), lengths.uncovered));
    }
    diagnostics::write(session.set.traces.iter().flat_map(|trace| &trace.report.problems), "the trace", out);
}

/// Write statistics of step times, a line for each rank or process.
fn steps(spread: Option<&Table>, are_inferred: bool, most: usize, out: &mut String) {
    let Some(spread) = spread else {
        out.push_str(if are_inferred {
            "Steps: none are marked, so numbers cover the whole trace. Only lines that name inferred steps cover these.\n"
        } else {
            "Steps: none are marked, so numbers cover the whole trace.\n"
        });
        return;
    };
    let rows: Vec<usize> = (0..spread.rows()).filter(|&row| text(spread, "measure", row) == Some("time")).collect();
    for &row in rows.iter().take(most) {
        let value = |column| number(spread, column, row).unwrap_or(0.0);
        let rank = number(spread, "rank", row).map_or_else(String::new, |rank| format!(" of rank {rank}"));
        let process = text(spread, "process", row).map_or_else(String::new, |name| format!(", process {name}"));
        let _ = writeln!(
            out,
            "Steps{rank}{process}: {}, mean {:.0} us, median {:.0}, min {:.0}, max {:.0}",
            value("steps"),
            value("mean_us"),
            value("median_us"),
            value("min_us"),
            value("max_us")
        );
    }
    more(rows.len(), most, "ranks or processes with steps", out);
}

/// Append a line with the number of unlisted items, if `listed` is less than `count`.
fn more(count: usize, listed: usize, what: &str, out: &mut String) {
    if count > listed {
        let _ = writeln!(out, "Not listed: {} more {what}", count - listed);
    }
}

/// Append the findings with their gains and locations, the uncovered time, and notes.
fn findings_of(found: &Findings, lengths: Lengths, out: &mut String) {
    let place_of = |text: &str| if lengths.whole_paths { text.to_owned() } else { names::without_folders(text) };
    let unit = match found.steps {
        0 => "the trace",
        _ if found.are_inferred => "an inferred step",
        _ => "a step",
    };
    let words = |of: &RankTimes| format!(" of rank {}, {},", of.rank, of.slowness(&found.ranks).in_words());
    let rank = RankTimes::slowest(&found.ranks).map(words);
    let (rank, length) = (rank.unwrap_or_default(), human::duration(found.step_ns));
    let _ = writeln!(out, "\nFindings, by predicted gain ({unit}{rank} takes {length}):");
    if found.with_gpu_work && !found.are_inferred {
        out.push_str("A step of this list ends with its GPU work; a step of \"Steps\" above ends with its CPU span.\n");
    }
    if let Some(ns) = found.between_ns {
        let _ = writeln!(out, "The step time includes {} of time between steps.", human::duration(ns));
    }
    for (at, finding) in listed(&found.findings, lengths.lines.min(FINDINGS)) {
        let on = ranks_with(found, finding).map_or_else(String::new, |ranks| format!("; {ranks}"));
        let _ = writeln!(
            out,
            "{}. {} {}{}{on}",
            at + 1,
            finding.rule.code,
            short(&finding.title, lengths.title),
            gain(finding, found)
        );
        let place = place_of(&finding.place.text());
        if !place.is_empty() {
            let _ = writeln!(out, "   at {}", short(&place, lengths.title));
        }
        if let Some(change) = &finding.change {
            let _ = writeln!(out, "   change {}", short(&place_of(&change.text()), lengths.title));
        }
    }
    if found.findings.is_empty() {
        out.push_str("none\n");
    }
    for line in stackline_present::findings::uncovered(found).iter().take(lengths.lines.saturating_add(1)) {
        let _ = writeln!(out, "{}", short(&place_of(line), lengths.uncovered));
    }
    // The head has those of the window.
    let notes: Vec<&String> = found.notes.iter().filter(|note| !out.contains(note.as_str())).take(FINDINGS).collect();
    for note in notes {
        let _ = writeln!(out, "Note: {}", short(note, lengths.uncovered));
    }
}

/// First findings with their positions, including at least one memory finding. Memory findings come after those that
/// gain time.
fn listed(findings: &[Finding], most: usize) -> impl Iterator<Item = (usize, &Finding)> {
    let has_memory = findings.iter().take(most).any(|finding| finding.memory.is_some());
    let is_of_memory = |finding: &(usize, &Finding)| finding.1.memory.is_some();
    let first_of_memory = findings.iter().enumerate().find(is_of_memory).filter(|_| !has_memory);
    findings.iter().enumerate().take(most).chain(first_of_memory)
}

/// Text with the gain or memory saving of a finding and its bounds; empty without a gain.
fn gain(finding: &Finding, found: &Findings) -> String {
    if let Some(saved) = &finding.memory {
        return format!("; predicted saving {}", memory_gain(saved));
    }
    // A value that is rounded to zero has no sign.
    let percent = |ns: i64| {
        Some(100.0 * ns as f64 / found.step_ns.max(1) as f64).filter(|share| share.abs() >= 0.05).unwrap_or(0.0)
    };
    finding.gain.map_or_else(String::new, |gain| {
        let (low, high) = (percent(gain.low_ns), percent(gain.high_ns));
        let bounds = match bounds_are_unknown(found, gain) {
            true => "bounds unknown".to_owned(),
            false => format!("{low:.1} to {high:.1} %"),
        };
        format!("; gain {:.1} % ({bounds})", percent(gain.likely_ns))
    })
}

/// Text with the number of traces that a sum covers; empty for one trace.
fn sum_coverage(traces: usize) -> String {
    if traces > 1 { format!(", summed over the {traces} traces") } else { String::new() }
}

/// GPU kernels with the largest total time, as texts, with a heading.
struct Kernels {
    head: String,
    rows: Vec<Kernel>,
}

struct Kernel {
    name: String,
    cost: String,
    shape: Option<String>,
}

impl Kernels {
    fn new(kernels: &Table, session: &Session<'_>) -> Self {
        let traces = &session.set.traces;
        let is_work = |row: &usize| text(kernels, "kind", *row) != Some(KernelType::Other.name());
        let (work, others): (Vec<usize>, Vec<usize>) = (0..kernels.rows()).partition(is_work);
        let waits: f64 = others.iter().filter_map(|row| number(kernels, "total_ns", *row)).sum();
        let kernels = &rows(kernels, &work);
        let share = match waits > 0.0 {
            true => "share of GPU work without GPU-side waits and markers",
            false => "share of GPU work",
        };
        let head = format!(
            "Kernels by time{} ({share}; shapes: operator inputs with the most kernel time):",
            sum_coverage(traces.len())
        );
        let kernels = ranks::by_name(kernels, &["total_ns", "count"]);
        let all: f64 = kernels.iter().map(|kernel| kernel.sums[0]).sum();
        let kernels = &kernels[..kernels.len().min(KERNELS)];
        let names: Vec<&str> = kernels.iter().map(|kernel| kernel.name).collect();
        let shapes = shapes(traces, session.scope, &names);
        let row = |kernel: &Summed<'_>| {
            let (ns, count) = (kernel.sums[0], kernel.sums[1]);
            let cost = format!("{}, {:.1} %, {count} calls", human::duration(ns as i64), 100.0 * ns / all.max(1.0));
            Kernel { name: kernel.name.to_owned(), cost, shape: shapes.get(kernel.name).cloned() }
        };
        Self { head, rows: kernels.iter().map(row).collect() }
    }

    fn write(&self, lengths: Lengths, out: &mut String) {
        let _ = writeln!(out, "\n{}", self.head);
        let names: Vec<&str> = self.rows.iter().map(|kernel| kernel.name.as_str()).collect();
        for (kernel, shown) in self.rows.iter().zip(names::distinct_short_names(&names, lengths.name)) {
            let shape = kernel.shape.as_ref();
            let shape = shape.map_or_else(String::new, |shape| format!(", shapes {}", short(shape, lengths.shape)));
            let _ = writeln!(out, "- {shown}: {}{shape}", kernel.cost);
        }
    }
}

/// Append the operators with the largest self CPU time.
fn operators_of(operators: &[Summed<'_>], traces: usize, lengths: Lengths, out: &mut String) {
    let _ = writeln!(out, "\nOperators by own CPU time{}:", sum_coverage(traces));
    for operator in operators.iter().take(KERNELS) {
        let (name, us, calls) = (short(operator.name, lengths.name), operator.sums[0], operator.sums[1]);
        let _ = writeln!(out, "- {name}: {us:.0} us, {calls} calls");
    }
}

/// Input shapes of the operators that launched most of each kernel's time, by kernel name, over all traces. Kernels
/// without recorded shapes are absent.
fn shapes<'t>(traces: &'t [Trace], scope: Scope, kernels: &[&'t str]) -> BTreeMap<&'t str, String> {
    let mut times: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for trace in traces {
        shapes_of(trace, scope, kernels, &mut times);
    }
    let mut most: BTreeMap<&str, (i64, &str)> = BTreeMap::new();
    for ((name, shape), ns) in times {
        let known = most.entry(name).or_insert((ns, shape));
        if ns > known.0 {
            *known = (ns, shape);
        }
    }
    most.into_iter().map(|(name, (_, shape))| (name, shape.replace(", ", ",").replace(",[]", ""))).collect()
}

/// Add to `times` the kernel times of one trace, by kernel name and input shapes of the launching operator.
fn shapes_of<'t>(trace: &'t Trace, scope: Scope, kernels: &[&str], times: &mut BTreeMap<(&'t str, &'t str), i64>) {
    let (dims, work) = (trace.attr("Input Dims"), scope.resolved(trace));
    let work = work.gpu_work(trace);
    for gpu in trace.gpu.ids().filter(|&gpu| work.has(gpu)) {
        let name = trace.strings.get(trace.events.name[trace.gpu.event[gpu.index()].index()]);
        let operator = trace.gpu.operator[gpu.index()];
        if !kernels.contains(&name) || operator == EventId::NONE {
            continue;
        }
        // The innermost operator may be a wrapper without inputs of its own.
        let around = std::iter::once(operator).chain(trace.ancestors(operator));
        let shape = around.filter(|&event| trace.kind(event) == EventKind::Operator).find_map(|event| {
            match dims.get(event)? {
                AttrValue::Json(text) | AttrValue::Str(text) => Some(trace.strings.get(text)),
                _ => None,
            }
        });
        if let Some(shape) = shape {
            *times.entry((name, shape)).or_default() += trace.events.dur[trace.gpu.event[gpu.index()].index()];
        }
    }
}

/// Shorten a text to `most` terminal cells on one line.
fn short(text: &str, most: usize) -> String {
    stackline_present::terminal::shorten(&stackline_present::terminal::clean(text), most)
}

/// Cut a text to at most `most` bytes, and mark the cut with `…`.
fn within(text: &str, most: usize) -> String {
    const MARK: char = '…';
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}{MARK}", &text[..boundary(text, most.saturating_sub(MARK.len_utf8()))])
}

/// Last character boundary at or before this byte.
fn boundary(text: &str, mut byte: usize) -> usize {
    while !text.is_char_boundary(byte) {
        byte -= 1;
    }
    byte
}

/// Cut the text to whole lines that fit, and append a line with the commands for the rest.
fn cut(mut text: String, commands: &str) -> String {
    let more = format!("\nMore: {}\n", within(&stackline_present::terminal::clean(commands), MOST / 2));
    if text.len() + more.len() > MOST {
        let end = boundary(&text, MOST - more.len());
        text.truncate(text[..end].rfind('\n').map_or(0, |at| at + 1));
    }
    text.push_str(&more);
    text
}

#[cfg(test)]
mod tests {
    use super::{LENGTHS, MOST, ROOM, cut, first_fitting};

    #[test]
    fn report_ends_with_a_complete_line() {
        let lines = "a kernel of some name – 100 µs\n".repeat(300);
        let text = cut(lines, "stackline");
        assert!(text.len() <= MOST && text.len() > MOST - 100, "{}", text.len());
        let mut whole = text.lines().filter(|line| !line.is_empty());
        assert!(whole.all(|line| line == "a kernel of some name – 100 µs" || line.starts_with("More: ")));
        assert!(cut("one\n".into(), "stackline").starts_with("one\n\nMore"));
        // A path may be longer than all of it, and a character more than a byte.
        let path = "\u{754c}".repeat(1363);
        let text = cut("one\n".repeat(2000), &path);
        assert!(text.len() <= MOST && text.starts_with("one\n") && text.ends_with("\u{754c}…\n"), "{}", text.len());
    }

    #[test]
    fn lines_are_shortened_before_they_are_dropped() {
        let texts = || ["a".repeat(9), "b".repeat(6), "c".repeat(3)].into_iter();
        assert_eq!(first_fitting(texts(), |text| text.len() <= 6), "bbbbbb");
        assert_eq!(first_fitting(texts(), |_| true), "aaaaaaaaa");
        assert_eq!(first_fitting(texts(), |_| false), "ccc");
        let shorter =
            |at: usize| LENGTHS[at].name >= LENGTHS[at + 1].name && LENGTHS[at].shape >= LENGTHS[at + 1].shape;
        assert!((0..LENGTHS.len() - 1).all(shorter));
        assert!(cut(String::new(), "stackline").len() <= "stackline".len() + ROOM);
    }
}
