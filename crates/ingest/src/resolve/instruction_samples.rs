//! Kernels as the parents of the samples of their instructions.

use stackline_model::{EventId, EventKind, Trace, TrackKind};

/// Set the parent of each instruction sample on a stream to the kernel that ran at its time and has the name of the
/// sample's outermost frame. Requires final times, and the time order of tracks.
pub(super) fn nest(trace: &mut Trace) {
    if !trace.events.kind.contains(&EventKind::Sample) {
        return;
    }
    for track in trace.tracks.ids() {
        if trace.tracks.get(track).kind != TrackKind::Stream {
            continue;
        }
        let mut running: Vec<EventId> = Vec::new();
        let order: Vec<EventId> = trace.track_events(track).to_vec();
        for event in order {
            match trace.kind(event) {
                EventKind::Kernel if trace.events.is_timed(event) => running.push(event),
                EventKind::Sample if trace.events.is_plausible(event) => {
                    let at = trace.events.start[event.index()];
                    running.retain(|&kernel| trace.events.end(kernel) > at);
                    let name = trace.stacks.names(trace.stacks.of_event(event)).last();
                    let is_sampled = |kernel: &&EventId| Some(trace.events.name[kernel.index()]) == name;
                    if let Some(&kernel) = running.iter().rev().find(is_sampled) {
                        trace.events.parent[event.index()] = kernel;
                    }
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{ReadOptions, read_bytes};
    use stackline_model::EventId;

    /// Events of one stream: each kernel from and to, and samples at their times, of a kernel with a name.
    const STREAM: &str = r#"{"traceEvents": [
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 10, "dur": 10},
        {"ph": "X", "cat": "kernel", "name": "relu", "pid": 0, "tid": 7, "ts": 20, "dur": 5},
        {"ph": "P", "cat": "gpu_instruction_sample", "name": "s_endpgm", "pid": 0, "tid": 7, "ts": 10, "sf": "g"},
        {"ph": "P", "cat": "gpu_instruction_sample", "name": "s_endpgm", "pid": 0, "tid": 7, "ts": 20, "sf": "r"},
        {"ph": "P", "cat": "gpu_instruction_sample", "name": "s_endpgm", "pid": 0, "tid": 7, "ts": 22, "sf": "g"},
        {"ph": "P", "cat": "gpu_instruction_sample", "name": "s_endpgm", "pid": 0, "tid": 7, "ts": 25, "sf": "r"},
        {"ph": "P", "cat": "gpu_instruction_sample", "name": "s_endpgm", "pid": 0, "tid": 7, "ts": 12}],
        "stackFrames": {"g": {"name": "gemm"}, "r": {"name": "relu"}}}"#;

    #[test]
    fn samples_belong_to_the_kernel_of_their_name_and_time() {
        let trace = read_bytes("t", STREAM.as_bytes(), &ReadOptions::default()).unwrap();
        assert_eq!(trace.tracks.len(), 1, "samples are on the stream");
        let parents: Vec<Option<u32>> = trace.events.parent.iter().map(|parent| parent.some().map(|of| of.0)).collect();
        // Of another kernel's name, after the end, and without a call path.
        assert_eq!(parents, [None, None, Some(0), Some(1), None, None, None]);
        assert!(trace.ancestors(EventId(2)).eq([EventId(0)]));
    }
}
