//! Counters of several processes or of no kernel, and tables with long rows or repeated columns.

use super::{DOCUMENT, PLAIN, TABLES, database, read, sum, tables};
use stackline_ingest::{ReadOptions, read_bytes};
use stackline_model::{EventKind, Trace};

/// Each process numbers its dispatches from 1; `Guid` identifies the process.
#[test]
fn counters_belong_to_the_dispatch_of_their_process() {
    let of_processes = |text: &str| {
        let mut lines: Vec<String> = text.replace(",910,2,11,", ",910,1,11,").lines().map(str::to_owned).collect();
        if text.contains("FETCH_SIZE") {
            // Of three processes, the last one has no kernel.
            let row = lines[1].clone();
            lines.extend(
                ["1000", "7"].map(|value| row.replace("\"FETCH_SIZE\",3.5", &format!("\"FETCH_SIZE\",{value}"))),
            );
        }
        let rows = lines[1..].iter().enumerate().map(|(at, row)| format!("\"{at}\",{row}\n"));
        format!("\"Guid\",{}\n{}", lines[0], rows.collect::<String>())
    };
    let traces = tables(&["kernel_trace", "counter_collection"], of_processes);
    let values = |trace: &Trace| trace.events.ids().filter_map(|e| trace.attr("FETCH_SIZE").f64(e)).collect::<Vec<_>>();
    assert_eq!(traces.iter().map(values).collect::<Vec<_>>(), [[3.5], [1000.0]]);
    assert_eq!(traces[0].report.count_of("dangling_record"), 1, "{:?}", traces[0].report);
}

#[test]
fn counters_without_a_dispatch_are_counted() {
    let document =
        DOCUMENT.replace("\"dispatch_data\": {\"dispatch_info\": {\"dispatch_id\": 1}}", "\"dispatch_data\": {}");
    let trace = read_bytes("908_results.json", document.as_bytes(), &ReadOptions::default()).unwrap();
    assert_eq!(trace.report.count_of("dangling_record"), 1);
    let traces = tables(&["kernel_trace", "counter_collection"], |text| text.replace("\n7,1,", "\n7,,"));
    assert_eq!((traces[0].report.count_of("dangling_record"), traces[0].report.count_of("odd_value")), (1, 0));
    let folder = tempfile::tempdir().unwrap();
    let sql = format!("{PLAIN} INSERT INTO rocpd_pmc_event@ VALUES (3, NULL, 5, 4.0);");
    let traces = read(&[database(folder.path(), &sql, "_00ab")]);
    assert_eq!(traces[0].report.count_of("dangling_record"), 1);
}

#[test]
fn rows_of_unlimited_length_are_skipped() {
    let (name, kernels) = TABLES[1];
    let at = kernels.rfind("\"KERNEL_DISPATCH\"").unwrap();
    // A quotation mark without its partner.
    let long = format!("{}\"KERNEL_DISPATCH\",\"{}\n{}", &kernels[..at], "x".repeat(3 << 20), &kernels[at..]);
    let trace = read_bytes(name, long.as_bytes(), &ReadOptions::default()).unwrap();
    assert_eq!((sum(&trace, EventKind::Kernel), trace.report.count_of("oversized_line")), ((2, 110), 1));
}

#[test]
fn names_of_columns_may_differ_only_in_case() {
    let twice =
        |text: &str| text.replace("\"SGPR_Count\"", "\"SGPR_count\",\"SGPR_Count\"").replace(",8,4,32,", ",8,4,32,32,");
    let traces = tables(&["kernel_trace"], twice);
    assert_eq!((sum(&traces[0], EventKind::Kernel), traces[0].report.count_of("damaged_event")), ((2, 110), 0));
}
