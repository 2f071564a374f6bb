//! Tests of `diff`: output formats, exit codes, several runs and ranks, recordings, the action for pull requests and
//! its example.

use crate::common;

use common::{failure, recorder, run, stdout, torch};
use serde_json::Value;
use stackline_testkit::demo::{Config, generate};
use stackline_testkit::mini::MiniTrace;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Traces of a demo with and without the host waiting for the loss in each step.
struct Case {
    folder: tempfile::TempDir,
}

impl Case {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn trace(&self, name: &str, (seed, host_sync): (u64, bool)) -> String {
        let config = Config { seed, host_sync, steps: 6, layers: 2, ..Config::default() };
        fs::write(self.path(name), generate(&config)).unwrap();
        self.path(name)
    }

    fn pair(&self) -> (String, String) {
        (self.trace("fast.json", (1, false)), self.trace("slow.json", (2, true)))
    }
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(&[args, &["--format", "json"]].concat())).unwrap()
}

fn step(document: &Value) -> Value {
    document["tables"]["steps"]["rows"][0].clone()
}

#[test]
fn text_output_begins_with_the_step_and_its_changes() {
    let case = Case::new();
    let (fast, slow) = case.pair();
    let shown = stdout(&["diff", &fast, &slow]);
    assert!(shown.starts_with("Not tested for significance: only one run per side, so"), "{shown}");
    let step = shown.lines().find(|line| line.starts_with("The step is "));
    assert!(step.is_some_and(|line| line.ends_with(" % longer.")) && !shown.contains("slower"), "{shown}");
    assert!(shown.contains("aten::item") && shown.contains("only in B"), "{shown}");
    assert!(shown.contains("Note: A and B are one run each"), "{shown}");
    let same = stdout(&["diff", &fast, &fast]);
    assert!(same.contains("The step is unchanged within noise (+0.0 %)"), "{same}");
    assert!(same.contains("rows changed by more than the steps vary.") && !same.contains("longer"), "{same}");
    assert_eq!(shown, stdout(&["diff", &fast, "--threads", "1", "--with", &slow]), "order and threads do not matter");
}

#[test]
fn numbers_cover_only_the_steps() {
    let case = Case::new();
    let (fast, slow) = case.pair();
    let document = json(&["diff", &fast, &slow]);
    assert_eq!((&document["schema"], &document["method"]), (&"stackline/diff/1".into(), &"steps".into()));
    let lengths = document["tables"]["step_lengths"]["rows"].as_array().unwrap();
    let kept = |side: &str| {
        let is_on_side = |row: &&Value| row["side"] == side && row["left_out"].is_null();
        let mut kept: Vec<f64> =
            lengths.iter().filter(is_on_side).map(|row| row["time_ns"].as_f64().unwrap()).collect();
        kept.sort_by(f64::total_cmp);
        let cut = (kept.len() as f64 * 0.2) as usize;
        let middle = &kept[cut..kept.len() - cut];
        (kept.len() as f64, middle.iter().sum::<f64>() / middle.len() as f64)
    };
    let step = step(&document);
    for (side, mean, count) in [("A", "before_ns", "count_before"), ("B", "after_ns", "count_after")] {
        let (steps, expected) = kept(side);
        assert!((step[mean].as_f64().unwrap() - expected).abs() < 1e-6, "{step}");
        assert_eq!(step[count], steps);
    }
    assert_eq!(step["verdict"], "slower");
    let table = stdout(&["diff", &fast, &slow, "--format", "csv", "--table", "operators"]);
    assert!(table.starts_with("name,measure,verdict,before_ns"), "{table}");
    assert!(run(&["diff", &fast, &slow, "--table", "nonsense"]).status.code() == Some(2));
}

/// A trace of six steps, which calls `aten::softmax` so many times in each, of very different length from step to step; its steps
/// are operators, as those of traces of 2020 are.
fn unsteady(case: &Case, name: &str, (calls, scale, gpu): (i64, i64, bool)) -> String {
    let mut trace = MiniTrace::new("");
    let mut at = 1000;
    for (step, us) in (0..).zip([100_i64, 900, 150, 800, 120, 900]) {
        let (from, each, correlation) = (at, us * scale / calls, 10 * step + 1);
        for call in 0..calls {
            trace.add(&format!("1/1 Operator aten::softmax {}+{each}", at + call * each));
        }
        at += calls * each;
        trace.add_at(at, "1/1 Operator aten::mm 0+50");
        if gpu {
            let kernel = format!("gpu0/7 kernel gemm 10+30 correlation={correlation}");
            trace.add_at(at, &format!("1/1 Runtime cudaLaunchKernel 1+5 correlation={correlation}\n{kernel}"));
        }
        at += 60;
        trace.add(&format!("1/1 Operator ProfilerStep#{} {from}..{at}", step + calls));
    }
    fs::write(case.path(name), trace.json()).unwrap();
    case.path(name)
}

#[test]
fn changes_in_every_step_are_significant() {
    let case = Case::new();
    let one = unsteady(&case, "one.json", (1, 1, false));
    let four = unsteady(&case, "four.json", (4, 2, false));
    let shown = stdout(&["diff", &one, &four]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("within noise: confidence interval -"), "{shown}");
    assert!(shown.contains("Operators by self time: none of 4 rows changed by more than the steps vary."), "{shown}");
    assert!(shown.contains("the change of the calls' time is within noise: aten::softmax 1 → 4 a step."), "{shown}");
    assert!(!shown.contains("ProfilerStep"), "a step is no operator: {shown}");
    let markdown = stdout(&["diff", &one, &four, "--as", "markdown"]);
    assert!(markdown.contains("aten::softmax 1 → 4 a step."), "{markdown}");
    let rows = json(&["diff", &one, &four])["tables"]["operators"]["rows"].clone();
    let calls = |name: &str| {
        rows.as_array().unwrap().iter().find(|row| row["name"] == name).map(|row| row["calls"].clone()).unwrap()
    };
    assert_eq!((calls("aten::softmax"), calls("aten::mm")), ("changed".into(), "same".into()));
    let judged = |condition: &str| {
        let output = run(&["diff", &one, &four, "--fail-on", condition]);
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, message) = judged("op:aten::softmax>10%");
    assert!(status == 4 && message.contains("% longer, with 4.0 calls per step instead of 1.0"), "{message}");
    assert_eq!(judged("op:aten::softmax>900%").0, 0);
    assert_eq!((judged("op:aten::mm>10%").0, judged("step>3%").0), (0, 0));
}

#[test]
fn lines_fit_the_terminal() {
    let case = Case::new();
    let (fast, slow) = case.pair();
    let noisy = (unsteady(&case, "one.json", (1, 1, true)), unsteady(&case, "four.json", (4, 2, false)));
    for (a, b) in [(&fast, &slow), (&noisy.0, &noisy.1)] {
        for columns in ["60", "80"] {
            let output = common::stackline(&["diff", a, b]).env("COLUMNS", columns).output().unwrap();
            let shown = String::from_utf8(output.stdout).unwrap();
            // The names of files are left whole.
            let mut lines = shown.lines().filter(|line| !line.contains(a.as_str()) && !line.contains(b.as_str()));
            assert!(lines.all(|line| line.chars().count() <= columns.parse().unwrap()), "{columns}: {shown}");
        }
    }
}

#[test]
fn runs_without_gpu_records_are_not_faster() {
    let case = Case::new();
    let (with, without) = (unsteady(&case, "with.json", (1, 1, true)), unsteady(&case, "without.json", (1, 1, false)));
    for condition in ["gpu>3%", "kernels>3%", "kernel:gemm>3%"] {
        let output = run(&["diff", &with, &without, "--fail-on", condition]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("cannot be judged: A contains gpu time and B contains none"), "{message}");
        assert_eq!(run(&["diff", &with, &with, "--fail-on", condition]).status.code(), Some(0));
    }
    assert_eq!(run(&["diff", &without, &with, "--fail-on", "gpu>3%"]).status.code(), Some(4));
    let held = run(&["diff", &with, &without, "--fail-on", "gpu>3%", "--fail-on", "op:aten::softmax>=0%"]);
    assert_eq!(held.status.code(), Some(1), "nothing held that is an answer");
}

#[test]
fn gate_fails_only_for_significant_changes() {
    let case = Case::new();
    let (fast, slow) = case.pair();
    let code = |args: &[&str]| {
        let output = run(&[&["diff"], args].concat());
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, message) = code(&[&fast, &slow, "--fail-on", "step>3%"]);
    assert!(
        status == 4 && message.contains("--fail-on step>3%: the step is") && message.contains("beyond the variation"),
        "{message}"
    );
    assert_eq!(code(&[&slow, &fast, "--fail-on", "step>3%"]).0, 0, "faster is no fault");
    let again = case.trace("again.json", (3, false));
    let (status, message) = code(&[&fast, &again, "--fail-on", "step>0%"]);
    assert!(status == 0 && (message.is_empty() || message.contains("this increase alone")), "{message}");
    let (status, message) = code(&[&fast, &slow, "--fail-on", "op:aten::item>10%"]);
    assert!(status == 4 && message.contains("aten::item is new"), "{message}");
    let (status, message) = code(&[&fast, &slow, "--fail-on", "op:no such>10%"]);
    assert!(status == 2 && message.contains("the table operators has no row of this name"), "{message}");
    let (status, message) = code(&[&fast, &slow, "--fail-on", "op:aten::itm>10%"]);
    assert!(status == 2 && message.contains("did you mean aten::item"), "{message}");
    let (status, message) = code(&[&fast, &slow, "--fail-on", "step>3"]);
    assert!(status == 2 && message.contains("write 'step>3%'"), "{message}");
    assert_eq!(code(&[&fast, &slow, "--fail-on", "stpe>3%"]).0, 2);
}

#[test]
fn poorly_comparable_runs_are_reported() {
    let case = Case::new();
    let (fast, slow) = case.pair();
    let document = json(&["diff", &fast, &slow]);
    assert_eq!((&document["warnings"], &document["confidence"]), (&serde_json::json!([]), &"medium".into()));
    let text = fs::read_to_string(&fast).unwrap();
    let renamed = case.path("renamed.json");
    let names = ["aten::", "autograd::", "record_param_comms", "DistributedDataParallel"];
    let all = names.iter().fold(text, |text, name| text.replace(name, &format!("other_{name}")));
    fs::write(&renamed, all).unwrap();
    let document = json(&["diff", &fast, &renamed]);
    let warnings = document["warnings"].to_string();
    assert!(warnings.contains("hardly any operators in common: ") && document["confidence"] == "low", "{warnings}");
    let output = run(&["diff", &fast, &renamed, "--fail-on", "step>99%"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("Warning: A and B have hardly any operators in common"), "{shown}");
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("warning: A and B"));
    let one = case.path("one.json");
    fs::write(&one, generate(&Config { seed: 1, steps: 1, layers: 2, ..Config::default() })).unwrap();
    let warnings = json(&["diff", &fast, &one])["warnings"].to_string();
    assert!(warnings.contains("B has one step and A "), "{warnings}");
}

#[test]
fn single_steps_are_not_tested_but_may_fail_conditions() {
    let case = Case::new();
    let (fast, slow) = case.pair();
    let args = ["diff", &fast, &slow, "--steps", "12", "--fail-on", "step>3%"];
    let output = run(&args);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(4) && message.contains("not tested"), "{message}");
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("A and B have one step each, so the variation between steps is unknown.")
    );
    let output = run(&[&args[..], &["--significant"]].concat());
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(0) && message.contains("this increase alone"), "{message}");
}

#[test]
fn several_runs_and_ranks() {
    let case = Case::new();
    let fast: Vec<String> = (1..5).map(|seed| case.trace(&format!("f{seed}.json"), (seed, false))).collect();
    let slow: Vec<String> = (5..9).map(|seed| case.trace(&format!("s{seed}.json"), (seed, true))).collect();
    let arguments: Vec<&str> = ["diff"]
        .into_iter()
        .chain(fast.iter().map(|f| &f[..]))
        .chain(["--with"])
        .chain(slow.iter().map(|s| &s[..]))
        .collect();
    let document = json(&arguments);
    assert_eq!((&document["method"], &step(&document)["verdict"]), (&"runs".into(), &"slower".into()));
    let ranks = |name: &str, ranks: &[u32]| {
        fs::create_dir(case.path(name)).unwrap();
        for &rank in ranks {
            let text = generate(&Config { rank, steps: 4, layers: 2, ..Config::default() });
            fs::write(case.folder.path().join(name).join(format!("{rank}.json")), text).unwrap();
        }
        case.path(name)
    };
    let (a, b) = (ranks("a", &[0, 1, 2]), ranks("b", &[0, 1]));
    let document = json(&["diff", &a, &b]);
    let rows = document["tables"]["steps"]["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| row["rank"].as_i64().unwrap()).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1]);
    assert!(document["notes"][0].as_str().unwrap().starts_with("Rank 2 is only in A"), "{}", document["notes"]);
    assert!(json(&["diff", &a, &b, "--rank", "1"])["tables"]["steps"]["rows"][0].get("rank").is_none());
    assert_eq!(failure(&["diff", &a, &b, "--rank", "2"]).0, Some(2));
}

#[test]
fn recordings_are_compared_with_recordings() {
    let case = Case::new();
    let fast = case.trace("fast.json", (1, false));
    let recording = |name: &str, slower: u64| {
        let config = stackline_testkit::recording::Config { slower, ..Default::default() };
        let folder = case.folder.path().join(name).join("streams");
        fs::create_dir_all(&folder).unwrap();
        for (file, bytes) in stackline_testkit::recording::streams(&config) {
            fs::write(folder.join(file), bytes).unwrap();
        }
        case.path(name)
    };
    let (a, b) = (recording("a.stackline", 1), recording("b.stackline", 2));
    let document = json(&["diff", &a, &b]);
    let rows = document["tables"]["operators"]["rows"].as_array().unwrap();
    let mm = rows.iter().find(|row| row["name"] == "aten::mm" && row["measure"] == "cpu").unwrap();
    assert!(mm["change_percent"].as_f64().unwrap() > 50.0 && mm["verdict"] == "untested", "{mm}");
    let (code, message) = failure(&["diff", &a, &fast]);
    assert!(code == Some(2) && message.contains("two of the same kind"), "{message}");
    assert_eq!(failure(&["diff", &a, &b, "--steps", "1"]).0, Some(2));
}

/// A program whose `slow` runs so often in each step; `quick` calls it, too, always as often.
const PROGRAM: &str = "
import sys, torch
def slow(n):
    all = 0
    for i in range(n):
        all += i * i % 7
    return all
def quick():
    return sum(range(1000))
def step(model, x):
    model(x).sum().backward()
    slow(int(sys.argv[1]))
    quick()
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(25):
    optimizer.zero_grad()
    step(model, torch.randn(16, 8))
    optimizer.step()
";

#[cfg(target_os = "linux")]
#[test]
#[ignore = "long: ./dev test --long"]
fn functions_of_recorded_programs_are_named() {
    let Some(python) = torch() else { return };
    let case = Case::new();
    // The second one is elsewhere, and its lines are others.
    let record = |folder: &str, text: &str, (mode, iterations): (&str, &str)| {
        fs::create_dir_all(case.path(folder)).unwrap();
        let (script, run) =
            (case.path(&format!("{folder}/train.py")), case.path(&format!("{folder}/{mode}.stackline")));
        fs::write(&script, text).unwrap();
        let args = ["record", "--mode", mode, "-o", &run, "--", python.to_str().unwrap(), &script, iterations];
        let recorded = common::stackline(&args).env("STACKLINE_RECORDER", recorder()).output().unwrap();
        assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
        run
    };
    let shifted = format!("# One line.\n# And another.\n{PROGRAM}");
    for mode in ["trace", "profile"] {
        let a = record("a", PROGRAM, (mode, "1000"));
        let b = record("b", &shifted, (mode, "300000"));
        let document = json(&["diff", &a, &b]);
        let rows = document["tables"]["functions"]["rows"].as_array().unwrap();
        let is_slow =
            |row: &&Value| row["measure"] == "cpu" && row["name"].as_str().unwrap().contains("train.py: slow");
        let slow = rows.iter().find(is_slow).unwrap();
        assert!(slow["change_ns"].as_f64() > Some(2e6), "{mode}: {slow}");
        assert_eq!(rows.iter().filter(is_slow).count(), 1, "{mode}: {rows:?}");
        let verdict = if mode == "trace" { "slower" } else { "untested" };
        assert_eq!(slow["verdict"], verdict, "{mode}: {slow}");
        let output_text = stdout(&["diff", &a, &b]);
        assert!(output_text.contains("Python functions") && output_text.contains("train.py: slow"), "{output_text}");
        let judged = common::stackline(&["diff", &a, &b, "--fail-on", "function:nobody>5%"]).output().unwrap();
        let message = String::from_utf8_lossy(&judged.stderr);
        assert!(
            judged.status.code() == Some(1) && message.contains("neither A nor B has samples of this function"),
            "{message}"
        );
    }
}

#[test]
fn incomparable_runs_are_refused() {
    let case = Case::new();
    let fast = case.trace("fast.json", (1, false));
    for args in [&["diff", &fast][..], &["diff", &fast, &fast, &fast]] {
        let (code, message) = failure(args);
        assert!(code == Some(2) && message.contains("stackline diff A"), "{message}");
    }
    assert_eq!(failure(&["diff", "-", "-"]).0, Some(2));
    assert_eq!(failure(&["diff", &fast, &case.path("none.json")]).0, Some(3));
    assert_eq!(failure(&["diff", &fast, &fast, "--level", "nan"]).0, Some(2));
    assert_eq!(failure(&["diff", &fast, &fast, "-o", &fast]).0, Some(2), "a trace is not written over");
}

/// The root of the repository.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The example of the documentation is the output of the program: `STACKLINE_BLESS=1` writes it anew.
#[test]
fn the_example_is_up_to_date() {
    let case = Case::new();
    case.pair();
    let mut command =
        common::stackline(&["diff", "fast.json", "slow.json", "--as", "markdown", "--fail-on", "step>3%"]);
    let output = command.current_dir(case.folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("### Stackline: not tested for significance (only one run per side): the step is "));
    assert!(text.contains("**Failed:** step&gt;3%"), "{text}");
    let path = root().join("docs/diff-example.md");
    if std::env::var_os("STACKLINE_BLESS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert_eq!(text, fs::read_to_string(&path).unwrap_or_default(), "docs/diff-example.md is stale");
}

/// A step of the action: its environment and its script.
struct ActionStep {
    environment: BTreeMap<String, String>,
    script: String,
}

/// The steps of a composite action, as far as ours uses the format: two spaces of indentation, `env` as a map, `run` as a
/// block.
fn action(text: &str) -> (BTreeMap<String, String>, Vec<ActionStep>) {
    assert!(!text.contains('\t') && text.contains("\nruns:\n  using: composite\n  steps:\n"));
    let (head, body) = text.split_once("\nruns:\n").unwrap();
    let mut inputs = BTreeMap::new();
    let mut input = "";
    for line in head.lines() {
        let indent = line.len() - line.trim_start().len();
        match (indent, line.trim().split_once(':')) {
            (2, Some((name, ""))) => input = name,
            (4, Some(("default", value))) => {
                inputs.insert(input.to_owned(), value.trim().trim_matches('\'').to_owned());
            }
            _ => {}
        }
    }
    let steps = body.split("\n    - name: ").skip(1).map(|step| {
        assert!(step.contains("\n      shell: bash\n"), "each step says its shell: {step}");
        let (head, script) = step.split_once("\n      run: |\n").unwrap();
        let environment = head.split_once("\n      env:\n").unwrap().1.lines().filter_map(|line| {
            let (name, value) = line.strip_prefix("        ")?.split_once(": ")?;
            Some((name.to_owned(), value.to_owned()))
        });
        let script =
            script.lines().map(|line| format!("{}\n", line.strip_prefix("        ").unwrap_or(line.trim_start())));
        ActionStep { environment: environment.collect(), script: script.collect() }
    });
    (inputs, steps.collect())
}

/// Runs the scripts of the action one after the other, as the host of the code would: exit code of the first that fails,
/// and the step summary with the output of the steps. Not tested: building from `source`, and the host's own reading of the file.
fn act(case: &Case, given: &[(&str, &str)]) -> (i32, String) {
    let text = fs::read_to_string(root().join(".github/actions/stackline-diff/action.yml")).unwrap();
    let (mut inputs, steps) = action(&text);
    assert_eq!(steps.len(), 4);
    inputs.insert("stackline".to_owned(), env!("CARGO_BIN_EXE_stackline").to_owned());
    inputs.extend(given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let (summary, output) = (case.path("summary.md"), case.path("output"));
    fs::write(&summary, "").unwrap();
    fs::write(&output, "").unwrap();
    let mut summary_text = String::new();
    for step in steps {
        let outputs = fs::read_to_string(&output).unwrap();
        let value = |text: &str| {
            let name = text.strip_prefix("${{ ").and_then(|text| text.strip_suffix(" }}")).unwrap();
            match name.strip_prefix("inputs.") {
                Some(name) => inputs[name].clone(),
                None => {
                    let key = format!("{}=", name.strip_prefix("steps.diff.outputs.").unwrap());
                    outputs.lines().filter_map(|line| line.strip_prefix(&key)).next_back().unwrap().to_owned()
                }
            }
        };
        let environment = step.environment.iter().map(|(name, text)| (name.clone(), value(text)));
        let done = Command::new("bash")
            .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &step.script])
            .envs(environment)
            .envs([("GITHUB_STEP_SUMMARY", &summary), ("GITHUB_OUTPUT", &output)])
            .output()
            .unwrap();
        summary_text.push_str(&String::from_utf8(done.stdout).unwrap());
        if !done.status.success() {
            return (done.status.code().unwrap(), fs::read_to_string(&summary).unwrap() + &summary_text);
        }
    }
    (0, fs::read_to_string(&summary).unwrap() + &summary_text)
}

#[test]
fn github_action_writes_the_summary_and_fails() {
    let case = Case::new();
    let (fast, slow) = case.pair();
    let again = case.trace("again.json", (3, false));
    let sarif = case.path("findings.sarif");
    let (code, summary) = act(&case, &[("before", &fast), ("after", &slow), ("sarif", &sarif)]);
    assert_eq!(code, 4, "{summary}");
    assert!(
        summary.contains("**Failed:**") && summary.contains("### Stackline: ") && summary.contains("finding"),
        "{summary}"
    );
    let document: Value = serde_json::from_str(&fs::read_to_string(&sarif).unwrap()).unwrap();
    assert_eq!(document["version"], "2.1.0");
    let several = format!("{fast}\n{again}\n");
    assert!(!summary.contains("::warning::"), "{summary}");
    let given = [("before", several.as_str()), ("after", &again), ("findings", "false"), ("sarif", &sarif)];
    let (code, summary) = act(&case, &given);
    assert!(code == 0 && summary.contains("within noise"), "{summary}");
    assert!(summary.contains("findings.sarif is not written: 'findings' is not true"), "{summary}");
    let (code, _) = act(&case, &[("before", &fast), ("after", "none.json")]);
    assert_eq!(code, 3, "what cannot be read is no pass");
    let (code, _) = act(&case, &[("before", &fast), ("after", &slow), ("fail-on", "")]);
    assert_eq!(code, 0);
    let (code, _) = act(&case, &[("before", &fast), ("after", &slow), ("stackline", "no-such-program")]);
    assert_eq!(code, 1);
}
