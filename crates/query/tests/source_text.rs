//! Tests of source text: resolution of files, and directories that may be read.

use crate::common::document;
use serde_json::Value;
use stackline_engine::OpenOptions;
use stackline_query::{Arguments, OpenRun, QueryError, run_query};
use stackline_testkit::mini;
use std::collections::BTreeSet;
use std::path::PathBuf;

#[test]
fn files_named_without_their_folder_are_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("only_here_for_this.py");
    std::fs::write(&source, "a = 1\nb = 2\n").expect("written");
    let path = folder.path().join("trace.json");
    let whole = source.display().to_string();
    let lines = format!(
        "1/1  python_function  only_here_for_this.py(2): f  0+5
         1/1  python_function  {whole}(2): f                10+5
         1/1  python_function  nowhere.py(2): f             20+5"
    );
    std::fs::write(&path, mini::trace(&lines)).expect("written");
    let opened = OpenRun::open(&[path], &OpenOptions::default()).expect("opens");
    let opened = opened.with_source_roots(&[folder.path().to_owned()]);
    let answer = |name: &str, file: &str| {
        let line = if name == "excerpt" { "2" } else { "" };
        let given = [("file", file), ("line", line)].into_iter().filter(|(_, text)| !text.is_empty());
        run_query(&opened, name, &Arguments::new(given))
    };
    let document_of = |name: &str, file: &str| document(&answer(name, file).expect("answered"));
    for file in ["only_here_for_this.py", &whole] {
        let excerpt = document_of("excerpt", file);
        assert_eq!((&excerpt["file"], &excerpt["lines"][1]), (&Value::from(whole.as_str()), &Value::from("b = 2")));
        let source = document_of("source", file);
        assert_eq!(
            (source["text"].as_str(), source["costs"][0]["lines"].as_array().map(Vec::len)),
            (Some("a = 1\nb = 2\n"), Some(2))
        );
    }
    assert_eq!(document_of("excerpt", "nowhere.py")["missing"], true);
    // What the run does not name is refused, whether it is there or not.
    for file in [&folder.path().join("trace.json").display().to_string(), "/etc/passwd", "../secret.py"] {
        for name in ["excerpt", "source"] {
            assert!(matches!(answer(name, file), Err(QueryError::Missing { .. })), "{name} {file}");
        }
    }
    // What is written into a file later is seen.
    std::fs::write(&source, "a = 1\nb = 3\n").expect("written");
    assert_eq!(document_of("excerpt", &whole)["lines"][1], "b = 3");
}

/// A trace may name any file: text is read below directories that were opened or named, and the read files are reported.
#[test]
fn source_text_is_read_only_below_opened_directories() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("resolved");
    let (run, code) = (folder.join("run"), folder.join("code"));
    for made in [&run, &code] {
        std::fs::create_dir(made).expect("made");
    }
    let source = code.join("train.py");
    std::fs::write(&source, "a = 1\n").expect("written");
    std::os::unix::fs::symlink(&source, run.join("link.py")).expect("linked");
    let [link, whole] = [run.join("link.py"), source].map(|path| path.display().to_string());
    let path = run.join("trace.json");
    let lines = [&link, &whole].map(|file| format!("1/1 python_function {file}(1): f 1+5\n")).concat();
    std::fs::write(&path, mini::trace(&lines)).expect("written");
    let open = |input: &PathBuf| OpenRun::open(std::slice::from_ref(input), &OpenOptions::default()).expect("opens");
    let text = |opened: &OpenRun, file: &str| {
        document(&run_query(opened, "source", &Arguments::new([("file", file)])).expect("answered"))["text"].clone()
    };
    for (opened, is_read) in [
        (open(&path), false),
        (open(&run), false),
        (open(&run).with_source_roots(std::slice::from_ref(&code)), true),
        (open(&run).with_source_roots(std::slice::from_ref(&code)).without_source(), false),
    ] {
        let expected = if is_read { Value::from("a = 1\n") } else { Value::Null };
        assert_eq!((text(&opened, &link), text(&opened, &whole)), (expected.clone(), expected));
        let read: Vec<String> = opened.take_source_files().into_iter().collect();
        assert_eq!(read, if is_read { vec![whole.clone()] } else { Vec::new() }, "by its own name");
    }
}

/// Options for source text also apply to the baseline, in any order of options.
#[test]
fn source_text_of_the_baseline_is_read_like_that_of_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("resolved");
    let (run, code) = (folder.join("run"), folder.join("code"));
    for made in [&run, &code] {
        std::fs::create_dir(made).expect("made");
    }
    let [next_to_run, named] = [run.join("beside.py"), code.join("named.py")].map(|path| {
        std::fs::write(&path, "a = 1\n").expect("written");
        path.display().to_string()
    });
    let lines = [&next_to_run, &named].map(|file| format!("1/1 python_function {file}(1): f 1+5\n")).concat();
    std::fs::write(run.join("trace.json"), mini::trace(&lines)).expect("written");
    let open = || OpenRun::open(std::slice::from_ref(&run), &OpenOptions::default()).expect("opens");
    let text = |opened: &OpenRun, file: &str| {
        let arguments = Arguments::new([("file", file), ("run", "before")]);
        !document(&run_query(opened, "source", &arguments).expect("answered"))["text"].is_null()
    };
    let root = std::slice::from_ref(&code);
    let cases: [(OpenRun, [bool; 2]); 5] = [
        (open().compared_with(open()), [true, false]),
        (open().compared_with(open()).with_source_roots(root), [true, true]),
        (open().with_source_roots(root).compared_with(open()), [true, true]),
        (open().compared_with(open()).without_source(), [false, false]),
        (open().without_source().compared_with(open()), [false, false]),
    ];
    for (at, (opened, is_read)) in cases.iter().enumerate() {
        assert_eq!([&next_to_run, &named].map(|file| text(opened, file)), *is_read, "case {at}");
        let files = [&next_to_run, &named].into_iter().zip(is_read).filter(|(_, is_read)| **is_read);
        let files: BTreeSet<String> = files.map(|(file, _)| file.clone()).collect();
        assert_eq!(opened.take_source_files().into_iter().collect::<BTreeSet<String>>(), files, "case {at}");
    }
}
