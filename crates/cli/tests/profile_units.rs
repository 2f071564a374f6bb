//! Units of the metrics of profiles, in every output.

use crate::common;

use common::stdout;
use serde_json::{Value, json};

/// Length-delimited fields of a protobuf message, each shorter than 128 bytes.
fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
    fields.iter().flat_map(|(tag, bytes)| [&[*tag << 3 | 2, bytes.len() as u8][..], bytes].concat()).collect()
}

/// A heap profile as Go writes it: `main` has 5 objects of 3 MiB in all.
fn heap() -> Vec<u8> {
    let sample = message(&[(1, &[1]), (2, &[5, 0x80, 0x80, 0xc0, 0x01])]);
    let line = [&[0x08, 1][..], &message(&[(4, &[0x08, 1])])].concat();
    let mut fields: Vec<(u8, Vec<u8>)> = vec![
        (1, vec![0x08, 1, 0x10, 2]),
        (1, vec![0x08, 3, 0x10, 4]),
        (2, sample),
        (4, line),
        (5, vec![0x08, 1, 0x10, 5]),
    ];
    let texts = ["", "inuse_objects", "count", "inuse_space", "bytes", "main"];
    fields.extend(texts.iter().map(|text| (6, text.as_bytes().to_vec())));
    message(&fields.iter().map(|(tag, bytes)| (*tag, &bytes[..])).collect::<Vec<_>>())
}

/// The unit is that of the file: for the file, for a run directory made from it, and for its export.
#[test]
fn sizes_are_bytes_and_objects_are_counts() {
    let folder = tempfile::tempdir().unwrap();
    let file = common::write(folder.path(), "heap.pb", heap());
    let run = folder.path().join("heap.stackline").to_str().unwrap().to_owned();
    stdout(&["import", &file, "-o", &run]);
    let exported = folder.path().join("again.pb.gz").to_str().unwrap().to_owned();
    stdout(&["export", &run, "--to", "pprof", "-o", &exported]);
    for input in [&file, &run, &exported] {
        let document = |metric: &str| -> Value {
            serde_json::from_str(&stdout(&["calls", input, "--metric", metric, "--format", "json"])).unwrap()
        };
        for (metric, unit, sum) in [("inuse_space", "bytes", 3 << 20), ("inuse_objects", "none", 5)] {
            let calls = document(metric);
            assert_eq!((&calls["metric"], &calls["unit"]), (&metric.into(), &unit.into()), "{input}");
            let table = &calls["tables"]["calls"];
            let columns = table["columns"].as_array().unwrap();
            let inclusive = columns.iter().find(|column| column["name"] == "inclusive").unwrap();
            assert_eq!(inclusive["unit"], unit);
            assert_eq!(table["rows"][0]["inclusive"], sum);
        }
        let text = stdout(&["calls", input, "--metric", "inuse_space"]);
        assert!(text.contains("3072 KiB"), "{text}");
        assert!(!stdout(&["report", input]).contains("KiB"), "objects are shown by default");
        let compared = stdout(&["calls", "--diff", &file, input, "--metric", "inuse_space", "--format", "json"]);
        let compared: Value = serde_json::from_str(&compared).unwrap();
        let row = &compared["tables"]["calls"]["rows"][0];
        assert_eq!((&row["inclusive"], &row["before"]), (&json!(3 << 20), &json!(3 << 20)), "{row}");
        let opened = stackline_query::OpenRun::open(&[input.into()], &Default::default()).unwrap();
        let arguments = stackline_query::Arguments::new([("metric", "inuse_space")]);
        let page = stackline_query::run_query(&opened, "calls", &arguments).unwrap().json;
        assert!(page.contains(r#""unit":"bytes""#), "{page}");
        let speedscope = stdout(&["export", input, "--to", "speedscope", "--metric", "inuse_space"]);
        let speedscope: Value = serde_json::from_str(&speedscope).unwrap();
        assert_eq!(speedscope["profiles"][0]["unit"], "bytes");
    }
    // Findings need times, so no command that fails is recommended.
    for input in [&file, &run] {
        let doctor = stdout(&["doctor", input, "--format", "json"]);
        assert!(doctor.contains("`stackline calls ") && !doctor.contains("stackline findings"), "{doctor}");
    }
}
