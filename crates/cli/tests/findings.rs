//! Tests of `findings`: output formats, baselines, suppressions, exit codes.

use crate::common;
use crate::findings_support as findings;
use crate::junit;

use common::{stackline, stdout, write};
use findings::{Case, run, text, trace};
use serde_json::{Value, json};
use stackline_testkit::mini::MiniTrace;
use std::fs;
use std::path::Path;

#[test]
fn text_output_begins_with_source_locations() {
    let case = Case::new();
    let shown = stdout(&["findings", &case.waits]);
    assert!(shown.contains(" 1. train.py:10 in step  estimated gain "), "{shown}");
    assert!(shown.contains("SL004 host-sync: aten::item waits for the GPU in each step: "), "{shown}");
    let one_line = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("\nNot checked: ") && one_line.contains("no collectives ("), "{shown}");
}

#[test]
fn lines_fit_the_terminal() {
    let case = Case::new();
    let ignore = case.file("ignore", "SL004\n");
    let before = case.file("before.txt", &stdout(&["findings", &case.waits, "--format", "json"]));
    let whole = fs::read_to_string(&case.waits).unwrap();
    let damaged = case.file("damaged.json", &whole[..whole.len() - 60]);
    let cases: [&[&str]; 3] = [&[&case.waits], &[&case.waits, "--ignore", &ignore], &[&damaged, "--baseline", &before]];
    for arguments in cases {
        for columns in ["50", "80"] {
            let output = stackline(&[&["findings"], arguments].concat()).env("COLUMNS", columns).output().unwrap();
            let shown = text(&output.stdout);
            let fits = |line: &str| line.chars().count() <= columns.parse().unwrap() || line.contains(&ignore);
            assert!(shown.lines().count() > 3 && shown.lines().all(fits), "{columns}: {shown}");
        }
    }
}

#[test]
fn json_has_the_findings_as_a_table() {
    let case = Case::new();
    let document: Value = serde_json::from_str(&stdout(&["findings", &case.waits, "--format", "json"])).unwrap();
    assert_eq!(document["schema"], "stackline/findings/2");
    let row = &document["tables"]["findings"]["rows"][0];
    assert_eq!((&row["code"], &row["file"], &row["line"]), (&json!("SL004"), &json!("train.py"), &json!(10)));
    let [low, gain, high] = ["gain_low_ns", "gain_ns", "gain_high_ns"].map(|name| row[name].as_i64().unwrap());
    assert!(low <= gain && gain <= high && gain > 200_000, "{row}");
    assert_eq!(document["steps"], 3);
    let again: Value =
        serde_json::from_str(&stdout(&["findings", &case.waits, "--format", "json", "--threads", "1"])).unwrap();
    assert_eq!(document["tables"], again["tables"], "threads never change the result");
}

/// The trace has the findings SL004 and SL001.
#[test]
fn top_and_limit_limit_findings_in_every_format() {
    let case = Case::new();
    let all: Value = serde_json::from_str(&stdout(&["findings", &case.waits, "--format", "json"])).unwrap();
    let rows = |document: &Value| document["tables"]["findings"]["rows"].as_array().unwrap().clone();
    let more = rows(&all).len() - 1;
    assert!(more > 0 && all["not_listed"].as_array().unwrap().iter().all(|one| one["why"] != "omitted by --top"));
    for option in ["--top", "--limit"] {
        let shown = stdout(&["findings", &case.waits, option, "1"]);
        assert!(shown.contains("\n 1. ") || shown.starts_with(" 1. "), "{shown}");
        assert!(!shown.contains(" 2. ") && shown.contains(" (--top 0 shows all)."), "{shown}");
        let text = stdout(&["findings", &case.waits, option, "1", "--format", "json"]);
        let one: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(rows(&one), rows(&all)[..1]);
        assert_eq!(one["evidence"].as_array().unwrap().len(), 1);
        let omitted = one["not_listed"].as_array().unwrap().iter().filter(|row| row["why"] == "omitted by --top");
        assert_eq!(omitted.count(), more);
        let notes = one["notes"].to_string();
        assert!(notes.contains(&format!("{more} more finding")), "{notes}");
        let csv = run(&[&case.waits, option, "1", "--format", "csv"]);
        assert!(findings::text(&csv.stderr).contains(" omitted: --top 0 shows all"), "{}", findings::text(&csv.stderr));
        // A baseline with omitted findings does not make them new.
        let before = case.file("before.json", &text);
        assert_eq!(run(&[&case.waits, "--baseline", &before, "--fail-on", "new"]).status.code(), Some(0));
    }
}

#[test]
fn json_has_the_events_of_findings() {
    let case = Case::new();
    let document: Value = serde_json::from_str(&stdout(&["findings", &case.waits, "--format", "json"])).unwrap();
    let rows = document["tables"]["findings"]["rows"].as_array().unwrap();
    let evidence = document["evidence"].as_array().unwrap();
    let codes = |list: &[Value]| list.iter().map(|one| one["code"].clone()).collect::<Vec<_>>();
    assert_eq!(codes(rows), codes(evidence), "one for each row, in their order");
    assert_eq!(evidence[0]["events_total"], rows[0]["events"]);
    assert_eq!(evidence[0]["path"], json!(["ProfilerStep#0", "train.py(10): step", "aten::item"]), "{}", evidence[0]);
    let first = &evidence[0]["events"][0];
    assert_eq!(
        (&first["name"], &first["start_ns"], &first["dur_ns"]),
        (&json!("cudaStreamSynchronize"), &json!(15_000), &json!(302_000))
    );
    assert!(evidence[0]["facts"].as_array().is_some_and(|facts| facts[0]["name"].is_string()), "{}", evidence[0]);
    assert!(!stdout(&["findings", &case.waits, "--as", "sarif"]).contains("events_total"));
}

/// The types of the consumer's crate are made from the official schema: a document that is parsed and written unchanged has no unknown property
/// and no wrong type.
#[test]
fn sarif_matches_its_schema() {
    let case = Case::new();
    let ignore = case.file("ignore", "SL001\n");
    let document: Value =
        serde_json::from_str(&stdout(&["findings", &case.waits, "--as", "sarif", "--ignore", &ignore])).unwrap();
    let typed: serde_sarif::sarif::Sarif = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(serde_json::to_value(typed).unwrap(), document);
    let results = document["runs"][0]["results"].as_array().unwrap();
    let sync = results.iter().find(|r| r["ruleId"] == "SL004").unwrap();
    let physical = &sync["locations"][0]["physicalLocation"];
    assert_eq!(
        (&physical["artifactLocation"]["uri"], &physical["region"]["startLine"]),
        (&json!("train.py"), &json!(10))
    );
    assert_eq!(
        document["runs"][0]["tool"]["driver"]["rules"][sync["ruleIndex"].as_u64().unwrap() as usize]["id"],
        "SL004"
    );
    assert!(results.iter().all(|r| r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].is_string()));
    let ignored = results.iter().find(|r| r["ruleId"] == "SL001").unwrap();
    assert_eq!(ignored["suppressions"][0]["kind"], "external");
}

#[test]
fn junit_has_a_test_per_rule() {
    let case = Case::new();
    let xml = stdout(&["findings", &case.waits, "--as", "junit"]);
    let count = |text: &str| xml.matches(text).count();
    let (cases, failures, skipped) = (count("<testcase "), count("<failure "), count("<skipped "));
    assert!(failures >= 1 && skipped >= 1, "{xml}");
    assert!(
        xml.contains(&format!("tests=\"{cases}\" failures=\"{failures}\" skipped=\"{skipped}\" errors=\"0\"")),
        "{xml}"
    );
    assert!(xml.contains("name=\"SL004 host-sync\""), "{xml}");
}

#[test]
fn junit_matches_its_schema() {
    let case = Case::new();
    let xml = stdout(&["findings", &case.waits, "--as", "junit"]);
    assert_eq!(junit::faults(&xml), Vec::<String>::new(), "{xml}");
    for (from, to, fault) in [
        ("<testsuite name=", "<testsuite title=", "testsuite lacks name"),
        ("classname=", "class=", "testcase has an attribute class"),
        ("failures=\"", "failures=\"1", "but there are"),
        ("time=\"0\"", "time=\"short\"", "is no time"),
        ("<failure ", "<fault ", "no XML"),
        ("<testsuites>", "<tests>", "no XML"),
    ] {
        let faults = junit::faults(&xml.replacen(from, to, 1));
        assert!(faults.iter().any(|text| text.contains(fault)), "{from}: {faults:?}");
    }
    let nested = "<testsuites><testcase name=\"x\"><failure>a</failure>b</testcase></testsuites>";
    assert_eq!(junit::faults(nested), ["testcase in Some(\"testsuites\")", "text in [\"testsuites\", \"testcase\"]"]);
}

#[test]
fn all_forms_link_to_the_rule_page() {
    let case = Case::new();
    let page = stdout(&["findings", "--explain", "host-sync"]);
    assert!(page.starts_with("SL004 host-sync\n\nThe host waits for the GPU: item()"), "{page}");
    assert!(page.contains("--set SL004.wait_us=5  (0 to 1000000)\nshortest host call that counts as a wait"), "{page}");
    assert!(page.contains("    total += loss.item()\n"), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
    assert!(stdout(&["findings", &case.waits]).contains("For details of a rule: stackline findings --explain SL004"));
    let markdown = stdout(&["findings", &case.waits, "--as", "markdown"]);
    assert!(markdown.contains("More: `stackline findings --explain SL004`"), "{markdown}");
    let json: Value = serde_json::from_str(&stdout(&["findings", &case.waits, "--format", "json"])).unwrap();
    let row = &json["tables"]["findings"]["rows"][0]["page"];
    assert_eq!(row, "docs/findings/SL004-host-sync.md");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(row.as_str().unwrap());
    let sarif: Value = serde_json::from_str(&stdout(&["findings", &case.waits, "--as", "sarif"])).unwrap();
    let rules = sarif["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
    let rule = rules.iter().find(|rule| rule["id"] == "SL004").unwrap();
    assert_eq!(rule["help"]["markdown"].as_str().unwrap(), fs::read_to_string(page).unwrap());
    assert_eq!(&rule["properties"]["page"], row);
    let unknown = run(&["--explain", "host-snc"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("did you mean host-sync"), "{}", text(&unknown.stderr));
}

#[test]
fn documents_list_skipped_rules_with_reasons() {
    let case = Case::new();
    let markdown = stdout(&["findings", &case.waits, "--as", "markdown"]);
    let is_skipped_line = |line: &str| {
        line.starts_with("- Not checked: SL019, ") && line.ends_with("SL023, SL044. Reason: no collectives.")
    };
    assert!(markdown.lines().any(is_skipped_line), "{markdown}");
    let sarif: Value = serde_json::from_str(&stdout(&["findings", &case.waits, "--as", "sarif"])).unwrap();
    let notifications = sarif["runs"][0]["invocations"][0]["toolConfigurationNotifications"].as_array().unwrap();
    let skipped = notifications.iter().find(|note| note["associatedRule"]["id"] == "SL023").unwrap();
    assert_eq!(skipped["message"]["text"], "Not checked: SL023: the trace has no collectives");
    let whole = fs::read_to_string(&case.waits).unwrap();
    let damaged = case.file("damaged.json", &whole[..whole.len() - 60]);
    let markdown = stdout(&["findings", &damaged, "--as", "markdown"]);
    assert!(markdown.contains("- Note: part of the trace is missing"), "{markdown}");
    let sarif: Value = serde_json::from_str(&stdout(&["findings", &damaged, "--as", "sarif"])).unwrap();
    let notification = &sarif["runs"][0]["invocations"][0]["toolExecutionNotifications"][0];
    assert_eq!(notification["level"], "note");
    assert!(
        notification["message"]["text"].as_str().unwrap().starts_with("Part of the trace is missing"),
        "{notification}"
    );
}

#[test]
fn markdown_for_a_pull_request() {
    let case = Case::new();
    let text = stdout(&["findings", &case.waits, "--as", "markdown"]);
    assert!(text.starts_with("### Stackline: "), "{text}");
    assert!(text.contains("| `train.py:10 in step` | SL004 aten::item waits for the GPU in each step: "), "{text}");
}

/// Six steps of some operators on the host, of which the one with this number takes longer: by more operators, or because its one
/// is slower.
fn slow_step(folder: &Path, name: &str, slow: i64, has_more: bool) -> String {
    let mut trace = MiniTrace::new("");
    let mut at = 1000;
    for step in 0..6 {
        let us = if step == slow { 900 } else { 300 };
        trace.add(&format!("1/1 user_annotation ProfilerStep#{step} {at}+{}", us + 10));
        let part = if has_more { 300 } else { us };
        for from in (0..us / part).map(|nth| nth * part) {
            trace.add(&format!("1/1 cpu_op aten::mm {}+{part}", at + 5 + from));
        }
        at += us + 10;
    }
    write(folder, name, trace.json())
}

#[test]
fn insignificant_findings_fail_no_build() {
    let folder = tempfile::tempdir().unwrap();
    let even = slow_step(folder.path(), "even.json", -1, false);
    let uneven = slow_step(folder.path(), "uneven.json", 3, true);
    let before = folder.path().join("before.txt");
    let before = before.to_str().unwrap();
    fs::write(before, stdout(&["findings", &even, "--format", "json"])).unwrap();
    let output = run(&[&uneven, "--baseline", before, "--fail-on", "new"]);
    let shown = text(&output.stdout);
    assert!(shown.contains("SL031 unstable-steps (new)") && shown.contains("bounds 0 to "), "{shown}");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    // What is only slower once in a recording may be the machine's doing: a note, and no finding.
    let noise = slow_step(folder.path(), "noise.json", 3, false);
    let mut recording: Value = serde_json::from_str(&fs::read_to_string(&noise).unwrap()).unwrap();
    recording[stackline_model::RECORDING] = json!({"processes": [{"pid": 1, "own": true}]});
    fs::write(&noise, recording.to_string()).unwrap();
    let output = run(&[&noise, "--baseline", before, "--fail-on", "new"]);
    let shown = text(&output.stdout);
    assert!(shown.contains("Note: Slow step: step 3 takes") && !shown.contains("SL031 unstable-steps"), "{shown}");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

/// Two loops of one function, which differ in their lines alone.
#[test]
fn fingerprints_are_unique_and_stay() {
    let case = Case::new();
    let fingerprints = |shift: i64| {
        let trace = case.file("twice.json", &findings::logging(&[(20 + shift, 400), (30 + shift, 700)]));
        let document: Value = serde_json::from_str(&stdout(&["findings", &trace, "--as", "sarif"])).unwrap();
        let results = document["runs"][0]["results"].as_array().unwrap().clone();
        let gain = |r: &Value| {
            let line = r["locations"][0]["physicalLocation"]["region"]["startLine"].as_i64().unwrap();
            (line - shift, r["partialFingerprints"]["stackline/v1"].as_str().unwrap().to_owned())
        };
        let mut found: Vec<(i64, String)> = results.iter().filter(|r| r["ruleId"] == "SL029").map(gain).collect();
        found.sort();
        found
    };
    let found = fingerprints(0);
    assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [20, 30], "{found:?}");
    assert!(found[1].1 == format!("{}:2", found[0].1), "{found:?}");
    assert_eq!(fingerprints(5), found, "lines move");
}

#[test]
fn many_skipped_rules_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let trace = slow_step(folder.path(), "cpu.json", 3, false);
    let shown = stdout(&["findings", &trace]);
    let skipped_rules: Vec<&str> = shown.lines().skip_while(|line| !line.starts_with("Not checked: ")).collect();
    let skipped_rules = skipped_rules.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        skipped_rules.contains(" rules. Reasons: no GPU operations (")
            && skipped_rules.contains(". --table not_checked lists the rules"),
        "{shown}"
    );
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    let table = stdout(&["findings", &trace, "--table", "not_checked"]);
    assert!(table.contains("SL004") && table.contains("no GPU operations"), "{table}");
    let markdown = stdout(&["findings", &trace, "--as", "markdown"]);
    assert!(markdown.contains("- Not checked: SL001, SL002, "), "{markdown}");
}

#[test]
fn wrong_use_is_explained() {
    let case = Case::new();
    let unknown = case.file("ignore", "SL999\n");
    let other = case.file("other.json", "{\"schema\": \"stackline/report/1\"}");
    for (arguments, code, message) in [
        (vec!["--set", "SL999.x=1"], 2, "there is no rule SL999"),
        (vec!["--set", "SL001.share=101"], 2, "Use a value from 0 to 100"),
        (vec!["--set", "SL001.size=1"], 2, "The settings of the rule are SL001.share"),
        (vec!["--fail-on", "new"], 2, "needs --baseline"),
        (vec!["--fail-on", "loss>1"], 2, "cannot understand --fail-on"),
        (vec!["--ignore", &unknown], 2, "line 1: unknown finding code \"SL999\""),
        (vec!["--ignore", "/nowhere"], 3, "cannot read the list of findings to ignore"),
        (vec!["--baseline", &other], 3, "the file has no findings"),
        (vec!["--min-gain", "x"], 2, "is not a percentage"),
        (vec!["--source-root", "nope"], 2, "--source-root nope: no such directory"),
        (vec!["--rules", "nothere.py", "--python", "nowhere"], 2, "nothere.py: rule file not found"),
        (vec!["--as", "sarif", "--format", "json"], 2, "cannot be used with"),
    ] {
        let output = run(&[&[case.waits.as_str()], arguments.as_slice()].concat());
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(message), "{arguments:?}: {stderr}");
    }
}

/// Two ranks in a folder: both wait, the second one longer.
fn ranks() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    trace(folder.path(), "rank0.json", (true, 300));
    trace(folder.path(), "rank1.json", (true, 340));
    let path = folder.path().to_str().unwrap().to_owned();
    (folder, path)
}

#[test]
fn ranks_of_a_folder_are_one_list() {
    let (folder, path) = ranks();
    fs::write(folder.path().join("zero.json"), "").unwrap();
    let shown = stdout(&["findings", &path]);
    assert!(shown.contains("skipped_file") && shown.contains("zero.json"), "{shown}");
    assert!(shown.contains("rank 1 is the slowest of 2 ranks: a step takes "), "{shown}");
    assert!(
        shown.contains("    On all ranks; the gain is largest on rank 1 (shown here) and smallest on rank 0 ("),
        "{shown}"
    );
    let document: Value = serde_json::from_str(&stdout(&["findings", &path, "--format", "json"])).unwrap();
    let row = &document["tables"]["findings"]["rows"][0];
    assert_eq!((&row["code"], &row["ranks"], &row["rank"]), (&json!("SL004"), &json!("0 1"), &json!(1)));
    let row_of = |name: &str| {
        let file = folder.path().join(name);
        let document = stdout(&["findings", file.to_str().unwrap(), "--format", "json"]);
        serde_json::from_str::<Value>(&document).unwrap()["tables"]["findings"]["rows"][0]["gain_ns"].clone()
    };
    assert_eq!((&row["gain_least_ns"], &row["gain_ns"]), (&row_of("rank0.json"), &row_of("rank1.json")));
    assert_eq!((&document["ranks"][0]["rank"], &document["ranks"][1]["rank"]), (&json!(0), &json!(1)));
    assert_eq!(document["traces"].as_array().map(Vec::len), Some(2), "{document}");
    // One of them, as it is alone.
    let one: Value = serde_json::from_str(&stdout(&["findings", &path, "--rank", "0", "--format", "json"])).unwrap();
    assert_eq!((&one["tables"]["findings"]["rows"][0]["gain_ns"], &one["ranks"]), (&row_of("rank0.json"), &json!([])));
    let csv = stdout(&["findings", &path, "--format", "csv", "--table", "findings"]);
    assert!(csv.lines().next().is_some_and(|head| head.contains("ranks,rank,gain_least_ns")), "{csv}");
}

#[test]
fn documents_name_the_ranks() {
    let (_folder, path) = ranks();
    let sarif: Value = serde_json::from_str(&stdout(&["findings", &path, "--as", "sarif"])).unwrap();
    let typed: serde_sarif::sarif::Sarif = serde_json::from_value(sarif.clone()).unwrap();
    assert_eq!(serde_json::to_value(typed).unwrap(), sarif);
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let sync = results.iter().find(|result| result["ruleId"] == "SL004").unwrap();
    let ranks: Vec<&Value> = sync["properties"]["ranks"].as_array().unwrap().iter().map(|rank| &rank["rank"]).collect();
    assert_eq!(ranks, [&json!(0), &json!(1)]);
    for document in ["markdown", "junit"] {
        let text = stdout(&["findings", &path, "--as", document]);
        assert!(text.contains("on all ranks; the gain is largest on rank 1 (shown here)"), "{text}");
    }
}

#[test]
fn a_baseline_of_several_ranks() {
    let (folder, path) = ranks();
    let before = folder.path().join("before.txt");
    fs::write(&before, stdout(&["findings", &path, "--format", "json"])).unwrap();
    let shown = stdout(&["findings", &path, "--baseline", before.to_str().unwrap()]);
    assert!(!shown.contains("(new)") && !shown.contains("Gone:"), "{shown}");
}

#[test]
fn unrelated_traces_are_not_ranks_of_one_job() {
    let case = Case::new();
    let output = run(&[case.folder.path().to_str().unwrap()]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("repaired.json has no rank number"), "{stderr}");
    assert!(stderr.contains("pass only one of these files: repaired.json, waits.json"), "{stderr}");
    // As before each can be chosen by its position.
    assert!(run(&[case.folder.path().to_str().unwrap(), "--rank", "1"]).status.success());
}

/// Uncovered time is reported for the slowest rank, by its number; a large call of another one for that one.
#[test]
fn uncovered_time_names_its_rank() {
    let folder = tempfile::tempdir().unwrap();
    for (rank, call, us) in [(0, "hipMystery", 6000), (1, "hipOther", 9000)] {
        let mut trace = MiniTrace::new(&format!("file distributedInfo={{\"rank\": {rank}, \"world_size\": 2}}"));
        for step in 0..4 {
            let lines = format!(
                "1/1     user_annotation  ProfilerStep#{step}  0+{}
                 1/1     cuda_runtime     hipLaunchKernel      1+5       correlation={}
                 gpu0/7  kernel           gemm                 10+30     correlation={}
                 1/1     cuda_runtime     {call}               20+{us}",
                us + 30,
                step + 1,
                step + 1
            );
            trace.add_at(1000 + step * (us + 40), &lines);
        }
        fs::write(folder.path().join(format!("{rank}.json")), trace.json()).unwrap();
    }
    let shown = stdout(&["findings", folder.path().to_str().unwrap()]);
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let uncovered = "Largest parts of the time that no finding covers on rank 1, the slowest: - hipOther (4 ";
    assert!(shown.contains(uncovered), "{shown}");
    assert!(shown.contains("- hipMystery (4 GPU API calls, rank 0): "), "{shown}");
}
