//! Shapes and types of inputs compared with those of PyTorch's own profiler, and their effect on trees.

use crate::support;

use stackline_engine::{OpenOptions, Run};
use stackline_model::{EventKind, StrId, Trace};
use stackline_recording::{FrameKey, Metric};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{Stream, here, recorded, streams, torch};

/// Number of occurrences of an operator with its inputs.
type Listing = BTreeMap<String, u64>;

fn program() -> PathBuf {
    here("tests/programs/shapes.py")
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Operators in the span `measured`: name, `Input Dims` and `Input type`, as in the trace.
fn ours(trace: &Trace) -> Listing {
    let events = &trace.events;
    let named =
        |at: &usize| trace.strings.get(events.name[*at]) == "measured" && events.kind[*at] == EventKind::Annotation;
    let span = (0..events.len()).find(named).unwrap();
    let (begin, end) = (events.start[span], events.start[span] + events.dur[span]);
    let columns = ["Input Dims", "Input type"].map(|name| trace.attr(name));
    let mut listing = Listing::new();
    for event in trace.events.ids() {
        let at = event.index();
        if events.kind[at] != EventKind::Operator || !(begin..=end).contains(&events.start[at]) {
            continue;
        }
        let text = |id: Option<StrId>| id.map_or("[]", |id| trace.strings.get(id)).to_owned();
        let [dims, types] =
            [0, 1].map(|column: usize| text(columns[column].get(event).and_then(|value| value.text_id())));
        *listing.entry(format!("{}\t{dims}\t{types}", trace.strings.get(events.name[at]))).or_default() += 1;
    }
    listing
}

fn theirs(python: &Path) -> Listing {
    let output = run(Command::new(python).arg(program()).args(PROGRAMS).arg("profile"));
    let line = |line: &str| {
        let (count, what) = line.split_once('\t').unwrap();
        (what.to_owned(), count.parse().unwrap())
    };
    String::from_utf8(output.stdout).unwrap().lines().map(line).collect()
}

fn open(run: &Path) -> Trace {
    let set = Run::open(&[run.to_owned()], &OpenOptions::default()).unwrap().traces().unwrap();
    assert_eq!(set.traces.len(), 1);
    set.traces[0].clone()
}

/// Name and inputs of an operator or backward node.
fn operator<'a>(stream: &'a Stream, key: &FrameKey) -> Option<(&'a str, &'a str)> {
    match *key {
        FrameKey::Operator { name } | FrameKey::Backward { name } => Some((stream.text(name), "")),
        FrameKey::ShapedOperator { name, inputs } | FrameKey::ShapedBackward { name, inputs } => {
            Some((stream.text(name), stream.text(inputs)))
        }
        _ => None,
    }
}

/// Training, every kind of input, and tensors that don't store their sizes.
const PROGRAMS: [&str; 3] = ["gpt", "every", "nested"];

/// All in one process, because starting PyTorch takes longer than all of them.
#[test]
fn three_programs() {
    let Some(python) = torch() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = recorded(&python, folder.path());
    run(command.env("STACKLINE_SHAPES", "1").env("STACKLINE_MODE", "trace").arg(program()).args(PROGRAMS));
    let stream = &streams(folder.path())[0];
    let (on, detail) = &stream.sources["shapes"];
    assert!(on, "{detail}");
    let (ours, theirs) = (ours(&open(folder.path())), theirs(&python));
    let other = |one: &Listing, other: &Listing| -> Vec<(String, u64)> {
        let differs = |(what, count): &(&String, &u64)| other.get(*what) != Some(*count);
        one.iter().filter(differs).take(8).map(|(what, &count)| (what.clone(), count)).collect()
    };
    let (missing, extra) = (other(&theirs, &ours), other(&ours, &theirs));
    assert!(missing.is_empty() && extra.is_empty(), "PyTorch's profiler has {missing:#?}\nwe have {extra:#?}");
    // One that only this program calls, of each.
    for called in ["aten::cross_entropy_loss\t", "aten::meshgrid\t", "aten::to_padded_tensor\t"] {
        assert!(theirs.keys().any(|key| key.starts_with(called)), "{called}: {theirs:?}");
    }
    let tree = as_single_calls(stream);
    let layer = "aten::addmm f32[96], f32[64,32], f32[32,96], scalar, scalar";
    let addmm_keys = || tree.keys().filter(|key| key.starts_with("aten::addmm ")).collect::<Vec<_>>();
    assert!(tree.contains_key(layer), "{:#?}", addmm_keys());
    // Of tensors that hold no sizes of their own the profiler says nothing; the tree keeps their types.
    assert!(tree.keys().any(|key| key.starts_with("aten::to_padded_tensor f32[?]")), "{tree:#?}");
}

/// Operators with their inputs in the tree, which are those of the individual calls.
fn as_single_calls(stream: &Stream) -> Listing {
    let mut single = Listing::new();
    for &(thread, node, _) in &stream.events {
        if let Some((name, inputs)) = stream.path(thread, node).last().and_then(|key| operator(stream, key)) {
            *single.entry(format!("{name} {inputs}")).or_default() += 1;
        }
    }
    let mut tree = Listing::new();
    for (path, count) in stream.calls() {
        if let Some((name, inputs)) = operator(stream, path.last().unwrap()) {
            *tree.entry(format!("{name} {inputs}")).or_default() += count;
        }
    }
    assert_eq!(tree, single);
    tree
}

/// Without the option no inputs are requested, and operators are distinguished only by name.
#[test]
fn shapes_are_recorded_only_with_the_option() {
    let Some(python) = torch() else { return };
    let folder = tempfile::tempdir().unwrap();
    run(recorded(&python, folder.path()).arg(program()).arg("gpt"));
    let stream = &streams(folder.path())[0];
    assert!(!stream.sources.contains_key("shapes"));
    let shaped = |key: &&FrameKey| matches!(key, FrameKey::ShapedOperator { .. } | FrameKey::ShapedBackward { .. });
    assert!(stream.calls().iter().all(|(path, _)| !path.iter().any(shaped)));
}

/// Shapes that differ from call to call fill a tree up to its limit, and every call is counted.
#[test]
fn shapes_that_never_recur_stay_within_the_limit() {
    let Some(python) = torch() else { return };
    let folder = tempfile::tempdir().unwrap();
    let code = "import torch\nvalue = torch.zeros(3000)\nfor n in range(3000): value[:n].neg()";
    run(recorded(&python, folder.path())
        .env("STACKLINE_SHAPES", "1")
        .env("STACKLINE_MAX_NODES", "500")
        .args(["-c", code]));
    let stream = &streams(folder.path())[0];
    let calls = |name: &str| -> u64 {
        let is = |path: &[&FrameKey]| operator(stream, path.last().unwrap()).is_some_and(|found| found.0 == name);
        stream.calls().iter().filter(|(path, _)| is(path)).map(|(_, count)| count).sum()
    };
    let rest: u64 = stream
        .calls()
        .iter()
        .filter(|(path, _)| **path.last().unwrap() == FrameKey::Overflow)
        .map(|(_, count)| count)
        .sum();
    let nodes = stream.stats.keys().filter(|key| key.2 == Metric::CallTime).count();
    assert!(nodes <= 501 && calls("aten::neg") > 100, "{nodes} nodes, {} calls", calls("aten::neg"));
    assert!(calls("aten::neg") + calls("aten::slice") + rest >= 6000);
}

/// Without permission to read its own memory through the kernel, the layout is unknown: shapes are left out, which is
/// reported once, and all other data are recorded.
#[test]
fn shapes_are_omitted_if_layouts_are_unknown() {
    let Some(python) = torch() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = recorded(&python, folder.path());
    let output = run(command.env("STACKLINE_SHAPES", "1").arg(here("tests/programs/sandboxed.py")));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "6.0\n");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let ours: Vec<&str> = stderr.lines().filter(|line| line.starts_with("stackline: ")).collect();
    assert_eq!(ours.len(), 1, "{stderr}");
    assert!(ours[0].starts_with("stackline: shapes are not recorded: the kernel"), "{stderr}");
    let stream = &streams(folder.path())[0];
    assert!(stream.ended && !stream.sources["shapes"].0 && stream.sources["pytorch"].0);
    let plain = |(path, _): &(Vec<&FrameKey>, u64)| operator(stream, path.last().unwrap()) == Some(("aten::sum", ""));
    assert!(stream.calls().iter().any(plain));
}
