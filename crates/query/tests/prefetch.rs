//! Tests of the prefetched queries of the page.

use crate::common;

use common::memory;
use stackline_engine::OpenOptions;
use stackline_query::{Arguments, OpenRun};

/// Names of queries in the order in which they are first asked.
fn names(questions: Vec<(&'static str, Arguments)>) -> Vec<&'static str> {
    let mut names = Vec::new();
    for (name, _) in questions {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[test]
fn prefetch_follows_the_declared_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.json");
    let step = stackline_testkit::demo::Config { steps: 3, ..Default::default() };
    std::fs::write(&path, stackline_testkit::demo::generate(&step)).expect("written");
    let opened = OpenRun::open(&[path], &OpenOptions::default()).expect("opens");
    assert_eq!(names(opened.urgent_questions()), ["meta", "overview"]);
    let mut prefetched = names(opened.first_questions());
    prefetched.retain(|name| *name != "finding");
    let opening = ["meta", "overview", "findings", "path", "lanes", "calls", "source", "tiles", "counters"];
    assert!(prefetched.starts_with(&opening), "{prefetched:?}");
    // Of a run that is nothing but memory, findings come last.
    let of_memory = names(memory().first_questions());
    let order = [
        "meta",
        "memory",
        "memory-suggestions",
        "memory-calls",
        "memory-curve",
        "memory-objects",
        "memory-apply",
        "memory-holders",
        "memory-allocator",
        "memory-object",
        "findings",
        "finding",
    ];
    let places: Vec<Option<usize>> =
        of_memory.iter().map(|name| order.iter().position(|other| other == name)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{of_memory:?}");
    assert!(["meta", "memory", "memory-objects", "findings"].iter().all(|name| of_memory.contains(name)));
}
