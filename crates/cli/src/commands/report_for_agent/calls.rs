//! Report for AI agents (`report --for-agent`) on recordings of call trees.

use super::{KERNELS, LENGTHS, NAME, cut, diagnostics, findings_of, short};
use crate::args::{Common, SourceArgs, options_for};
use crate::commands::process_ends::how_it_ended;
use crate::failure::command_line;
use anyhow::Result;
use stackline_calls::{fold_imports, source_lines_and_imports};
use stackline_engine::Run;
use stackline_findings::{ExternalRules, Options, find_in_calls, step_time};
use stackline_model::{CallMetric, CallingContextTree};
use stackline_present::human;
use std::cmp::Reverse;
use std::fmt::Write as _;

/// Text of the report for AI agents on a recording or profile that is only a call tree, for one rank or all.
///
/// # Errors
/// If it cannot be read, or has no such rank.
pub(in crate::commands) fn report_calls(run: &Run, common: &Common, source: &SourceArgs) -> Result<String> {
    let tree = crate::commands::calls::of_rank(run.profile()?, (&run.inputs()[0], common.rank))?;
    let (tree, name) = (fold_imports(tree), run.name());
    let mut out = format!(
        "Performance report of the recording {name}: totals per call path, without individual calls. Numbers are \
         measured \
         unless marked as predicted.\n"
    );
    let step = step_time(&tree);
    out.push_str(&crate::commands::calls::head_for_agent(&tree, step.as_ref()));
    out.push_str(&how_it_ended(std::iter::once(&tree.report)));
    diagnostics::write(tree.report.problems.iter(), "the recording", &mut out);
    let found = find_in_calls(&tree, None, &Options::default(), &ExternalRules::default(), &|_| true);
    if let Ok(found) = &found {
        findings_of(found, LENGTHS[0], &mut out);
    }
    lines(&tree, &mut out);
    let more = |command| command_line(command, run.inputs(), &options_for(command, common, Some(source)));
    // Without data for findings, the command `findings` fails, so it is not suggested.
    let findings = if found.is_ok() { format!("{}, ", more("findings")) } else { String::new() };
    Ok(cut(out, &format!("{findings}{} --lines", more("calls"))))
}

/// Append the Python source lines with the largest exclusive time, and the time of all imports.
fn lines(tree: &CallingContextTree, out: &mut String) {
    let times = [CallMetric::WallTime, CallMetric::CpuTime, CallMetric::OperatorTime];
    let Some(metric) = times.into_iter().find(|metric| tree.measured().contains(metric)) else { return };
    let (mut lines, imports) = source_lines_and_imports(tree, metric);
    let all = lines.iter().map(|line| line.exclusive.sum).fold(imports, u64::saturating_add);
    let cost = |sum: u64| {
        let time = human::duration(i64::try_from(sum).unwrap_or(i64::MAX));
        format!("{time}, {:.1} %", 100.0 * sum as f64 / all.max(1) as f64)
    };
    lines.retain(|line| line.exclusive.sum > 0);
    lines.sort_by_key(|line| Reverse(line.exclusive.sum));
    let title = metric.title(&tree.strings);
    let _ = writeln!(out, "\nPython lines by {title}, including the operators that they call:");
    for line in lines.iter().take(KERNELS) {
        let _ = writeln!(
            out,
            "- {}:{} {}: {}",
            short(&line.file, NAME),
            line.line,
            short(&line.function, NAME),
            cost(line.exclusive.sum)
        );
    }
    if imports > 0 {
        let _ = writeln!(out, "- importing Python modules, sum of all imports: {}", cost(imports));
    }
}
