//! Samples compared with the programs' own measurements.

use crate::support;

use stackline_engine::{OpenOptions, Run};
use stackline_model::{CallMetric, CallNodeId};
use stackline_recording::{FrameKey, Metric};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{Stream, here, interpreters, recorded, streams};

const VERSIONS: [&str; 4] = ["3.10", "3.11", "3.12", "3.13"];

/// Installed interpreters, one of each version.
fn installed() -> Vec<PathBuf> {
    let found: Vec<PathBuf> = VERSIONS.iter().filter_map(|version| interpreters(version).pop()).collect();
    if found.is_empty() {
        println!("skipped: no CPython on PATH or in pyenv");
    }
    found
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    output
}

/// Samples of a metric: path, count, ns.
fn samples(stream: &Stream, metric: Metric) -> Vec<(Vec<&FrameKey>, u64, u64)> {
    let of_metric = stream.stats.iter().filter(|(key, _)| key.2 == metric);
    of_metric.map(|(&(thread, node, _), stats)| (stream.path(thread, node), stats.count, stats.sum)).collect()
}

fn function<'a>(stream: &'a Stream, frame: &FrameKey) -> &'a str {
    match frame {
        FrameKey::Python { function, .. } => stream.text(*function),
        _ => "",
    }
}

/// True if `hits` of `count` samples are consistent with a share, with 99.9 % confidence: three runs in a thousand
/// may deviate more if samples are drawn at random. Those of a timer are distributed more evenly.
fn fits(hits: u64, count: u64, share: f64) -> bool {
    let (hits, count) = (hits as f64, count as f64);
    (hits / count - share).abs() <= 3.29 * (share * (1.0 - share) / count).sqrt() + 1.0 / count
}

/// Deviations of the samples of groups from the seconds that each group used, if any.
fn wrong_shares(hits: &HashMap<String, u64>, used: &HashMap<String, f64>) -> Option<String> {
    let count: u64 = hits.values().sum();
    let total: f64 = used.values().sum();
    if count <= 50 {
        return Some(format!("{count} samples of {total} s"));
    }
    used.iter().find_map(|(name, seconds)| {
        let hits = hits.get(name).copied().unwrap_or(0);
        let fits = fits(hits, count, seconds / total);
        (!fits).then(|| format!("{name} has {hits} of {count} samples and used {seconds} of {total} s"))
    })
}

/// Samples come in bursts if other programs use the processor: one of three runs must be right.
fn one_of_three(python: &Path, run: impl Fn() -> Option<String>) {
    let wrong: Vec<String> = (0..3).map_while(|_| run()).collect();
    assert!(wrong.len() < 3, "{}: {wrong:#?}", python.display());
}

#[derive(Debug)]
struct Truth {
    used: HashMap<String, f64>,
    symbols: HashMap<String, f64>,
}

impl Truth {
    /// Parse the line that `programs/shares.py` prints.
    fn read(output: &Output) -> Self {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let part = |name: &str| {
            let from = text.split_once(&format!("\"{name}\": {{")).unwrap().1;
            let pairs = from.split_once('}').unwrap().0.split(", ").filter_map(|pair| pair.split_once(": "));
            pairs.map(|(name, value)| (name.trim_matches('"').to_owned(), value.parse().unwrap())).collect()
        };
        Self { used: part("used"), symbols: part("symbols") }
    }

    fn used(&self, prefix: &str) -> HashMap<String, f64> {
        self.used
            .iter()
            .filter(|(name, _)| name.starts_with(prefix))
            .map(|(name, &used)| (name.clone(), used))
            .collect()
    }

    /// Function of the C library that contains an offset.
    fn symbol(&self, offset: u64) -> Option<&str> {
        let before = self.symbols.iter().filter(|symbol| *symbol.1 <= offset as f64);
        before.max_by(|a, b| a.1.total_cmp(b.1)).map(|symbol| symbol.0.as_str())
    }
}

/// Samples by the first of the wanted functions on their path.
fn by_function(stream: &Stream, prefix: &str) -> HashMap<String, u64> {
    let mut hits = HashMap::new();
    for (path, count, _) in samples(stream, Metric::CpuTime) {
        if let Some(name) = path.iter().map(|frame| function(stream, frame)).find(|name| name.starts_with(prefix)) {
            *hits.entry(name.to_owned()).or_default() += count;
        }
    }
    hits
}

#[test]
fn python_functions_have_their_shares() {
    for python in installed() {
        one_of_three(&python, || shares_of_python(&python));
    }
}

fn shares_of_python(python: &Path) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let mut command = recorded(python, folder.path());
    command.env("STACKLINE_SAMPLE_HZ", "199").arg(here("tests/programs/shares.py")).arg("2");
    let truth = Truth::read(&run(&mut command));
    let stream = &streams(folder.path())[0];
    let tids: std::collections::HashSet<u32> = stream.threads.values().map(|thread| thread.tid).collect();
    assert!(tids.len() >= 2, "{:?}", stream.threads);
    if let Some(wrong) = wrong_shares(&by_function(stream, "python_"), &truth.used("python_")) {
        return Some(wrong);
    }
    // Times that samples represent: their sum is the used time, up to one interval per thread.
    let share_of = |name: &str| -> f64 {
        let on_path = |path: &[&FrameKey]| path.iter().any(|frame| function(stream, frame) == name);
        samples(stream, Metric::CpuTime)
            .iter()
            .filter(|sample| on_path(&sample.0))
            .map(|sample| sample.2 as f64 / 1e9)
            .sum()
    };
    let (main, thread): (f64, f64) = (truth.used("python_").values().sum(), truth.used["thread"]);
    let noticed_late = 0.06;
    let near = (share_of("main") - main).abs() < 0.03 * main + 0.03
        && (share_of("in_thread") - thread).abs() < 0.03 * thread + noticed_late;
    let sampled =
        || format!("{} and {} s sampled, {main} and {thread} s used", share_of("main"), share_of("in_thread"));
    (!near).then(sampled)
}

/// Compile a C program to a library in `folder`; `None` without a compiler.
fn compile(folder: &Path) -> Option<PathBuf> {
    let library = folder.join("libshares.so");
    let arguments = ["-g", "-O2", "-shared", "-fPIC", "-fomit-frame-pointer", "-o"];
    let status = Command::new("cc").args(arguments).arg(&library).arg(here("tests/programs/shares.c")).status();
    match status {
        Ok(status) => assert!(status.success()),
        Err(_) => {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "CI needs a C compiler");
            println!("skipped: no C compiler");
            return None;
        }
    }
    Some(library.canonicalize().unwrap())
}

#[test]
#[ignore = "long: ./dev test --long"]
fn functions_of_c_have_their_shares_and_their_callers() {
    for python in installed() {
        let folder = tempfile::tempdir().unwrap();
        let Some(library) = compile(folder.path()) else { return };
        one_of_three(&python, || shares_of_c(&python, &library));
    }
}

fn shares_of_c(python: &Path, library: &Path) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let mut command = recorded(python, folder.path());
    command.env("STACKLINE_SAMPLE_HZ", "199").env("STACKLINE_NATIVE", "1");
    command.arg(here("tests/programs/shares.py")).arg("2").arg(library);
    let truth = Truth::read(&run(&mut command));
    let stream = &streams(folder.path())[0];
    let (mut hits, mut others) = (HashMap::<String, u64>::new(), 0);
    for (path, count, _) in samples(stream, Metric::CpuTime) {
        let in_library = |frame: &FrameKey| match frame {
            FrameKey::Native { library: id, offset } if stream.library(*id) == library.to_str().unwrap() => {
                truth.symbol(*offset)
            }
            _ => None,
        };
        let symbols: Vec<_> = path.iter().filter_map(|frame| in_library(frame)).collect();
        if !path.iter().any(|frame| function(stream, frame) == "in_c") {
            assert_eq!(symbols, [""; 0]);
        }
        match symbols.as_slice() {
            ["outer", burn] => {
                *hits.entry((*burn).to_owned()).or_default() += count;
                let python = path.iter().rposition(|frame| matches!(frame, FrameKey::Python { .. })).unwrap();
                let native = path.iter().position(|frame| matches!(frame, FrameKey::Native { .. })).unwrap();
                assert_eq!((function(stream, path[python]), native), ("in_c", python + 1));
            }
            [] => {}
            _ => others += count,
        }
    }
    if let Some(wrong) = wrong_shares(&hits, &truth.used("burn_")) {
        return Some(format!("{wrong}; {others} samples are in other places of the library"));
    }
    let count: u64 = hits.values().sum();
    if others * 20 >= count {
        return Some(format!("{others} of {count} samples are in other places of the library"));
    }
    check_names(folder.path(), library, &hits);
    None
}

/// Offline symbolization of the same samples gives functions of the same names, with source lines.
fn check_names(run: &Path, library: &Path, hits: &HashMap<String, u64>) {
    let tree = Run::open(&[run.to_owned()], &OpenOptions::default()).unwrap().profile().unwrap();
    let problems: Vec<_> = tree.report.problems.iter().filter(|p| p.example == library.to_str().unwrap()).collect();
    assert!(problems.is_empty(), "{problems:?}");
    let name = |node: CallNodeId| tree.frame(node).map(|frame| frame.name(&tree.strings)).unwrap_or_default();
    let mut named = HashMap::<String, u64>::new();
    for (node, _, _, stats) in tree.metrics.iter().filter(|row| row.2 == CallMetric::CpuTime) {
        let path = tree.path(node);
        let Some(outer) = path.iter().position(|&node| name(node) == "outer") else { continue };
        let Some(&burn) = path.get(outer + 1) else { continue };
        assert!(
            path[..outer].iter().any(|&node| name(node) == "in_c"),
            "{:?}",
            path.iter().map(|&node| name(node)).collect::<Vec<_>>()
        );
        let frame = tree.frame(burn).unwrap();
        assert!(tree.strings.get(frame.file().unwrap()).ends_with("shares.c"), "{frame:?}");
        assert!(frame.line().is_some(), "{frame:?}");
        *named.entry(name(burn)).or_default() += stats.count;
    }
    // Paths that the test could not identify by offsets alone may have more.
    assert!(hits.iter().all(|(name, count)| named.get(name) >= Some(count)), "{named:?} {hits:?}");
    let [named, hits] = [&named, hits].map(|counts| counts.values().sum::<u64>());
    assert!(named * 95 <= hits * 100, "{named} and {hits} samples");
}

/// Long enough for threads to be detected, which takes 50 ms.
const ROUNDS: &str = "500";

#[test]
fn signals_disturb_nothing_and_find_complete_paths() {
    for python in installed() {
        let program = here("tests/programs/signals.py");
        let truth = run(Command::new(&python).arg(&program).arg(ROUNDS));
        let folder = tempfile::tempdir().unwrap();
        let mut command = recorded(&python, folder.path());
        command.env("STACKLINE_SAMPLE_HZ", "1000").env("STACKLINE_WALL_HZ", "4000").env("STACKLINE_NATIVE", "1");
        let watched = run(command.arg(&program).arg(ROUNDS));
        assert_eq!(String::from_utf8_lossy(&watched.stdout), String::from_utf8_lossy(&truth.stdout));
        let stream = &streams(folder.path())[0];
        assert!(stream.ended && !stream.damaged);
        check_paths(stream, &python);
    }
}

/// Samples as during the imports of a program: most contain new code objects.
#[test]
fn new_code_has_names() {
    let program = "import time\n\
        def spin():\n    end = time.thread_time() + 0.001\n    while time.thread_time() < end:\n        pass\n\
        source = 'def fresh(spin):\\n' + '    value = 1\\n' * 200 + '    spin()\\n'\n\
        for number in range(1500):\n    names = {}\n    exec(compile(source, f'{number}.py', 'exec'), names)\n    names['fresh'](spin)\n";
    for python in installed() {
        let folder = tempfile::tempdir().unwrap();
        run(recorded(&python, folder.path()).env("STACKLINE_SAMPLE_HZ", "999").args(["-c", program]));
        let stream = &streams(folder.path())[0];
        let (mut fresh, mut unknown) = (0, 0);
        for (path, count, _) in samples(stream, Metric::CpuTime) {
            let has = |name: &str| path.iter().any(|frame| function(stream, frame) == name);
            fresh += if has("fresh") { count } else { 0 };
            unknown += if has("(unknown)") { count } else { 0 };
        }
        // How many there are depends on what else the machine does.
        assert!(fresh > 50 && unknown * 50 < fresh, "{}: {unknown} beside {fresh} samples", python.display());
    }
}

/// Functions that may call functions of the program.
fn check_paths(stream: &Stream, python: &Path) {
    let callers = |name: &str| -> &[&str] {
        match name {
            "numbers" => &["work"],
            "work.<locals>.<lambda>" => &["work"],
            "raises" => &["raises", "work"],
            "numbers.<locals>.<genexpr>" => &["numbers"],
            "work" => &["Thread.run", "run"],
            _ => &[],
        }
    };
    let (mut all, mut within, mut unknown, mut wrong) = (0, 0, 0, Vec::new());
    for (path, count, _) in samples(stream, Metric::WallTime) {
        all += count;
        let names: Vec<&str> =
            path.iter().map(|frame| function(stream, frame)).filter(|name| !name.is_empty()).collect();
        // New code faster than its names can be handed over.
        unknown += if names.contains(&"(unknown)") { count } else { 0 };
        for pair in names.windows(2) {
            let callers = callers(pair[1]);
            if !callers.is_empty() && !callers.contains(&pair[0]) {
                wrong.push(names.join(" > "));
            }
        }
        within += if names.contains(&"work") { count } else { 0 };
    }
    assert!(all > 100 && within > 10, "{}: {within} of {all} samples in the threads", python.display());
    // A frame that CPython is just linking may show what was there before: one of a million samples, in a busy hour.
    assert!(wrong.len() as u64 * 1000 <= all, "{}: {wrong:#?} of {all} samples", python.display());
    assert!(unknown * 50 < all, "{}: {unknown} of {all} samples have functions without names", python.display());
    let (on, detail) = &stream.sources["samples"];
    assert!(on, "{detail}");
    let broken = detail.split("; ").find_map(|part| {
        part.strip_suffix(" samples have no Python frames, because the call stack was changing at that moment")
    });
    let broken: u64 = broken.map_or(0, |count| count.parse().unwrap());
    assert!(broken * 100 < all, "{}: {broken} of {all} paths could not be believed", python.display());
}

/// Counts are attributed to the next sample of the thread: the same function, or the code right after it.
#[test]
fn page_faults_are_counted_at_their_location() {
    for python in installed() {
        one_of_three(&python, || wrong_faults(&python));
    }
}

fn wrong_faults(python: &Path) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let mut command = recorded(python, folder.path());
    command.env("STACKLINE_SAMPLE_HZ", "999").env("STACKLINE_COUNTERS", "page-faults,cycles");
    let output = run(command.arg(here("tests/programs/pages.py")));
    let touched: u64 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
    let stream = &streams(folder.path())[0];
    let (on, detail) = &stream.sources["samples"];
    assert!(on, "{detail}");
    if detail.contains("no counter page-faults") {
        println!("skipped: {detail}");
        return None;
    }
    let faults = samples(stream, Metric::Counter(0));
    let all: u64 = faults.iter().map(|(_, _, sum)| sum).sum();
    let within = |name: &str| -> u64 {
        let in_it = |path: &[&FrameKey]| path.iter().any(|frame| function(stream, frame) == name);
        faults.iter().filter(|(path, ..)| in_it(path)).map(|(_, _, sum)| sum).sum()
    };
    let what = format!("{}: {all} faults, {} in `touches`, {touched} pages", python.display(), within("touches"));
    let fits = all >= touched && all < touched + touched / 4 && within("touches") * 2 > touched;
    (!fits).then_some(what)
}
