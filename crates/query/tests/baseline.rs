//! Tests of a run with a baseline.

use crate::common::document;
use stackline_engine::OpenOptions;
use stackline_query::{Arguments, OpenRun, run_query};
use stackline_testkit::mini;

#[test]
fn runs_with_different_numbers_of_steps_are_compared_per_step() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = |steps: u32| {
        let path = folder.path().join(format!("{steps}.json"));
        let config = stackline_testkit::demo::Config { steps, ..Default::default() };
        std::fs::write(&path, stackline_testkit::demo::generate(&config)).expect("written");
        OpenRun::open(&[path], &OpenOptions::default()).expect("opens")
    };
    let both = open(3).compared_with(open(6));
    let answer_for = |steps: &str| {
        document(
            &run_query(&both, "calls", &Arguments::new([("baseline", "before"), ("steps", steps)])).expect("answered"),
        )
    };
    for (part, many) in [("10..12", 3.0), ("11", 1.0)] {
        let document = answer_for(part);
        let (before, after) =
            (document["before"].as_f64().expect("a number"), document["total"].as_f64().expect("a number"));
        assert_eq!(
            (document["steps"]["before"].as_f64(), document["steps"]["after"].as_f64()),
            (Some(6.0), Some(many))
        );
        assert!((before / after - 1.0).abs() < 0.1, "{part}: {before} before, {after} after");
    }
}

#[test]
fn warm_ups_of_either_run_are_excluded_from_both() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = |name: &str, lengths: [u32; 6]| {
        let path = folder.path().join(name);
        let mut at = 0;
        let lines = lengths.iter().enumerate().map(|(step, length)| {
            at += length;
            format!("1/1 user_annotation ProfilerStep#{step} {}..{at}\n", at - length)
        });
        std::fs::write(&path, mini::trace(&lines.collect::<String>())).expect("written");
        OpenRun::open(&[path], &OpenOptions::default()).expect("opens")
    };
    let warm = [5000, 100, 100, 100, 100, 100];
    let warmer = [5000, 900, 100, 100, 100, 100];
    let even = [105, 100, 100, 100, 100, 100];
    for (a, b, many) in
        [(warm, even, 5), (even, warm, 5), (warmer, even, 4), (even, warmer, 4), (warm, warmer, 4), (even, even, 6)]
    {
        let both = open("b.json", b).compared_with(open("a.json", a));
        let calls = document(&run_query(&both, "calls", &Arguments::new([("baseline", "before")])).expect("answered"));
        assert_eq!(calls["steps"], serde_json::json!({"before": many, "after": many}), "{a:?} and {b:?}");
    }
}
