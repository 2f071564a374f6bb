//! Paths of modules in a recording: those that the modules have when they are called.

use crate::support;

use stackline_recording::FrameKey;
use std::collections::BTreeMap;
use support::{here, recorded, streams, torch};

#[test]
fn module_names_are_those_at_the_time_of_the_call() {
    let Some(python) = torch() else { return };
    let run = tempfile::tempdir().unwrap();
    let output = recorded(&python, run.path()).arg(here("tests/programs/modules.py")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stream = &streams(run.path())[0];
    // Calls of `sinh` by the module that it was called in.
    let mut calls: BTreeMap<String, u64> = BTreeMap::new();
    for (path, count) in stream.calls() {
        let is_sinh = matches!(path.last(), Some(FrameKey::Operator { name }) if stream.text(*name) == "aten::sinh");
        let module = path.iter().rev().find_map(|key| match key {
            FrameKey::Module { path, class } => Some(format!("{}:{}", stream.text(*path), stream.text(*class))),
            _ => None,
        });
        if let (true, Some(module)) = (is_sinh, module) {
            *calls.entry(module).or_default() += count;
        }
    }
    let mut expected: BTreeMap<String, u64> = (0..40).map(|number| (format!("number{number}:Leaf"), 1)).collect();
    expected.extend(
        [("before.inner:Leaf", 1), ("after.inner:Leaf", 1), (":Leaf", 20)].map(|(name, count)| (name.into(), count)),
    );
    // `inner` of `second`, which `first` holds under that name last.
    expected.insert("inner.inner:Leaf".into(), 1);
    assert_eq!(calls, expected);
}
