//! Parts of opened inputs, and messages for missing ones.

use stackline_engine::{Error, OpenOptions, Part, Run};
use stackline_model::Trace;
use stackline_testkit::mini;
use std::path::{Path, PathBuf};

fn written(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn run(inputs: &[PathBuf]) -> Run {
    Run::open(inputs, &OpenOptions::default()).unwrap()
}

const TRACE: &str = r#"{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":0,"dur":5}]}"#;
const STACKS: &str = "main;step 3\nmain 4\n";
const MEMORY: &str = "a x 1024; f x; end";

/// Trace with a memory event.
fn trace_with_memory(rank: i64) -> String {
    mini::trace(&format!(
        r#"file distributedInfo={{"rank": {rank}, "world_size": 2}}
        1/1  cpu_op  aten::empty  0+5
        1/1  -       [memory]     @2   Total Allocated=1024 Bytes=1024 Addr=4096 Device Id=-1 Device Type=0"#
    ))
}

#[test]
fn each_file_type_opens_as_its_part() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text, parts) in [
        ("t.json", TRACE, &[Part::Traces][..]),
        ("told.json", &trace_with_memory(0), &[Part::Traces, Part::Memory]),
        ("stacks.txt", STACKS, &[Part::Profile]),
        ("p.memory", MEMORY, &[Part::Memory]),
    ] {
        let run = run(&[written(folder.path(), name, text)]);
        assert_eq!(run.parts().unwrap(), parts, "{name}");
        assert_eq!(run.traces().is_ok(), parts.contains(&Part::Traces), "{name}");
        assert_eq!(run.profile().is_ok(), parts.contains(&Part::Profile), "{name}");
        assert_eq!(run.find_memory(None).unwrap().is_some(), parts.contains(&Part::Memory), "{name}");
        assert_eq!(run.memories().unwrap().len(), usize::from(parts.contains(&Part::Memory)), "{name}");
        assert_eq!(run.is_memory_alone().unwrap(), parts == [Part::Memory], "{name}");
    }
}

/// The message does not depend on the part that is requested first.
#[test]
fn missing_parts_are_reported_with_alternatives_and_advice() {
    let folder = tempfile::tempdir().unwrap();
    let trace = written(folder.path(), "t.json", TRACE);
    let stacks = written(folder.path(), "stacks.txt", STACKS);
    let memory = written(folder.path(), "p.memory", MEMORY);
    let message = |path: &PathBuf, read_part: &dyn Fn(&Run) -> Error| {
        let fresh = read_part(&run(std::slice::from_ref(path)));
        let read = run(std::slice::from_ref(path));
        read.parts().unwrap();
        assert_eq!(fresh.to_string(), read_part(&read).to_string());
        assert!(fresh.is_wrong_use() && !fresh.is_unreadable());
        fresh.to_string().replace(&folder.path().display().to_string(), "F")
    };
    let traces = |run: &Run| run.traces().unwrap_err();
    let profile = |run: &Run| run.profile().unwrap_err();
    let of_memory = |run: &Run| run.memory(None).unwrap_err();
    for (path, read_part, expected) in [
        (
            &trace,
            &profile as &dyn Fn(&Run) -> Error,
            ["a trace", "no call-tree recording", "stackline report", "stackline record -o"],
        ),
        (&trace, &of_memory, ["a trace", "no memory events", "stackline report", "--mode trace --memory"]),
        (&stacks, &traces, ["a profile", "no execution trace", "stackline calls", "--mode trace"]),
        (&stacks, &of_memory, ["a profile", "no memory events", "stackline calls", "--mode trace --memory"]),
        (&memory, &traces, ["memory data", "no execution trace", "stackline memory", "--mode trace"]),
        (&memory, &profile, ["memory data", "no call-tree recording", "stackline memory", "stackline record -o"]),
    ] {
        let text = message(path, read_part);
        assert!(expected.iter().all(|words| text.contains(words)), "{text}");
    }
}

/// With several inputs, the profile or memory of one must not represent all.
#[test]
fn no_single_input_represents_several() {
    let folder = tempfile::tempdir().unwrap();
    let trace = written(folder.path(), "t.json", TRACE);
    for (name, text) in [("stacks.txt", STACKS), ("p.memory", MEMORY)] {
        let other = written(folder.path(), name, text);
        for inputs in [[trace.clone(), other.clone()], [other.clone(), other.clone()]] {
            let run = run(&inputs);
            assert!(run.read_with_profile().is_err() && run.traces().is_err(), "{inputs:?}");
        }
    }
}

/// A stored profile has the parts and messages of its file.
#[test]
fn stored_profiles_open_as_their_files() {
    let folder = tempfile::tempdir().unwrap();
    let stacks = run(&[written(folder.path(), "stacks.txt", STACKS)]);
    let stored = folder.path().join("stacks.stackline");
    let options = stackline_engine::WriteOptions::default();
    stackline_engine::save_profile(&stacks.profile().unwrap(), &stored, &options).unwrap();
    let stored = run(&[stored]);
    assert_eq!(stored.parts().unwrap(), [Part::Profile]);
    assert!(stored.has_profile() && stored.memories().unwrap().is_empty());
    let tree = |run: &Run| run.profile().unwrap();
    assert_eq!(tree(&stored).nodes, tree(&stacks).nodes);
    assert_eq!(tree(&stored).metrics.stats, tree(&stacks).metrics.stats);
    let message = |error: Error| error.to_string().replace("stacks.stackline", "stacks.txt");
    assert_eq!(message(stored.traces().unwrap_err()), message(stacks.traces().unwrap_err()));
    assert_eq!(message(stored.memory(None).unwrap_err()), message(stacks.memory(None).unwrap_err()));
    let scope = stackline_timeline::Scope::default();
    let diff = |run: Run| stackline_engine::profiles(run, &scope, None, &mut |_, _| ()).unwrap_err();
    assert_eq!(message(diff(stored)), message(diff(stacks)));
}

/// Of several inputs, or in a folder, the message names the file without a trace.
#[test]
fn files_without_a_trace_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let trace = written(folder.path(), "t.json", TRACE);
    for (name, content, words) in [
        ("stacks.txt", STACKS, "is a profile (totals per call path, without individual calls)"),
        ("p.memory", MEMORY, "contains only memory data"),
    ] {
        let other = written(folder.path(), name, content);
        let error = run(&[trace.clone(), other.clone()]).traces().unwrap_err();
        let message = error.to_string();
        let expected = format!("{} {words} and has no execution trace; ", other.display());
        assert!(message.starts_with(&expected) && message.contains("only if all are traces"), "{message}");
        assert!(error.is_wrong_use() && !error.is_unreadable(), "{message}");
    }
}

#[test]
fn folders_with_a_single_run_open_that_run() {
    let folder = tempfile::tempdir().unwrap();
    let memory = run(&[written(folder.path(), "p.memory", MEMORY)]).memories().unwrap();
    let runs = folder.path().join("runs");
    std::fs::create_dir(&runs).unwrap();
    for (name, parts) in [("one.stackline", vec![Part::Memory]), ("two.stackline", vec![Part::Traces])] {
        let (kept, options) = (runs.join(name), stackline_engine::WriteOptions::default());
        stackline_engine::save_with(&stackline_model::TraceSet::default(), &memory, &kept, &options).unwrap();
        // One of two must not represent both.
        let run = run(std::slice::from_ref(&runs));
        assert_eq!((run.parts().unwrap(), run.traces().is_err()), (parts, true));
    }
}

#[test]
fn unreadable_inputs_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(&[written(folder.path(), "x.json", "{\"a\": 1}")]);
    assert!(matches!(run.parts(), Err(Error::Ingest(_))));
    assert!(matches!(Run::open(&[], &OpenOptions::default()), Err(Error::NoInput)));
}

/// Memory within traces is found independent of how they were read, and one rank has its own.
#[test]
fn memory_of_read_traces() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = [0, 1].map(|rank| written(folder.path(), &format!("r{rank}.json"), &trace_with_memory(rank)));
    let whole = run(&inputs);
    assert_eq!(whole.memories().unwrap().len(), 2);
    assert!(whole.memory(None).unwrap().label.ends_with("r0.json"));
    assert!(whole.memory(Some(1)).unwrap().label.ends_with("r1.json"));
    assert!(matches!(whole.memory(Some(2)), Err(Error::NoRank { requested: 2, .. })));
    let mut one = run(&inputs);
    one.select_rank(1).unwrap();
    assert_eq!(one.traces().unwrap().traces.len(), 1);
    assert!(one.memory(None).unwrap().label.ends_with("r1.json"));
    let (mut each, mut names) = (run(&inputs), Vec::new());
    let mut take = |trace: Trace, _: Option<usize>| -> Result<(), Error> {
        names.push(trace.meta.name);
        Ok(())
    };
    each.each_rank(&mut take).unwrap();
    assert_eq!(names, ["r0.json", "r1.json"]);
    // Files may be deleted after they were read.
    inputs.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    assert!(each.memory(None).unwrap().label.ends_with("r0.json"));
    assert!(whole.watched_by(&stackline_engine::Progress::new()).memory(Some(0)).is_ok());
}
