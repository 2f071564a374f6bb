//! Tests of memory queries, on a small hand-written program.

use crate::common;

use common::{document, memory, numbers};
use serde_json::{Value, json};
use stackline_engine::{OpenOptions, Run, WriteOptions};
use stackline_query::{Answer, Arguments, OpenRun, run_query};
use stackline_testkit::mini;
use std::path::{Path, PathBuf};

fn of_memory(name: &str, arguments: &[(&str, &str)]) -> Answer {
    run_query(memory(), name, &Arguments::new(arguments.iter().copied())).expect("answered")
}

const WHOLE: [(&str, &str); 3] = [("level", "0"), ("first", "0"), ("last", "0")];

#[test]
fn memory_files_refuse_other_queries_with_a_reason() {
    let meta = document(&of_memory("meta", &[]));
    assert_eq!((&meta["has"]["memory"], &meta["has"]["timeline"]), (&Value::Bool(true), &Value::Bool(false)));
    let refused = run_query(memory(), "overview", &Arguments::default()).expect_err("there is no trace");
    assert!(refused.to_string().contains("contains only memory data and has no execution trace"), "{refused}");
    let names: Vec<_> = memory().first_questions().iter().map(|(name, _)| *name).collect();
    assert!(names.starts_with(&["meta", "memory"]) && names.contains(&"memory-object"), "{names:?}");
}

/// A snapshot without history has no calls, but objects: they are drawn at the first position.
#[test]
fn traces_without_calls_have_a_curve() {
    let text = r#"{"device_traces":[],"segments":[{"device":0,"address":4096,"total_size":2097152,"stream":0,
        "blocks":[{"size":1024,"state":"active_allocated"},{"size":2096128,"state":"inactive"}]}]}"#;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("snapshot.json");
    std::fs::write(&path, text).expect("written");
    let opened = OpenRun::open(&[path], &OpenOptions::default()).expect("opens");
    let answer = |name: &str, arguments: &[(&str, &str)]| {
        run_query(&opened, name, &Arguments::new(arguments.iter().copied())).expect("answered")
    };
    let page = document(&answer("memory", &[]))["page"].clone();
    assert_eq!((&page["end"], &page["devices"][0]["name"]), (&json!(0), &json!("cuda:0")));
    assert_eq!(page["peaks"][0], json!({"name": "P1", "device": 0, "call": 0, "bytes": 1024}));
    let curve = answer("memory-curve", &[("device", "0"), WHOLE[0], WHOLE[1], WHOLE[2]]);
    assert!(numbers(&curve, "high").contains(&1024.0), "{curve:?}");
    let alive = answer("memory-objects", &[("device", "0"), ("alive", "P1"), WHOLE[0], WHOLE[1], WHOLE[2]]);
    assert_eq!((numbers(&alive, "from"), numbers(&alive, "to")), (vec![0.0], vec![1.0]));
    answer("memory-calls", &WHOLE);
}

#[test]
fn boxes_contain_each_memory_call_once() {
    let page = document(&of_memory("memory", &[]))["page"].clone();
    let end = page["end"].as_f64().expect("calls");
    for level in ["0", "1", "3", "53"] {
        let all = of_memory("memory-calls", &[("level", level), ("first", "0"), ("last", "40")]);
        assert_eq!(numbers(&all, "count").iter().sum::<f64>(), end, "level {level}");
    }
    let single = of_memory("memory-calls", &WHOLE);
    assert_eq!(numbers(&single, "start").len() as f64, end);
}

#[test]
fn waste_and_ticks_are_within_object_lifetimes() {
    let lanes = of_memory("memory-objects", &WHOLE);
    let (from, to) = (numbers(&lanes, "from"), numbers(&lanes, "to"));
    let (lane, begin, end) =
        (numbers(&lanes, "waste_lane"), numbers(&lanes, "waste_from"), numbers(&lanes, "waste_to"));
    assert!(!lane.is_empty());
    for at in 0..lane.len() {
        let object = lane[at] as usize;
        assert!(from[object] <= begin[at] && begin[at] < end[at] && end[at] <= to[object]);
    }
    let (lane, at) = (numbers(&lanes, "tick_lane"), numbers(&lanes, "tick_at"));
    assert!(
        !lane.is_empty()
            && lane.iter().zip(&at).all(|(&object, &at)| from[object as usize] <= at && at < to[object as usize])
    );
    // Why the object that nobody touches is there for nothing: all its life; and it is no lane too few if one alone is asked for.
    let why = numbers(&lanes, "waste_why");
    assert!(why.contains(&3.0) && why.contains(&4.0) && why.contains(&0.0), "{why:?}");
    let one = of_memory("memory-objects", &[&WHOLE[..], &[("most", "1")]].concat());
    let folded = document(&one);
    assert_eq!((numbers(&one, "object").len(), folded["folded"].as_u64()), (1, Some(4)));
    let classes = folded["classes"].as_array().expect("classes");
    assert_eq!(
        classes.iter().filter_map(|class| class["bytes"].as_u64()).sum::<u64>(),
        folded["folded_bytes"].as_u64().expect("a sum")
    );
}

#[test]
fn savings_of_a_single_suggestion_equal_those_at_the_peak() {
    let table = document(&of_memory("memory-suggestions", &[]))["tables"]["memory_suggestions"].clone();
    let rows = table["rows"].as_array().expect("suggestions");
    assert!(!rows.is_empty());
    for row in rows {
        let number = row["number"].to_string();
        let applied = document(&of_memory("memory-apply", &[&WHOLE[..], &[("apply", &number)]].concat()));
        let peak = &applied["page"]["peaks"][0];
        let saved = peak["before"].as_i64().expect("bytes") - peak["after"].as_i64().expect("bytes");
        assert_eq!(Some(saved), row["saved_at_p1"].as_i64(), "suggestion {number}");
    }
}

#[test]
fn object_details_name_calls_to_change_and_savings() {
    let lanes = of_memory("memory-objects", &WHOLE);
    let details: Vec<Value> = numbers(&lanes, "object")
        .iter()
        .map(|object| document(&of_memory("memory-object", &[("object", &object.to_string())])))
        .collect();
    let never = details.iter().find(|one| one["bytes"] == 65536).expect("the one that nobody touches");
    assert_eq!(never["patterns"][0]["pattern"], "unused allocation");
    assert_eq!(never["suggestions"][0]["action"], "remove");
    assert_eq!(never["first_use"], Value::Null);
    let output = details.iter().find(|one| one["name"] == "output").expect("output");
    assert!(output["suggestions"].to_string().contains("just before kernel second"), "{}", output["suggestions"]);
    assert_eq!(output["place"]["line"], 21);
}

/// A rank that allocates so many bytes.
fn rank(folder: &Path, rank: u32, bytes: u64) -> PathBuf {
    let path = folder.join(format!("rank{rank}.json"));
    let lines = format!(
        r#"file distributedInfo={{"rank": {rank}, "world_size": 2}}
        1/1  cpu_op  aten::empty  10+5
        1/1  -       [memory]     @12   Total Allocated={bytes} Bytes={bytes} Addr=4096 Device Id=-1 Device Type=0"#
    );
    std::fs::write(&path, mini::trace(&lines)).expect("written");
    path
}

#[test]
fn each_rank_has_its_own_memory_also_after_import() {
    let folder = tempfile::tempdir().expect("a folder");
    let inputs = [rank(folder.path(), 0, 1024), rank(folder.path(), 1, 2048)];
    let options = OpenOptions::default();
    let job = Run::open(&inputs, &options).expect("inputs");
    let (set, kept) = (job.traces().expect("opens"), job.memories().expect("memory"));
    let run = folder.path().join("job.stackline");
    stackline_engine::save_with(&set, &kept, &run, &WriteOptions::default()).expect("saved");
    for opened in [OpenRun::open(&inputs, &options), OpenRun::open(&[run], &options)] {
        let opened = opened.expect("opens");
        for (rank, bytes) in [("0", 1024), ("1", 2048)] {
            let answer = run_query(&opened, "memory", &Arguments::new([("rank", rank)])).expect("answered");
            assert_eq!(document(&answer)["tables"]["memory_peaks"]["rows"][0]["bytes"], bytes, "rank {rank}");
        }
    }
}

#[test]
fn stored_memory_is_available_for_traces_without_memory_events() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace.json");
    std::fs::write(&trace, mini::trace("1/1 cpu_op aten::mm 10+5")).expect("written");
    let program = folder.path().join("program.memory");
    std::fs::write(&program, "a x 4096\nk one x\nf x\nend\n").expect("written");
    let options = OpenOptions::default();
    let set = Run::open(&[trace], &options).and_then(|run| run.traces()).expect("opens");
    let kept = Run::open(&[program], &options).and_then(|run| run.memory(None)).expect("memory");
    let run = folder.path().join("run.stackline");
    stackline_engine::save_with(&set, &[kept], &run, &WriteOptions::default()).expect("saved");
    let opened = OpenRun::open(&[run], &options).expect("opens");
    let document_of = |name| document(&run_query(&opened, name, &Arguments::default()).expect("answered"));
    assert_eq!(document_of("meta")["has"]["memory"], true);
    assert_eq!(document_of("memory")["tables"]["memory_peaks"]["rows"][0]["bytes"], 4096);
}
