//! Time of module imports at the start of recorded programs.

use crate::findings_support::Program;
use serde_json::json;
use stackline_critical_path::exact::WindowChoice;
use stackline_model::Trace;
use stackline_timeline::Scope;
use stackline_timeline::steps::{StartUp, StepSelection};

const IMPORT: &str = "<frozen importlib._bootstrap>(1165): _find_and_load";

/// A recorded program that reads data, or imports modules, for given times in µs, and then computes, in steps or not.
fn program(start_up: &[(&str, i64)], with_steps: bool) -> Trace {
    let mut program = Program::new();
    program.recorded(json!({}));
    for &(function, us) in start_up {
        program.python(function, |p| p.work(us));
    }
    for number in 0..4 {
        let work = |p: &mut Program| p.op("aten::mm", |p| p.work(1000));
        if with_steps { program.step(number, work) } else { work(&mut program) }
    }
    program.trace()
}

#[test]
fn start_up_counts_only_the_time_of_imports() {
    // Each function takes 2 µs more than its work.
    let start_up = StartUp::from_trace(&program(&[("train.py(5): read", 60_000), (IMPORT, 100)], true)).unwrap();
    assert_eq!(start_up, StartUp { before_ns: 60_104_000, imports_ns: Some(102_000) });
    let text = start_up.to_string();
    assert!(text.contains(" import modules and ") && text.ends_with(" are outside of imports"), "{text}");
    let without = StartUp::from_trace(&program(&[("train.py(5): read", 60_000)], true)).unwrap();
    assert_eq!(without, StartUp { before_ns: 60_002_000, imports_ns: None });
}

#[test]
fn windows_keep_start_up_outside_of_imports() {
    let select = |start_up: &[(&str, i64)]| StepSelection::select(&program(start_up, false), &Scope::default());
    let mostly_data = select(&[("train.py(5): read", 60_000), (IMPORT, 100)]);
    assert_eq!((mostly_data.choice, mostly_data.notes), (WindowChoice::Whole, Vec::<String>::new()));
    let mostly_imports = select(&[(IMPORT, 60_000), ("train.py(5): read", 100), (IMPORT, 1000)]);
    assert_eq!(mostly_imports.choice, WindowChoice::From(61_106_000));
    assert!(mostly_imports.notes[0].ends_with(" and starts up outside of imports for 102.0 µs"), "{mostly_imports:?}");
    // The data is read after the imports that count.
    let both = select(&[(IMPORT, 1000), ("train.py(5): read", 60_000), (IMPORT, 100)]);
    assert_eq!(both.choice, WindowChoice::From(1_002_000));
}
