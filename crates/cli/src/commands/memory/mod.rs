//! `memory`: live memory at the peaks by owner, waste, and savings of suggestions.

mod baseline;
mod conditions;
mod gate;
mod multiple_files;

pub(super) use multiple_files::{Read, read as read_several, trace_of_rank};

use crate::args::{Common, Format, MemoryArgs, MemoryRules};
use crate::failure::wrong_use;
use crate::output::{Answer, ROWS, print_message};
use crate::session::{Session, reading, run_of};
use anyhow::Result;
use gate::Gate;
use serde_json::Value;
use stackline_engine::Run;
use stackline_findings as findings;
use stackline_findings::Settings;
use stackline_memory::tables;
use stackline_memory::{MemoryAnalysis, Rules};
use stackline_model::{Column, MemoryTrace, Table, Trace, Values};
use stackline_present::human;
use stackline_present::json::Extra;
use stackline_present::terminal::clean_lines;

/// Points of the curve for people.
const CURVE_POINTS: usize = 20;

/// Run `stackline memory`: print peaks, waste and suggestions. The result is true if a `--fail-on` condition held.
pub(crate) fn run(args: &MemoryArgs, common: &Common) -> Result<bool> {
    if common.steps.is_some() {
        return Err(wrong_use("--steps does not apply, because a memory trace has no steps; leave --steps out"));
    }
    let mut run = run_of(&args.inputs, common)?.with_memory(common.rank.is_some());
    let (gate, rules) = (Gate::read(&args.gate, &args.inputs)?, rules(args)?);
    let files = run.memory_files()?;
    let trace = match common.rank {
        _ if files.is_empty() && args.inputs.len() > 1 => {
            return Err(wrong_use("`memory` accepts one input, or several files that contain only memory data"));
        }
        None if !files.is_empty() => return multiple_files::run(&run, &files, args, common).map(|()| false),
        Some(rank) if !files.is_empty() && args.process.is_none() => trace_of_rank(&run, &files, (rank, common))?,
        rank => select_memory(&mut run, args.process.as_deref(), rank)?,
    };
    if let Some(tables) = view((args, rules), common, &trace)? {
        let head = if common.format == Format::Table { head(&trace) } else { String::new() };
        write(common, &trace, (tables, head), Vec::new())?;
        return Ok(false);
    }
    let analysis = MemoryAnalysis::by_rules(&trace, args.peaks(), rules);
    let people = common.format == Format::Table && common.tables.is_empty();
    if people && !gate.is_requested(&args.gate) {
        write(common, &trace, (overview((args, common), &analysis), head(&trace)), Vec::new())?;
        return Ok(false);
    }
    let judged = gate.judge(args, &analysis)?;
    let written = match args.gate.document {
        Some(document) => judged.write(document, args, common, &trace),
        None => {
            let mut tables = overview((args, common), &analysis);
            // The output for people lists these findings as waste and suggestions.
            let gate_text = if people { judged.text() } else { String::new() };
            if !people {
                tables.extend(judged.tables());
            }
            let head = if common.format == Format::Table { head(&trace) + &gate_text } else { String::new() };
            write(common, &trace, (tables, head), judged.keys())
        }
    };
    judged.end(written)
}

/// Read the memory trace of the process or rank that the options select. By default, that of the run; of a recording,
/// the process with the highest peak.
fn select_memory(run: &mut Run, process: Option<&str>, rank: Option<i64>) -> Result<MemoryTrace> {
    match (process, rank) {
        (Some(_), Some(_)) => {
            return Err(wrong_use("--process and --rank both select a process; give only one of them"));
        }
        (Some(requested), None) => return memory_of_process(run, requested),
        (None, Some(_)) if run.is_memory_alone()? => {
            return Err(wrong_use("--rank does not apply, because a memory file has no ranks; leave --rank out"));
        }
        (None, Some(rank)) => run.select_rank(rank)?,
        (None, None) => {}
    }
    reading(run, |run| run.memory(rank))
}

/// Read the memory trace of one process of a recording, requested by PID or by the label of the trace.
fn memory_of_process(run: &Run, requested: &str) -> Result<MemoryTrace> {
    let mut processes = run.memories_of_processes()?;
    let is_match = |label: &str| label == requested || label.rsplit_once(':').is_some_and(|(_, pid)| pid == requested);
    if let Some(at) = processes.iter().position(|trace| is_match(&trace.label)) {
        return Ok(processes.swap_remove(at));
    }
    if processes.is_empty() {
        return Err(wrong_use(
            "--process does not apply, because the input has no memory data per process; leave --process out",
        ));
    }
    let labels: Vec<&str> = processes.iter().map(|trace| &trace.label[..]).collect();
    Err(wrong_use(format!("--process: no process {requested:?}; the processes are: {}", labels.join(", "))))
}

/// Thresholds of memory waste patterns, as the `--set` options change them.
fn rules(args: &MemoryArgs) -> Result<Rules> {
    let mut settings = Settings::default();
    for text in &args.set {
        settings.set(text).map_err(|error| wrong_use(format!("--set: {error}")))?;
        if let Some(note) = Settings::renaming_note(text) {
            print_message(&format!("--set: {note}"))?;
        }
    }
    let is_of_memory = |code: &&str| findings::rules::memory_rules().any(|rule| rule.code == *code);
    if let Some(code) = settings.rules().find(|code| !is_of_memory(code)) {
        return Err(wrong_use(format!(
            "--set: {code} is not a memory rule; change its threshold with `stackline findings --set`"
        )));
    }
    Ok(stackline_engine::memory_rules(&settings))
}

fn write(
    common: &Common,
    trace: &MemoryTrace,
    (mut tables, head): (Vec<Table>, String),
    keys: Vec<(&'static str, Value)>,
) -> Result<()> {
    if common.format == Format::Table {
        tables.iter_mut().for_each(for_people);
    }
    let head = clean_lines(&head);
    let session = session(common, trace);
    let tables = session.select_tables(tables)?;
    let own = [("memory", stackline_query::memory_summary(trace))].into_iter().chain(keys);
    let extra = own.map(|(key, value)| (key, Extra::Value(value))).collect();
    Answer { command: "memory", session: &session, extra, tables, head, shown: None }.write(common)
}

/// Create a session that contains only the read report of a memory trace.
fn session<'a>(common: &'a Common, trace: &MemoryTrace) -> Session<'a> {
    Session::from_reports(vec![described(trace)], common)
}

/// Table for an option that replaces the default tables, such as `--at`, `--curve` or `--objects`; `None` without such
/// an option.
fn view((args, rules): (&MemoryArgs, Rules), common: &Common, trace: &MemoryTrace) -> Result<Option<Vec<Table>>> {
    if let Some(name) = &args.at {
        let peaks = tables::named_peaks(trace, args.peaks());
        let peak = peaks.iter().find(|peak| peak.name.eq_ignore_ascii_case(name));
        let names: Vec<&str> = peaks.iter().map(|peak| peak.name.as_str()).collect();
        let none = || {
            wrong_use(format!(
                "no memory peak has the name {name:?}; the peaks are: {} (--peaks N finds more)",
                names.join(", ")
            ))
        };
        return Ok(Some(vec![tables::alive_table(trace, peak.ok_or_else(none)?)]));
    }
    if args.curve {
        let most = if common.format == Format::Table { common.limit.unwrap_or(CURVE_POINTS) } else { 0 };
        return Ok(Some(vec![tables::curve_table(trace, most)]));
    }
    if args.objects {
        return Ok(Some(vec![tables::objects_table(trace)]));
    }
    if args.rules != Some(MemoryRules::Drgpum) && args.apply.is_empty() {
        return Ok(None);
    }
    let analysis = MemoryAnalysis::by_rules(trace, args.peaks(), rules);
    if args.rules == Some(MemoryRules::Drgpum) {
        return Ok(Some(vec![tables::rules_table(&analysis.usage, &analysis.matches)]));
    }
    let none = |number| {
        wrong_use(match analysis.ranked.len() {
            0 => format!("--apply {number}: no change that saves memory is suggested for this input"),
            count => format!("--apply {number}: no suggestion has this number; the numbers are 1 to {count}"),
        })
    };
    Ok(Some(vec![tables::apply(trace, &analysis.ranked, &args.apply).map_err(none)?]))
}

/// Default tables of `memory`: peaks, live memory, waste and suggestions. Empty tables are omitted unless `--table`
/// requests them.
fn overview((args, common): (&MemoryArgs, &Common), analysis: &MemoryAnalysis<'_>) -> Vec<Table> {
    let (trace, peaks) = (analysis.trace(), &analysis.peaks[..]);
    let is_requested = |name: &str| common.tables.iter().any(|requested| requested == name);
    let mut all = vec![
        tables::peaks_table(trace, peaks),
        tables::composition_table(trace, peaks),
        tables::at_peak_table(trace, peaks, args.by()),
    ];
    // A table without any known value is printed only on request.
    let is_uninformative = |table: &Table| table.name == "memory_composition" && tables::is_unknown(table);
    all.retain(|table| is_requested(table.name.as_ref()) || !is_uninformative(table));
    if !trace.out_of_memory.is_empty() || is_requested("memory_out_of_memory") {
        all.push(tables::failed_requests_table(trace));
    }
    if !trace.segments.is_empty() || is_requested("memory_allocator") {
        all.push(tables::segments_table(trace));
    }
    if !analysis.matches.is_empty() || is_requested("memory_waste") {
        all.push(tables::waste_table(trace, &analysis.matches));
    }
    if !analysis.ranked.is_empty() || is_requested("memory_suggestions") {
        let best = peaks.first().and_then(|peak| analysis.combination(peak.device));
        let listed = tables::listed(&analysis.ranked, best.as_ref());
        let table = tables::suggestions_table(trace, &analysis.ranked, &listed, peaks);
        let notes = tables::suggestion_notes(trace, &analysis.ranked, best.as_ref());
        let cut = cut_note(common, &listed, best.as_ref().map_or(&[][..], |best| &best.chosen[..]));
        all.push(notes.into_iter().chain(cut).fold(table, Table::note));
    }
    all
}

/// Tables of the memory report for a language model, without tables of waste and suggestions.
pub(super) fn overview_for_agent(args: &MemoryArgs, common: &Common, analysis: &MemoryAnalysis<'_>) -> Vec<Table> {
    let mut tables = overview((args, common), analysis);
    tables.retain(|table| !["memory_waste", "memory_suggestions"].contains(&table.name.as_ref()));
    for table in &mut tables {
        for_people(table);
        table.notes.retain(|note| note != tables::SEGMENTS_NOTE);
    }
    tables
}

/// Note for a shortened table that hides some of the suggestions to combine.
fn cut_note(common: &Common, listed: &[usize], chosen: &[usize]) -> Option<String> {
    let rows = common.limit.unwrap_or(ROWS);
    let is_cut = common.format == Format::Table && rows > 0;
    let unseen = |at: &usize| listed.iter().position(|other| other == at).is_none_or(|row| row >= rows);
    (is_cut && chosen.iter().any(unseen))
        .then(|| "Some suggestions to combine with --apply are not in the table; --limit 0 shows all rows.".to_owned())
}

/// Remove table columns that repeat others or have no values, and move source locations next to the bytes, for text
/// output.
fn for_people(table: &mut Table) {
    if table.name == "memory_at_peak" {
        return;
    }
    // What to do has the room; the rest is in the table of waste, or for programs.
    let suggestions: &[&str] = &["place", "action", "bytes", "code", "against", "objects"];
    let are_suggestions = table.name == "memory_suggestions";
    let own = if are_suggestions { suggestions } else { &[] };
    let is_part = |name: &str| ["file", "line", "function", "module"].contains(&name) || own.contains(&name);
    let is_empty_column = |values: &Values| matches!(values, Values::I64(values) if values.iter().all(Option::is_none));
    let is_idle = |column: &Column| are_suggestions && is_empty_column(&column.values);
    let requested = table.column("requested").map(|column| column.values.clone());
    let equals_requested =
        requested.is_some() && requested.as_ref() == table.column("bytes").map(|column| &column.values);
    let is_unknown =
        |values: &Values| matches!(values, Values::Str(all) if all.iter().flatten().all(|kind| kind == "unknown"));
    let is_empty = |column: &Column| match &*column.name {
        "requested" => equals_requested,
        "kind" => is_unknown(&column.values),
        "time" | "reserved_bytes" => is_empty_column(&column.values),
        _ => false,
    };
    table.columns.retain(|column| !is_part(&column.name) && !is_idle(column) && !is_empty(column));
    place_before_numbers(table);
}

/// Move the column of source locations next to the column of bytes, since a narrow terminal cuts the columns on the
/// right.
fn place_before_numbers(table: &mut Table) {
    let position = |table: &Table, name: &str| table.columns.iter().position(|column| column.name == name);
    let Some(place) = position(table, "place") else { return };
    let column = table.columns.remove(place);
    let to = position(table, "bytes").map_or(place, |bytes| bytes + 1);
    table.columns.insert(to, column);
}

/// Create a trace with only the name and read report of a memory trace, because output documents take read reports from
/// traces.
pub(in crate::commands) fn described(memory: &MemoryTrace) -> Trace {
    let mut trace = Trace::default();
    trace.meta.name.clone_from(&memory.label);
    trace.report = memory.report.clone();
    trace
}

/// Header of the output, with name, devices and content of the memory trace.
pub(super) fn head(trace: &MemoryTrace) -> String {
    let devices: Vec<&str> = trace.devices.iter().map(|device| trace.strings.get(device.name)).collect();
    let count = |count: usize, one: &str, many: &str| {
        format!("{} {}", human::count(count), if count == 1 { one } else { many })
    };
    let mut text = format!(
        "{}: {}, {}, {} on {}\n",
        trace.label,
        count(trace.calls.len(), "call", "calls"),
        count(trace.objects.len(), "object", "objects"),
        count(trace.segments.len(), "segment", "segments"),
        if devices.is_empty() { "no device".to_owned() } else { devices.join(", ") },
    );
    let processes = stackline_ingest::diagnostics::processes_of(&trace.report);
    if processes > 1 {
        text.push_str(&format!(
            "Shown is 1 of {processes} memory traces in the input; --process selects another one.\n"
        ));
    }
    let ranks = stackline_ingest::diagnostics::ranks_of(&trace.report);
    if ranks > 1 {
        text.push_str(&format!(
            "Shown is the first of {ranks} traces with memory events in the input; --rank selects another one.\n"
        ));
    }
    text.push_str(missing(trace));
    text
}

/// Most important note on data that the memory trace lacks, with instructions to record it; empty if nothing is
/// missing.
fn missing(trace: &MemoryTrace) -> &'static str {
    let has_paths = trace.objects.stack.iter().any(|stack| stack.is_some());
    // Of the sources, snapshots of PyTorch's allocator alone have segments.
    let is_snapshot = !trace.segments.is_empty();
    if stackline_ingest::diagnostics::has_no_history(&trace.report) {
        if has_paths {
            "The snapshot has no allocation history, so peaks are unknown and only live objects have call paths. To \
             record it, call torch.cuda.memory._record_memory_history() before the model is created, and \
             _dump_snapshot() after the step.\n"
        } else {
            "The snapshot has no allocation history, so peaks and call paths are unknown. To record it, call \
             torch.cuda.memory._record_memory_history() before the model is created, and _dump_snapshot() after the \
             step.\n"
        }
    } else if stackline_ingest::diagnostics::is_outside_window(&trace.report) {
        "No operator ran during the recording, so memory accesses are unknown. Record a longer part of the program, or \
         another part (--duration, --after, --steps).\n"
    } else if trace.objects.is_empty() {
        "The input contains no memory objects: it has no allocations, and no objects from before the recording.\n"
    } else if is_snapshot && !has_paths {
        "The snapshot has no call paths, so allocations have no source lines. Call \
         torch.cuda.memory._record_memory_history(context=\"all\", stacks=\"all\") before the model is created.\n"
    } else if !trace.has_accesses {
        "The input has no records of memory accesses, so unused memory, early allocations and late frees cannot be \
         found.\n"
    } else {
        ""
    }
}
