//! `diff` of two memory snapshots: the highest peaks, by source line.

use crate::args::{Common, DiffArgs, Format};
use crate::commands::memory::described;
use crate::failure::wrong_use;
use crate::output::Answer;
use crate::session::Session;
use anyhow::Result;
use stackline_engine::Run;
use stackline_memory::tables::{PeakScope, comparison_table, peaks_comparison_table};
use stackline_present::human::bytes;

/// Compare and print the memory peaks of two runs if both contain only memory data; return false if neither does. Error
/// for a mix.
///
/// # Errors
/// If some of them hold only memory, or options are given that only traces have.
pub(super) fn compare(args: &DiffArgs, common: &Common, (before, after): (&[Run], &[Run])) -> Result<bool> {
    // Errors of unreadable inputs are reported where the inputs are opened.
    let is_memory = |run: &&Run| run.is_memory_alone().unwrap_or(false);
    let memory = before.iter().chain(after).filter(is_memory).count();
    if memory == 0 {
        return Ok(false);
    }
    let ([before], [after]) = (before, after) else {
        return Err(wrong_use("memory snapshots are compared in pairs: `stackline diff BEFORE AFTER`"));
    };
    if memory < 2 {
        return Err(wrong_use(
            "one input is a memory snapshot and the other a trace or recording: compare two of the same kind",
        ));
    }
    if !args.fail_on.is_empty() || args.document.is_some() || common.steps.is_some() || common.rank.is_some() {
        return Err(wrong_use(
            "--fail-on, --as, --steps and --rank do not apply to memory snapshots; to fail a build on their memory, \
             run `stackline memory \
             AFTER --baseline BEFORE.json --fail-on 'peak>+2%'`",
        ));
    }
    write(common, before, after)?;
    Ok(true)
}

/// Print the compared peaks of two memory snapshots, and the memory at the peaks by source line.
fn write(common: &Common, before: &Run, after: &Run) -> Result<()> {
    let traces = [before.memory(None)?, after.memory(None)?];
    let [first, second] = &traces;
    let peaks = peaks_comparison_table(first, second);
    let devices = peaks.rows();
    let mut head = format!("A: {}\nB: {}\n", before.name(), after.name());
    if common.format != Format::Table {
        head.clear();
    } else {
        head.push_str(&sentences(&peaks, [first, second].map(PeakScope::from_trace)));
    }
    let session = Session::from_reports(traces.iter().map(described).collect(), common);
    let mut lines = comparison_table(first, second);
    if common.format == Format::Table {
        // Source locations need the space.
        lines.columns.retain(|column| !column.name.starts_with("objects") && (column.name != "device" || devices > 1));
    }
    let tables = session.select_tables(vec![peaks, lines])?;
    let names = [("before", before), ("after", after)];
    let extra = names.map(|(key, run)| (key, serde_json::json!([run.name()]).into())).into();
    Answer { command: "memory-diff", session: &session, extra, tables, head, shown: None }.write(common)
}

/// Change of the highest peak of each device, as sentences. Without a whole history a peak is only the highest known
/// memory use.
fn sentences(peaks: &stackline_model::Table, scopes: [PeakScope; 2]) -> String {
    let is_known = |scope: PeakScope| scope == PeakScope::All;
    let [of_a, of_b] = scopes.map(PeakScope::remark);
    let name = |known: bool| if known { "the memory peak" } else { "the highest known memory use" };
    let names = scopes.map(|scope| name(is_known(scope)));
    let both = name(scopes.into_iter().all(is_known));
    let column = |name: &str| match peaks.column(name).map(|column| &column.values) {
        Some(stackline_model::Values::I64(values)) => values.clone(),
        _ => Vec::new(),
    };
    let devices = match peaks.column("device").map(|column| &column.values) {
        Some(stackline_model::Values::Str(values)) => values.clone(),
        _ => Vec::new(),
    };
    let rows = devices.into_iter().zip(column("bytes_before")).zip(column("bytes_after"));
    let sentence = |((device, before), after): ((Option<_>, Option<i64>), Option<i64>)| {
        let device: String = device.map(|name: String| name).unwrap_or_default();
        let [before, after] = [before, after].map(|bytes| bytes.and_then(|bytes| u64::try_from(bytes).ok()));
        let (before, after) = match (before, after) {
            (Some(before), Some(after)) => (before, after),
            (None, Some(only)) => {
                let name = names[1];
                return format!("{device}: A has no memory of this device; {name} is {} in B{of_b}\n", bytes(only));
            }
            (Some(only), None) => {
                let name = names[0];
                return format!("{device}: {name} is {} in A{of_a}; B has no memory of this device\n", bytes(only));
            }
            (None, None) => return String::new(),
        };
        let sign = if after < before { "-" } else { "+" };
        let change = bytes(after.abs_diff(before));
        let [before, after] = [before, after].map(bytes);
        format!("{device}: {both} is {before} in A{of_a} and {after} in B{of_b} ({sign}{change})\n")
    };
    rows.map(sentence).collect()
}
