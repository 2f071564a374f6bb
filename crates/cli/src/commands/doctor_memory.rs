//! `doctor` for inputs with memory data only: format, records and state of reading of each memory trace.

use super::doctor::state;
use super::memory::described;
use crate::args::Common;
use crate::failure::command_line;
use crate::session::{Session, reading, run_of};
use anyhow::Result;
use stackline_engine::Run;
use stackline_ingest::memory::format_of;
use stackline_model::{MemoryTrace, Table, Unit};
use std::path::PathBuf;

/// Create the table of `doctor` for memory inputs, and a session with their read reports.
pub(super) fn tables<'a>(run: &Run, common: &'a Common) -> Result<(Session<'a>, Vec<Table>)> {
    let inputs = run.inputs();
    let mut traces = Vec::new();
    for input in inputs {
        let memories = match inputs {
            [_] => reading(run, Run::memories)?,
            _ => reading(&run_of(std::slice::from_ref(input), common)?, Run::memories)?,
        };
        let format = format_of(input);
        traces.extend(memories.into_iter().map(|memory| (format, memory)));
    }
    let session = Session::from_reports(traces.iter().map(|(_, memory)| described(memory)).collect(), common);
    Ok((session, vec![contents(&traces, inputs)]))
}

/// Table of the memory traces with their formats.
fn contents(traces: &[(Option<&'static str>, MemoryTrace)], inputs: &[PathBuf]) -> Table {
    let count = |number: fn(&MemoryTrace) -> usize| traces.iter().map(move |(_, memory)| number(memory) as i64);
    let devices = |memory: &MemoryTrace| {
        let names: Vec<&str> = memory.devices.iter().map(|device| memory.strings.get(device.name)).collect();
        names.join(", ")
    };
    Table::new("memory_traces", "Memory traces")
        .text("name", traces.iter().map(|(_, memory)| memory.label.clone()))
        .text("format", traces.iter().map(|(format, _)| format.map(str::to_owned)))
        .text("devices", traces.iter().map(|(_, memory)| devices(memory)))
        .i64("calls", Unit::None, count(|memory| memory.calls.len()))
        .i64("objects", Unit::None, count(|memory| memory.objects.len()))
        .i64("accesses", Unit::None, count(|memory| memory.accesses.len()))
        .i64("segments", Unit::None, count(|memory| memory.segments.len()))
        .text("state", traces.iter().map(|(_, memory)| state(&memory.report).to_owned()))
        .note(format!(
            "The input contains only memory data, no execution trace. Analyze it with `{}`.",
            command_line("memory", inputs, &[])
        ))
}
