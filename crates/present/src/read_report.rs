//! Read reports of all traces as text: repaired, skipped and lost records with counts and first positions.

use crate::terminal::{self, Style};
use stackline_model::{Trace, TraceSet};

/// Format the read reports of all traces as text, one line per problem; empty without problems.
pub fn read_report_text(set: &TraceSet, style: &Style) -> String {
    let mut out = String::new();
    for trace in set.traces.iter().filter(|t| !t.report.problems.is_empty()) {
        let trace_suffix = if set.traces.len() > 1 { format!(" of {}", trace.meta.name) } else { String::new() };
        out.push_str(&terminal::heading(&format!("Read report{trace_suffix}"), "read_report", style));
        for problem in &trace.report.problems {
            let count = crate::human::count(i64::try_from(problem.count).unwrap_or(i64::MAX));
            let mut text = format!("{} {count} × {} ({})", problem.severity.name(), problem.message, problem.code);
            if !problem.offsets.is_empty() {
                text.push_str(&format!("; at byte {}", offsets(&problem.offsets, problem.count)));
            }
            if !problem.example.is_empty() {
                let example = match problem.each_matters() {
                    true => terminal::clean(&problem.example),
                    false => terminal::shorten(&problem.example, 60),
                };
                text.push_str(&format!("; example: {example}"));
            }
            out.push_str(&terminal::note(&text, style));
        }
    }
    out
}

/// Inputs that break off and are named one by one.
const NAMED: usize = 4;

/// Warnings about truncated inputs, one line each, to print before all results; empty if all inputs are complete.
pub fn truncation_warnings(set: &TraceSet) -> String {
    let cut: Vec<String> = set.traces.iter().filter_map(cut_line).collect();
    let mut out: String = cut.iter().take(NAMED).map(String::as_str).collect();
    if cut.len() > NAMED {
        let more = cut.len() - NAMED;
        out.push_str(&format!(
            "Incomplete input: {more} more inputs are truncated. The list \"Read report\" below names them.\n"
        ));
    }
    terminal::clean_lines(&out)
}

fn cut_line(trace: &Trace) -> Option<String> {
    let problem = trace.report.breaks_off()?;
    let example_of = |code: &str| trace.report.problems.iter().find(|p| p.code == code).map(|p| p.example.as_str());
    let reason = match (problem.code.as_str(), example_of("last_record")) {
        ("cut_stream", _) => format!("the recorded data of a process is truncated ({})", problem.example),
        ("too_damaged" | "oversized_entry", Some(last)) => {
            format!("only the part up to the record of {last} could be read")
        }
        ("too_damaged" | "oversized_entry", None) => "only a part of the file could be read".to_owned(),
        (_, last) => format!("the file is truncated{}", after(last)),
    };
    Some(format!(
        "Incomplete input: {}: {reason}. All results cover only the part that could be read.\n",
        trace.meta.name
    ))
}

fn after(last: Option<&str>) -> String {
    last.map_or_else(String::new, |last| format!(" after the record of {last}"))
}

fn offsets(offsets: &[u64], count: u64) -> String {
    let listed: Vec<String> = offsets.iter().map(u64::to_string).collect();
    let more = if !listed.is_empty() && count > listed.len() as u64 { ", …" } else { "" };
    format!("{}{more}", listed.join(", "))
}
