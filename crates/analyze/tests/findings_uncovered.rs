//! What no finding is about: calls, operators and functions that take much of the time are named.

use crate::findings_support;

use findings_support::{Program, text};
use stackline_analyze::findings::{Findings, LargeKind};

/// Steps of one product of 2 ms that the host waits for, and what `inside` adds to each.
fn steps(mut inside: impl FnMut(&mut Program)) -> Findings {
    let mut program = Program::new();
    for number in 0..4 {
        program.step(number, |p| {
            p.python("train.py(10): step", |p| {
                p.op("aten::mm", |p| p.kernel("gemm", 2000));
                inside(p);
                p.op("aten::item", |p| p.sync("cudaStreamSynchronize"));
            });
        });
    }
    program.findings()
}

fn named(found: &Findings) -> Vec<(LargeKind, &str)> {
    found.uncovered.groups.iter().map(|group| (group.kind, group.name.as_str())).collect()
}

/// A call that no rule knows takes most of a step: removing it gains as much as it takes.
#[test]
fn a_call_that_takes_most_of_the_time_is_named() {
    let found = steps(|p| p.python("data.py(7): prepare", |p| p.op("my::op", |p| p.call("hipMystery", 8000))));
    let first = found.uncovered.groups.first().unwrap_or_else(|| panic!("{}", text(&found.findings)));
    assert_eq!((first.kind, first.name.as_str(), first.count), (LargeKind::Call, "hipMystery", 4), "{found:?}");
    assert_eq!(first.place.text(), "data.py:7 in prepare");
    // A step of 8,000 µs in the call and 2,000 in the kernel beside it.
    let gain = first.gain.unwrap();
    assert!((5_900_000..=8_100_000).contains(&gain.ns), "{gain:?}");
    assert!(first.percent > 75.0 && first.path_percent > 75.0, "{first:?}");
    // The operator and the function around it say nothing more.
    assert!(
        !named(&found).iter().any(|(_, name)| *name == "my::op" || name.contains("prepare")),
        "{:?}",
        named(&found)
    );
}

/// A copy of a host that waits for the GPU all the time: it is named, and that its removal gains little is said.
#[test]
fn a_call_that_only_waits_is_named_with_what_it_gains() {
    let mut program = Program::new();
    for number in 0..4 {
        program.step(number, |p| {
            p.op("my::decode", |p| p.kernel("spin", 9000));
            p.op("my::copy", |p| p.pageable(2, 4096));
        });
    }
    let found = program.findings();
    let call = found.uncovered.groups.iter().find(|group| group.name == "cudaMemcpyAsync");
    assert!(
        call.is_some_and(|call| call.percent > 90.0 && call.path_percent < 5.0),
        "{}\n{:?}",
        text(&found.findings),
        found.uncovered
    );
    assert!(call.unwrap().gain.is_some_and(|gain| gain.ns < 500_000), "{call:?}");
}

/// What findings are about is not told again, and what is short is nothing.
#[test]
fn nothing_is_named_twice() {
    let covered = steps(|p| p.op("aten::nonzero", |p| p.sync("cudaStreamSynchronize")));
    assert!(!named(&covered).iter().any(|(_, name)| *name == "cudaStreamSynchronize"), "{:?}", named(&covered));
    let mut short = Program::new();
    short.step(0, |p| p.op("my::op", |p| p.call("hipMystery", 400)));
    assert_eq!(named(&short.findings()), []);
}

/// Where rules cover most of the time small things are not named.
#[test]
fn small_groups_are_named_only_where_findings_cover_little() {
    let found = steps(|p| {
        p.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", |p| {
            p.op("aten::stack", |p| p.work(20_000));
        });
        p.python("train.py(40): log", |p| p.work(1500));
    });
    assert!(found.findings.iter().any(|f| f.rule.code == "SL009"));
    assert!(!found.uncovered.is_most() && named(&found).is_empty(), "{:?}", found.uncovered);
    let mut program = Program::new();
    for number in 0..4 {
        program.step(number, |p| (0..5).for_each(|i| p.op(&format!("my::part{i}"), |p| p.work(3000))));
    }
    let found = program.findings();
    assert!(found.uncovered.is_most(), "{:?} {}", found.uncovered, text(&found.findings));
    let operators = named(&found).iter().filter(|(kind, _)| *kind == LargeKind::Operator).count();
    assert_eq!(operators, 5, "{:?}", found.uncovered);
    let gains: Vec<i64> = found.uncovered.groups.iter().map(|group| group.gain.map_or(0, |gain| gain.ns)).collect();
    assert!(gains.is_sorted_by(|a, b| a >= b) && gains[0] > 2_500_000, "{gains:?}");
}

/// The real file of the report: one call of 463 of 474 ms.
#[test]
fn the_copy_of_a_real_trace_is_named() {
    let Some(corpus) = std::env::var_os("STACKLINE_CORPUS") else { return };
    let path = std::path::Path::new(&corpus).join("kineto/amd-mi300-sglang-decode-graph-replay.json.gz");
    let Ok(bytes) = std::fs::read(path) else { return };
    let trace = stackline_ingest::read_bytes("decode", &bytes, &Default::default()).unwrap();
    let found = findings_support::find(&trace, &[]);
    assert!(found.uncovered.is_most() && found.findings.is_empty());
    let call = found.uncovered.groups.iter().find(|group| group.name == "hipMemcpyWithStream").unwrap();
    assert!((97.0..99.0).contains(&call.percent) && call.count == 1, "{call:?}");
    // The host waits in it for a kernel that spins: without the call the next one would wait.
    let first = &found.uncovered.groups[0];
    assert!(first.kind == LargeKind::Gpu && first.name.contains("resolve_future_token_ids"), "{first:?}");
}
