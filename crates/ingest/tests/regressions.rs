//! Inputs for which earlier versions gave a wrong number or lost data silently.

use stackline_ingest::{ReadOptions, read_bytes, read_paths};
use stackline_model::{EventId, LinkKind, Trace};

fn read(json: &str) -> Trace {
    read_bytes("t.json", json.as_bytes(), &ReadOptions::default()).unwrap()
}

fn x(cat: &str, name: &str, place: (i64, i64), ts: &str, dur: &str, args: &str) -> String {
    let (pid, tid) = place;
    format!(
        r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
    )
}

fn list(events: &[String]) -> String {
    format!("[{}]", events.join(","))
}

#[test]
fn a_time_stamp_in_ns_has_a_duration_in_ns() {
    let trace = read(&list(&[x("cpu_op", "a", (1, 1), "1700000000000010000", "1500", "")]));
    assert_eq!((trace.events.start[0], trace.events.dur[0]), (1_700_000_000_000_010_000, 1500));
    let trace = read(&list(&[x("cpu_op", "a", (1, 1), "50", "200000000000000000", "")]));
    assert!(!trace.events.is_plausible(EventId(0)));
    assert_eq!(trace.report.count_of("bad_time"), 1);
}

#[test]
fn ranks_of_a_directory_do_not_vanish() {
    let folder = tempfile::tempdir().unwrap();
    let good = list(&[x("cpu_op", "a", (1, 1), "1", "2", "")]);
    std::fs::write(folder.path().join("rank0.json"), &good).unwrap();
    std::fs::write(folder.path().join("rank1.json"), "").unwrap();
    std::fs::write(folder.path().join("rank2.json"), format!("[W123 file.cpp:1] warning\n{good}")).unwrap();
    std::fs::write(folder.path().join("notes.txt"), "nothing").unwrap();
    let set = read_paths(&[folder.path().to_owned()], &ReadOptions::default()).unwrap();
    assert_eq!(set.traces.len(), 2);
    assert_eq!(set.traces[0].report.count_of("skipped_file"), 1);
    assert_eq!(set.traces[1].report.count_of("foreign_text"), 1);
    assert_eq!(set.traces[1].events.len(), 1);
}

#[test]
fn repairs_of_header_and_keys_are_reported() {
    let json = r#"{,"traceName": "a "b".json", "schemaVersion": 1,,"x": "C:\Programs","traceEvents":[]}"#;
    let trace = read(json);
    for code in ["bare_quote", "extra_comma", "backslash"] {
        assert!(trace.report.count_of(code) > 0, "{code}: {:?}", trace.report.problems);
    }
    let bytes = b"[{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":1,\"args\":{\"k\xff\":1}}]";
    let trace = read_bytes("t", bytes, &ReadOptions::default()).unwrap();
    assert_eq!(trace.report.count_of("invalid_utf8"), 1);
    let twice = read(&list(&[x("cpu_op", "a", (1, 1), "1", "1", r#""c":1,"c":2"#)]));
    assert_eq!(twice.report.count_of("duplicate_key"), 1);
    assert_eq!(twice.attr("c").i64(EventId(0)), Some(2));
    let lists = read(r#"{"traceEvents":[],"traceEvents":[{"ph":"i","name":"p","pid":1,"tid":1,"ts":1}]}"#);
    assert_eq!((lists.report.count_of("several_event_lists"), lists.events.len()), (1, 1));
}

#[test]
fn absurd_gpu_records_do_not_extend_unfinished_spans() {
    let trace = read(&list(&[
        x("cpu_op", "a", (1, 1), "0", "10", ""),
        r#"{"ph":"B","cat":"user_annotation","name":"open","pid":1,"tid":1,"ts":2}"#.to_owned(),
        x("kernel", "k", (0, 7), "5", "900000000000000", r#""device":0,"stream":7"#),
    ]));
    assert_eq!(trace.span(), Some((0, 10_000)));
    assert_eq!((trace.report.count_of("unfinished"), trace.report.count_of("implausible_time")), (1, 1));
}

#[test]
fn empty_and_early_gpu_records_do_not_extend_the_window() {
    let host = x("cpu_op", "a", (1, 1), "1000000", "10000", "");
    let gpu = |ts: &str, dur: &str| x("kernel", "k", (0, 7), ts, dur, r#""device":0,"stream":7"#);
    for (ts, dur) in [("0", "0"), ("100000", "5")] {
        let trace = read(&list(&[host.clone(), gpu(ts, dur)]));
        assert_eq!(trace.span(), Some((1_000_000_000, 1_010_000_000)), "{ts}");
        assert_eq!(trace.report.count_of("implausible_time") + trace.report.count_of("zero_time"), 1);
    }
}

/// Two ranks in one trace: processes 100 and 200 on devices 0 and 1, each with its own correlation IDs.
fn merged(more: &[String]) -> Trace {
    let call = |pid, id, ts: i64| {
        x("cuda_runtime", "cudaLaunchKernel", (pid, pid), &ts.to_string(), "1", &format!(r#""correlation":{id}"#))
    };
    let kernel = |device, id, ts: i64| {
        let args = format!(r#""device":{device},"stream":7,"correlation":{id}"#);
        x("kernel", "k", (device, 7), &ts.to_string(), "5", &args)
    };
    let mut events = vec![call(100, 1, 10), call(100, 2, 20), call(100, 9, 30), kernel(0, 1, 15), kernel(0, 2, 25)];
    events.extend([call(200, 5, 10), call(200, 6, 20), kernel(1, 5, 15), kernel(1, 6, 25), kernel(1, 9, 35)]);
    events.extend_from_slice(more);
    read(&list(&events))
}

#[test]
fn work_is_not_assigned_to_another_rank() {
    let trace = merged(&[]);
    let last = trace.gpu.len() - 1;
    assert_eq!((trace.gpu.device[last], trace.gpu.launch[last].is_none()), (1, true));
    assert_eq!(trace.gpu.launch.iter().filter(|l| l.is_some()).count(), 4);
    assert_eq!(trace.report.count_of("no_launch"), 1);
}

#[test]
fn steps_belong_to_their_process() {
    let step = |pid, number, ts: &str, dur: &str| {
        x("user_annotation", &format!("ProfilerStep#{number}"), (pid, pid), ts, dur, "")
    };
    let trace = merged(&[step(100, 1, "0", "40"), step(200, 2, "12", "20")]);
    let kernels_of = |device: i32| {
        let own = trace.gpu.ids().filter(|g| trace.gpu.device[g.index()] == device);
        own.map(|g| trace.steps.get(trace.gpu.step[g.index()] as usize).map(|s| s.number)).collect::<Vec<_>>()
    };
    assert_eq!(kernels_of(0), [Some(1), Some(1)]);
    assert_eq!(kernels_of(1), [None, Some(2), None]);
}

#[test]
fn arguments_of_an_end_are_last() {
    let trace = read(
        r#"[{"ph":"B","name":"a","pid":1,"tid":1,"ts":1,"args":{"a":1,"b":2}},
            {"ph":"E","pid":1,"tid":1,"ts":5,"args":{"a":2,"b":2}}]"#,
    );
    assert_eq!(trace.attr("a").i64(EventId(0)), Some(2));
    assert_eq!(trace.attrs.of_event(EventId(0)).len(), 3);
}

#[test]
fn finished_arrows_start_no_others() {
    let flow =
        |ph: &str, ts: i64| format!(r#"{{"ph":"{ph}","cat":"x","name":"f","id":1,"pid":1,"tid":{ts},"ts":{ts}}}"#);
    let events: Vec<String> = (1..4).map(|t| x("cpu_op", "a", (1, t), &t.to_string(), "1", "")).collect();
    let trace = read(&list(&[events, vec![flow("s", 1), flow("f", 2), flow("f", 3)]].concat()));
    assert_eq!(trace.links.of_kind(LinkKind::Flow).map(|(a, b, _)| (a.0, b.0)).collect::<Vec<_>>(), [(0, 1)]);
}

#[test]
fn equal_starts_are_not_clipped_to_nothing() {
    let kernel = |dur: &str| x("kernel", "k", (0, 7), "10", dur, r#""device":0,"stream":7"#);
    let json = list(&[kernel("100"), kernel("50")]);
    let options = ReadOptions { clip_overlaps: true, ..ReadOptions::default() };
    let trace = read_bytes("t", json.as_bytes(), &options).unwrap();
    assert_eq!(trace.events.dur, [100_000, 50_000]);
}
