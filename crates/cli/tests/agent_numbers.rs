//! Test that each number of `report --for-agent` occurs in the documents of `report` and `findings`, or is a share of
//! such a number.

use crate::common::{corpus, sample, stdout, write};
use serde_json::Value;

/// A number of a text: its value, the digits after its point, and its unit.
#[derive(Clone, Debug, PartialEq)]
struct Number {
    value: f64,
    decimals: i32,
    unit: &'static str,
    /// Rest of its line.
    line: String,
}

/// Units and their sizes in ns or bytes.
const UNITS: [(&str, f64); 10] = [
    ("GiB", 1_073_741_824.0),
    ("MiB", 1_048_576.0),
    ("KiB", 1_024.0),
    ("ms", 1e6),
    ("µs", 1e3),
    ("us", 1e3),
    ("ns", 1.0),
    ("s", 1e9),
    ("B", 1.0),
    ("%", 1.0),
];

/// The numbers of a text that are no part of a name, a place, a shape or a code.
fn numbers(text: &str) -> Vec<Number> {
    text.lines().flat_map(numbers_of_line).collect()
}

fn numbers_of_line(line: &str) -> Vec<Number> {
    // The position of a finding.
    let position = line.find(". SL").filter(|at| line[..*at].bytes().all(|byte| byte.is_ascii_digit()));
    let text = position.map_or(line, |at| &line[at..]);
    let is_name = |c: char| c.is_alphanumeric() || "_.:/#<[,+*-…".contains(c);
    let mut found = Vec::new();
    let mut end = 0;
    for (at, _) in text.char_indices().filter(|(_, c)| c.is_ascii_digit()) {
        if at < end || text[..at].chars().next_back().is_some_and(is_name) {
            continue;
        }
        let is_of_number = |c: char| c.is_ascii_digit() || c == ',' || c == '.';
        let length = text[at..].find(|c| !is_of_number(c)).unwrap_or(text.len() - at);
        let digits = text[at..at + length].trim_end_matches([',', '.']);
        end = at + digits.len();
        let following = &text[end..];
        if following.starts_with(|c: char| c.is_alphanumeric() || "_:/]>".contains(c)) {
            continue;
        }
        let is_unit = |unit: &str| {
            let rest = following.strip_prefix(' ').and_then(|following| following.strip_prefix(unit));
            rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        };
        let unit = UNITS.iter().map(|(unit, _)| *unit).find(|unit| is_unit(unit)).unwrap_or("");
        let value = digits.replace(',', "").parse().unwrap();
        let decimals = digits.split_once('.').map_or(0, |(_, after)| after.len() as i32);
        found.push(Number { value, decimals, unit, line: line.to_owned() });
    }
    found
}

/// All numbers and texts of a document.
fn collect(value: &Value, numbers: &mut Vec<f64>, texts: &mut Vec<String>) {
    match value {
        Value::Number(number) => numbers.extend(number.as_f64()),
        Value::String(text) => texts.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| collect(value, numbers, texts)),
        Value::Object(values) => values.values().for_each(|value| collect(value, numbers, texts)),
        Value::Bool(_) | Value::Null => {}
    }
}

fn rows<'d>(document: &'d Value, table: &str) -> &'d [Value] {
    document["tables"][table]["rows"].as_array().map_or(&[], Vec::as_slice)
}

/// Shares in percent, and windows: each of two numbers of the documents.
fn derived(report: &Value, findings: &Value) -> Vec<f64> {
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let mut found = Vec::new();
    for trace in report["traces"].as_array().unwrap() {
        found.push(number(&trace["end_ns"]) - number(&trace["start_ns"]));
    }
    for path in report["critical_path"].as_array().unwrap() {
        found.push(100.0 * number(&path["exact"]["inferred_ns"]) / number(&path["exact"]["window_ns"]).max(1.0));
    }
    // Waits of the GPU on its own queue are no work.
    let kernels = || rows(report, "gpu_kernels").iter().filter(|row| row["kind"] != "other");
    let all: f64 = kernels().map(|row| number(&row["total_ns"])).sum();
    found.extend(kernels().map(|row| 100.0 * number(&row["total_ns"]) / all.max(1.0)));
    let step = number(&findings["step_ns"]).max(1.0);
    let mut gains = Vec::new();
    let of_findings = rows(findings, "findings").iter();
    let of_findings =
        of_findings.flat_map(|row| ["gain_ns", "gain_low_ns", "gain_high_ns"].map(|key| number(&row[key])));
    gains.extend(of_findings);
    let groups = findings["uncovered"]["groups"].as_array().map_or(&[][..], Vec::as_slice);
    gains.extend(groups.iter().flat_map(|group| ["ns", "low_ns", "high_ns"].map(|key| number(&group["gain"][key]))));
    found.extend(gains.into_iter().map(|gain| 100.0 * gain / step));
    found
}

/// True if a number is one of those, up to rounding.
fn is_known(number: &Number, known: &[f64]) -> bool {
    let unit = UNITS.iter().find(|(unit, _)| *unit == number.unit).map_or(1.0, |(_, size)| *size);
    let off = 0.5001 * 10_f64.powi(-number.decimals) + 1e-9;
    // Columns of times are in ns or µs.
    let scales = if ["s", "ms", "µs", "us"].contains(&number.unit) { &[1.0, 1e3][..] } else { &[1.0] };
    known.iter().any(|known| scales.iter().any(|scale| (known.abs() * scale / unit - number.value).abs() <= off))
}

/// The numbers of a trace's report that are in no document.
fn unknown(file: &str) -> Vec<Number> {
    let document =
        |command: &str| -> Value { serde_json::from_str(&stdout(&[command, file, "--format", "json"])).unwrap() };
    let (report, findings) = (document("report"), document("findings"));
    let (mut known, mut texts) = (derived(&report, &findings), Vec::new());
    [&report, &findings].into_iter().for_each(|document| collect(document, &mut known, &mut texts));
    let shown = stdout(&["report", file, "--for-agent"]);
    let mut text = shown.split("\nMore: ").next().unwrap().to_owned();
    // Titles, notes and names are told as they are; of those that are cut the numbers stand in the whole ones.
    let known_numbers: Vec<Number> = texts.iter().flat_map(|text| numbers(text)).collect();
    texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
    texts.retain(|text| text.len() > 3);
    for part in &texts {
        text = text.replace(part.as_str(), "@");
    }
    let all = numbers(&text);
    assert!(all.len() > 10, "{shown}");
    let is_documented =
        |number: &Number| known_numbers.iter().any(|other| (other.value, other.unit) == (number.value, number.unit));
    all.into_iter().filter(|number| !is_known(number, &known) && !is_documented(number)).collect()
}

#[test]
fn numbers_for_agents_occur_in_the_documents() {
    let folder = tempfile::tempdir().unwrap();
    let demo = stackline_testkit::demo::generate(&stackline_testkit::demo::Config { steps: 3, ..Default::default() });
    let mut files =
        vec![write(folder.path(), "sample.json", sample(0).json()), write(folder.path(), "demo.json", demo)];
    let real = [
        "nvidia-a100-event-sync",
        "cpu-only-gloo",
        "amd-mi250-toy-train",
        "nvidia-a100-alexnet-cuda-sync",
        "nvidia-a100-ddp-nccl",
        "nvidia-h100-bert-small",
        "mtia-inference",
    ];
    files.extend(real.iter().filter_map(|name| corpus(&format!("kineto/{name}.json.gz"))));
    for file in files {
        let unknown = unknown(&file);
        assert!(unknown.is_empty(), "{file}: {unknown:#?}");
    }
}

#[test]
fn numbers_are_distinguished_from_names() {
    let parsed = |text: &str| numbers(text).iter().map(|n| (n.value, n.decimals, n.unit)).collect::<Vec<_>>();
    assert_eq!(
        parsed("1. SL004 waits 2 times; 1.5 % (1.1 to 1.9 %)"),
        [(2.0, 0, ""), (1.5, 1, "%"), (1.1, 1, ""), (1.9, 1, "%")]
    );
    assert_eq!(
        parsed("- gemm_32x32<4, 1>: 1,440 µs, 22.0 %, shapes [[4,8],[8,16]]"),
        [(1440.0, 0, "µs"), (22.0, 1, "%")]
    );
    assert_eq!(parsed("   at train.py:10 in step"), []);
    assert!(!is_known(&numbers("12.3 ms")[0], &[12_400_000.0]) && is_known(&numbers("12.3 ms")[0], &[12_344_000.0]));
}
