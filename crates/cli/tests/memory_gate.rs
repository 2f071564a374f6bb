//! Tests of memory findings: in `findings` and `memory`, as documents, with baselines, and as a gate.

use crate::common;
use crate::junit;

use common::{failure, stackline, write_sample};
use serde_json::{Value, json};
use std::path::Path;

/// A buffer that is made too early, one that is freed too late, an unused one, a leak, and a write without effect.
const WASTE: &str = "a weights 4194304 name=weights kind=parameter at=train.py:2:build
a mask 1048576 name=mask at=train.py:3:step
a spare 524288 name=spare at=train.py:4:step
a hidden 1048576 name=hidden at=train.py:5:step
s hidden at=train.py:5:step
h hidden at=train.py:6:step
k encode weights,hidden>hidden at=train.py:7:step
a logits 2097152 name=logits at=train.py:8:step
k head weights>logits at=train.py:8:step
k attend mask,logits>logits at=train.py:9:step
d logits at=train.py:10:step
f hidden
f spare
f mask
f weights
end
";

/// Most is in use before the first call, which frees it.
#[test]
fn a_peak_before_the_first_call_counts() {
    let case = Case::new();
    case.file("full.memory", "o big 1000000\no p 100\nf big\na x 512\nk f p>x\nk g x,p\nf x\nf p\nend\n");
    let (code, out, error) = case.run(&["memory", "full.memory", "--fail-on", "peak>1MB"]);
    assert_eq!(code, Some(4), "{out}{error}");
    // Sizes that look alike are told to the byte.
    let (_, out, error) = case.run(&["memory", "full.memory", "--fail-on", "peak>1000099B"]);
    assert!(error.contains("is 1,000,100 bytes, and the limit is 1,000,099 bytes"), "{out}{error}");
    let shown = case.shown(&["memory", "full.memory", "--fail-on", "peak>1000100B", "--format", "json"]);
    let document: Value = serde_json::from_str(&shown).unwrap();
    let peak = &document["tables"]["memory_peaks"]["rows"][0];
    assert_eq!((&peak["bytes"], &peak["call"]), (&json!(1_000_100), &json!(0)), "{peak}");
}

struct Case(tempfile::TempDir);

impl Case {
    fn new() -> Self {
        let case = Self(tempfile::tempdir().unwrap());
        case.file("waste.memory", WASTE);
        case.file(
            "repaired.memory",
            &WASTE.replace("a spare 524288 name=spare at=train.py:4:step\n", "").replace("f spare\n", ""),
        );
        case
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).unwrap();
    }

    /// Exit code, standard output and standard error.
    fn run(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let output = stackline(args).current_dir(self.0.path()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    fn shown(&self, args: &[&str]) -> String {
        let (code, out, error) = self.run(args);
        assert_eq!(code, Some(0), "{args:?}: {error}");
        out
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.shown(&[args, &["--format", "json"]].concat())).unwrap()
    }

    /// Write the document of a run as the baseline of later ones.
    fn kept(&self, input: &str, name: &str) {
        self.shown(&["memory", input, "--format", "json", "-o", name]);
    }
}

fn codes(document: &Value) -> Vec<&str> {
    let rows = document["tables"]["findings"]["rows"].as_array().unwrap();
    rows.iter().map(|row| row["code"].as_str().unwrap()).collect()
}

#[test]
fn findings_of_a_file_of_memory() {
    let case = Case::new();
    insta::assert_snapshot!("memory_findings", case.shown(&["findings", "waste.memory", "--top", "0"]));
    insta::assert_snapshot!("memory_findings_markdown", case.shown(&["memory", "waste.memory", "--as", "markdown"]));
    let (found, memory) = (case.json(&["findings", "waste.memory"]), case.json(&["memory", "waste.memory"]));
    assert_eq!(found["tables"]["findings"]["rows"], memory["tables"]["findings"]["rows"]);
    assert_eq!(found["peaks"][0]["device"], "gpu:0");
    let rows = found["tables"]["findings"]["rows"].as_array().unwrap();
    let first = &rows[0];
    assert_eq!((&first["gain_ns"], &first["device"]), (&Value::Null, &json!("gpu:0")));
    let of_row = |row: &Value| Some((row["lowers_peak_bytes"].as_i64()?, row["gain_bytes"].as_i64()?));
    let bytes: Vec<(i64, i64)> = rows.iter().filter_map(of_row).collect();
    assert!(bytes.is_sorted_by(|a, b| a >= b) && bytes.len() >= 3, "{bytes:?}");
    assert_eq!(codes(&found).last(), Some(&"SL057"), "what saves no bytes comes last");
    for (flag, value, words) in [("--steps", "1", "no steps or ranks"), ("--rules", "x.py", "")] {
        let (code, _, error) = case.run(&["findings", "waste.memory", flag, value]);
        assert!(code == Some(2) && error.contains(words), "{flag}: {error}");
    }
}

#[test]
fn traces_without_memory_are_reported() {
    let case = Case::new();
    let trace = write_sample(case.0.path(), 0);
    let document = case.json(&["findings", &trace]);
    let unchecked = document["tables"]["not_checked"]["rows"].as_array().unwrap();
    let of_memory: Vec<&Value> =
        unchecked.iter().filter(|row| ("SL050".."SL061").contains(&row["code"].as_str().unwrap())).collect();
    assert_eq!(of_memory.len(), 11);
    assert!(of_memory.iter().all(|row| row["missing"].as_str().unwrap().contains("no memory allocations")));
    assert_eq!(document["peaks"], json!([]));
    assert!(case.shown(&["findings", &trace, "--top", "0"]).contains("no memory allocations"));
    assert!(case.shown(&["findings", "--explain", "SL055"]).contains("memory-leak"));
}

#[test]
fn documents_for_other_tools() {
    let case = Case::new();
    case.file("ignore", "SL053\n");
    let text = case.shown(&["memory", "waste.memory", "--as", "sarif", "--ignore", "ignore"]);
    let document: Value = serde_json::from_str(&text).unwrap();
    let typed: serde_sarif::sarif::Sarif = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(serde_json::to_value(typed).unwrap(), document);
    let run = &document["runs"][0];
    assert_eq!(run["tool"]["driver"]["rules"].as_array().unwrap().len(), 11);
    let results = run["results"].as_array().unwrap();
    let result_of = |code: &str| results.iter().find(|result| result["ruleId"] == code).unwrap();
    let early = result_of("SL050");
    assert_eq!(early["locations"][0]["physicalLocation"]["region"]["startLine"], 3);
    assert_eq!((&early["level"], &early["properties"]["gainBytes"]), (&json!("warning"), &json!(1_048_576)));
    assert!(early["message"]["text"].as_str().unwrap().contains(" at the peak of gpu:0 ("), "{early}");
    assert_eq!(early["properties"]["lowersPeakBytes"], 0, "another moment is as high");
    assert_eq!(result_of("SL053")["suppressions"][0]["kind"], "external");
    let prints: Vec<&str> =
        results.iter().map(|one| one["partialFingerprints"]["stackline/v1"].as_str().unwrap()).collect();
    assert_eq!(prints.iter().collect::<std::collections::BTreeSet<_>>().len(), prints.len(), "{prints:?}");
    let xml = case.shown(&["memory", "waste.memory", "--as", "junit"]);
    assert_eq!(junit::faults(&xml), Vec::<String>::new(), "{xml}");
    assert!(xml.contains("tests=\"11\"") && xml.contains("name=\"SL050 early-allocation\""), "{xml}");
}

#[test]
fn earlier_runs_are_baselines() {
    let case = Case::new();
    case.kept("repaired.memory", "before.json");
    case.kept("waste.memory", "after.json");
    let compare = |input: &str, baseline: &str, condition: &str| {
        case.run(&["memory", input, "--baseline", baseline, "--fail-on", condition])
    };
    let (code, out, error) = compare("waste.memory", "before.json", "peak>+2%");
    assert_eq!(code, Some(4), "{out}{error}");
    insta::assert_snapshot!("memory_gate_new", out.lines().take(4).collect::<Vec<_>>().join("\n"));
    assert!(error.contains("--fail-on: the memory peak of gpu:0 is "), "{error}");
    let (code, _, error) = compare("waste.memory", "before.json", "new");
    assert!(code == Some(4) && error.contains("--fail-on: new: SL053 spare"), "{error}");
    // The same run has nothing new, and no higher peak.
    for condition in ["new", "peak>+2%", "peak>+1MiB"] {
        assert_eq!(compare("waste.memory", "after.json", condition).0, Some(0), "{condition}");
    }
    let (code, out, _) = compare("repaired.memory", "after.json", "peak>+2%");
    assert!(code == Some(0) && out.contains("Gone: SL053 spare"), "{out}");
    let document =
        case.run(&["memory", "waste.memory", "--baseline", "before.json", "--format", "json", "--fail-on", "new"]);
    let document: Value = serde_json::from_str(&document.1).unwrap();
    assert!(document["peaks"][0]["before_bytes"].as_u64() < document["peaks"][0]["bytes"].as_u64());
    assert!(document["fail_on_held"][0].as_str().unwrap().starts_with("new: SL053"), "{}", document["fail_on_held"]);
    let changes =
        document["tables"]["findings"]["rows"].as_array().unwrap().iter().filter(|row| row["change"] == "new");
    assert_eq!(changes.count(), 1);
}

#[test]
fn conditions_determine_the_exit_code() {
    let case = Case::new();
    for (condition, code) in
        [("peak>8GB", 0), ("peak>1MiB", 4), ("waste>1%", 4), ("waste>99%", 0), ("count>0", 4), ("count>99", 0)]
    {
        let (found, _, error) = case.run(&["memory", "waste.memory", "--fail-on", condition]);
        assert_eq!(found, Some(code), "{condition}: {error}");
    }
    // What nobody knows fails no build in silence.
    case.file("blind.memory", "a x 64\nf x\n");
    let (code, _, error) = case.run(&["memory", "blind.memory", "--fail-on", "waste>1%"]);
    assert!(code == Some(2) && error.contains("no records of memory accesses"), "{error}");
    assert_eq!(case.run(&["memory", "blind.memory", "--fail-on", "peak>8GB"]).0, Some(0));
}

#[test]
fn wrong_use_is_explained() {
    let case = Case::new();
    case.kept("waste.memory", "after.json");
    case.file("other.json", "{\"schema\": \"stackline/report/1\"}");
    let output_of = |more: &[&str]| case.run(&[&["memory", "waste.memory"], more].concat());
    for (args, code, words) in [
        (&["--fail-on", "peak>+2%"][..], 2, "\"peak>+2%\" needs --baseline"),
        (&["--fail-on", "new"], 2, "needs --baseline"),
        (&["--fail-on", "peak>2%"], 2, "peak needs a + sign"),
        (&["--fail-on", "peek>2GB"], 2, "did you mean peak"),
        (&["--fail-on", "waste>much"], 2, "write 'peak>+2%'"),
        (&["--baseline", "missing.json"], 3, "cannot read the baseline"),
        (&["--baseline", "waste.memory"], 3, "not JSON"),
        (&["--baseline", "other.json"], 3, "stackline memory INPUT --format json"),
        (&["--as", "sarif", "--curve"], 2, "--curve"),
        (&["--fail-on", "count>1", "--objects"], 2, "--objects"),
        (&["--source-root", "nowhere"], 2, "no such directory"),
    ] {
        let (found, _, error) = output_of(args);
        assert_eq!(found, Some(code), "{args:?}: {error}");
        assert!(error.contains(words), "{args:?}: {error}");
    }
    // One of another view has no findings.
    case.shown(&["memory", "waste.memory", "--curve", "--format", "json", "-o", "curve.json"]);
    assert_eq!(output_of(&["--baseline", "curve.json"]).0, Some(3));
}

/// Comments in the program, and the remaining findings.
#[test]
fn comments_ignore_findings() {
    let case = Case::new();
    let all = case.json(&["memory", "waste.memory"]);
    assert!(codes(&all).contains(&"SL050"), "{:?}", codes(&all));
    let mut program = [""; 12];
    program[2] = "    mask = zeros(n)  # stackline: ignore[SL050]";
    program[3] = "    spare = empty(n)  # stackline: ignore[unused-allocation]";
    case.file("train.py", &program.join("\n"));
    for command in ["memory", "findings"] {
        let left = case.json(&[command, "waste.memory"]);
        assert!(!codes(&left).contains(&"SL050") && !codes(&left).contains(&"SL053"), "{:?}", codes(&left));
        assert_eq!(left["ignored"].as_array().unwrap().len(), codes(&all).len() - codes(&left).len());
        assert_eq!(left["ignored"][0]["by"].as_str().unwrap().split(':').next(), Some("comment at train.py"));
        assert!(left["peaks"][0]["mended_bytes"].as_u64() > all["peaks"][0]["mended_bytes"].as_u64());
    }
    let other_root = case.json(&["memory", "waste.memory", "--source-root", "/"]);
    assert_eq!(codes(&other_root), codes(&all));
    assert_eq!(codes(&case.json(&["memory", "waste.memory", "--no-source"])), codes(&all));
}

#[test]
fn invalid_inputs_are_refused_early() {
    let (code, error) = failure(&["findings", Path::new("/nowhere/at/all").to_str().unwrap()]);
    assert!(code == Some(3) && error.contains("/nowhere/at/all"), "{error}");
}

/// Of the host's memory all is a guess: it counts for `waste` only if it is asked for.
#[test]
fn inferred_findings_count_on_request() {
    let case = Case::new();
    let text = "device cpu; a kept 4096 at=train.py:3:step; k one kept>kept via=operator-level; a x 4096; k two x>x via=operator-level; f x; end";
    case.file("host.memory", text);
    let (code, _, error) = case.run(&["memory", "host.memory", "--fail-on", "waste>10%"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(error.contains("of low confidence") && error.contains("--fail-on-guesses"), "{error}");
    let (code, _, error) = case.run(&["memory", "host.memory", "--fail-on", "waste>10%", "--fail-on-guesses"]);
    assert_eq!(code, Some(4), "{error}");
    assert!(
        error.contains("50.0 % of the memory peak of cpu may be wasted") && !error.contains("of low confidence"),
        "{error}"
    );
    let (code, ..) = case.run(&["memory", "host.memory", "--fail-on", "waste>99%", "--fail-on-guesses"]);
    assert_eq!(code, Some(0));
    assert_eq!(case.run(&["memory", "host.memory", "--fail-on-guesses"]).0, Some(2));
}
