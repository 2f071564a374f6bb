//! Tests of zoomed flame graphs towards callers: only visible parts are computed, with the numbers of the whole.

use crate::common::{document, numbers};
use stackline_engine::OpenOptions;
use stackline_query::{Answer, Arguments, OpenRun, QueryError, run_query};
use std::collections::BTreeMap;

const UP: (&str, &str) = ("shape", "bottom-up");

/// A training step, so small a part of which most calls are that the whole has no room for them.
fn opened() -> OpenRun {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.json");
    let long = r#"{"ph":"X","name":"long","cat":"cpu_op","ts":90000000,"dur":1000000000,"pid":1,"tid":1}"#;
    let demo = stackline_testkit::demo::generate(&stackline_testkit::demo::Config { steps: 2, ..Default::default() });
    let demo = demo.replacen("\"traceEvents\": [", &format!("\"traceEvents\": [{long},"), 1);
    let demo = demo.replacen("\"traceEvents\":[", &format!("\"traceEvents\":[{long},"), 1);
    assert!(demo.contains("\"long\""), "the long call is in it");
    std::fs::write(&path, demo).expect("written");
    OpenRun::open(&[path], &OpenOptions::default()).expect("opens")
}

fn calls(opened: &OpenRun, arguments: &[(&str, &str)]) -> Answer {
    let all = [&[UP, ("steps", "whole"), ("metric", "host_time")], arguments].concat();
    run_query(opened, "calls", &Arguments::new(all)).expect("answered")
}

/// Rows by the names from the root of the whole on: number, inclusive and exclusive values.
fn by_path(answer: &Answer) -> BTreeMap<Vec<String>, (f64, f64, f64)> {
    let document = document(answer);
    let name = |label: f64| document["labels"][label as usize][5].as_str().expect("a label").to_owned();
    let above =
        document["path"].as_array().expect("a path").iter().map(|part| part[1].as_str().unwrap_or_default().to_owned());
    let mut paths: Vec<Vec<String>> = vec![above.collect()];
    let (parent, label) = (numbers(answer, "parent"), numbers(answer, "label"));
    for at in 1..parent.len() {
        let mut path = paths[parent[at] as usize].clone();
        path.push(name(label[at]));
        paths.push(path);
    }
    let columns = ["row", "inclusive", "exclusive"].map(|column| numbers(answer, column));
    let values = (0..paths.len()).map(|at| (columns[0][at], columns[1][at], columns[2][at]));
    paths.iter().cloned().zip(values).collect()
}

#[test]
fn zoomed_nodes_keep_their_numbers() {
    let run = opened();
    let whole = by_path(&calls(&run, &[("least", "0")]));
    let seen = calls(&run, &[]);
    assert!(numbers(&seen, "row").len() < whole.len() / 2, "most rows cannot be seen");
    assert!(document(&seen)["left_out"].as_u64() > Some(0));
    let mut deepest = 0;
    for (_, (row, ..)) in by_path(&seen).into_iter().filter(|(path, _)| path.len() == 1) {
        let zoomed = by_path(&calls(&run, &[("root", &row.to_string())]));
        assert!(zoomed.values().any(|&(number, ..)| number == row), "the row keeps its number");
        for (path, (number, inclusive, exclusive)) in &zoomed {
            let expected = whole.get(path).expect("a path of the whole");
            assert_eq!((*inclusive, *exclusive), (expected.1, expected.2), "{path:?}");
            deepest = deepest.max(path.len());
            let root = number.to_string();
            let further = by_path(&calls(&run, &[("root", &root)]));
            assert_eq!(further.get(path).map(|values| (values.0, values.1)), Some((*number, *inclusive)), "{path:?}");
        }
    }
    assert!(deepest > 2, "callers of callers are there");
}

#[test]
fn zoomed_frames_keep_their_numbers_for_each_metric() {
    let run = opened();
    let row = by_path(&calls(&run, &[]))
        .into_iter()
        .find(|(path, _)| path == &["aten::mm".to_owned()])
        .map(|(_, values)| values.0);
    let zoomed = calls(&run, &[("root", &row.unwrap_or(1.0).to_string())]);
    for (path, (number, inclusive, _)) in by_path(&zoomed).into_iter().take(20) {
        let root = number.to_string();
        let arguments = [UP, ("steps", "whole"), ("metric", "host_time"), ("root", &root)];
        let frame = document(&run_query(&run, "frame", &Arguments::new(arguments)).expect("answered"));
        assert_eq!(frame["path"].as_array().map(Vec::len), Some(path.len()));
        let metrics = frame["metrics"].as_array().expect("metrics");
        let inclusive_of =
            |name: &str| metrics.iter().find(|one| one["name"] == name).expect("measured")["inclusive"].as_f64();
        assert_eq!(inclusive_of("host_time"), Some(inclusive), "{path:?}");
        assert!(inclusive_of("gpu_time").is_some());
    }
}

#[test]
fn nonexistent_rows_are_missing() {
    let run = opened();
    for root in ["99999999", "9007199254740991", "18446744073709551615", "68719476735"] {
        let zoomed_answer = run_query(&run, "calls", &Arguments::new([UP, ("root", root)]));
        assert!(matches!(zoomed_answer, Err(QueryError::Missing { .. })), "{root}: {zoomed_answer:?}");
    }
}
