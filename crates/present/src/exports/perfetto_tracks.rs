//! Perfetto's tracks: descriptors of processes, threads, streams and counters, and lanes for events that cross.

use super::perfetto_proto as proto;
use rustc_hash::FxHashMap;
use stackline_model::{Key, ProcessId, StrId, Trace, TrackId, TrackKind};

/// Perfetto track ids of a trace, with the processes and counters already described in the file.
pub(super) struct Tracks {
    /// Bits that all ids of this trace have.
    trace: u64,
    counters: FxHashMap<(TrackId, StrId, StrId), u64>,
    processes: Vec<ProcessId>,
}

/// Upper bits of track ids, so that processes, lanes and counters never collide.
const PROCESS: u64 = 1 << 60;
const COUNTER: u64 = 2 << 60;

impl Tracks {
    /// Create the Perfetto track ids for the trace with this number in the file.
    pub(super) fn of_trace(number: u32) -> Self {
        Self { trace: u64::from(number) << 52, counters: FxHashMap::default(), processes: Vec::new() }
    }

    fn process(&self, process: ProcessId) -> u64 {
        PROCESS | self.trace | u64::from(process.0)
    }

    /// Descriptors to write before the events of a track: of the track, and of its process if that is new.
    pub(super) fn describe(&mut self, trace: &Trace, id: TrackId) -> Vec<proto::TrackDescriptor> {
        let track = trace.tracks.get(id);
        let mut out = Vec::new();
        if !self.processes.contains(&track.process) {
            self.processes.push(track.process);
            out.push(process(trace, track.process, self.process(track.process)));
        }
        let thread = match (system_pid(trace, track.process), track.tid, track.kind) {
            (Some(pid), Key::Int(tid), TrackKind::Thread) => Some(proto::ThreadDescriptor {
                pid: Some(pid),
                tid: Some(tid),
                thread_name: track.name.some().map(|n| trace.strings.get(n).to_owned()),
            }),
            _ => None,
        };
        out.push(proto::TrackDescriptor {
            uuid: self.lane(id, 0),
            name: thread.is_none().then(|| name(trace, id)),
            thread,
            parent_uuid: Some(self.process(track.process)),
            sibling_order_rank: track.sort_index.and_then(|s| i32::try_from(s).ok()),
            ..Default::default()
        });
        out
    }

    /// Id of a lane of a Perfetto track; lane 0 is the track itself.
    pub(super) fn lane(&self, track: TrackId, lane: usize) -> u64 {
        (lane as u64 + 1) << 32 | self.trace | u64::from(track.0)
    }

    /// Descriptor of a Perfetto lane for events that cross those of the lanes before it.
    pub(super) fn extra_lane(&self, trace: &Trace, track: TrackId, lane: usize) -> proto::TrackDescriptor {
        proto::TrackDescriptor {
            uuid: self.lane(track, lane),
            name: Some(format!("{} (overlap {lane})", name(trace, track))),
            parent_uuid: Some(self.process(trace.tracks.get(track).process)),
            ..Default::default()
        }
    }

    /// Id of a counter's Perfetto track, and the descriptor if the track is new.
    pub(super) fn counter(
        &mut self,
        trace: &Trace,
        track: TrackId,
        name: StrId,
        key: StrId,
    ) -> (u64, Option<proto::TrackDescriptor>) {
        let next = COUNTER | self.trace | self.counters.len() as u64;
        let uuid = *self.counters.entry((track, name, key)).or_insert(next);
        let descriptor = (uuid == next).then(|| proto::TrackDescriptor {
            uuid,
            name: Some(format!("{} {}", trace.strings.get(name), trace.strings.get(key))),
            parent_uuid: Some(self.process(trace.tracks.get(track).process)),
            counter: Some(proto::CounterDescriptor {}),
            ..Default::default()
        });
        (uuid, descriptor)
    }
}

fn process(trace: &Trace, id: ProcessId, uuid: u64) -> proto::TrackDescriptor {
    let process = &trace.tracks.processes[id.index()];
    let text = |s: StrId| s.some().map(|s| trace.strings.get(s).to_owned());
    let order = process.sort_index.and_then(|s| i32::try_from(s).ok());
    match system_pid(trace, id) {
        Some(pid) => proto::TrackDescriptor {
            uuid,
            process: Some(proto::ProcessDescriptor {
                pid: Some(pid),
                process_name: text(process.name),
                process_labels: text(process.labels).into_iter().collect(),
            }),
            sibling_order_rank: order,
            ..Default::default()
        },
        None => {
            let parts = [text(process.labels), text(process.name), Some(trace.key_text(process.pid))];
            let mut parts: Vec<String> = parts.into_iter().flatten().filter(|p| !p.is_empty()).collect();
            parts.dedup();
            proto::TrackDescriptor {
                uuid,
                name: Some(parts.join(" ")),
                sibling_order_rank: order,
                ..Default::default()
            }
        }
    }
}

/// PID of an operating-system process: one with threads. `None` for other entries, since traces list GPUs as processes,
/// too.
fn system_pid(trace: &Trace, id: ProcessId) -> Option<i32> {
    let has_threads = trace.tracks.tracks.iter().any(|t| t.process == id && t.kind == TrackKind::Thread);
    let pid = trace.tracks.processes[id.index()].pid.as_int()?;
    i32::try_from(pid).ok().filter(|&p| p > 0 && has_threads)
}

fn name(trace: &Trace, id: TrackId) -> String {
    let track = trace.tracks.get(id);
    let number = trace.key_text(track.tid);
    match track.name.some().map(|n| trace.strings.get(n)).filter(|n| !n.is_empty()) {
        Some(name) => name.trim().to_owned(),
        None => format!("{} {number}", track.kind.name()).trim().to_owned(),
    }
}

/// Assignment of spans, which arrive by (start, longer first), to lanes on which they nest.
#[derive(Default)]
pub(super) struct Lanes {
    /// Ends of the open spans, outermost first, per lane.
    open: Vec<Vec<i64>>,
}

/// Lane to which a span was assigned, and the earlier spans of the lane that have ended.
pub(super) struct Placed {
    pub(super) lane: usize,
    /// The lane is new.
    pub(super) is_new: bool,
    /// Ends, in time order, of the spans of this lane that are over.
    pub(super) ended: Vec<i64>,
}

impl Lanes {
    /// Assign a span to the first lane of a track where it nests, or to a new lane.
    pub(super) fn place(&mut self, start: i64, end: i64) -> Placed {
        let fits = |open: &Vec<i64>| open.iter().rev().find(|&&e| e > start).is_none_or(|&e| end <= e);
        let found = self.open.iter().position(fits);
        let lane = found.unwrap_or_else(|| {
            self.open.push(Vec::new());
            self.open.len() - 1
        });
        let open = &mut self.open[lane];
        let mut ended = Vec::new();
        while open.last().is_some_and(|&e| e <= start) {
            ended.extend(open.pop());
        }
        open.push(end);
        Placed { lane, is_new: found.is_none(), ended }
    }

    /// End times of spans that are still open, per lane, in time order.
    pub(super) fn finish(self) -> impl Iterator<Item = (usize, Vec<i64>)> {
        self.open.into_iter().enumerate().map(|(lane, open)| (lane, open.into_iter().rev().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crossing_spans_get_separate_lanes() {
        let mut lanes = Lanes::default();
        let spans = [(0, 10), (2, 8), (6, 12), (10, 20), (11, 13)];
        let placed: Vec<_> = spans.map(|(s, e)| lanes.place(s, e)).into_iter().collect();
        assert_eq!(placed.iter().map(|p| p.lane).collect::<Vec<_>>(), [0, 0, 1, 0, 0]);
        assert_eq!(placed[3].ended, [8, 10]);
        assert_eq!(lanes.finish().collect::<Vec<_>>(), [(0, vec![13, 20]), (1, vec![12])]);
    }
}
