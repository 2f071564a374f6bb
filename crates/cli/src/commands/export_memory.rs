//! Command `export` for memory traces: as text, or as lanes of a timeline viewer.

use crate::args::{Common, ExportArgs, Target};
use crate::failure::wrong_use;
use crate::output::{may_become_run, print_message, save_run, to_output};
use crate::session::{reading, run_of};
use anyhow::Result;
use stackline_engine::Run;
use stackline_ingest::memory::text;
use stackline_memory::suggest::describe;
use stackline_memory::{MemoryAnalysis, path_text};
use stackline_model::{MemoryObjectId, MemoryTrace, Trace, TraceSet};
use stackline_present::exports::memory::{self, Waste};
use stackline_present::exports::{chrome, perfetto};
use stackline_present::human;
use std::collections::HashMap;

/// Write the memory trace of one input as text.
pub(super) fn run(args: &ExportArgs, common: &Common) -> Result<()> {
    if common.steps.is_some() || common.rank.is_some() {
        return Err(wrong_use("--steps and --rank do not apply to a memory trace, which has no steps or ranks"));
    }
    if args.redact {
        return Err(wrong_use(
            "--redact applies only to traces; --to memory-text writes only names, source locations and sizes",
        ));
    }
    if args.inputs.inputs.len() > 1 {
        return Err(wrong_use("this export writes one memory trace; give only one input"));
    }
    let trace = reading(&run_of(&args.inputs.inputs, common)?, |run| run.memory(None))?;
    let (mut written, left_out) = text::write_counted(&trace);
    if written.is_empty() {
        // A text without statements is not recognized as memory text.
        written.push_str("device \"gpu:0\"\n");
    }
    to_output(common, |out| out.write_all(written.as_bytes()))?;
    if left_out > 0 {
        let count = usize::try_from(left_out).unwrap_or(usize::MAX);
        print_message(&format!(
            "Omitted: {} inconsistent records. Each accesses an object that is not live, accesses memory outside of its \
             object, or waits for an unrecorded synchronization event.",
            human::count(count)
        ))?;
    }
    Ok(())
}

/// Export inputs that have only memory data: as lanes of a timeline viewer, or as a run directory.
pub(super) fn lanes(args: &ExportArgs, common: &Common, traces: &[MemoryTrace]) -> Result<()> {
    let lanes = || traces.first().map(lanes_of).unwrap_or_default();
    match (args.to, &common.output) {
        (Target::Perfetto, _) => {
            let lanes = lanes();
            to_output(common, |out| perfetto::write(&[&lanes], out).map(|_| ()))
        }
        (Target::Chrome, _) => {
            let lanes = lanes();
            to_output(common, |out| chrome::write(&lanes, false, out))
        }
        (Target::Parquet, Some(run)) if !args.redact => {
            may_become_run(run, args.force)?;
            save_run(&TraceSet::default(), traces, run, args.force)
        }
        _ => Err(wrong_use(
            "files with only memory data can be exported only to perfetto, chrome, memory-text, and (without --redact) \
             parquet",
        )),
    }
}

/// Memory of an exported trace as additional lanes of the timeline; `None` without memory data of this trace.
pub(super) fn memory_lanes(run: &Run, trace: &Trace) -> Result<Option<Trace>> {
    let known = run.memories()?;
    // Only memory data of the trace itself, or of its one process, has the clock of the trace.
    let memory = known.iter().find(|memory| memory.label == trace.meta.name);
    Ok(memory.map(|memory| {
        let mut lanes = lanes_of(memory);
        lanes.meta.base_ns = trace.meta.base_ns;
        lanes
    }))
}

/// Convert a memory trace to timeline lanes, with waste, source locations of allocations, and suggestions.
fn lanes_of(trace: &MemoryTrace) -> Trace {
    let analysis = MemoryAnalysis::new(trace, 2);
    let waste = analysis.matches.iter().map(|found| Waste {
        object: found.object,
        name: found.pattern.name(),
        from: found.from,
        to: found.to,
        bytes: found.bytes,
    });
    // Best first: of several suggestions for an object the first one stays.
    let mut advice = HashMap::new();
    for ranked in analysis.ranked.iter().filter(|ranked| ranked.helps()) {
        for member in ranked.suggestion.members() {
            advice.entry(member.object).or_insert(&ranked.suggestion);
        }
    }
    let attributes = |object: MemoryObjectId| {
        let path = path_text(trace, trace.objects.stack[object.index()]);
        let advice = advice.get(&object).map(|suggestion| ("suggestion", describe(trace, suggestion)));
        [("call path", path)].into_iter().chain(advice).collect()
    };
    memory::lanes(trace, &waste.collect::<Vec<_>>(), &attributes)
}
