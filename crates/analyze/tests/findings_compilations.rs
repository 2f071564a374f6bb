//! Compilations of torch.compile in traces without steps, and operators that contain each other.

use crate::findings_support;

use findings_support::{Program, text};
use stackline_findings::{Findings, LargeKind};

/// Twelve iterations without steps, of which three compile for 9 ms; `has_ids`: the compiler records compile ids.
fn compiled(has_ids: bool) -> Findings {
    let mut program = Program::new();
    for number in 0..12 {
        program.python("train.py(10): iteration", |p| {
            if number % 4 == 0 {
                p.op("entire_frame_compile", |p| {
                    if has_ids {
                        p.annotation(&format!("dynamo_data: compile_id=0/{}", number / 4), |_| ());
                    }
                    p.op("Scheduler.codegen (dynamo_timed)", |p| p.work(3000));
                    p.python("subprocess.py(1165): communicate", |p| p.work(6000));
                });
            }
            p.op("aten::mm", |p| p.work(300));
        });
    }
    program.findings()
}

fn operators(found: &Findings) -> Vec<(&str, usize)> {
    let of_operators = found.uncovered.groups.iter().filter(|group| group.kind == LargeKind::Operator);
    of_operators.map(|group| (group.name.as_str(), group.count)).collect()
}

/// Compile ids number the compilations of a function: the first one is no issue, and a wait for a compiler no wait.
#[test]
fn repeated_compilations_are_found_without_steps() {
    let found = compiled(true);
    let codes: Vec<&str> = found.findings.iter().map(|finding| finding.rule.code.as_str()).collect();
    assert_eq!(codes, ["SL026"], "{}", text(&found.findings));
    let again = &found.findings[0];
    assert!(again.title.starts_with("Recompilation: torch.compile compiles again 2 times, 9"), "{}", again.title);
    assert_eq!(again.place.text(), "train.py:10 in iteration");
    assert!((17_900_000..=18_100_000).contains(&again.gain_ns()), "{}", text(&found.findings));
    let note = "First compilations by torch.compile take 29 % of the critical path: ";
    assert!(found.notes.iter().any(|text| text.starts_with(note)), "{:?}", found.notes);
    assert_eq!(operators(&found), [("entire_frame_compile", 1)], "{:?}", found.uncovered);
}

/// Recordings mark compilations by annotations: the work in them belongs to these, too.
#[test]
fn annotated_compilations_are_listed_without_their_parts() {
    let mut program = Program::new();
    for number in 0..12 {
        program.python("train.py(10): iteration", |p| {
            if number % 4 == 0 {
                let again = if number > 0 { "Recompile" } else { "Compile" };
                p.annotation(&format!("{again} 0/{}: f (m.py:3)", number / 4), |p| {
                    p.op("Scheduler.codegen (dynamo_timed)", |p| p.work(3000));
                    p.python("subprocess.py(1165): communicate", |p| p.work(6000));
                });
            }
            p.op("aten::mm", |p| p.work(300));
        });
    }
    let found = program.findings();
    let codes: Vec<&str> = found.findings.iter().map(|finding| finding.rule.code.as_str()).collect();
    assert_eq!(codes, ["SL026"], "{}", text(&found.findings));
    assert_eq!(operators(&found), [("Compile 0/0: f (m.py:3)", 1)], "{:?}", found.uncovered);
}

/// Without ids, no compilation is known to be a repeated one: all are one group, without the compiler's parts.
#[test]
fn compilations_without_ids_are_named_as_compilation() {
    let found = compiled(false);
    assert_eq!(found.findings, [], "{}", text(&found.findings));
    let note = "Compilation by torch.compile takes 88 % of the critical path: ";
    assert!(found.notes.iter().any(|text| text.starts_with(note)), "{:?}", found.notes);
    assert_eq!(operators(&found)[0], ("entire_frame_compile", 3), "{:?}", found.uncovered);
    let names: Vec<&str> = found.uncovered.groups.iter().map(|group| group.name.as_str()).collect();
    assert!(!names.iter().any(|name| name.contains("codegen") || name.contains("communicate")), "{names:?}");
}

/// The only step of a trace may be the first, in which compilation is no issue: the note says so.
#[test]
fn compilation_in_the_only_step_is_a_note_on_that_step() {
    let mut program = Program::new();
    program.step(0, |p| {
        p.op("entire_frame_compile", |p| p.work(9000));
        p.op("aten::mm", |p| p.work(3000));
    });
    let found = program.findings();
    assert!(found.findings.iter().all(|finding| finding.rule.code != "SL026"), "{}", text(&found.findings));
    let note = found.notes.iter().find(|note| note.starts_with("Compilation by torch.compile takes "));
    assert!(note.is_some_and(|note| note.contains("the only marked step may be its first")), "{:?}", found.notes);
}

/// The listed time of an operator includes its callees: those are not listed again.
#[test]
fn operators_within_listed_operators_are_not_listed() {
    let mut program = Program::new();
    for number in 0..4 {
        program.step(number, |p| {
            p.op("my::outer", |p| {
                p.work(100);
                p.op("my::middle", |p| {
                    p.work(4000);
                    p.op("my::inner", |p| p.work(3000));
                });
            });
            p.op("aten::mm", |p| p.work(2000));
        });
    }
    let found = program.findings();
    let names: Vec<&str> = operators(&found).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["my::middle", "aten::mm"], "{:?}", found.uncovered);
    let all: f64 = found.uncovered.groups.iter().map(|group| group.path_percent).sum();
    assert!(all <= 100.0, "{all}");
}
