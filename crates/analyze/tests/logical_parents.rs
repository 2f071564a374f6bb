//! Logical parents over the corpus: they form a forest, agree with launches and links, and with ids as the files have them.

use crate::support::{for_each_small_trace, read, read_file, read_json};
use stackline_model::{EventId, EventKind, LinkKind, ParentEvidence, Trace};
use stackline_testkit::corpus;
use stackline_testkit::mini::MiniTrace;
use std::collections::{BTreeMap, BTreeSet};

fn counts(trace: &Trace) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for (.., evidence) in trace.logical_parents() {
        *counts.entry(evidence.name()).or_default() += 1;
    }
    counts
}

#[test]
fn logical_parents_have_no_cycles() {
    for_each_small_trace(|name, trace| {
        let mut parents: Vec<EventId> = trace.events.parent.clone();
        for (event, parent, _) in trace.logical_parents() {
            parents[event.index()] = parent;
        }
        // Known to lead to an end: those of the walks before.
        let mut is_known = vec![false; parents.len()];
        for event in trace.events.ids() {
            let up = |event: &EventId| parents[event.index()].some().filter(|parent| !is_known[parent.index()]);
            let path: Vec<EventId> = std::iter::successors(Some(event), up).take(parents.len() + 1).collect();
            assert!(path.len() <= parents.len(), "{name}: a circle at {event:?}");
            path.into_iter().for_each(|event| is_known[event.index()] = true);
        }
    });
}

#[test]
fn logical_parents_match_launches_and_backward_links() {
    for_each_small_trace(|name, trace| {
        let launched = trace.gpu.ids().filter(|&gpu| trace.gpu.launcher(gpu).is_some()).count();
        let start = |event: EventId| trace.events.start[event.index()];
        let links = trace.links.of_kind(LinkKind::Backward).filter(|&(from, to, _)| start(from) < start(to));
        let differentiated: BTreeSet<EventId> = links.map(|(_, to, _)| to).collect();
        let of_kind = |is_kind: fn(EventKind) -> bool| {
            trace.logical_parents().filter(|&(event, ..)| is_kind(trace.kind(event))).count()
        };
        let contained = counts(trace).get("time_containment").copied().unwrap_or(0);
        assert_eq!(
            of_kind(|kind| kind.is_gpu_work()) + of_kind(|kind| kind == EventKind::GpuAnnotation),
            launched + contained + counts_of_annotations(trace),
            "{name}"
        );
        let backward = trace.logical_parents().filter(|&(event, _, evidence)| {
            let is_of_link = matches!(evidence, ParentEvidence::Flow | ParentEvidence::SequenceNumber);
            is_of_link && !trace.kind(event).is_gpu_work()
        });
        assert_eq!(backward.count(), differentiated.len(), "{name}");
    });
}

/// GPU annotations whose parent is an annotation of the host.
fn counts_of_annotations(trace: &Trace) -> usize {
    let is_one = |&(event, parent, evidence): &(EventId, EventId, ParentEvidence)| {
        let kinds = (trace.kind(event), trace.kind(parent));
        kinds == (EventKind::GpuAnnotation, EventKind::Annotation) && evidence == ParentEvidence::ExplicitId
    };
    trace.logical_parents().filter(is_one).count()
}

/// Groups of a damaged file: each lies in the one before, and all of them last to the end.
#[test]
fn many_open_groups_are_fast() {
    let count = 20_000;
    let mut trace = MiniTrace::new(&format!("gpu0/7 kernel gemm {count}+5\ngpu0/8 kernel other {count}+5"));
    for at in 0..count {
        trace.add(&format!("gpu0/7 gpu_user_annotation group {at}+{}", count + 100 - at));
    }
    let trace = read(trace.json());
    let parents: BTreeMap<EventId, EventId> =
        trace.logical_parents().map(|(event, parent, _)| (event, parent)).collect();
    // Those of the stream alone, but for the first group.
    assert_eq!(parents.len() as i64, count);
    let start = |event: &EventId| trace.events.start[event.index()];
    assert!(parents.iter().all(|(event, parent)| start(event) - start(parent) == 1_000));
    assert!(parents.keys().all(|&event| trace.name(event) != "other"));
}

/// The file's own ids: each annotation on a stream has the id of exactly one annotation of the host, which has its name.
#[test]
fn stream_annotations_have_the_host_annotation_with_their_id() {
    let Some(file) = corpus::file("kineto/nvidia-a100-ddp-nccl.json.gz") else { return };
    let json = read_json(&file);
    let of_category = |category: &str| -> Vec<(i64, String)> {
        let events = json["traceEvents"].as_array().unwrap().iter().filter(|event| event["cat"] == category);
        events.map(|e| (e["args"]["External id"].as_i64().unwrap(), e["name"].as_str().unwrap().to_owned())).collect()
    };
    let of_host: BTreeMap<i64, String> = of_category("user_annotation").into_iter().collect();
    let on_streams = of_category("gpu_user_annotation");
    assert!(on_streams.iter().all(|(id, name)| of_host.get(id) == Some(name)));
    let trace = read_file(&file);
    assert_eq!(counts_of_annotations(&trace), on_streams.len());
    assert_eq!(on_streams.len(), 30);
    let names = |(event, parent, _): (EventId, EventId, ParentEvidence)| (trace.name(event), trace.name(parent));
    let annotations = trace.logical_parents().filter(|&(event, ..)| trace.kind(event) == EventKind::GpuAnnotation);
    assert!(annotations.map(names).all(|(event, parent)| event == parent));
}

/// JAX hands work of its runtime from thread to thread; XProf writes which event handed it over.
#[test]
fn xprof_work_has_the_event_that_submitted_it() {
    let trace = read_file(&corpus::repository().join("fixtures/profiles-h100/jax-train.xplane.pb.gz"));
    let counts = counts(&trace);
    assert!(counts.get("correlation").is_some_and(|&count| count > 200), "{counts:?}");
    let handed_over: Vec<_> = trace.logical_parents().filter(|&(.., of)| of == ParentEvidence::Flow).collect();
    assert!(!handed_over.is_empty(), "{counts:?}");
    for (event, parent, _) in handed_over {
        let track = |event: EventId| trace.events.track[event.index()];
        assert_ne!(track(event), track(parent));
    }
}
