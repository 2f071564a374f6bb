//! Check the declared types against the documents of other crates: each type must deserialize and reproduce all of a
//! document.

use super::memory::{AllocatorTables, AppliedTables, HoldersTables, MemoryTables, SuggestionsTables};
use super::{AnyTables, FindingsTables, FoundKeys, ReadReport, TraceInfo, TraceReport};
use crate::queries::samples::{answers, opened};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use stackline_critical_path::exact::what_if::Gain;
use stackline_findings::{ConcurrentGpuWork, DevicePeak, LargeGroup, LargeKind, RankTimes, Uncovered};
use stackline_timeline::source_location::SourceLocation;

fn is_read_by<T: DeserializeOwned + Serialize>(value: &Value) {
    let read: T = serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"));
    assert_eq!(serde_json::to_value(&read).expect("written"), *value);
}

fn are_read_by<T: DeserializeOwned + Serialize>(list: &Value) {
    list.as_array().into_iter().flatten().for_each(is_read_by::<T>);
}

#[test]
fn documents_match_their_declarations() {
    for (name, answer) in opened().iter().flat_map(answers) {
        let document: Value = serde_json::from_str(&answer.json).expect("JSON");
        let tables = &document["tables"];
        are_read_by::<TraceReport>(&document["read_report"]);
        match name {
            "meta" => {
                for trace in document["traces"].as_array().into_iter().flatten() {
                    is_read_by::<TraceInfo>(&trace["info"]);
                    is_read_by::<ReadReport>(&trace["report"]);
                }
            }
            "compare" | "overview" => is_read_by::<AnyTables>(tables),
            "findings" => is_read_by::<FindingsTables>(tables),
            "memory" => is_read_by::<MemoryTables>(tables),
            "memory-allocator" => is_read_by::<AllocatorTables>(tables),
            "memory-apply" => is_read_by::<AppliedTables>(tables),
            "memory-holders" => is_read_by::<HoldersTables>(tables),
            "memory-suggestions" => is_read_by::<SuggestionsTables>(tables),
            _ => assert!(tables.is_null(), "{name} has tables of no declared type"),
        }
        if !tables.is_null() {
            are_read_by::<TraceInfo>(&document["traces"]);
        }
    }
}

#[test]
fn keys_of_findings_match_their_declarations() {
    let [trace, _] = opened();
    let mut found = trace.findings(None).expect("findings").clone();
    let gain = Some(Gain::new(2, 1, 3));
    found.combined = gain;
    found.ranks =
        vec![RankTimes { rank: 1, step_ns: 2, steps: 3, exposed_collectives_ns: Some(4), is_incomplete: false }];
    found.peaks = vec![DevicePeak {
        device: "cuda:0".to_owned(),
        bytes: 1,
        mended_bytes: Some(1),
        needed_bytes: None,
        perhaps_needed_bytes: None,
    }];
    let group = LargeGroup {
        kind: LargeKind::Call,
        rank: Some(1),
        name: "f".to_owned(),
        place: SourceLocation::default(),
        place_percent: Some(1.5),
        count: 1,
        percent: 1.5,
        path_percent: 1.5,
        wait_percent: 0.5,
        concurrent_span: Some(("g".to_owned(), 0.5)),
        concurrent_gpu_work: Some(ConcurrentGpuWork { percent: 1.5, longest: vec![("h".to_owned(), 0.5)] }),
        longest_gap_ns: None,
        advice: "",
        gain,
        edits: vec!["remove events:1".to_owned()],
    };
    found.uncovered = Uncovered { covered_percent: Some(0.5), groups: vec![group] };
    let keys = stackline_present::findings::keys(&found).into_iter().map(|(key, value)| (key.to_owned(), value));
    is_read_by::<FoundKeys>(&keys.collect());
}
