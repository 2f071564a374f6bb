//! Each check on a small trace that breaks its rule, beside a sound twin.

use stackline_analyze::checks::{ALL, Outcome};
use stackline_ingest::{ReadOptions, read_bytes};
use stackline_model::Trace;

const B: i64 = 1_000_000;

fn x(cat: &str, name: &str, track: (i64, i64), time: (i64, i64), args: &str) -> String {
    let ((pid, tid), (ts, dur)) = (track, time);
    format!(
        r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
    )
}

fn op(name: &str, tid: i64, ts: i64, args: &str) -> String {
    x("cpu_op", name, (100, tid), (ts, 10), args)
}

fn call(name: &str, ts: i64, dur: i64, id: i64) -> String {
    x("cuda_runtime", name, (100, 100), (ts, dur), &format!(r#""correlation":{id}"#))
}

fn kernel(name: &str, stream: i64, time: (i64, i64), id: i64, more: &str) -> String {
    x("kernel", name, (0, stream), time, &format!(r#""device":0,"stream":{stream},"correlation":{id}{more}"#))
}

fn sync(name: &str, time: (i64, i64), id: i64, more: &str) -> String {
    x("cuda_sync", name, (0, 7), time, &format!(r#""device":0,"stream":7,"correlation":{id}{more}"#))
}

fn trace(events: &[String]) -> Trace {
    read_bytes("t.json", format!("[{}]", events.join(",")).as_bytes(), &ReadOptions::default()).unwrap()
}

/// A kernel on stream 20, an event recorded after it at `record`, and a kernel on stream 7 that waits for `id`.
fn waiting(record: i64, id: i64) -> Vec<String> {
    vec![
        call("cudaLaunchKernel", B - 60, 5, 7),
        kernel("producer", 20, (B - 50, 40), 7, ""),
        call("cudaEventRecord", record, 3, 9),
        call("cudaStreamWaitEvent", B, 3, 1),
        call("cudaLaunchKernel", B + 5, 5, 8),
        kernel("consumer", 7, (B + 15, 5), 8, ""),
        sync("Stream Wait Event", (B + 1, 0), 1, &format!(r#","wait_on_cuda_event_record_corr_id":{id}"#)),
    ]
}

const FIELDS: &str =
    r#","Collective name":"allreduce","In msg nelems":8,"Out msg nelems":8,"Group size":8,"dtype":"Float""#;

/// Events that follow the rule of a check, and events that break it once.
fn twins(check: &str) -> [Vec<String>; 2] {
    let launched = |ts: i64, dur: i64| vec![call("cudaLaunchKernel", B, 5, 1), kernel("k", 7, (ts, dur), 1, "")];
    let with = |mut events: Vec<String>, more: &[String]| {
        events.extend_from_slice(more);
        events
    };
    let sound = launched(B + 10, 15);
    let backward = op("MmBackward0", 101, B + 100, r#""Sequence number":5,"Fwd thread id":1"#);
    let inside = x("cpu_op", "MmBackward0", (100, 101), (B + 102, 3), r#""Sequence number":5,"Fwd thread id":1"#);
    let again = op("MmBackward0", 101, B + 200, r#""Sequence number":5,"Fwd thread id":1"#);
    let collective = |fields: &str| {
        let kernel = kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL()", 7, (B + 10, 100), 1, fields);
        vec![call("cudaLaunchKernel", B, 5, 1), kernel]
    };
    let shifted = |by: i64| {
        let one = |i: i64| {
            let at = B + 100 * i;
            [call("cudaLaunchKernel", at, 5, i + 1), kernel("k", 7, (at + 10 + by, 20), i + 1, "")]
        };
        (0..20).flat_map(one).collect::<Vec<_>>()
    };
    match check {
        "kernel_before_launch" => [sound, launched(B - 10, 15)],
        "launch_without_record" => [sound.clone(), with(sound, &[call("cudaLaunchKernel", B + 30, 5, 2)])],
        "record_without_launch" => [sound.clone(), with(sound, &[kernel("orphan", 7, (B + 40, 5), 3, "")])],
        "wait_without_record" => [waiting(B - 45, 9), waiting(B - 45, -1)],
        "wait_on_future_record" => [waiting(B - 45, 9), waiting(B + 50, 9)],
        "sync_ends_early" => {
            let wait = [call("cudaStreamSynchronize", B + 12, 20, 2), sync("Stream Sync", (B + 12, 20), 2, "")];
            [with(sound, &wait), with(launched(B + 10, 100), &wait)]
        }
        "collective_fields" => [collective(FIELDS), collective(r#","Group size":8"#)],
        "sequence_number_twice" => {
            let forward = op("aten::mm", 100, B, r#""Sequence number":5,"Fwd thread id":0"#);
            let sound = vec![forward, backward, inside];
            [sound.clone(), with(sound, &[again])]
        }
        "times_left_out" => {
            let more = kernel("k", 7, (0, 0), 2, "");
            [sound.clone(), with(sound, &[call("cudaLaunchKernel", B + 30, 5, 2), more])]
        }
        "device_clock" => [shifted(0), shifted(-100_000)],
        other => panic!("the check {other} has no twins"),
    }
}

#[test]
fn each_check_tells_a_breach_from_its_sound_twin() {
    for check in ALL {
        let [sound, broken] = twins(check.name).map(|events| (check.run)(&trace(&events)));
        assert!(sound.checked > 0 && sound.breaches.is_empty(), "{}: {sound:?}", check.name);
        let Outcome { breaches, checked } = &broken;
        assert!(breaches.len() == 1 && *checked > 0, "{}: {broken:?}", check.name);
    }
}

#[test]
fn sound_twins_break_no_other_check() {
    let unrelated = ["launch_without_record", "record_without_launch"];
    for twin in ALL.iter().map(|check| check.name) {
        let [sound, _] = twins(twin).map(|events| trace(&events));
        for check in ALL.iter().filter(|check| !unrelated.contains(&check.name)) {
            assert_eq!((check.run)(&sound).breaches, [], "{twin} breaks {}", check.name);
        }
    }
}

#[test]
fn waits_for_an_event_end_after_what_was_launched_before_its_record() {
    let early: fn(&Trace) -> Outcome = ALL.iter().find(|check| check.name == "sync_ends_early").unwrap().run;
    let waits = |returns: i64| {
        let of = r#","wait_on_stream":7,"wait_on_cuda_event_record_corr_id":2"#;
        trace(&[
            call("cudaLaunchKernel", B, 5, 1),
            kernel("k", 7, (B + 10, 100), 1, ""),
            call("cudaEventRecord", B + 6, 2, 2),
            // What is launched after the record is not waited for.
            call("cudaLaunchKernel", B + 8, 5, 3),
            kernel("k", 7, (B + 110, 500), 3, ""),
            call("cudaEventSynchronize", B + 20, returns - 20, 4),
            sync("Event Sync", (B + 20, returns - 20), 4, of),
        ])
    };
    let outcome = early(&waits(120));
    assert_eq!((outcome.checked, outcome.breaches.len()), (1, 0), "{outcome:?}");
    assert_eq!(early(&waits(60)).breaches.len(), 1);
}

#[test]
fn fills_without_a_record_and_collectives_of_others_break_nothing() {
    let run =
        |name: &str, events: &[String]| (ALL.iter().find(|check| check.name == name).unwrap().run)(&trace(events));
    let launched = [call("cudaLaunchKernel", B, 5, 1), kernel("k", 7, (B + 10, 5), 1, "")];
    let fill = call("cudaMemsetAsync", B + 20, 1, 2);
    assert_eq!(run("launch_without_record", &[&launched[..], &[fill]].concat()).breaches, []);
    let collective = kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL()", 7, (B + 10, 100), 1, "");
    assert_eq!(run("collective_fields", std::slice::from_ref(&collective)).checked, 0, "of XProf");
    let torch = op("aten::mm", 100, B, "");
    assert_eq!(run("collective_fields", &[torch, collective]).breaches.len(), 1);
}

/// Three nodes in their order, twice: two losses share a graph, or one is differentiated twice.
#[test]
fn a_graph_that_runs_again_breaks_nothing() {
    let backward = |pass: i64, number: i64, name: &str| {
        let args = format!(r#""Sequence number":{number},"Fwd thread id":1"#);
        op(name, 101, B + pass * 1_000 + (9 - number) * 20, &args)
    };
    let nodes = [(7, "MseLossBackward0"), (6, "AddmmBackward0"), (5, "ReluBackward0")];
    let pass = |pass: i64| nodes.map(|(number, name)| backward(pass, number, name));
    let twice: fn(&Trace) -> Outcome = ALL.iter().find(|check| check.name == "sequence_number_twice").unwrap().run;
    assert_eq!(twice(&trace(&[pass(0), pass(1), pass(2)].concat())).breaches, []);
    let of_others = [(7, "MulBackward0"), (6, "DivBackward0"), (5, "SubBackward0")];
    let mixed = [pass(0), of_others.map(|(number, name)| backward(1, number, name))].concat();
    assert_eq!(twice(&trace(&mixed)).breaches.len(), 3);
    // A number that two others have is told beside a graph that runs again.
    let others = [("MulBackward0", 400), ("DivBackward0", 500)]
        .map(|(name, at)| op(name, 101, B + at, r#""Sequence number":3,"Fwd thread id":1"#));
    assert_eq!(twice(&trace(&[&pass(0)[..], &others, &pass(1)].concat())).breaches.len(), 1);
    // The same on another thread: two processes with one number.
    let other_thread = nodes.map(|(number, name)| {
        op(name, 102, B + 1_000 + (9 - number) * 20, &format!(r#""Sequence number":{number},"Fwd thread id":1"#))
    });
    assert_eq!(twice(&trace(&[pass(0), other_thread].concat())).breaches.len(), 3);
}

#[test]
fn real_traces_pass_what_causality_asks_for() {
    let sound = ["nvidia-h100-bert-small", "nvidia-b200-eager-nccl", "amd-mi300-timesformer", "nvidia-2080ti-linear"];
    crate::corpus_support::for_each_trace(|name, trace| {
        if !sound.iter().any(|s| name.contains(s)) {
            return;
        }
        for check in ALL {
            assert_eq!((check.run)(trace).breaches.len(), 0, "{name}: {}", check.name);
        }
    });
}
