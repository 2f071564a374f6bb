//! Operators, counts and call paths of five programs compared with PyTorch's own profiler with stacks.

use crate::support;

use stackline_recording::FrameKey;
use std::collections::BTreeMap;
use support::{Stream, here, recorded, streams, torch};

type Listing = BTreeMap<String, u64>;

/// Forward operators by full path, work in backward nodes by the path from the node, and spans by name: PyTorch's
/// profiler shows spans at the call of their begin, the recorder around their contents.
#[derive(Debug, Default, PartialEq)]
struct Calls {
    forward: Listing,
    backward: Listing,
    spans: Listing,
}

impl Calls {
    fn add(&mut self, path: &[String], count: u64) {
        let is_backward = |name: &String| !name.contains('@') && !name.starts_with("autograd::engine") && is_node(name);
        let joined = |path: &[String]| path.join(" > ");
        match path.iter().position(is_backward) {
            Some(at) => *self.backward.entry(joined(&path[at..])).or_default() += count,
            None => *self.forward.entry(joined(path)).or_default() += count,
        }
    }
}

/// True for the name of a node of the backward graph.
fn is_node(name: &str) -> bool {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    stem.ends_with("Backward") || name == "torch::autograd::AccumulateGrad" || name == "torch::autograd::CopySlices"
}

fn theirs(listing: &str, spans: &Listing) -> Calls {
    let mut calls = Calls::default();
    for line in listing.lines() {
        let (count, path) = line.split_once('\t').unwrap();
        let path: Vec<String> = path.split(" > ").map(str::to_owned).collect();
        let (count, last) = (count.parse().unwrap(), path.last().unwrap());
        if spans.contains_key(last) {
            *calls.spans.entry(last.clone()).or_default() += count;
        } else {
            calls.add(&path, count);
        }
    }
    calls
}

fn ours(stream: &Stream) -> Calls {
    let mut calls = Calls::default();
    for (path, count) in stream.calls() {
        let names = names(stream, &path);
        let Some(at) = names.iter().position(|name| name == "measured@truth.py") else { continue };
        match path.last() {
            Some(FrameKey::Span { name }) => *calls.spans.entry(stream.text(*name).into()).or_default() += count,
            // A backward node is shown below its forward operator: only the path from the node on is comparable.
            _ => calls.add(&names[at + 1..], count),
        }
    }
    calls
}

/// The path without spans: the frame that opened a span is above it, and again below it with the current line.
fn names(stream: &Stream, path: &[&FrameKey]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut after_span = false;
    for key in path {
        if matches!(key, FrameKey::Span { .. }) {
            after_span = true;
        } else if let Some(name) = name(stream, key) {
            if !(after_span && names.last() == Some(&name)) {
                names.push(name);
            }
            after_span = false;
        }
    }
    names
}

/// Name in the program's list: function without class, and file name.
fn name(stream: &Stream, key: &FrameKey) -> Option<String> {
    match *key {
        FrameKey::Python { function, file, .. } => {
            let function = stream.text(function).rsplit('.').next().unwrap();
            Some(format!("{function}@{}", stream.text(file).rsplit('/').next().unwrap()))
        }
        FrameKey::Operator { name } | FrameKey::Backward { name } => Some(stream.text(name).into()),
        _ => None,
    }
}

/// Training and inference with constructs that complicate paths: generators, exceptions, custom functions, hooks,
/// checkpoints, spans, and callbacks from C.
const PROGRAMS: [&str; 5] = ["transformer", "resnet", "recurrent", "custom", "inference"];

/// All in one process, because starting PyTorch takes longer than all of them.
#[test]
fn five_programs() {
    let Some(python) = torch() else { return };
    let script = here("tests/programs/truth.py");
    let run = tempfile::tempdir().unwrap();
    let output = recorded(&python, run.path()).arg(&script).args(PROGRAMS).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profiled = std::process::Command::new(&python).arg(&script).args(PROGRAMS).arg("profile").output().unwrap();
    assert!(profiled.status.success(), "{}", String::from_utf8_lossy(&profiled.stderr));
    let streams = streams(run.path());
    let ours = ours(&streams[0]);
    let theirs = theirs(&String::from_utf8_lossy(&profiled.stdout), &ours.spans);
    for program in PROGRAMS {
        let below = format!("{program}@truth.py > ");
        let paths = theirs.forward.keys().filter(|path| path.starts_with(&below)).count();
        assert!(paths > 5, "{program}: {theirs:?}");
    }
    assert_same(&ours.forward, &theirs.forward);
    assert_same(&ours.backward, &theirs.backward);
    assert_same(&ours.spans, &theirs.spans);
    let joins = check_joins(&streams[0]);
    for program in PROGRAMS.iter().filter(|program| **program != "inference") {
        assert!(
            joins.contains_key(&format!("{program}@truth.py")),
            "no backward node of {program} was joined: {joins:?}"
        );
    }
}

fn assert_same(ours: &Listing, theirs: &Listing) {
    let missing: Vec<_> = theirs.iter().filter(|(path, count)| ours.get(*path) != Some(count)).take(5).collect();
    let extra: Vec<_> = ours.iter().filter(|(path, count)| theirs.get(*path) != Some(count)).take(5).collect();
    assert!(missing.is_empty() && extra.is_empty(), "PyTorch's profiler has {missing:#?}\nwe have {extra:#?}");
}

/// Check that each backward node is below an operator of its own name; returns their number per program.
fn check_joins(stream: &Stream) -> BTreeMap<String, usize> {
    let mut joins = BTreeMap::new();
    for (path, _) in stream.calls() {
        let Some((FrameKey::Backward { name }, above)) =
            path.split_last().map(|(last, above)| ((*last).clone(), above))
        else {
            continue;
        };
        let node = stream.text(name);
        let stem = node.trim_end_matches(|c: char| c.is_ascii_digit());
        let Some(stem) = stem.strip_suffix("Backward") else { continue };
        let parent = above.last().and_then(|key| match key {
            FrameKey::Operator { name } => Some(stream.text(*name)),
            _ => None,
        });
        let parent = parent.unwrap_or_else(|| panic!("{node} stands below no operator"));
        let plain = |name: &str| name.replace('_', "").to_lowercase();
        let parent = plain(parent.rsplit("::").next().unwrap());
        assert!(parent == plain(stem) || parent == format!("{}forward", plain(stem)), "{node} stands below {parent}");
        let program = names(stream, &path).into_iter().skip_while(|name| name != "measured@truth.py").nth(1);
        *joins.entry(program.unwrap_or_default()).or_default() += 1;
    }
    joins
}
