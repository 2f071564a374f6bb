//! Tests of logical parents, over traces that are built by hand.

use super::ParentEvidence as Evidence;
use crate::{
    AttrType, CONTEXT_FLOW, EventId, EventKind, Key, LinkKind, NewEvent, Phase, StrId, Trace, TrackId, TrackKind, flags,
};
use proptest::prelude::*;

/// A trace under construction: two threads of one process, a stream and a row of groups of one device.
struct Builder(Trace);

const MAIN: TrackId = TrackId(0);
const OTHER: TrackId = TrackId(1);
const STREAM: TrackId = TrackId(2);
const GROUPS: TrackId = TrackId(3);

impl Builder {
    fn new() -> Self {
        let mut trace = Trace::default();
        let [thread, stream] = [TrackKind::Thread, TrackKind::Stream];
        for (pid, tid, kind) in [(7, 7, thread), (7, 8, thread), (0, 1, stream), (0, 2, stream)] {
            trace.tracks.track(Key::Int(pid), Key::Int(tid), kind);
        }
        Self(trace)
    }

    fn event(&mut self, track: TrackId, kind: EventKind, (start, end): (i64, i64), ids: &[(&str, i64)]) -> EventId {
        let trace = &mut self.0;
        let name = trace.strings.intern("event");
        let fields: Vec<(StrId, AttrType)> =
            ids.iter().map(|(key, _)| (trace.strings.intern(key), AttrType::Int)).collect();
        let values: Vec<u64> = ids.iter().map(|&(_, id)| id.cast_unsigned()).collect();
        trace.attrs.push(&fields, &values);
        let (category, phase, flags) = (StrId::NONE, Phase::Complete, flags::HAS_DURATION);
        let source_index = trace.events.len() as u32;
        trace.events.push(NewEvent { start, dur: end - start, track, name, category, kind, phase, flags, source_index })
    }

    fn operation(&mut self, span: (i64, i64), correlation: i64, [launch, operator]: [EventId; 2]) -> EventId {
        let event = self.event(STREAM, EventKind::Kernel, span, &[]);
        let gpu = &mut self.0.gpu;
        gpu.event.push(event);
        gpu.correlation.push(correlation);
        gpu.device.push(0);
        gpu.stream.push(1);
        gpu.launch.push(launch);
        gpu.operator.push(operator);
        for owners in [&mut gpu.python, &mut gpu.module, &mut gpu.annotation] {
            owners.push(EventId::NONE);
        }
        gpu.step.push(u32::MAX);
        event
    }

    /// Set parents by nesting of spans of threads that do not cross: the parent is the last open span.
    fn nest(&mut self) {
        self.0.index_tracks();
        for track in [MAIN, OTHER] {
            let mut open: Vec<EventId> = Vec::new();
            for event in self.0.track_events(track).to_vec() {
                open.retain(|&outer| self.0.events.end(outer) >= self.0.events.end(event));
                open.retain(|&outer| self.0.events.end(outer) > self.0.events.start[event.index()]);
                self.0.events.parent[event.index()] = open.last().copied().into();
                open.push(event);
            }
        }
    }

    fn parents(&self) -> Vec<(u32, u32, &'static str)> {
        self.0.logical_parents().map(|(event, parent, evidence)| (event.0, parent.0, evidence.name())).collect()
    }
}

const NONE: [EventId; 2] = [EventId::NONE; 2];

#[test]
fn operations_belong_to_their_launch_or_to_the_operator_with_their_id() {
    let mut builder = Builder::new();
    let operator = builder.event(MAIN, EventKind::Operator, (0, 50), &[]);
    let call = builder.event(MAIN, EventKind::Runtime, (10, 20), &[]);
    builder.operation((30, 40), 5, [call, operator]);
    builder.operation((40, 50), -1, [call, operator]);
    builder.operation((50, 60), -1, [EventId::NONE, operator]);
    builder.operation((60, 70), 9, NONE);
    builder.nest();
    assert_eq!(builder.parents(), [(2, 1, "correlation"), (3, 1, "flow"), (4, 0, "explicit_id")]);
    assert_eq!(builder.0.logical_parent(call), Some((operator, Evidence::Nesting)));
    assert_eq!(builder.0.logical_parent(EventId(5)), None);
}

#[test]
fn backward_operators_belong_to_the_forward_one_that_comes_before() {
    let mut builder = Builder::new();
    let forward = builder.event(MAIN, EventKind::Operator, (0, 10), &[]);
    let node = builder.event(OTHER, EventKind::Operator, (100, 200), &[]);
    let backward = builder.event(OTHER, EventKind::Operator, (110, 120), &[]);
    let late = builder.event(MAIN, EventKind::Operator, (300, 310), &[]);
    builder.nest();
    let arrow = builder.0.strings.intern("fwdbwd");
    builder.0.links.set(
        LinkKind::Backward,
        [(forward, node, StrId::NONE), (forward, backward, arrow), (late, backward, arrow), (late, late, arrow)],
    );
    assert_eq!(builder.parents(), [(1, 0, "sequence_number"), (2, 0, "flow")]);
}

#[test]
fn work_of_another_thread_belongs_to_the_submitting_call() {
    let mut builder = Builder::new();
    let from = builder.event(MAIN, EventKind::Other, (0, 10), &[]);
    let around = builder.event(OTHER, EventKind::Other, (0, 100), &[]);
    let to = builder.event(OTHER, EventKind::Other, (20, 30), &[]);
    let other = builder.event(OTHER, EventKind::Other, (40, 50), &[]);
    builder.nest();
    let [context, data] = [CONTEXT_FLOW, "DataFlow"].map(|category| builder.0.strings.intern(category));
    builder.0.links.set(LinkKind::Flow, [(from, to, context), (from, other, data), (around, to, context)]);
    assert_eq!(builder.parents(), [(2, 0, "flow")], "data that flows is no parent, nor is another event of the thread");
    assert_eq!(builder.0.logical_parent(other), Some((around, Evidence::Nesting)));
}

#[test]
fn ids_connect_device_annotations_to_host_ones() {
    let mut builder = Builder::new();
    builder.event(MAIN, EventKind::Annotation, (0, 100), &[("External id", 4)]);
    builder.event(GROUPS, EventKind::GpuAnnotation, (50, 150), &[("External id", 4)]);
    builder.event(GROUPS, EventKind::GpuAnnotation, (160, 170), &[("External id", 5)]);
    builder.nest();
    assert_eq!(builder.parents(), [(1, 0, "explicit_id")]);
    // An id of two events identifies none.
    builder.event(MAIN, EventKind::Annotation, (200, 300), &[("External id", 4)]);
    builder.0.other_parents.take();
    builder.nest();
    assert_eq!(builder.parents(), []);
}

#[test]
fn operations_without_a_launch_belong_to_the_group_around_them() {
    let mut builder = Builder::new();
    builder.event(GROUPS, EventKind::GpuAnnotation, (0, 100), &[]);
    builder.event(GROUPS, EventKind::GpuAnnotation, (10, 50), &[]);
    builder.operation((20, 30), -1, NONE);
    builder.operation((40, 60), -1, NONE);
    builder.operation((120, 130), -1, NONE);
    let call = builder.event(MAIN, EventKind::Runtime, (0, 5), &[]);
    builder.operation((30, 40), 1, [call, EventId::NONE]);
    builder.nest();
    let expected = [(1, 0, "time_containment"), (2, 1, "time_containment"), (3, 0, "time_containment")];
    assert_eq!(builder.parents(), [&expected[..], &[(6, 5, "correlation")]].concat());
    let track = &mut builder.0.tracks.tracks[GROUPS.index()];
    track.name = builder.0.strings.intern("Async XLA Ops");
    builder.0.other_parents.take();
    assert_eq!(builder.parents(), [(6, 5, "correlation")], "transfers hold nothing that runs meanwhile");
}

/// Random event: kind, track, start and length, and the targets of its links and ids.
type Random = (u8, u8, i64, i64, (usize, usize), (i64, i64));

fn random_trace(rows: &[Random]) -> Trace {
    let mut builder = Builder::new();
    for &(kind, track, start, length, _, (id, of)) in rows {
        let span = (start, start + length);
        let track = TrackId(u32::from(track % 2));
        match kind {
            0 => {
                builder.event(track, EventKind::PythonFunction, span, &[]);
            }
            1 => {
                builder.event(track, EventKind::Operator, span, &[]);
            }
            2 => {
                builder.event(track, EventKind::Annotation, span, &[("External id", id)]);
            }
            3 => {
                builder.event(GROUPS, EventKind::GpuAnnotation, span, &[("External id", id)]);
            }
            _ => {
                let known = builder.0.events.len();
                let any = |at: i64| EventId::new(usize::try_from(at).unwrap() % known.max(1));
                let [launch, operator] = [id, of].map(any);
                let launch = if known > 0 && kind == 4 { launch } else { EventId::NONE };
                let operator = if known > 0 && kind < 6 { operator } else { EventId::NONE };
                builder.operation(span, id - 2, [launch, operator]);
            }
        }
    }
    builder.nest();
    let category = builder.0.strings.intern(CONTEXT_FLOW);
    let any = |at: usize| EventId::new(at % rows.len());
    let mut links: Vec<(EventId, EventId, StrId)> =
        rows.iter().map(|&(.., (from, to), _)| (any(from), any(to), category)).collect();
    builder.0.links.set(LinkKind::Flow, links.iter().copied());
    links.sort_by_key(|&(from, to, _)| (to, from));
    builder.0.links.set(LinkKind::Backward, links.into_iter().step_by(2));
    builder.0
}

proptest! {
    /// For any links and ids, parents form a forest, and each evidence holds for its pair of events.
    #[test]
    fn parents_form_a_forest(
        rows in prop::collection::vec(
            (0_u8..8, 0_u8..2, 0_i64..40, 0_i64..40, (0_usize..40, 0_usize..40), (0_i64..6, 0_i64..6)), 1..30),
    ) {
        let trace = random_trace(&rows);
        for event in trace.events.ids() {
            let up = |event: &EventId| trace.logical_parent(*event).map(|(parent, _)| parent);
            let path = std::iter::successors(Some(event), up).take(trace.events.len() + 1);
            prop_assert!(path.count() <= trace.events.len(), "a circle at {event:?}");
        }
        let track = |event: EventId| trace.tracks.get(trace.events.track[event.index()]).kind;
        let start = |event: EventId| trace.events.start[event.index()];
        for (event, parent, evidence) in trace.logical_parents() {
            match evidence {
                Evidence::Nesting => prop_assert!(false, "nesting is implicit"),
                Evidence::SequenceNumber => prop_assert!(start(parent) < start(event)),
                Evidence::Flow if track(event) == TrackKind::Thread => prop_assert!(start(parent) < start(event)),
                Evidence::TimeContainment => {
                    prop_assert!(start(parent) <= start(event) && trace.events.end(event) <= trace.events.end(parent));
                }
                _ => prop_assert_eq!(track(parent), TrackKind::Thread),
            }
        }
    }
}
