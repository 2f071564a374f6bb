//! Rules about what is done again in each step, or again and more.

use crate::findings_support;

use findings_support::{Program, text};
use serde_json::json;
use stackline_analyze::findings::Finding;

/// Six steps of a product of 1 ms on the host, and what `inside` adds to each.
fn steps(mut inside: impl FnMut(&mut Program, usize)) -> Program {
    let mut program = Program::new();
    for number in 0..6 {
        program.step(number, |p| {
            p.python("train.py(10): step", |p| {
                p.op("aten::mm", |p| p.work(1000));
                inside(p, number);
            });
        });
    }
    program
}

fn shaped(p: &mut Program, name: &str, size: usize, us: i64) {
    p.op_with(name, json!({"Input Dims": [[size, size]]}), |p| p.work(us));
}

/// A mask of `size` that is built by three operators, with Python between them.
fn mask(p: &mut Program, function: &str, size: usize) {
    p.python(function, |p| {
        shaped(p, "aten::ones", size, 100);
        p.work(50);
        shaped(p, "aten::tril", size, 100);
        p.work(50);
        shaped(p, "aten::masked_fill", size, 100);
    });
}

#[test]
fn constants_that_are_built_in_each_step() {
    let masks = |size: fn(usize) -> usize| steps(move |p, number| mask(p, "model.py(30): causal_mask", size(number)));
    let same = masks(|_| 512);
    let found = same.of("SL045");
    insta::assert_snapshot!(text(&found));
    let saved = same.findings().step_ns - steps(|_, _| ()).findings().step_ns;
    let gain = found[0].gain.unwrap();
    assert!((gain.ns - saved).abs() < 5_000 && gain.low_ns < 320_000, "{saved}: {}", text(&found));
    assert_eq!(masks(|number| 512 + number).of("SL045"), [], "its size grows");
    let once = steps(|p, number| {
        if number == 0 {
            mask(p, "model.py(30): causal_mask", 512);
        }
    });
    assert_eq!(once.of("SL045"), []);
    // A layer that makes a tensor, too, computes with others; random numbers are none that can be kept.
    for other in ["aten::linear", "aten::bernoulli_", "aten::randn", "aten::scatter_"] {
        let mixed = steps(|p, _| {
            p.python("model.py(50): forward", |p| {
                shaped(p, "aten::zeros", 64, 100);
                shaped(p, other, 64, 200);
            });
        });
        assert_eq!(mixed.of("SL045"), [], "{other}");
    }
}

/// `torch.tensor(list)`: what it takes lies before its operators, in the builtin function.
#[test]
fn lists_that_become_tensors_in_each_step() {
    let lists = steps(|p, _| {
        p.python("model.py(70): weights", |p| {
            p.python("<built-in method tensor of type object at 0x7f00>", |p| {
                p.work(400);
                p.op("aten::empty", |p| p.work(2));
                p.op("aten::lift_fresh", |p| p.work(2));
            });
        });
    });
    let found = lists.of("SL045");
    let [only] = &found[..] else { panic!("{}", text(&found)) };
    assert!((400_000..=430_000).contains(&only.gain_ns()), "{}", text(&found));
    assert_eq!(only.place.text(), "model.py:70 in weights");
}

/// A cache of `old` rows to which one is added each time.
fn cat(p: &mut Program, old: i64, new: i64, us: i64) {
    p.python("cache.py(5): update", |p| {
        p.op_with("aten::cat", json!({"Input Dims": [[[old, 64], [new, 64]], []]}), |p| p.work(us));
    });
}

fn growing(first: i64, grows: i64) -> Vec<Finding> {
    let mut old = first;
    let program = steps(|p, _| {
        (0..2).for_each(|_| cat(p, old, 1, 100));
        old += grows;
    });
    program.of("SL046")
}

#[test]
fn caches_that_grow_by_cat() {
    let found = growing(99, 1);
    insta::assert_snapshot!(text(&found));
    // Of 200 µs a step two parts of some hundred are left.
    assert!((190_000..=205_000).contains(&found[0].gain_ns()), "{}", text(&found));
    assert_eq!(growing(99, 0), [], "of one size each time");
    assert_eq!(growing(99, 7), [], "what came out is not what goes in");
}
