//! Forward passes that no backward pass follows: evaluations in training steps, and autograd's graph in inference.

use crate::findings_support;

use findings_support::{Program, text};
use serde_json::json;
use stackline_findings::{Finding, GainMethod};
use stackline_timeline::confidence::Confidence;

/// A module of one product of 1 ms on the host; its number is that of its node, none where autograd does not record.
fn linear(p: &mut Program, number: Option<i64>) {
    let args = number.map_or(json!({}), |number| json!({"Sequence number": number, "Fwd thread id": 0}));
    p.python("nn.Module: Linear_0", |p| p.op_with("aten::linear", args, |p| p.work(998)));
}

/// The backward pass of a node.
fn backward(p: &mut Program, number: i64) {
    let args = json!({"Sequence number": number, "Fwd thread id": 1});
    p.op_with("autograd::engine::evaluate_function: AddmmBackward0", args, |p| p.work(998));
}

/// Six steps that train for 2 ms, and do something else in those that a test passes.
fn training(is_in: impl Fn(usize) -> bool, other: impl Fn(&mut Program, i64)) -> Program {
    let mut program = Program::new();
    for number in 0..6 {
        let node = 10 * number as i64;
        program.step(number, |p| {
            p.python("train.py(30): train_step", |p| {
                linear(p, Some(node));
                backward(p, node);
            });
            if is_in(number) {
                other(p, node + 1);
            }
        });
    }
    program
}

fn evaluation(function: &str, numbered: bool) -> Vec<Finding> {
    let name = format!("train.py(12): {function}");
    training(|_| true, |p, node| p.python(&name, |p| linear(p, numbered.then_some(node)))).found("SL047")
}

#[test]
fn evaluations_in_each_step() {
    let found = evaluation("evaluate", false);
    insta::assert_snapshot!(text(&found));
    assert_eq!(found[0].place.text(), "train.py:12 in evaluate");
    // The program has no GPU, so its time is absent instead of 0.
    assert!(found[0].facts.iter().all(|fact| !fact.name.contains("GPU")), "{}", text(&found));
    // 1 ms of 3; in every tenth step it gains a tenth less.
    let gain = found[0].gain.unwrap();
    assert!((995_000..=1_010_000).contains(&gain.likely_ns) && (890_000..=912_000).contains(&gain.low_ns), "{gain:?}");
    // With autograd switched on no backward pass follows either.
    assert_eq!(evaluation("evaluate", true).len(), 1);
}

#[test]
fn untrained_networks_have_a_speculative_gain() {
    let found = evaluation("teacher_logits", false);
    assert_eq!(
        (found[0].gain_method(), found[0].confidence),
        (GainMethod::Speculative, Confidence::Low),
        "{}",
        text(&found)
    );
    assert!(found[0].title.starts_with("Forward pass without a backward pass in each step"));
}

/// Work after the optimizer lies in the next step if steps end with it.
#[test]
fn first_step_may_lack_the_evaluation() {
    let evaluate = |p: &mut Program| p.python("train.py(12): evaluate", |p| linear(p, None));
    assert_eq!(training(|number| number > 0, |p, _| evaluate(p)).found("SL047").len(), 1);
}

/// Every third step evaluates: the gain of a step is a third of an evaluation. Other forward work in some steps is not reported.
#[test]
fn evaluations_in_some_steps() {
    let run = |function: &str| {
        let name = format!("train.py(12): {function}");
        training(|number| number % 3 == 0, move |p, _| p.python(&name, |p| linear(p, None))).found("SL047")
    };
    let found = run("evaluate");
    let [only] = &found[..] else { panic!("{}", text(&found)) };
    assert!(only.title.starts_with("Evaluation in 2 of 6 steps: "), "{}", only.title);
    assert!((330_000..=340_000).contains(&only.gain_ns()), "{}", text(&found));
    assert_eq!(only.confidence, Confidence::Low);
    assert_eq!(run("teacher_logits"), []);
    let evaluate = |p: &mut Program| p.python("train.py(12): evaluate", |p| linear(p, None));
    assert_eq!(training(|number| number == 3, |p, _| evaluate(p)).found("SL047"), [], "once");
}

/// `torch.autograd.Function` runs its forward without autograd, and has a backward of its own.
#[test]
fn autograd_functions_count_as_trained() {
    let program = training(
        |_| true,
        |p, node| {
            let args = json!({"Sequence number": node, "Fwd thread id": 0});
            p.op_with("Swish", args, |p| p.python("model.py(5): forward", |p| linear(p, None)));
            backward(p, node);
        },
    );
    assert_eq!(program.found("SL047"), []);
}

/// Trained in the same function; the first pass of checkpointing; an optimizer that multiplies.
#[test]
fn forward_passes_that_are_no_evaluation() {
    let within = |outer: &'static str| {
        training(|_| true, move |p, _| p.python(outer, |p| p.python("model.py(5): forward", |p| linear(p, None))))
    };
    assert_eq!(within("torch/utils/checkpoint.py(200): checkpoint").found("SL047"), []);
    assert_eq!(within("torch/optim/optimizer.py(465): wrapper").found("SL047"), []);
    let both = training(
        |_| true,
        |p, node| {
            p.python("train.py(50): losses", |p| {
                linear(p, Some(node));
                linear(p, None);
                backward(p, node);
            });
        },
    );
    assert_eq!(both.found("SL047"), []);
}

/// A helper of the user's own in a module that is trained, such as one that makes a mask, runs no module.
#[test]
fn helpers_of_modules_are_no_forward_passes() {
    let mut program = Program::new();
    for number in 0..6 {
        let node = 10 * number as i64;
        program.step(number, |p| {
            p.python("train.py(30): train_step", |p| {
                p.python("nn.Module: Net_0", |p| {
                    p.python("model.py(20): forward", |p| {
                        p.python("model.py(40): validate_mask", |p| p.op("aten::triu", |p| p.work(998)));
                        linear(p, Some(node));
                    });
                });
                backward(p, node);
            });
        });
    }
    assert_eq!(program.found("SL047"), []);
}

#[test]
fn partial_words_do_not_mark_an_evaluation() {
    for name in ["retrieval", "latest_logits", "attention_scores", "invalidate"] {
        let found = evaluation(name, false);
        assert_eq!(
            (found[0].gain_method(), found[0].confidence),
            (GainMethod::Speculative, Confidence::Low),
            "{name}: {}",
            text(&found)
        );
    }
    for name in ["run_test", "Trainer.validate", "evalModel"] {
        assert!(evaluation(name, false)[0].title.starts_with("Evaluation"), "{name}");
    }
}

/// Steps of 20 products of 100 µs.
fn serving(numbered: bool, grows: bool) -> Program {
    serving_with("aten::linear", numbered, grows)
}

fn serving_with(operator: &str, numbered: bool, grows: bool) -> Program {
    let mut program = Program::new();
    for step in 0..4 {
        program.step(step, |p| {
            p.python("serve.py(9): serve", |p| {
                for i in 0..20 {
                    let number = if grows { 20 * step as i64 + i } else { 0 };
                    let args =
                        if numbered { json!({"Sequence number": number, "Fwd thread id": 0}) } else { json!({}) };
                    p.op_with(operator, args, |p| p.work(98));
                }
            });
        });
    }
    program
}

#[test]
fn autograd_in_inference() {
    let found = serving(true, true).found("SL048");
    insta::assert_snapshot!(text(&found));
    // 19 or 20 nodes of 2.4 µs (0.8 to 5) a step.
    let gain = found[0].gain.unwrap();
    let near = |ns: i64, us: i64| (ns - us * 1000).abs() < 2_500;
    assert!(near(gain.likely_ns, 48) && near(gain.low_ns, 16) && near(gain.high_ns, 99), "{gain:?}");
}

/// Numbers go on while nothing is recorded, and may be anything in damaged traces: an operator makes one node at most.
#[test]
fn unrecorded_nodes_are_excluded() {
    let finding_after_jump = |jump: i64| {
        let mut program = Program::new();
        for step in 0..4_i64 {
            program.step(step as usize, |p| {
                for i in 0..20 {
                    let number = 20 * step + i + if step >= 2 { jump } else { 0 };
                    let args = json!({"Sequence number": number, "Fwd thread id": 0});
                    p.op_with("aten::linear", args, |p| p.work(98));
                }
            });
        }
        let found = program.found("SL048");
        (found[0].title.clone(), found[0].gain.unwrap())
    };
    let (title, gain) = finding_after_jump(0);
    assert_eq!(finding_after_jump(100_000), (title.clone(), gain));
    assert_eq!(finding_after_jump(1 << 62), (title.clone(), gain));
    assert!(title.starts_with("Autograd in inference: 19 graph nodes per step"), "{title}");
}

/// Under no_grad operators have no number; where nothing needs gradients the number does not grow; with a backward pass it is training.
#[test]
fn inference_without_a_graph() {
    assert_eq!(serving(false, false).found("SL048"), []);
    assert_eq!(serving(true, false).found("SL048"), []);
    assert_eq!(training(|_| false, |_, _| ()).found("SL048"), []);
    // A torch.autograd.Function, as in a kernel for mixtures of experts, makes its node under inference_mode, too.
    assert_eq!(serving_with("TopK", true, true).found("SL048"), []);
    let mut optimized = serving(true, true);
    optimized.annotation("Optimizer.step#SGD.step", |p| p.work(10));
    assert_eq!(optimized.found("SL048"), []);
}
