//! Links of backward nodes to forward operators: beyond the limit, and after the forward thread has ended.

use crate::support;

use stackline_recording::FrameKey;
use std::collections::BTreeMap;
use std::path::Path;
use support::{Stream, here, recorded, streams, torch};

/// Record a program of `programs/` with an argument.
fn run(python: &Path, program: &str, argument: u64, mode: &str) -> Stream {
    let run = tempfile::tempdir().unwrap();
    let mut command = recorded(python, run.path());
    command.env("STACKLINE_MODE", mode).arg(here("tests/programs").join(program)).arg(argument.to_string());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    streams(run.path()).remove(0)
}

/// Number of backward nodes of products, by the name of the operator that they are below; the empty name if there is
/// none.
fn products(stream: &Stream) -> BTreeMap<&str, u64> {
    let mut products: BTreeMap<&str, u64> = BTreeMap::new();
    for (path, count) in stream.calls() {
        if let [.., around, FrameKey::Backward { name }] = path[..]
            && stream.text(*name) == "MulBackward0"
        {
            let operator = if let FrameKey::Operator { name } = around { stream.text(*name) } else { "" };
            *products.entry(operator).or_default() += count;
        }
    }
    products
}

/// Number of lost links that are counted.
fn lost(stream: &Stream) -> u64 {
    stream.lost.get("forward_links_over_limit").copied().unwrap_or(0)
}

#[test]
#[ignore = "long: ./dev test --long"]
fn links_beyond_the_bound_are_counted() {
    let Some(python) = torch() else { return };
    for (operators, expected) in [(2000, 0), (140_000, 140_000 - (1 << 17))] {
        let stream = run(&python, "forward_links.py", operators, "profile");
        let products = products(&stream);
        assert_eq!(products.values().sum::<u64>(), operators, "{products:?}");
        assert_eq!(products["aten::mul"] + expected, operators, "lost: {:?}", stream.lost);
        assert_eq!(lost(&stream), expected);
    }
}

#[test]
fn links_to_ended_threads_are_right_or_counted() {
    let Some(python) = torch() else { return };
    // The last pass has the backward nodes of a product and of a sum.
    for (ended_before, mode, lost_links) in [(0, "profile", 0), (70, "profile", 2), (0, "trace", 2)] {
        let stream = run(&python, "forward_threads.py", ended_before, mode);
        // A node without a link is below PyTorch's own operator for it.
        let evaluation = "autograd::engine::evaluate_function: MulBackward0";
        let expected = if lost_links == 0 { vec![("aten::mul", 2)] } else { vec![("aten::mul", 1), (evaluation, 1)] };
        let products: Vec<(&str, u64)> = products(&stream).into_iter().collect();
        assert_eq!((products, lost(&stream)), (expected, lost_links), "{mode}, {ended_before} threads before");
    }
}
