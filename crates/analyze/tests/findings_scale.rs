//! Rules on many source locations, samples and steps: no location costs a pass over all events. For the larger sizes,
//! such passes would take many times as long as all else.

use crate::findings_support;

use findings_support::Program;
use serde_json::json;
use stackline_findings::Finding;

/// Memory that is asked for from many functions, in a trace without steps: none of them has a share, and one has much.
fn allocations(places: i64) -> Vec<Finding> {
    let mut program = Program::new();
    for round in 0..20 {
        for place in (round * places / 20)..((round + 1) * places / 20) {
            program.python(&format!("model.py({place}): part{place}"), |p| {
                p.op("aten::mm", |p| p.kernel("gemm", 5));
                p.call("cudaMalloc", 1);
                p.call("cudaFree", 1);
            });
        }
        program.python("train.py(3): grow", |p| p.call("cudaMalloc", places));
    }
    program.found("SL024")
}

#[test]
fn allocations_at_many_locations_need_one_pass() {
    for places in [400, 6_000] {
        let found = allocations(places);
        assert_eq!(found.len(), 1, "{places}: {found:?}");
        assert_eq!(found[0].place.text(), "train.py:3 in grow");
    }
}

/// A recording of a program that does the same in many functions, each between two operators and seen by one sample, and much in one.
fn parsing(functions: usize) -> Vec<Finding> {
    let mut program = Program::new();
    for number in 0..4 {
        program.step(number, |p| {
            for function in 0..functions {
                let name = format!("data.py({function}): part{function}");
                p.op(&format!("my::op{function}"), |p| p.work(10));
                p.python(&name, |p| {
                    p.work(300);
                    p.sample(1, &name, 50);
                    p.work(300);
                });
            }
            p.op("aten::mm", |p| p.work(10));
            let (name, each) = ("data.py(900000): parse", 200 * functions as i64);
            p.python(name, |p| {
                for _ in 0..3 {
                    p.work(each);
                    p.sample(1, name, each);
                }
            });
            p.op("aten::add", |p| p.work(10));
        });
    }
    let end = program.now * 1000;
    program.recorded(json!({"machine": 64, "usable_milli": 2000, "loads": [[0, 0, 0], [end, end, end]]}));
    program.found("SL043")
}

#[test]
fn samples_of_many_functions_need_one_pass() {
    for functions in [30, 8_000] {
        let found = parsing(functions);
        assert!(found.iter().any(|found| found.place.text().contains("parse")), "{functions}: {found:?}");
    }
}

/// A recording of many short steps of operators of one name, of which one has more of them.
fn uneven(steps: usize) -> Vec<Finding> {
    let mut program = Program::new();
    for number in 0..steps {
        let calls = if number == steps / 2 { 90 } else { 30 };
        program.step(number, |p| (0..calls).for_each(|_| p.op("aten::mm", |p| p.work(20))));
    }
    program.recorded(json!({"usable_milli": 2000}));
    // One of thousands of steps gains little.
    let found = program.findings();
    found.findings.into_iter().chain(found.small).filter(|found| found.rule.code == "SL031").collect()
}

#[test]
fn calls_of_many_steps_need_one_pass() {
    for steps in [20, 3_000] {
        let found = uneven(steps);
        assert_eq!(found.len(), 1, "{steps}");
        assert!(found[0].title.starts_with(&format!("Slow step: step {} takes ", steps / 2)), "{}", found[0].title);
    }
}
