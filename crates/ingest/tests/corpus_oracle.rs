//! Comparison of every event and argument of the corpus with serde_json's result.

use crate::common;
use crate::oracle;

use stackline_ingest::{ReadOptions, read_bytes, read_paths};

#[test]
fn events_and_arguments_equal_those_of_serde_json() {
    let mut compared = 0;
    for path in common::kineto() {
        let text = common::text(&path);
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let trace = read_bytes(&name, &text, &ReadOptions::default()).unwrap();
        let (records, others) = oracle::parse(&text).unwrap_or_else(|| panic!("{name} is not JSON of this form"));
        compared += oracle::compare(&trace, &records, &others).unwrap_or_else(|what| panic!("{name}: {what}"));
        assert!(trace.report.is_clean(), "{name}: {:?}", trace.report.problems);
    }
    println!("{compared} events compared");
    assert!(compared > 900_000 || common::corpus().is_none());
}

#[test]
fn trace_is_independent_of_threads_and_packing() {
    for path in common::kineto().iter().filter(|p| p.metadata().unwrap().len() < 500_000) {
        let columns = |threads| {
            let options = ReadOptions { threads, ..ReadOptions::default() };
            let set = read_paths(std::slice::from_ref(path), &options).unwrap();
            format!("{:?}", (&set.traces[0].events, &set.traces[0].gpu, &set.traces[0].report, &set.traces[0].steps))
        };
        let one = columns(1);
        assert_eq!(one, columns(2));
        assert_eq!(one, columns(8));
        let plain =
            read_bytes(&path.file_name().unwrap().to_string_lossy(), &common::text(path), &ReadOptions::default());
        let plain = plain.unwrap();
        assert_eq!(one, format!("{:?}", (&plain.events, &plain.gpu, &plain.report, &plain.steps)));
    }
}
