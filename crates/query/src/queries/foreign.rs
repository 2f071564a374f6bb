//! TypeScript declarations of documents that other crates write. Tests compare them with the written documents.

mod checks;
pub(super) mod memory;

use super::{compare, findings, overview};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use ts_rs::TS;

/// Identity and size of a trace.
#[derive(Debug, Deserialize, Serialize, TS)]
#[serde(deny_unknown_fields)]
pub(super) struct TraceInfo {
    name: String,
    format: String,
    rank: i64,
    /// The file contains the rank; otherwise it is the position among the inputs.
    rank_from_file: bool,
    world_size: Option<i64>,
    events: usize,
    gpu_operations: usize,
    steps: usize,
    /// Time in ns since 1970 from which `start_ns` and `end_ns` count; 0 if the file has none.
    base_ns: i64,
    start_ns: Option<i64>,
    end_ns: Option<i64>,
    gpus: Vec<Gpu>,
}

/// A GPU, as the file describes it.
#[derive(Debug, Deserialize, Serialize, TS)]
#[serde(deny_unknown_fields)]
struct Gpu {
    id: Option<i64>,
    name: Option<String>,
    memory_bytes: Option<u64>,
    multiprocessors: Option<i64>,
}

/// Repaired, skipped and lost records.
#[derive(Debug, Deserialize, Serialize, TS)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadReport {
    bytes: u64,
    records: u64,
    events: u64,
    problems: Vec<Problem>,
}

/// Diagnostic of reading a trace: repaired, skipped or lost records of one kind.
#[derive(Debug, Deserialize, Serialize, TS)]
#[serde(deny_unknown_fields)]
struct Problem {
    code: String,
    severity: Severity,
    message: String,
    count: u64,
    /// Offsets of the first occurrences in bytes.
    offsets: Vec<u64>,
    example: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    more: Option<Vec<String>>,
}

#[derive(Debug, Deserialize, Serialize, TS)]
#[serde(rename_all = "snake_case")]
enum Severity {
    Note,
    Repaired,
    Skipped,
    Lost,
}

/// Repaired, skipped and lost records of one trace.
#[derive(Debug, Deserialize, Serialize, TS)]
#[serde(deny_unknown_fields)]
struct TraceReport {
    trace: String,
    bytes: u64,
    records: u64,
    events: u64,
    problems: Vec<Problem>,
}

/// A table of an analysis.
#[derive(Debug, Deserialize, Serialize, TS)]
#[serde(deny_unknown_fields)]
struct Table {
    title: String,
    columns: Vec<TableColumn>,
    rows: Vec<Row>,
    notes: Vec<String>,
}

/// A column of a table: its name, and the unit of its numbers.
#[derive(Debug, Deserialize, Serialize, TS)]
#[serde(deny_unknown_fields)]
struct TableColumn {
    name: String,
    unit: String,
}

/// Row of a table: values by column name.
#[derive(Debug, Deserialize, Serialize, TS)]
#[ts(type = "Readonly<Record<string, string | number | boolean | null>>")]
struct Row(BTreeMap<String, Cell>);

#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged)]
enum Cell {
    Text(Option<String>),
    Whole(i64),
    Number(f64),
    Truth(bool),
}

/// Common JSON keys of all documents that contain tables.
#[derive(Debug, Deserialize, Serialize, TS)]
struct Printed<T> {
    schema: String,
    traces: Vec<TraceInfo>,
    tables: T,
    read_report: Vec<TraceReport>,
}

/// Tables of a document, by name.
#[derive(Debug, Deserialize, Serialize, TS)]
#[ts(type = "Readonly<Record<string, Table>>")]
struct AnyTables(BTreeMap<String, Table>);

/// Output of `stackline report --format json`.
#[derive(TS)]
#[expect(dead_code, reason = "a declaration")]
pub(super) struct Overview<'a> {
    #[ts(flatten)]
    printed: Printed<AnyTables>,
    #[ts(flatten)]
    keys: overview::OverviewKeys<'a>,
}

/// Output of `stackline diff --format json`.
#[derive(TS)]
#[expect(dead_code, reason = "a declaration")]
pub(super) struct Comparison<'a> {
    #[ts(flatten)]
    printed: Printed<AnyTables>,
    #[ts(flatten)]
    keys: compare::ComparisonKeys<'a>,
}

/// Output of `stackline findings --format json`, with additional keys for the page.
#[derive(TS)]
#[expect(dead_code, reason = "a declaration")]
pub(super) struct Findings<'a> {
    #[ts(flatten)]
    printed: Printed<FindingsTables>,
    #[ts(flatten)]
    of_command: FoundKeys,
    #[ts(flatten)]
    keys: findings::FindingsKeys<'a>,
}

#[derive(Debug, Deserialize, Serialize, TS)]
#[serde(deny_unknown_fields)]
struct FindingsTables {
    findings: Table,
    not_checked: Table,
}

#[derive(Debug, Deserialize, Serialize, TS)]
#[serde(deny_unknown_fields)]
pub(super) struct FoundKeys {
    /// Length of a step in ns.
    step_ns: i64,
    /// Number of analyzed steps.
    steps: usize,
    /// Part of `step_ns` between steps; null without steps, or if it is little.
    between_ns: Option<i64>,
    /// Window of the findings as text; null without a trace.
    window: Option<String>,
    /// Combined gain of all findings per step.
    combined: Option<Gain>,
    /// Ranks that were analyzed together; empty for one rank.
    ranks: Vec<RankTimes>,
    peaks: Vec<DevicePeak>,
    uncovered: Uncovered,
    /// Candidates whose gain is too small for a finding.
    left_out: usize,
    notes: Vec<String>,
}

/// An estimated gain in ns with its bounds.
#[derive(Debug, Deserialize, Serialize, TS)]
#[serde(deny_unknown_fields)]
struct Gain {
    ns: i64,
    low_ns: i64,
    high_ns: i64,
}

/// Times of a rank: length of a step in ns, number of steps, and ns per step in which only collectives run.
#[derive(Debug, Deserialize, Serialize, TS)]
#[serde(deny_unknown_fields)]
struct RankTimes {
    rank: i64,
    step_ns: i64,
    steps: usize,
    collectives_alone_ns: Option<i64>,
}

/// Peak memory of a device in bytes, now and with all suggestions applied; null if unknown.
#[derive(Debug, Deserialize, Serialize, TS)]
#[serde(deny_unknown_fields)]
struct DevicePeak {
    device: String,
    bytes: u64,
    mended_bytes: Option<u64>,
}

/// Time that no finding covers: percent that findings cover, and the largest groups of uncovered events.
#[derive(Debug, Deserialize, Serialize, TS)]
#[serde(deny_unknown_fields)]
struct Uncovered {
    covered_percent: Option<f64>,
    groups: Vec<LargeGroup>,
}

/// Group of events of one name that take much time and that no finding covers.
#[derive(Debug, Deserialize, Serialize, TS)]
#[serde(deny_unknown_fields)]
struct LargeGroup {
    kind: String,
    rank: Option<i64>,
    name: String,
    file: Option<String>,
    line: Option<u32>,
    function: Option<String>,
    place_percent: Option<f64>,
    count: usize,
    percent: f64,
    path_percent: f64,
    wait_percent: f64,
    meanwhile: Option<Meanwhile>,
    /// Of waits the GPU work that runs for most of their time.
    gpu_work: Option<GpuWorkMeanwhile>,
    /// Of time without recorded calls its longest gap, in ns, if that is most of several.
    longest_gap_ns: Option<i64>,
    advice: String,
    gain: Option<Gain>,
    edits: Vec<String>,
}

/// GPU work during a group of waits: its share of their time in percent, and the names with most of it.
#[derive(Debug, Deserialize, Serialize, TS)]
#[serde(deny_unknown_fields)]
struct GpuWorkMeanwhile {
    percent: f64,
    longest: Vec<Meanwhile>,
}

/// Concurrent work during a group of events, and its share of their time in percent.
#[derive(Debug, Deserialize, Serialize, TS)]
#[serde(deny_unknown_fields)]
struct Meanwhile {
    name: String,
    percent: f64,
}
