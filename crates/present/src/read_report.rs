//! The read reports of a set as one table: what was repaired, skipped or lost, how often, and where first.

use crate::terminal::{self, Style};
use stackline_model::{Table, TraceSet, Unit};

/// One row per problem of each trace; without rows if all files were read without any.
pub fn read_report_table(set: &TraceSet) -> Table {
    let problems: Vec<_> =
        set.traces.iter().flat_map(|t| t.report.problems.iter().map(move |p| (&t.meta.name, p))).collect();
    let text = |f: &dyn Fn(usize) -> String| (0..problems.len()).map(|i| Some(f(i))).collect::<Vec<_>>();
    let table = Table::new("read_report", "Read report: what the files say that could not be taken literally");
    let table = if set.traces.len() > 1 { table.text("trace", text(&|i| problems[i].0.clone())) } else { table };
    table
        .text("severity", text(&|i| problems[i].1.severity.name().to_owned()))
        .i64("count", Unit::None, problems.iter().map(|(_, p)| i64::try_from(p.count).unwrap_or(i64::MAX)))
        .text("problem", text(&|i| problems[i].1.message.clone()))
        .text("code", text(&|i| problems[i].1.code.clone()))
        .text("at_byte", text(&|i| offsets(&problems[i].1.offsets, problems[i].1.count)))
        .text("example", text(&|i| problems[i].1.example.clone()))
}

/// The read reports as sentences, empty if there is nothing to say.
pub fn read_report_text(set: &TraceSet, style: &Style) -> String {
    let mut out = String::new();
    for trace in set.traces.iter().filter(|t| !t.report.problems.is_empty()) {
        let of = if set.traces.len() > 1 { format!(" of {}", trace.meta.name) } else { String::new() };
        out.push_str(&terminal::heading(&format!("Read report{of}"), "read_report", style));
        for problem in &trace.report.problems {
            let count = crate::human::count(i64::try_from(problem.count).unwrap_or(i64::MAX));
            let mut text = format!("{} {count} × {} ({})", problem.severity.name(), problem.message, problem.code);
            if !problem.offsets.is_empty() {
                text.push_str(&format!("; at byte {}", offsets(&problem.offsets, problem.count)));
            }
            if !problem.example.is_empty() {
                text.push_str(&format!("; such as {}", terminal::shorten(&problem.example, 60)));
            }
            out.push_str(&terminal::note(&text, style));
        }
    }
    out
}

fn offsets(offsets: &[u64], count: u64) -> String {
    let listed: Vec<String> = offsets.iter().map(u64::to_string).collect();
    let more = if !listed.is_empty() && count > listed.len() as u64 { ", …" } else { "" };
    format!("{}{more}", listed.join(", "))
}
