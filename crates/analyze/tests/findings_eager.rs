//! Rules about launches of programs that compile nothing, also if equal in each step, and about concurrent host work.

use crate::findings_kernels::steps;
use crate::findings_support;

use findings_support::{Program, text};
use serde_json::json;
use stackline_findings::{Reason, Requirement};

/// The backward pass adds to gradients that are there: without zeros the first one of a step has nothing to add to.
#[test]
fn additions_to_zeroed_gradients() {
    let training = |zeroes: bool, with_shapes: bool| {
        let mut node = 0;
        steps(move |p| {
            if zeroes {
                p.annotation("Optimizer.zero_grad#SGD.zero_grad", |p| {
                    let shapes = if with_shapes {
                        json!({"Input Dims": [vec![[8, 8]; 10]]})
                    } else {
                        json!({"Input Dims": [[]]})
                    };
                    p.op_with("aten::_foreach_zero_", shapes, |p| p.kernel("multi_tensor_apply_kernel", 100));
                });
            }
            for pass in 0..2 {
                node += 1;
                p.op_with("aten::mm", json!({"Sequence number": node, "Fwd thread id": 0}), |p| p.kernel("gemm", 200));
                let args = json!({"Sequence number": node, "Fwd thread id": 1});
                p.op_with("autograd::engine::evaluate_function: MmBackward0", args, |p| p.kernel("gemm", 200));
                for _ in 0..if zeroes || pass > 0 { 10 } else { 0 } {
                    p.op("torch::autograd::AccumulateGrad", |p| {
                        p.op("aten::add_", |p| p.kernel("vectorized_elementwise_kernel", 50));
                    });
                }
            }
        })
    };
    let saved = training(true, true).findings().step_ns - training(false, true).findings().step_ns;
    for (with_shapes, title) in [(true, " fills 10 gradients "), (false, " fills gradients ")] {
        let found = training(true, with_shapes).found("SL042");
        let [only] = &found[..] else { panic!("{}", text(&found)) };
        assert!(only.title.contains(title), "{}", only.title);
        let gain = only.gain.unwrap();
        assert!((gain.likely_ns - saved).abs() <= 30_000 && gain.low_ns <= 110_000, "{saved}: {}", text(&found));
    }
}

/// A program that compiles nothing: chains of three that take most of its time. Reductions between them may become part, too.
#[test]
fn chains_in_an_eager_program() {
    let eager = "void at::native::vectorized_elementwise_kernel<4, add>";
    let reduce = "void at::native::reduce_kernel<512, 1, mean>";
    let chains = |kernels: &[&str]| {
        steps(|p| {
            for kernel in kernels {
                p.op("aten::mul", |p| p.kernel(kernel, 100));
            }
            p.op("aten::mm", |p| p.kernel("gemm", 100));
        })
    };
    let found = chains(&["", eager, eager, eager, eager, reduce]);
    let of = found.found("SL036");
    let [only] = &of[..] else { panic!("{}", text(&of)) };
    assert_eq!(only.title, "Not compiled: 3 elementwise kernels per step (300.0 µs) could be fused");
    let gain = only.gain.unwrap();
    assert!((gain.likely_ns - 300_000).abs() <= 5_000 && (gain.high_ns - 400_000).abs() <= 5_000, "{gain:?}");
    assert_eq!(chains(&[eager, eager, "gemm", eager, eager]).found("SL036"), [], "two are there by chance");
    let mostly_products: &[&str] = &[eager, eager, eager, "gemm"];
    let little = steps(|p| {
        mostly_products.iter().for_each(|kernel| p.op("aten::mul", |p| p.kernel(kernel, 10)));
        p.op("aten::mm", |p| p.kernel("gemm", 1000));
    });
    assert_eq!(little.found("SL036"), []);
}

/// A first call loads and tunes: the others are the cost of a step. Collections of garbage are SL025's.
#[test]
fn work_of_the_host_without_its_first_call() {
    let mut first = true;
    let program = steps(|p| {
        p.python("train.py(50): features", |p| p.work(if std::mem::take(&mut first) { 20_000 } else { 1_000 }));
        p.op("aten::mm", |p| {
            p.work(20_000);
            p.kernel("gemm", 300);
        });
    });
    let of = program.found("SL005");
    assert!(of.iter().all(|found| found.place.text() != "train.py:50 in features"), "1 ms of 21: {}", text(&of));
    let collects = steps(|p| {
        p.python("train.py(60): tidy", |p| p.python("<built-in function collect>", |p| p.work(1_000)));
        p.op("aten::mm", |p| p.kernel("gemm", 300));
    });
    assert_eq!(collects.found("SL005"), []);
}

/// Time of callees that a function calls many times counts for that function: neither takes much by itself.
#[test]
fn work_of_the_host_in_many_small_calls() {
    let program = steps(|p| {
        p.op("aten::mm", |p| p.kernel("gemm", 20));
        p.python("train.py(50): features", |p| {
            p.python("<built-in function sum>", |p| {
                (0..100).for_each(|_| p.python("train.py(51): <genexpr>", |p| p.work(8)));
            });
        });
    });
    let found = program.found("SL005");
    let [only] = &found[..] else { panic!("{}", text(&found)) };
    assert_eq!(only.place.text(), "train.py:50 in features");
    assert!((only.gain_ns() - 502_000).abs() <= 5000, "{}", text(&found));
}

#[test]
fn launches_of_compiled_code() {
    let model = |around: Option<&'static str>| {
        steps(move |p| {
            let body = |p: &mut Program| {
                for _ in 0..100 {
                    p.op("aten::add", |p| {
                        p.work(8);
                        p.kernel("add", 3);
                    });
                }
            };
            match around {
                Some(name) => p.annotation(name, body),
                None => body(p),
            }
        })
    };
    let advice = |around| model(around).found("SL012")[0].rule.advice.clone();
    assert!(advice(None).starts_with("Launch fewer kernels: use torch.compile"));
    assert!(advice(Some("Torch-Compiled Region: 0/0")).starts_with("Replay the compiled code as CUDA graphs"));
    // Neither of two functions has most of it, and no operator is the place of all.
    let two = steps(|p| {
        for name in ["model.py(3): encode", "model.py(9): decode"] {
            p.python(name, |p| (0..60).for_each(|_| p.op("aten::add", |p| p.kernel("add", 3))));
        }
    });
    assert_eq!(two.found("SL012")[0].place.text(), "");
}

/// Operators of a few µs may launch kernels that the whole step waits for.
#[test]
fn constants_with_gpu_cost() {
    let masks = |us: i64| {
        steps(move |p| {
            p.python("model.py(30): causal_mask", |p| {
                for name in ["aten::ones", "aten::triu"] {
                    let sizes = json!({"Input Dims": [[16384, 16384]]});
                    p.op_with(name, sizes, |p| p.kernel("mask", us));
                }
            });
            p.op("aten::mm", |p| p.kernel("gemm", 8000));
            p.sync("cudaDeviceSynchronize");
        })
    };
    let found = masks(1600).found("SL045");
    let [only] = &found[..] else { panic!("{}", text(&found)) };
    assert!((3_100_000..=3_210_000).contains(&only.gain_ns()), "{}", text(&found));
    assert!(only.title.contains("29 % of the critical path"), "{}", text(&found));
    assert_eq!(masks(30).found("SL045"), [], "little");
}

/// Host work in a model is nothing for a worker of the loader.
#[test]
fn work_of_the_host_in_a_model() {
    let mask = |p: &mut Program| {
        p.python("train.py(30): build_mask", |p| {
            p.work(1000);
            p.op("aten::fill_", |p| p.kernel("fill", 5));
        });
        p.op("aten::mm", |p| p.kernel("gemm", 300));
    };
    let advice = |program: &Program| {
        let found = program.found("SL005");
        let [only] = &found[..] else { panic!("{}", text(&found)) };
        (only.rule.advice.clone(), only.facts[0].name.clone())
    };
    let outside = steps(mask);
    assert!(advice(&outside).0.starts_with("Move the work into a DataLoader worker"), "{:?}", advice(&outside));
    let inside = steps(|p| p.python("nn.Module: Model_0", mask));
    let annotated = steps(|p| {
        p.annotation("DistributedDataParallel.forward", |p| {
            p.op("aten::add", |p| {
                p.work(1000);
                p.kernel("add", 5);
            });
        });
        p.op("aten::mm", |p| p.kernel("gemm", 300));
    });
    for program in [inside, annotated] {
        let (advice, calls) = advice(&program);
        assert!(advice.starts_with("Shorten the host work of the model") && !advice.contains("worker"), "{advice}");
        assert_eq!(calls, "calls of the function inside of the model's forward pass");
    }
}

/// Launches without an operation took time of the GPU, too: nothing is compared with it.
#[test]
fn unrecorded_gpu_work_is_not_small() {
    let program = steps(|p| {
        p.python("train.py(30): build_mask", |p| {
            p.call("cudaLaunchKernel", 5);
            p.work(1000);
            p.op("aten::fill_", |p| p.kernel("fill", 5));
        });
        p.op("aten::mm", |p| p.kernel("gemm", 300));
    });
    let found = program.findings();
    assert!(found.findings.iter().all(|found| found.rule.code != "SL005"), "{}", text(&found.findings));
    for code in ["SL005", "SL012"] {
        let of = found.unchecked.iter().find(|of| of.rule.code == code);
        assert!(of.is_some_and(|of| matches!(of.reason, Reason::Missing(Requirement::GpuRecords))), "{code}: {of:?}");
    }
    let expected = "GPU times are incomplete (3 of 9 launches have no device record), so rules that use GPU times \
        were not checked: ";
    assert!(found.notes.iter().any(|note| note.starts_with(expected)), "{:?}", found.notes);
}

/// Five steps that the optimizer ends, with work of the program before and after it in some of them.
fn steps_of_optimizer(before: impl Fn(&mut Program, usize), after: impl Fn(&mut Program, usize)) -> Program {
    let mut program = Program::new();
    for at in 0..5 {
        program.python("train.py(10): step", |p| {
            for name in ["aten::linear", "aten::relu", "aten::addmm", "aten::mean"] {
                p.op(name, |p| p.work(250));
            }
            before(p, at);
            p.annotation("Optimizer.step#SGD.step", |p| p.op("aten::_foreach_add_", |p| p.work(50)));
            after(p, at);
        });
    }
    program
}

/// The first step has no work that follows the optimizer, the last one ends before it.
#[test]
fn constants_built_after_the_optimizer() {
    let mask = |p: &mut Program| {
        p.python("model.py(30): causal_mask", |p| {
            for name in ["aten::ones", "aten::triu"] {
                p.op_with(name, json!({"Input Dims": [[512, 512]]}), |p| p.work(200));
            }
        });
    };
    let after = steps_of_optimizer(|_, _| (), |p, _| mask(p));
    assert_eq!(after.findings().steps, 5, "the first one, too");
    let after = after.found("SL045");
    assert_eq!(after.len(), 1, "{}", text(&after));
    assert_eq!(after[0].place.text(), "model.py:30 in causal_mask", "{}", text(&after));
    // The first step has the second half alone.
    let both = steps_of_optimizer(|p, _| mask(p), |p, _| mask(p)).found("SL045");
    assert_eq!(both.len(), 1, "{}", text(&both));
    let in_some = steps_of_optimizer(
        |_, _| (),
        |p, at| {
            if at != 1 {
                mask(p);
            }
        },
    )
    .found("SL045");
    assert_eq!(in_some, [], "not in the step between");
}
