//! `report --for-agent`: the report as little text for a language model.

mod instead;
mod names;

pub(super) use instead::{of_calls, of_memory};

use crate::session::Session;
use crate::view::{number, text, top};
use stackline_analyze::findings::{self, Finding, Findings, Options};
use stackline_model::{AttrValue, EventId, EventKind, Table, Trace};
use stackline_present::findings::bounds_are_unknown;
use stackline_present::human;
use stackline_query::Content;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Bytes of the text at most.
const MOST: usize = 4096;
/// Kernels and findings that are listed.
const KERNELS: usize = 10;
const FINDINGS: usize = 5;
/// Characters of names and titles, where there is room.
const NAME: usize = 72;
const TITLE: usize = 110;
/// Traces and critical paths that are listed.
const RANKS: usize = 4;

/// How long the parts of a line are.
#[derive(Clone, Copy)]
struct Lengths {
    name: usize,
    shape: usize,
    title: usize,
    /// A line of what no rule covers.
    uncovered: usize,
    /// Whether files stand with all of their folders.
    whole_paths: bool,
}

/// The longest lines first: shorter ones are taken where else a section would not fit.
const LENGTHS: [Lengths; 6] = [
    Lengths { name: NAME, shape: 56, title: TITLE, uncovered: 2 * TITLE, whole_paths: true },
    Lengths { name: NAME, shape: 56, title: TITLE, uncovered: 2 * TITLE, whole_paths: false },
    Lengths { name: 56, shape: 40, title: TITLE, uncovered: 2 * TITLE, whole_paths: false },
    Lengths { name: 40, shape: 24, title: TITLE, uncovered: 2 * TITLE, whole_paths: false },
    Lengths { name: 40, shape: 24, title: 90, uncovered: 160, whole_paths: false },
    Lengths { name: 40, shape: 16, title: 72, uncovered: 120, whole_paths: false },
];

/// The report, with lines as short as it takes to name everything; what does not fit even so is cut at a line.
pub(super) fn text_for_agent(session: &Session<'_>, content: &Content) -> String {
    let found = all_findings(session);
    let all = LENGTHS.iter().map(|lengths| text_of_lengths(session, content, found.as_ref(), *lengths));
    let fitting = first_that(all, |text| text.len() + MORE.len() + ROOM <= MOST);
    cut(fitting, MORE)
}

const MORE: &str = "stackline findings TRACE, stackline report TRACE --format json";

/// What [`cut`] adds to the commands.
const ROOM: usize = 16;

/// The first text that fits, or the last one.
fn first_that(texts: impl Iterator<Item = String>, fits: impl Fn(&str) -> bool) -> String {
    let mut last = String::new();
    for text in texts {
        last = text;
        if fits(&last) {
            break;
        }
    }
    last
}

fn text_of_lengths(session: &Session<'_>, content: &Content, found: Option<&Findings>, lengths: Lengths) -> String {
    let mut out = String::from(
        "Performance report of a deep-learning trace. All numbers are measured in the trace unless they say predicted.\n",
    );
    out.push_str(&stackline_present::cut_text(&session.set));
    head(session, content, &mut out);
    let find = |name: &str| content.tables.iter().find(|table| table.name == name).filter(|table| table.rows() > 0);
    if let Some(time) = find("gpu_time") {
        gpu_time(time, &mut out);
    }
    if let Some(found) = found {
        findings_of(found, lengths, &mut out);
    }
    if let Some(kernels) = find("gpu_kernels") {
        kernels_of(kernels, session.set.traces.first(), lengths, &mut out);
    }
    if let (None, Some(operators)) = (find("gpu_kernels"), find("operators")) {
        operators_of(operators, lengths, &mut out);
    }
    out
}

/// Traces, windows, steps, critical paths, and what was lost.
fn head(session: &Session<'_>, content: &Content, out: &mut String) {
    for info in session.infos.iter().take(RANKS) {
        let window =
            info.window_ns().map_or("no timed events".to_owned(), |ns| format!("window {}", human::duration(ns)));
        let gpu =
            info.gpus.first().and_then(|gpu| gpu.name.as_deref()).map_or(String::new(), |name| format!(", {name}"));
        let _ = writeln!(
            out,
            "Trace {} ({}), rank {}: {window}, {} events, {} GPU operations{gpu}",
            info.name,
            info.format,
            info.rank,
            human::count(info.events),
            human::count(info.gpu_operations),
        );
    }
    if session.infos.len() > RANKS {
        let _ = writeln!(out, "and {} more traces", session.infos.len() - RANKS);
    }
    if let Some(spread) = content.tables.iter().find(|table| table.name == "steps_spread") {
        for row in (0..spread.rows()).filter(|&row| text(spread, "measure", row) == Some("time")).take(RANKS) {
            let of = |column| number(spread, column, row).unwrap_or(0.0);
            let process = text(spread, "process", row).map_or_else(String::new, |name| format!(", process {name}"));
            let _ = writeln!(
                out,
                "Steps of rank {}{process}: {}, mean {:.0} us, median {:.0}, min {:.0}, max {:.0}",
                of("rank"),
                of("steps"),
                of("mean_us"),
                of("median_us"),
                of("min_us"),
                of("max_us")
            );
        }
    } else {
        out.push_str("Steps: none are marked; the numbers are of the whole trace.\n");
    }
    for path in content.paths.iter().take(RANKS) {
        let _ = writeln!(out, "{}", stackline_present::terminal::clean(&path.line));
    }
    for problem in session.set.traces.iter().flat_map(|trace| &trace.report.problems).take(RANKS) {
        let _ = writeln!(out, "Read report: {} x {}", problem.count, problem.code);
    }
}

fn gpu_time(time: &Table, out: &mut String) {
    let _ = writeln!(out, "\nGPU time by category (% of the GPU's window):");
    let shown = (0..time.rows()).filter(|&row| number(time, "time_ns", row).is_some_and(|ns| ns > 0.0));
    for row in shown.take(3 * RANKS) {
        let _ = writeln!(
            out,
            "- rank {} device {}: {} {:.1} %, {}",
            number(time, "rank", row).unwrap_or(0.0),
            number(time, "device", row).unwrap_or(0.0),
            text(time, "category", row).unwrap_or_default(),
            number(time, "percent", row).unwrap_or(0.0),
            human::duration(number(time, "time_ns", row).unwrap_or(0.0) as i64),
        );
    }
}

/// The findings of all ranks of a job, merged as `findings` does; of other traces those of the first.
fn all_findings(session: &Session<'_>) -> Option<Findings> {
    let options = Options::default();
    let is_job = session.infos.iter().all(|info| info.rank_from_file);
    let looked_at = if is_job { session.infos.len() } else { 1 };
    let ranks = session.set.traces.iter().zip(&session.infos).take(looked_at);
    let found = ranks.filter_map(|(trace, info)| Some((info.rank, findings::find(trace, &options).ok()?)));
    findings::merge(found.collect(), &options, &|_| true)
}

fn findings_of(found: &Findings, lengths: Lengths, out: &mut String) {
    let place_of = |text: &str| if lengths.whole_paths { text.to_owned() } else { names::without_folders(text) };
    let of = if found.steps == 0 { "the trace" } else { "a step" };
    let _ = writeln!(out, "\nFindings, by predicted gain ({of} takes {}):", human::duration(found.step_ns));
    for (at, finding) in found.findings.iter().take(FINDINGS).enumerate() {
        let _ = writeln!(
            out,
            "{}. {} {}{}",
            at + 1,
            finding.rule.code,
            short(&finding.title, lengths.title),
            gain(finding, found)
        );
        let place = place_of(&finding.place.text());
        if !place.is_empty() {
            let _ = writeln!(out, "   at {}", short(&place, lengths.title));
        }
    }
    if found.findings.is_empty() {
        out.push_str("none\n");
    }
    for line in stackline_present::findings::uncovered(found) {
        let _ = writeln!(out, "{}", short(&place_of(&line), lengths.uncovered));
    }
}

fn gain(finding: &Finding, found: &Findings) -> String {
    let percent = |ns: i64| 100.0 * ns as f64 / found.step_ns.max(1) as f64;
    finding.gain.map_or_else(String::new, |gain| {
        let (low, high) = (percent(gain.low_ns), percent(gain.high_ns));
        let bounds = match bounds_are_unknown(found, gain) {
            true => "bounds not known".to_owned(),
            false => format!("{low:.1} to {high:.1} %"),
        };
        format!("; predicted gain {:.1} % ({bounds})", percent(gain.ns))
    })
}

fn kernels_of(kernels: &Table, trace: Option<&Trace>, lengths: Lengths, out: &mut String) {
    let _ = writeln!(
        out,
        "\nKernels by time (share of all GPU work; input shapes of the operator that launched most of it):"
    );
    let kernels = top(kernels, "total_ns", KERNELS);
    let names: Vec<&str> = (0..kernels.rows()).filter_map(|row| text(&kernels, "name", row)).collect();
    let shapes = trace.map(|trace| shapes(trace, &names)).unwrap_or_default();
    let shown = names::apart(&names, lengths.name);
    for (row, (name, shown)) in names.iter().zip(&shown).enumerate() {
        let shape = shapes.get(*name);
        let shape = shape.map_or_else(String::new, |shape| format!(", shapes {}", short(shape, lengths.shape)));
        let _ = writeln!(
            out,
            "- {shown}: {}, {:.1} %, {} calls{shape}",
            human::duration(number(&kernels, "total_ns", row).unwrap_or(0.0) as i64),
            number(&kernels, "percent", row).unwrap_or(0.0),
            number(&kernels, "count", row).unwrap_or(0.0),
        );
    }
}

fn operators_of(operators: &Table, lengths: Lengths, out: &mut String) {
    let _ = writeln!(out, "\nOperators by own CPU time:");
    let operators = top(operators, "host_self_us", KERNELS);
    for row in 0..operators.rows() {
        let _ = writeln!(
            out,
            "- {}: {:.0} us, {} calls",
            short(text(&operators, "name", row).unwrap_or_default(), lengths.name),
            number(&operators, "host_self_us", row).unwrap_or(0.0),
            number(&operators, "calls", row).unwrap_or(0.0),
        );
    }
}

/// The input shapes of the operators that launched most of each kernel's time; without those that are not recorded.
fn shapes<'t>(trace: &'t Trace, kernels: &[&'t str]) -> BTreeMap<&'t str, String> {
    let dims = trace.attr("Input Dims");
    let mut times: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for gpu in trace.gpu.ids() {
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
    let mut most: BTreeMap<&str, (i64, &str)> = BTreeMap::new();
    for ((name, shape), ns) in times {
        let known = most.entry(name).or_insert((ns, shape));
        if ns > known.0 {
            *known = (ns, shape);
        }
    }
    most.into_iter().map(|(name, (_, shape))| (name, shape.replace(", ", ",").replace(",[]", ""))).collect()
}

/// The first characters of a text, on one line.
fn short(text: &str, most: usize) -> String {
    stackline_present::terminal::shorten(&stackline_present::terminal::clean(text), most)
}

/// As many whole lines as fit, and a last one that says which commands show the rest.
fn cut(mut text: String, commands: &str) -> String {
    let more = format!("\nMore: {}\n", short(commands, MOST / 2));
    if text.len() + more.len() > MOST {
        let mut end = MOST - more.len();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(text[..end].rfind('\n').map_or(0, |at| at + 1));
    }
    text.push_str(&more);
    text
}

#[cfg(test)]
mod tests {
    use super::{LENGTHS, MORE, MOST, ROOM, cut, first_that};

    #[test]
    fn it_ends_with_a_whole_line() {
        let lines = "a kernel of some name – 100 µs\n".repeat(300);
        let text = cut(lines, "stackline");
        assert!(text.len() <= MOST && text.len() > MOST - 100, "{}", text.len());
        let mut whole = text.lines().filter(|line| !line.is_empty());
        assert!(whole.all(|line| line == "a kernel of some name – 100 µs" || line.starts_with("More: ")));
        assert!(cut("one\n".into(), "stackline").starts_with("one\n\nMore"));
    }

    #[test]
    fn lines_are_shortened_before_any_is_dropped() {
        let texts = || ["a".repeat(9), "b".repeat(6), "c".repeat(3)].into_iter();
        assert_eq!(first_that(texts(), |text| text.len() <= 6), "bbbbbb");
        assert_eq!(first_that(texts(), |_| true), "aaaaaaaaa");
        assert_eq!(first_that(texts(), |_| false), "ccc");
        let shorter =
            |at: usize| LENGTHS[at].name >= LENGTHS[at + 1].name && LENGTHS[at].shape >= LENGTHS[at + 1].shape;
        assert!((0..LENGTHS.len() - 1).all(shorter));
        assert!(cut(String::new(), MORE).len() <= MORE.len() + ROOM);
    }
}
