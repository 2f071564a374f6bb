//! Memory timelines of `torch.profiler`: live bytes by kind over time.

use crate::common;

use common::corpus;
use stackline_ingest::memory::read_path;
use stackline_memory::curve::{alive_at, curves};
use stackline_memory::tables::{By, at_peak_table, named_peaks};
use stackline_model::{MemoryCallId, MemoryTrace, Values};
use std::collections::BTreeMap;

/// The curve of a real timeline against sums over its rows.
#[test]
fn memory_timeline() {
    let Some(file) = corpus("memory/pytorch-memory-timeline.raw.gz") else { return };
    let trace = read_path(&file).unwrap();
    trace.check().unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(std::fs::File::open(&file).unwrap()), &mut text)
        .unwrap();
    let rows: Vec<[i64; 4]> = serde_json::from_str(&text).unwrap();
    let (mut now, mut peak) = (0, 0);
    let (mut by_category, mut at_peak) = ([0; 8], [0; 8]);
    for [_, _, bytes, category] in &rows {
        now += bytes;
        by_category[*category as usize] += bytes;
        if now > peak {
            (peak, at_peak) = (now, by_category);
        }
    }
    let curve = &curves(&trace)[0];
    assert_eq!(i64::try_from(curve.peak().bytes).unwrap(), peak);
    assert_eq!(i64::try_from(curve.at(curve.end - 1)).unwrap(), now);
    assert_eq!(trace.report.count_of("free_without_allocation"), 0);
    let end = alive_at(&trace, curve.device, MemoryCallId(curve.end - 1));
    let parameters = end.iter().filter(|object| trace.objects.kind[object.index()].name() == "parameter");
    let bytes: u64 = parameters.map(|object| trace.objects.bytes[object.index()]).sum();
    assert_eq!(i64::try_from(bytes).unwrap(), by_category[0]);
    // An activation at the peak counts as one, even if its kind changes later.
    let kinds = at_peak_kinds(&trace);
    assert_eq!((kinds["activation"], at_peak[4]), (2_592_465_920, 2_592_465_920));
    assert_eq!((kinds["temporary"], kinds["unknown"]), (at_peak[3] + at_peak[6], at_peak[7]));
}

/// Bytes at the highest peak by kind.
fn at_peak_kinds(trace: &MemoryTrace) -> BTreeMap<String, i64> {
    let table = at_peak_table(trace, &named_peaks(trace, 1), By::Kind);
    let (Values::Str(kinds), Values::I64(bytes)) =
        (&table.column("kind").unwrap().values, &table.column("bytes").unwrap().values)
    else {
        panic!("{table:?}");
    };
    kinds.iter().flatten().cloned().zip(bytes.iter().flatten().copied()).collect()
}

/// At the peak, an object has the kind of that time; in the list of all objects, the final one.
#[test]
fn later_kinds_do_not_apply_to_earlier_times() {
    let rows = "[[1, 2, 1000, 4], [2, 2, 50, 7], [3, 3, -1000, 4], [3, 3, 1000, 5], [4, 4, -50, 7]]";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.raw.json");
    std::fs::write(&file, rows).unwrap();
    let trace = read_path(&file).unwrap();
    trace.check().unwrap();
    assert_eq!(at_peak_kinds(&trace), BTreeMap::from([("activation".to_owned(), 1000), ("unknown".to_owned(), 50)]));
    let kinds = [0, 1, 2].map(|at| trace.kind_at(trace.objects.ids().next().unwrap(), MemoryCallId(at)).name());
    assert_eq!((kinds, trace.objects.kind[0].name()), (["activation", "activation", "gradient"], "gradient"));
}
