//! Any question has an answer or a refusal, and sums of answers are those of the trace.

use proptest::prelude::*;
use serde_json::Value;
use stackline_engine::OpenOptions;
use stackline_query::{ALL, Answer, Arguments, Column, Opened, QueryError, ask};
use std::path::PathBuf;
use std::sync::OnceLock;

/// A generated training step, opened once.
fn opened() -> &'static Opened {
    static OPENED: OnceLock<Opened> = OnceLock::new();
    OPENED.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trace.json");
        std::fs::write(
            &path,
            stackline_synth::demo::generate(&stackline_synth::demo::Config { steps: 3, ..Default::default() }),
        )
        .expect("written");
        Opened::open(&[path], &OpenOptions::default()).expect("opens")
    })
}

fn answer(name: &str, arguments: &[(&str, &str)]) -> Result<Answer, QueryError> {
    ask(opened(), name, &Arguments::new(arguments.iter().copied()))
}

fn document(answer: &Answer) -> Value {
    serde_json::from_str(&answer.json).expect("a document is JSON")
}

fn numbers(answer: &Answer, name: &str) -> Vec<f64> {
    match &answer.columns.iter().find(|(column, _)| *column == name).expect("a column").1 {
        Column::U8(values) => values.iter().map(|&value| f64::from(value)).collect(),
        Column::U32(values) => values.iter().map(|&value| f64::from(value)).collect(),
        Column::F64(values) => values.clone(),
    }
}

#[test]
fn every_query_answers_a_whole_trace_or_says_what_it_lacks() {
    for query in ALL {
        match answer(query.name, &[]) {
            Ok(answer) => assert!(!answer.to_bytes().is_empty() && document(&answer).is_object()),
            Err(QueryError::Argument { why, .. }) => assert_eq!(why, "is missing", "{}", query.name),
            Err(QueryError::Unavailable { .. }) => assert_eq!(query.name, "compare", "there is no other run"),
            Err(error) => panic!("{}: {error}", query.name),
        }
    }
}

#[test]
fn boxes_of_calls_add_up() {
    for shape in ["top-down", "bottom-up", "flat"] {
        let all = answer("calls", &[("shape", shape), ("least", "0")]).expect("answered");
        let (parent, inclusive, exclusive) =
            (numbers(&all, "parent"), numbers(&all, "inclusive"), numbers(&all, "exclusive"));
        assert_eq!(document(&all)["left_out"], 0);
        assert_eq!(document(&all)["total"].as_f64(), Some(inclusive[0]));
        if shape == "top-down" {
            let mut sums = exclusive.clone();
            for node in (1..parent.len()).rev() {
                sums[parent[node] as usize] += sums[node];
            }
            assert_eq!(sums, inclusive, "what a node has is its own and its children's");
        }
        // A narrow view has fewer boxes, and none whose caller is missing.
        let few = answer("calls", &[("shape", shape), ("least", "0.05")]).expect("answered");
        let (row, caller) = (numbers(&few, "row"), numbers(&few, "parent"));
        assert!(row.len() < parent.len());
        for node in 1..row.len() {
            assert!((caller[node] as usize) < node, "callers come first");
        }
    }
}

#[test]
fn tiles_hold_every_event_once() {
    let lanes = document(&answer("lanes", &[]).expect("answered"));
    let events: u64 =
        lanes["lanes"].as_array().expect("lanes").iter().map(|lane| lane["events"].as_u64().unwrap_or(0)).sum();
    let whole = &lanes["whole"];
    let text = |name: &str| whole[name].as_str().map_or_else(|| whole[name].to_string(), str::to_owned);
    let tracks = text("tracks");
    for level in ["0", "8", "12", &text("level"), "53"] {
        // One tile of level 53 is longer than any trace; finer ones are asked for all at once.
        let last = if level == "53" { "0" } else { "1000000" };
        let all = answer("tiles", &[("tracks", &tracks), ("level", level), ("first", "0"), ("last", last)])
            .expect("answered");
        let counted: f64 = numbers(&all, "count").iter().sum();
        assert_eq!(counted as u64, events, "level {level}");
        let (start, end) = (numbers(&all, "start"), numbers(&all, "end"));
        assert!(start.iter().zip(&end).all(|(start, end)| start <= end));
    }
}

#[test]
fn narrow_events_become_one_box() {
    let lanes = document(&answer("lanes", &[]).expect("answered"));
    let tracks = lanes["whole"]["tracks"].as_str().expect("tracks").to_owned();
    let boxes = |level: &str| {
        let all = answer("tiles", &[("tracks", &tracks), ("level", level), ("first", "0"), ("last", "1000000")]);
        numbers(&all.expect("answered"), "count").len()
    };
    assert!(boxes("30") < boxes("0") / 4, "{} against {}", boxes("30"), boxes("0"));
}

#[test]
fn a_run_beside_itself_has_not_changed() {
    let open = || {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trace.json");
        let demo = stackline_synth::demo::Config { steps: 3, ..Default::default() };
        std::fs::write(&path, stackline_synth::demo::generate(&demo)).expect("written");
        Opened::open(&[path], &OpenOptions::default()).expect("opens")
    };
    let both = open().compared_with(open());
    let compared = document(&ask(&both, "compare", &Arguments::default()).expect("answered"));
    let rows = compared["tables"]["steps"]["rows"].as_array().expect("steps");
    assert!(!rows.is_empty() && rows.iter().all(|row| row["change_ns"].as_f64() == Some(0.0)), "{rows:?}");
    let calls = ask(&both, "calls", &Arguments::new([("beside", "before")])).expect("answered");
    assert_eq!(numbers(&calls, "before"), numbers(&calls, "inclusive"));
    let before = ask(&both, "lanes", &Arguments::new([("run", "before")])).expect("answered");
    assert_eq!(before, ask(&both, "lanes", &Arguments::default()).expect("answered"));
}

#[test]
fn a_run_that_is_not_there_is_refused() {
    assert!(Opened::open(&[PathBuf::from("nothing-here.json")], &OpenOptions::default()).is_err());
}

proptest! {
    /// Whatever is asked: an answer, or a refusal in words; never a panic.
    #[test]
    fn any_question(
        at in 0..ALL.len(),
        arguments in prop::collection::vec(
            (
                prop::sample::select(vec![
                    "rank", "event", "at", "root", "least", "metric", "shape", "by", "focus", "hide", "of", "text", "file",
                    "tracks", "level", "first", "last", "from", "to", "run", "beside",
                ]),
                prop_oneof![
                    any::<i64>().prop_map(|number| number.to_string()),
                    any::<f64>().prop_map(|number| number.to_string()),
                    (0..50_u8).prop_map(|number| number.to_string()),
                    prop::sample::select(vec![
                        "top-down", "bottom-up", "flat", "callers", "host_time", "gpu_time", "aten", "module", "0,1,2", "0..1",
                        "train.py", "(", "/etc/passwd", "nan", "inf",
                    ]).prop_map(str::to_owned),
                    ".{0,20}",
                ],
            ),
            0..6,
        ),
    ) {
        match ask(opened(), ALL[at].name, &Arguments::new(arguments)) {
            Ok(answer) => prop_assert!(serde_json::from_str::<Value>(&answer.json).is_ok()),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
