//! Programs with `torch.compile`: compilations, compiled regions and kernels.

use crate::support;

use stackline_recording::FrameKey;
use std::path::Path;
use std::process::Command;
use support::{Stream, here, interpreters, recorded, streams, torch};

/// Text of one frame of a path: the function of a Python frame, otherwise the name.
fn text<'a>(stream: &'a Stream, frame: &FrameKey) -> &'a str {
    match frame {
        FrameKey::Python { function: name, .. }
        | FrameKey::Operator { name }
        | FrameKey::Backward { name }
        | FrameKey::Span { name } => stream.text(*name),
        _ => "",
    }
}

/// Paths of calls whose last frame's name begins with `name`, with their numbers of calls.
fn calls_of<'a>(stream: &'a Stream, name: &str) -> Vec<(Vec<&'a str>, u64)> {
    let texts = |(path, count): (Vec<&FrameKey>, u64)| (path.iter().map(|f| text(stream, f)).collect(), count);
    let mut calls: Vec<(Vec<&str>, u64)> = stream.calls().into_iter().map(texts).collect();
    calls.retain(|(path, _)| path.last().is_some_and(|last| last.starts_with(name)));
    calls.sort();
    calls
}

/// Names of the called frames, without paths.
fn names<'a>(calls: &[(Vec<&'a str>, u64)]) -> Vec<&'a str> {
    calls.iter().filter_map(|(path, _)| path.last().copied()).collect()
}

/// Stream of the program itself, because PyTorch's compiler may start further processes.
fn of_the_program(run: &Path) -> Stream {
    let is_program = |stream: &Stream| {
        let command = stream.process.command.iter();
        stream.process.role == stackline_recording::Role::Main
            && !command.clone().any(|part| part.contains("torch/_inductor"))
    };
    let mut streams: Vec<Stream> = streams(run).into_iter().filter(is_program).collect();
    assert_eq!(streams.len(), 1, "{:?}", streams.iter().map(|stream| &stream.process).collect::<Vec<_>>());
    streams.remove(0)
}

/// Options that change only the duration of the test, not the results.
fn prepared(command: &mut Command, cache: &Path) -> String {
    // Further processes would import PyTorch to compile one kernel.
    command.env("TORCHINDUCTOR_COMPILE_THREADS", "1").env("TORCHINDUCTOR_CACHE_DIR", cache);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn compilations_are_below_their_caller() {
    let Some(python) = torch() else { return };
    let (run, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut command = recorded(&python, run.path());
    let program = here("tests/programs/compiled.py");
    prepared(command.arg(program).arg("aot_eager").env("STACKLINE_MODE", "trace"), cache.path());
    let stream = of_the_program(run.path());
    assert!(stream.sources["compilations"].0, "{:?}", stream.sources);

    let mut compiled = [calls_of(&stream, "Compile "), calls_of(&stream, "Recompile ")].concat();
    let backward: Vec<_> = compiled.extract_if(.., |(path, _)| !path.last().unwrap().contains("scale")).collect();
    let expected = ["Compile 0/0: scale (compiled.py:14)", "Recompile 0/1: scale (compiled.py:14)"];
    assert_eq!(names(&compiled), expected);
    for (path, count) in &compiled {
        assert_eq!((path[0], *count), ("<module>", 1), "{path:?}");
    }
    // PyTorch leaves those of the backward graph until it runs.
    assert_eq!(names(&backward), ["Compile 0/0: lazy backward", "Compile 0/1: lazy backward"]);
    assert!(backward.iter().all(|(path, _)| path.contains(&"CompiledFunctionBackward")), "{backward:?}");
    // A phase of each, and what runs in it, below the compilation.
    let phases = calls_of(&stream, "backend_compile");
    assert_eq!(phases.len(), 2, "{phases:?}");
    for ((path, count), compilation) in phases.iter().zip(expected) {
        assert!(path.contains(&compilation) && *count == 1, "{path:?}");
    }
    let inside = |name: &str| {
        let calls = calls_of(&stream, name);
        assert!(!calls.is_empty(), "{name}");
        calls.into_iter().filter(|(path, _)| path.iter().any(|frame| expected.contains(frame))).count()
    };
    assert!(inside("aten::") > 0);
    assert_eq!(inside("Torch-Compiled Region: "), 0, "what was compiled runs afterwards");
    let regions = calls_of(&stream, "Torch-Compiled Region: ");
    let counts: Vec<_> = names(&regions).into_iter().zip(regions.iter().map(|call| call.1)).collect();
    assert_eq!(counts, [("Torch-Compiled Region: 0/0", 2), ("Torch-Compiled Region: 0/1", 1)]);

    // Each of them is a call of its own in the trace, as long as its tree says.
    for name in expected {
        let of_name = |&&(thread, node, _): &&(u32, u32, u64)| {
            stream.path(thread, node).last().is_some_and(|frame| text(&stream, frame) == name)
        };
        let events: Vec<_> = stream.events.iter().filter(of_name).collect();
        assert_eq!(events.len(), 1, "{name}");
        let &&(thread, node, took) = &events[0];
        assert_eq!(stream.stats[&(thread, node, stackline_recording::Metric::CallTime)].sum, took);
    }
}

/// Without a C++ compiler there is nothing to record, because PyTorch needs one to generate CPU kernels.
fn has_compiler() -> bool {
    let found = Command::new("g++").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "CI needs g++");
        println!("skipped: no g++, which torch.compile makes kernels for the CPU with");
    }
    found
}

#[test]
#[ignore = "long: ./dev test --long"]
fn named_kernels_compute_the_same() {
    let Some(python) = torch().filter(|_| has_compiler()) else { return };
    let program = here("tests/programs/compiled.py");
    let cache = tempfile::tempdir().unwrap();
    let alone = prepared(Command::new(&python).arg(&program).arg("inductor"), cache.path());
    let record = |without: &str| {
        let run = tempfile::tempdir().unwrap();
        let mut command = recorded(&python, run.path());
        command.env("STACKLINE_DISABLE", without);
        let stdout = prepared(command.arg(&program).arg("inductor"), cache.path());
        assert_eq!(stdout, alone, "without {without:?}");
        of_the_program(run.path())
    };

    let stream = record("");
    assert!(stream.sources["kernels"].0, "{:?}", stream.sources);
    let kernels = calls_of(&stream, "graph_");
    let counts = |part: &str| -> Vec<u64> {
        kernels.iter().filter(|(path, _)| path.contains(&part)).map(|call| call.1).collect()
    };
    assert!(names(&kernels).iter().all(|name| name.contains("_cpp_fused_")), "{kernels:?}");
    // The region of each size has one forward and one backward kernel; the backward one is shown below the forward
    // one.
    assert_eq!(counts("Torch-Compiled Region: 0/0"), [2, 2], "{kernels:?}");
    assert_eq!(counts("Torch-Compiled Region: 0/1"), [1, 1], "{kernels:?}");
    assert_eq!(counts("CompiledFunctionBackward").iter().sum::<u64>(), 3, "{kernels:?}");

    // Code with names and code without it are kept apart.
    let stream = record("compilations,kernels");
    assert_eq!(calls_of(&stream, "graph_"), []);
    assert_eq!(calls_of(&stream, "Compile "), []);
    assert!(!stream.sources.contains_key("kernels") && !stream.sources.contains_key("compilations"));
    assert_eq!(calls_of(&stream, "Torch-Compiled Region: ").len(), 2);
}

#[test]
fn user_settings_of_kernel_names_take_precedence() {
    let Some(python) = torch() else { return };
    let run = tempfile::tempdir().unwrap();
    let program = "import os, torch._inductor.config as config; \
        print(config.cpp.enable_kernel_profile, os.environ.get('TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE')); \
        print(os.popen('echo \"[$TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE]\"').read())";
    let output = recorded(&python, run.path()).args(["-c", program]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "True None\n[]\n\n", "the environment stays as it is");
    let run = tempfile::tempdir().unwrap();
    let mut command = recorded(&python, run.path());
    let output = command.args(["-c", program]).env("TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE", "0").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "False 0\n[0]\n\n");
    let (on, detail) = &streams(run.path())[0].sources["kernels"];
    assert!(!on && detail.contains("TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE"), "{detail}");
}

/// A PyTorch that reports no compilations, such as early versions: the run says so, and nothing else changes.
#[test]
fn torch_without_hooks_is_not_changed() {
    let Some(python) = torch() else { return };
    let (run, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (folder, files) in [
        ("_dynamo", ["__init__.py", "callback.py", "utils.py"].as_slice()),
        ("_inductor", &["__init__.py", "config.py"]),
    ] {
        std::fs::create_dir(other.path().join(folder)).unwrap();
        for file in files {
            std::fs::write(other.path().join(folder).join(file), "").unwrap();
        }
    }
    let program = "import sys, torch; torch.__path__.insert(0, sys.argv[1])\n\
        import torch._dynamo.callback, torch._dynamo.utils, torch._inductor.config\n\
        print(torch._dynamo.callback.__file__.startswith(sys.argv[1]), torch.ones(3).sum().item())";
    let output = recorded(&python, run.path()).args(["-c", program]).arg(other.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "True 3.0\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let stream = of_the_program(run.path());
    assert!(stream.ended);
    let state = |name: &str| stream.sources[name].clone();
    assert_eq!(state("compilations"), (false, "this PyTorch does not report its compilations".into()));
    assert_eq!(state("kernels"), (false, "this PyTorch does not name its kernels".into()));
}

/// Spans of compilations and their phases with counts, innermost last.
fn spans(stream: &Stream) -> Vec<(String, u64)> {
    let path = |(path, count): (Vec<&FrameKey>, u64)| {
        let spans = path.iter().filter(|frame| matches!(frame, FrameKey::Span { .. }));
        (spans.map(|frame| text(stream, frame)).collect::<Vec<_>>().join(" > "), count)
    };
    let mut spans: Vec<_> = stream.calls().into_iter().map(path).collect();
    spans.sort();
    spans
}

/// The function that `fake_compiler.py` compiles, with its source location.
const COMPILED: &str = "compiled (fake_compiler.py:108)";

/// An exception of a signal handler belongs to the program, also during a report of a compilation.
#[test]
fn exceptions_of_import_handlers_reach_the_program() {
    let program = here("tests/programs/fake_compiler.py");
    for version in ["3.10", "3.11", "3.12", "3.13"] {
        let Some(python) = interpreters(version).into_iter().next() else { continue };
        let run = tempfile::tempdir().unwrap();
        let output = recorded(&python, run.path()).arg(&program).arg("late").output().unwrap();
        let late = "TimeoutError: it takes too long\n".repeat(4);
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{late}result\n"), "{version}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{version}");
        let name = format!("Compile 9/0: {COMPILED}");
        assert_eq!(spans(&streams(run.path())[0]), [(name.clone(), 1), (format!("{name} > trace"), 1)], "{version}");
    }
}

#[test]
fn compilations_are_reported_in_every_python() {
    let program = here("tests/programs/fake_compiler.py");
    let mut tried = 0;
    for version in ["3.10", "3.11", "3.12", "3.13", "3.14"] {
        let Some(python) = interpreters(version).into_iter().next() else { continue };
        let run = tempfile::tempdir().unwrap();
        let alone = Command::new(&python).arg(&program).output().unwrap();
        let output = recorded(&python, run.path()).arg(&program).output().unwrap();
        assert!(alone.status.success(), "{version}: {}", String::from_utf8_lossy(&alone.stderr));
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status, output.stdout, complaints.as_ref()), (alone.status, alone.stdout, ""), "{version}");

        let stream = of_the_program(run.path());
        assert_eq!(stream.sources["compilations"], (true, "compilations with their functions".into()));
        let each = |name: &str| {
            let name = format!("{name}: {COMPILED}");
            [(name.clone(), 1), (format!("{name} > trace"), 1)]
        };
        let mut expected =
            [each("Compile 0/0"), each("Recompile 0/1"), each("Compile 4/0"), each("Compile 5/0")].concat();
        expected.extend([each("Compile 6/0"), each("Compile 8/0")].concat());
        let recompiled = format!("Recompile 0/1: {COMPILED} > trace > Compile 3/0: lazy backward");
        let unbalanced = format!("Compile 4/0: {COMPILED} > trace > never ended");
        let odd = format!("Compile 6/0: {COMPILED} > trace > ");
        let unnamed = ["Compile ?", "Compile ? > trace"].map(str::to_owned);
        let further = [[format!("{recompiled} > trace"), recompiled, unbalanced, odd].as_slice(), &unnamed].concat();
        expected.extend(further.into_iter().map(|path| (path, 1)));
        expected.push((format!("Compile 7/0: {COMPILED}"), 1));
        expected.sort();
        assert_eq!(spans(&stream), expected, "{version}");
        // Below the function that compiles, whichever frames the word of it came through.
        for (path, _) in stream.calls() {
            let above: Vec<&str> = path.iter().map(|frame| text(&stream, frame)).collect();
            let compilation = above.iter().position(|name| name.contains("ompile ")).unwrap();
            assert_eq!(above[compilation - 1], "compile_inner", "{version}: {above:?}");
        }
        tried += 1;
    }
    if tried == 0 {
        println!("skipped: no interpreter of 3.10 to 3.14 on the PATH or in pyenv");
    }
}
