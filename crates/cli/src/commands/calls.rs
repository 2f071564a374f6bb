//! `calls`: the calling context tree of a recording.

use super::process_ends::how_it_ended;
use crate::args::{By, CallsArgs, Common, Format, View};
use crate::failure::{did_you_mean, wrong_use};
use crate::output::{Answer, style};
use crate::session::{Session, reading, run_of};
use anyhow::Result;
use regex_lite::Regex;
use serde_json::json;
use stackline_calls as calls;
use stackline_calls::{CallView, Grouping, SourceLine, ViewDirection, ViewOptions};
use stackline_engine::Run;
use stackline_findings::{StepTime, step_time};
use stackline_model::{CallMetric, CallStats, CallingContextTree, Table, Trace};
use stackline_present::json::Extra;
use stackline_present::{calls as drawn, human, terminal};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Rows for people where they do not say.
const TOP: usize = 40;

/// Run `stackline calls`: print the call tree of a recording. The result is true if the recording has times, on which
/// findings are based.
pub(crate) fn run(args: &CallsArgs, common: &Common) -> Result<bool> {
    if common.steps.is_some() {
        return Err(wrong_use("--steps does not apply: a call-tree recording contains only totals over all steps"));
    }
    let (run, before) = match (&args.runs[..], args.diff) {
        ([run], false) => (run, None),
        ([before, after], true) => (after, Some(before)),
        (_, true) => return Err(wrong_use("--diff compares two runs: stackline calls --diff BEFORE AFTER")),
        _ => return Err(wrong_use("`calls` shows only one run: give one, or compare two with --diff BEFORE AFTER")),
    };
    // With `--lines`, frames of imports are not folded: each line is shown.
    let with_imports = args.imports || args.lines;
    let tree = open((run, with_imports), common)?;
    // A step has none of them, however calls are shown.
    let step = if with_imports { step_time(&calls::fold_imports(tree.clone())) } else { step_time(&tree) };
    let compared = before.map(|run| format!(" compared with {}", run.display())).unwrap_or_default();
    let before = before.map(|run| open((run, args.imports), common)).transpose()?;
    let metric = match &before {
        Some(before) => common_metric(before, &tree, args.metric.as_deref())?,
        None => metric(&tree, args.metric.as_deref())?,
    };
    let people = common.format == Format::Table;
    let name = format!("{}{compared}", run.display());
    let head = if people { head(&tree, (&name, metric), step.as_ref()) } else { String::new() };
    let (table, text) = if args.lines {
        lines(&tree, metric, args, common)?
    } else {
        let options = options(&tree, args, metric)?;
        let view = match &before {
            Some(before) => calls::compare(before, &tree, &options),
            None => calls::view(&tree, &options),
        };
        let top = args.top.or(common.limit).unwrap_or(if people { TOP } else { 0 });
        let depth = args.depth.unwrap_or(0);
        let view = if people { view.keep_lines(depth, top) } else { view.keep(depth, top) };
        (calls::view_table(&view), text(&view, top == 0, common))
    };
    let before = before.iter().map(|before| read_report_of(&args.runs[0], before));
    let session = Session::from_reports(std::iter::once(read_report_of(run, &tree)).chain(before).collect(), common);
    let tables = session.select_tables(vec![table])?;
    let (name, unit) = (json!(calls::metric_name(&tree, metric)), json!(metric.unit()));
    let recording = recording(&tree, run, step.as_ref());
    let extra = [("recording", recording), ("metric", name), ("unit", unit)];
    let extra = extra.map(|(key, value)| (key, Extra::Value(value))).into();
    let head = format!("{head}\n{text}");
    let shown = people.then(Vec::new);
    Answer { command: "calls", session: &session, extra, tables, head, shown }.write(common)?;
    Ok(tree.measured().into_iter().any(CallMetric::is_time))
}

/// Read the call tree of a recording or profile, of the rank that `--rank` selects. Frames of imports are folded unless
/// requested.
fn open((run, imports): (&Path, bool), common: &Common) -> Result<CallingContextTree> {
    let tree = of_rank(reading(&run_of(&[run.to_owned()], common)?, Run::profile)?, (run, common.rank))?;
    Ok(if imports { tree } else { calls::fold_imports(tree) })
}

/// Restrict a calling context tree to the rank that `--rank` selects; without a rank, return the whole tree.
pub(super) fn of_rank(tree: CallingContextTree, (run, rank): (&Path, Option<i64>)) -> Result<CallingContextTree> {
    let Some(rank) = rank else { return Ok(tree) };
    calls::calls_of_rank(tree, rank).map_err(|reason| wrong_use(format!("{}: {reason}", run.display())))
}

/// Create a trace with only the name and read report of a call tree, because output documents take read reports from
/// traces.
pub(super) fn read_report_of(run: &Path, tree: &CallingContextTree) -> Trace {
    let mut trace = Trace::default();
    trace.meta.name = run.display().to_string();
    trace.report = tree.report.clone();
    trace
}

/// Names of the metrics that were measured in a calling context tree.
pub(super) fn metric_names(tree: &CallingContextTree) -> Vec<&str> {
    tree.measured().into_iter().map(|metric| metric.name(&tree.strings)).collect()
}

/// Choose the requested metric of a calling context tree; without a request, the first that was measured.
pub(crate) fn metric(tree: &CallingContextTree, requested: Option<&str>) -> Result<CallMetric> {
    let measured = tree.measured();
    let names: Vec<&str> = measured.iter().map(|metric| metric.name(&tree.strings)).collect();
    let Some(requested) = requested else {
        return Ok(measured.first().copied().unwrap_or(CallMetric::OperatorTime));
    };
    match names.iter().position(|name| *name == requested) {
        Some(at) => Ok(measured[at]),
        None if names.is_empty() => {
            Err(wrong_use(format!("this run has no metric {requested:?}: it contains no measured values")))
        }
        None => {
            let near = did_you_mean(requested, names.iter().copied());
            Err(wrong_use(format!("this run has no metric {requested:?}{near} Its metrics are: {}", names.join(", "))))
        }
    }
}

/// The requested metric, or the first one that both runs measured. Error if the requested metric is missing in a run,
/// or if none is common.
fn common_metric(
    before: &CallingContextTree,
    after: &CallingContextTree,
    requested: Option<&str>,
) -> Result<CallMetric> {
    let known = metric_names(before);
    let is_in_both = |metric: &CallMetric| known.contains(&metric.name(&after.strings));
    let chosen = match requested {
        Some(_) => Some(metric(after, requested)?).filter(is_in_both),
        None => after.measured().into_iter().find(is_in_both),
    };
    let names = |names: Vec<&str>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    chosen.ok_or_else(|| {
        wrong_use(format!(
            "the runs cannot be compared by {}: the first run has the metrics {}, the second {}",
            requested.unwrap_or("any metric"),
            names(known.clone()),
            names(metric_names(after))
        ))
    })
}

/// Convert the command-line options for the view of the call tree. Error for options that contradict each other, or for
/// an unknown frame.
fn options(tree: &CallingContextTree, args: &CallsArgs, metric: CallMetric) -> Result<ViewOptions> {
    let pattern = |text: &Option<String>| text.as_deref().map(pattern).transpose();
    let shape = match (args.view, &args.callers_of) {
        (None | Some(View::Callers), Some(_)) => ViewDirection::Callers,
        (Some(View::Callers), None) => return Err(wrong_use("--view callers needs a frame: add --callers-of PATTERN")),
        (Some(_), Some(_)) => return Err(wrong_use("--callers-of implies --view callers: leave --view out")),
        (None | Some(View::TopDown), None) => ViewDirection::TopDown,
        (Some(View::BottomUp), None) => ViewDirection::BottomUp,
        (Some(View::Flat), None) => ViewDirection::Flat,
    };
    let callers_of = pattern(&args.callers_of)?;
    if let (Some(pattern), Some(text)) = (&callers_of, &args.callers_of) {
        let known = |frame| calls::CallLabel::whole(tree, frame).matches(pattern);
        if !tree.frames.iter().any(known) {
            return Err(wrong_use(format!("no frame matches {text:?}; --view flat lists all frames")));
        }
    }
    let by = args.by.map(grouping);
    let (focus, hide) = (pattern(&args.focus)?, pattern(&args.hide)?);
    Ok(ViewOptions { shape, by, focus, hide, callers_of, ..ViewOptions::new(metric) })
}

fn pattern(text: &str) -> Result<Regex> {
    Regex::new(text).map_err(|error| wrong_use(format!("{text:?} is not a regular expression: {error}")))
}

fn grouping(by: By) -> Grouping {
    match by {
        By::Thread => Grouping::Thread,
        By::Process => Grouping::Process,
        By::Rank => Grouping::Rank,
        By::Phase => Grouping::Phase,
        By::Operator => Grouping::Operator,
        By::Shapes => Grouping::Shapes,
        By::Module => Grouping::Module,
        By::Span => Grouping::Span,
        By::Function => Grouping::Function,
        By::File => Grouping::File,
    }
}

/// Header of `calls`: command and processes of the recording, total of the metric, and shares of a step.
fn head(tree: &CallingContextTree, (run, metric): (&str, CallMetric), step: Option<&StepTime>) -> String {
    let first = tree.processes.first();
    // A profile of another program does not say it.
    let command = first.map(|process| process.command.join(" ")).filter(|command| !command.is_empty());
    let command =
        command.map_or_else(String::new, |text| format!("{}, ", terminal::shorten(&terminal::clean(&text), 60)));
    let versions = first.map_or_else(String::new, |process| {
        let version =
            |name: &str, version: &str| if version.is_empty() { String::new() } else { format!(", {name} {version}") };
        format!("{}{}", version("Python", &process.python), version("PyTorch", &process.torch))
    });
    let total = tree.inclusive(metric, &tree.exclusive(metric, |_| true)).first().copied().unwrap_or_default();
    let CallStats { sum, count, .. } = total;
    let mut text = format!("{run}: {command}{}{versions}\n", processes(tree));
    text.push_str(&format!(
        "{}: {} ({} values)",
        human::capital(metric.title(&tree.strings)),
        drawn::amount(metric.unit(), sum),
        human::count(count)
    ));
    let others: Vec<&str> =
        tree.measured().into_iter().filter(|other| *other != metric).map(|other| other.name(&tree.strings)).collect();
    if !others.is_empty() {
        text.push_str(&format!("; --metric shows {}", others.join(", ")));
    }
    text.push('\n');
    if let Some(step) = step {
        text.push_str(&format!("{}\n", step_sentence(step)));
    }
    text.push_str(&how_it_ended(std::iter::once(&tree.report)));
    if let Some(overhead) = super::overhead::sentence(tree) {
        text.push_str(&format!("{}\n", human::capital(&overhead)));
    }
    text
}

/// Header of the report for AI agents: command, numbers of processes and threads, and length and shares of a step.
pub(super) fn head_for_agent(tree: &CallingContextTree, step: Option<&StepTime>) -> String {
    let command =
        tree.processes.first().map(|process| terminal::shorten(&terminal::clean(&process.command.join(" ")), 120));
    let step = step.map_or_else(String::new, |time| format!("{}\n", step_sentence(time)));
    format!("Command: {}; {}\n{step}", command.unwrap_or_default(), processes(tree))
}

/// Minimum number of samples to split a step's time.
const LEAST_SAMPLES: usize = 10;

/// Sentences with the length of a step and its shares of operators, waits and other code.
fn step_sentence(time: &StepTime) -> String {
    let length = step_length(time);
    if time.samples < LEAST_SAMPLES {
        return format!(
            "{length}; number of samples: {}, too few to show the shares of operators and other code in this time",
            human::count(time.samples)
        );
    }
    let percent = |ns: i64| format!("{:.0} %", 100.0 * ns as f64 / time.ns.max(1) as f64);
    let (operators, other) = (percent(time.operators_ns), percent(time.other_ns));
    let blocked = percent(time.blocked_ns);
    let shares = match (time.waits_ns.map(percent), time.blocked_ns) {
        (None, 0) => format!("of this time: operators {operators}, other code {other}"),
        (Some(waits), 0) => {
            format!(
                "of this time: operators {operators}, waits {waits} (including waits for a free CPU), other code \
                 {other}"
            )
        }
        (None, _) => format!(
            "of this time: operators {operators}, not sampled {blocked} (the thread was blocked or waited for a CPU), \
             other code {other}"
        ),
        (Some(waits), _) => format!(
            "of this time: operators {operators}, waits {waits} (including waits for a free CPU), not sampled \
             {blocked} (the thread was blocked or waited for a CPU), other code {other}"
        ),
    };
    match time.busiest.as_ref().filter(|(_, ns)| 100 * ns >= time.ns) {
        Some((place, ns)) => {
            format!(
                "{length}; {shares}. Location in your code with the most time: {} ({})",
                terminal::clean(&place.text()),
                percent(*ns)
            )
        }
        None => format!("{length}; {shares}"),
    }
}

/// Length of a step, or of the analyzed thread without steps, with its rank and the kind of time.
fn step_length(time: &StepTime) -> String {
    let steps = match time.steps {
        1 => "1 step".to_owned(),
        steps => format!("{} steps", human::count(steps)),
    };
    let scope = match (time.steps, time.rank) {
        (0, None) => "the analyzed thread without imports of Python modules".to_owned(),
        (0, Some(rank)) => {
            format!("the analyzed thread of rank {rank}, the slowest rank, without imports of Python modules")
        }
        (_, None) => format!("a step (mean of {steps})"),
        (_, Some(rank)) => format!("a step on rank {rank}, the slowest rank; mean over {steps}"),
    };
    let measure = match (time.waits_ns, time.is_wall_clock) {
        _ if time.blocked_ns > 0 => "Wall-clock time",
        (Some(_), _) => "Time",
        (None, true) => "Wall-clock time",
        (None, false) => "CPU time",
    };
    let took = human::duration(time.ns);
    match time.recording_ns {
        Some(ns) => {
            format!("{measure} of {scope}: {took} (without {} of recording overhead)", human::duration(ns))
        }
        None => format!("{measure} of {scope}: {took}"),
    }
}

/// Text with the numbers of recorded processes and threads, and the duration of the recording, if known.
pub(crate) fn processes(tree: &CallingContextTree) -> String {
    let counted = |count: usize, one: &str, many: &str| {
        format!("{} {}", human::count(count), if count == 1 { one } else { many })
    };
    let time = duration(tree)
        .map_or_else(String::new, |ns| format!(", {}", human::duration(i64::try_from(ns).unwrap_or(i64::MAX))));
    // Threads of which nothing was measured are not known.
    let threads = match tree.threads.len() {
        0 => String::new(),
        threads => format!(", {}", counted(threads, "thread", "threads")),
    };
    format!("{}{threads}{time}", counted(tree.processes.len(), "process", "processes"))
}

/// Longest duration in ns of a process that no other recorded process started; `None` if that of one is unknown, because
/// it was killed: its children may have run for a much shorter time.
fn duration(tree: &CallingContextTree) -> Option<u64> {
    let recorded: BTreeSet<u32> = tree.processes.iter().map(|process| process.pid).collect();
    let first = tree.processes.iter().filter(|p| p.parent_pid == p.pid || !recorded.contains(&p.parent_pid));
    // A program that another one replaced by exec has the same PID and no end.
    let mut by_pid: BTreeMap<u32, Option<u64>> = BTreeMap::new();
    for process in first {
        let longest = by_pid.entry(process.pid).or_default();
        *longest = process.lasted_ns.max(*longest);
    }
    by_pid.into_values().collect::<Option<Vec<u64>>>()?.into_iter().max()
}

/// Format a call tree view for the terminal, with a note on omitted rows.
fn text(view: &CallView, all: bool, common: &Common) -> String {
    let style = style(common);
    let mut text = drawn::view(view, &style);
    if view.left_out > 0 {
        let count = human::count(view.left_out);
        let note = if all {
            format!("Rows omitted below the maximum depth: {count}. Increase --depth to show them.")
        } else {
            format!("Rows omitted: {count}. --top 0 shows all rows, --focus PATTERN only call paths that match.")
        };
        text.push_str(&terminal::note(&note, &style));
    }
    text
}

/// Costs by source line, as a table and as text for people. Text output has only the most expensive lines by default.
fn lines(tree: &CallingContextTree, metric: CallMetric, args: &CallsArgs, common: &Common) -> Result<(Table, String)> {
    let focus = args.focus.as_deref().map(pattern).transpose()?;
    let mut lines = calls::source_lines(tree, metric);
    if let Some(focus) = focus {
        lines.retain(|line| focus.is_match(&format!("{} {}:{}", line.function, line.file, line.line)));
    }
    let top = args.top.or(common.limit).unwrap_or(if common.format == Format::Table { TOP } else { 0 });
    let all = lines.len();
    if top > 0 {
        let mut order: Vec<usize> = (0..lines.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(lines[at].inclusive.sum));
        order.truncate(top);
        order.sort_unstable();
        lines = order.into_iter().map(|at| lines[at].clone()).collect();
    }
    let roots = stackline_query::SourceRoots::new(args.runs.iter().chain(&args.source_root));
    let mut files: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for line in &lines {
        let read = || roots.read(&line.file).unwrap_or_default().lines().map(str::to_owned).collect();
        files.entry(&line.file).or_insert_with(read);
    }
    let text_of = |line: &SourceLine| {
        let text = files.get(line.file.as_str())?.get(line.line.checked_sub(1)? as usize)?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let total = tree.inclusive(metric, &tree.exclusive(metric, |_| true)).first().map_or(0, |all| all.sum);
    let style = style(common);
    let mut text = drawn::lines(&lines, metric.unit(), total, text_of, &style);
    if all > lines.len() {
        let count = human::count(all - lines.len());
        let note = format!("Lines omitted: {count}. --top 0 shows all lines, --focus PATTERN only lines that match.");
        text.push_str(&terminal::note(&note, &style));
    }
    Ok((calls::lines_table(tree, metric, &lines, text_of), text))
}

/// Metadata of the recording for the JSON document.
fn recording(tree: &CallingContextTree, run: &Path, step: Option<&StepTime>) -> serde_json::Value {
    let processes = tree.processes.iter().map(|process| {
        json!({
            "pid": process.pid, "parent_pid": process.parent_pid, "role": process.role.name(), "rank": process.rank,
            "start_unix_ns": process.start_unix_ns, "lasted_ns": process.lasted_ns, "command": process.command,
            "python": process.python, "torch": process.torch,
            "sources": process.sources.iter().map(|s| json!({"name": s.name, "on": s.on, "detail": s.detail})).collect::<Vec<_>>(),
            "overhead": super::overhead::json(process.overhead),
            "lost": process.lost.iter().map(|(what, count)| json!({"what": what, "count": count})).collect::<Vec<_>>(),
        })
    });
    let step = step.map(|time| {
        let busiest = time.busiest.as_ref().map(|(place, ns)| json!({"place": place.text(), "ns": ns}));
        json!({
            "ns": time.ns, "steps": time.steps, "samples": time.samples, "rank": time.rank, "operators_ns": time.operators_ns,
            "waits_ns": time.waits_ns, "blocked_ns": time.blocked_ns, "is_wall_clock": time.is_wall_clock, "recording_ns": time.recording_ns, "other_ns": time.other_ns, "busiest": busiest,
        })
    });
    json!({
        "run": run.display().to_string(),
        "step": step,
        "processes": processes.collect::<Vec<_>>(),
        "threads": tree.threads.len(),
        "nodes": tree.nodes.len(),
        "metrics": metric_names(tree),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_model::CallProcess;

    #[test]
    fn children_of_a_killed_process_do_not_give_the_duration() {
        let process = |pid, parent_pid, lasted_ns| CallProcess { pid, parent_pid, lasted_ns, ..CallProcess::default() };
        let of = |list: &[CallProcess]| {
            duration(&CallingContextTree { processes: list.to_vec(), ..CallingContextTree::default() })
        };
        let child = process(8, 7, Some(764_700));
        assert_eq!(of(&[process(7, 1, None), child.clone()]), None);
        assert_eq!(of(&[process(7, 1, Some(3_000_000_000)), child.clone()]), Some(3_000_000_000));
        assert_eq!(of(&[process(7, 1, None), process(7, 1, Some(5)), child]), Some(5), "replaced by exec");
        assert_eq!(of(&[process(0, 0, Some(9))]), Some(9), "a profile without processes");
        assert_eq!(of(&[]), None);
    }
}
