//! Rules about work that is repeated in each step, or that grows with each.

use crate::findings_support;

use findings_support::{Program, text};
use serde_json::json;
use stackline_findings::Finding;
use stackline_timeline::source_location::source_location_of;

/// Six steps of a product of 1 ms on the host, with the work of `inside` in each.
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
fn constants_built_in_each_step() {
    let masks = |size: fn(usize) -> usize| steps(move |p, number| mask(p, "model.py(30): causal_mask", size(number)));
    let same = masks(|_| 512);
    let found = same.found("SL045");
    insta::assert_snapshot!(text(&found));
    let saved = same.findings().step_ns - steps(|_, _| ()).findings().step_ns;
    let gain = found[0].gain.unwrap();
    assert!((gain.likely_ns - saved).abs() < 5_000 && gain.low_ns < 320_000, "{saved}: {}", text(&found));
    assert_eq!(masks(|number| 512 + number).found("SL045"), [], "its size grows");
    let once = steps(|p, number| {
        if number == 0 {
            mask(p, "model.py(30): causal_mask", 512);
        }
    });
    assert_eq!(once.found("SL045"), []);
    // Batches hold other values each time, whatever they are made of.
    let collated =
        steps(|p, _| p.python("torch/utils/data/_utils/fetch.py(30): fetch", |p| mask(p, "data.py(38): collate", 512)));
    assert_eq!(collated.found("SL045"), []);
    // A layer that makes a tensor, too, computes with others; random numbers are none that can be kept.
    for other in ["aten::linear", "aten::bernoulli_", "aten::randn", "aten::scatter_"] {
        let mixed = steps(|p, _| {
            p.python("model.py(50): forward", |p| {
                shaped(p, "aten::ones", 64, 100);
                shaped(p, other, 64, 200);
            });
        });
        assert_eq!(mixed.found("SL045"), [], "{other}");
    }
}

/// A module's `forward` that builds a mask among other things, as functions of Kineto's traces hold it.
#[test]
fn constants_in_a_larger_function() {
    let forward = |between: &'static [(&'static str, usize)]| {
        steps(move |p, _| {
            p.python("model.py(50): forward", |p| {
                shaped(p, "aten::linear", 96, 200);
                let sizes = json!({"Input Dims": [[], [], []], "Concrete Inputs": ["[64, 64]", "", ""]});
                p.op_with("aten::ones", sizes, |p| p.work(100));
                between.iter().for_each(|&(name, size)| shaped(p, name, size, 100));
                shaped(p, "aten::linear", 96, 200);
            });
        })
    };
    let found = forward(&[("aten::view", 64), ("aten::tril", 64), ("aten::mul", 96)]).found("SL045");
    let [only] = &found[..] else { panic!("{}", text(&found)) };
    assert!((295_000..=315_000).contains(&only.gain_ns()), "{}", text(&found));
    assert_eq!(only.place.text(), "model.py:50 in forward");
    assert_eq!(forward(&[("aten::view", 64)]).found("SL045"), [], "nothing is computed");
    assert_eq!(forward(&[("aten::mul", 96)]).found("SL045"), [], "of another tensor");
    assert_eq!(forward(&[("aten::tril", 64), ("aten::index_put_", 64)]).found("SL045"), [], "it is written to");
}

/// Data that only go to the GPU are SL030's, unless reading the list takes the time.
#[test]
fn lists_copied_to_the_gpu() {
    let lists = |us: i64| {
        steps(move |p, _| {
            p.python("model.py(70): weights", |p| {
                p.op("aten::mm", |p| p.kernel("gemm", 300));
                p.python("<built-in method tensor of type object at 0x7f00>", |p| {
                    p.op("aten::empty", |p| p.work(1));
                    p.work(us);
                    p.op("aten::to", |p| {
                        p.work(100);
                        p.pageable(5, 64);
                    });
                    p.op("aten::lift_fresh", |p| p.work(2));
                });
            });
        })
        .found("SL045")
    };
    assert_eq!(lists(50), []);
    assert_eq!(lists(900).len(), 1);
}

/// Tensors that begin as zeros are mostly written afterwards, like the start state of an RNN.
#[test]
fn zeros_are_no_constants() {
    for then in [None, Some("aten::fill_"), Some("aten::to"), Some("aten::copy_")] {
        let starts = steps(|p, _| {
            p.python("model.py(80): start", |p| {
                shaped(p, "aten::zeros", 64, 200);
                shaped(p, "aten::empty", 64, 200);
                then.into_iter().for_each(|then| shaped(p, then, 64, 200));
            });
        });
        assert_eq!(starts.found("SL045"), [], "{then:?}");
    }
}

/// A function that also does other work is reported with its lines only, for each of its calls.
#[test]
fn functions_with_other_work_in_some_calls() {
    let of = |other: bool| {
        let mut found = steps(|p, number| {
            p.python("model.py(30): causal_mask", |p| {
                shaped(p, "aten::ones", 512, 100);
                p.work(400);
                if other && number == 3 {
                    p.python("model.py(60): log", |p| shaped(p, "aten::linear", 512, 100));
                }
            });
        })
        .found("SL045");
        assert_eq!(found.len(), 1, "{}", text(&found));
        found.remove(0)
    };
    let [alone, mixed] = [of(false), of(true)].map(|finding| finding.gain_ns());
    assert!(alone > 490_000 && mixed < alone && mixed > 400_000, "{alone}, {mixed}");
}

/// `torch.tensor(list)`: its time lies before its operators, in the builtin function.
#[test]
fn tensors_from_lists_in_each_step() {
    let lists = steps(|p, _| {
        p.python("model.py(70): weights", |p| {
            p.python("<built-in method tensor of type object at 0x7f00>", |p| {
                p.work(400);
                p.op("aten::empty", |p| p.work(2));
                p.op("aten::lift_fresh", |p| p.work(2));
            });
        });
    });
    let found = lists.found("SL045");
    let [only] = &found[..] else { panic!("{}", text(&found)) };
    assert!((400_000..=430_000).contains(&only.gain_ns()), "{}", text(&found));
    assert_eq!(only.place.text(), "model.py:70 in weights");
}

/// Steps in which one function runs some operators of 100 µs, of which those that look at a part of a tensor look at the `n`th one.
fn table(operators: &'static [&'static str], part: fn(usize) -> Option<usize>) -> Vec<Finding> {
    let program = steps(|p, number| {
        p.python("model.py(5): positions", |p| {
            for name in operators {
                let mut arguments = json!({"Input Dims": [[64, 64]]});
                if let Some(part) = part(number).filter(|_| ["aten::select", "aten::slice"].contains(name)) {
                    arguments["Concrete Inputs"] = json!(["", "0", part.to_string()]);
                }
                p.op_with(name, arguments, |p| p.work(100));
            }
        });
    });
    program.found("SL045")
}

#[test]
fn tables_filled_in_parts() {
    const WAVES: &[&str] = &[
        "aten::arange",
        "aten::unsqueeze",
        "aten::zeros",
        "aten::mul",
        "aten::sin",
        "aten::slice",
        "aten::copy_",
        "aten::cos",
        "aten::slice",
        "aten::copy_",
    ];
    let found = table(WAVES, |_| None);
    let [only] = &found[..] else { panic!("{}", text(&found)) };
    assert!((990_000..=1_050_000).contains(&only.gain_ns()), "{}", text(&found));
    const ROWS: &[&str] = &["aten::zeros", "aten::select", "aten::slice", "aten::fill_", "aten::select", "aten::fill_"];
    assert_eq!(table(ROWS, |_| Some(1)).len(), 1, "the same rows in each step");
    assert_eq!(table(ROWS, Some), [], "other rows in each step");
    assert_eq!(table(ROWS, |_| None), [], "nobody knows which rows");
}

/// Batches are put together in blank tensors, too.
#[test]
fn batches_are_no_tables() {
    for operators in [
        &["aten::arange", "aten::zeros", "aten::select", "aten::slice", "aten::copy_"][..],
        &["aten::arange", "aten::zeros", "aten::sub", "aten::div", "aten::select", "aten::copy_"],
        &["aten::arange", "aten::sin", "aten::zeros", "aten::clone", "aten::select", "aten::copy_"],
    ] {
        assert_eq!(table(operators, |_| Some(1)), [], "{operators:?}");
    }
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
    program.found("SL046")
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

/// Concatenated results of a model's layers grow within each forward; the cache of a program that generates grows over steps.
#[test]
fn growth_within_a_step_restarts() {
    let grown = |p: &mut Program, from: i64, times: i64| (from..from + times).for_each(|old| cat(p, old, 1, 20));
    let within = |times: i64| steps(move |p, _| grown(p, 64, times));
    for times in [12, 80] {
        assert_eq!(within(times).found("SL046"), [], "{times}");
    }
    let over = |times: i64| steps(move |p, number| grown(p, 64 + times * number as i64, times)).found("SL046");
    let found = over(12);
    assert!(found.len() == 1 && found[0].title.contains("by torch.cat 72 times"), "{}", text(&found));
    // Without steps, or in one of them, only what is much longer, and once.
    let alone = |forwards: usize, times: i64| {
        let mut program = Program::new();
        program.python("train.py(10): step", |p| (0..forwards).for_each(|_| grown(p, 64, times)));
        program.found("SL046").len()
    };
    assert_eq!([alone(1, 12), alone(6, 12), alone(1, 80), alone(2, 80)], [0, 0, 1, 0]);
    // A program that generates for several prompts begins again, and grows by more than any model has layers.
    assert_eq!([alone(2, 120), alone(4, 300)], [1, 1]);
    let prompts = within(300).found("SL046");
    assert!(prompts.len() == 1 && prompts[0].title.contains("by torch.cat 1800 times"), "{}", text(&prompts));
}

#[test]
fn shares_of_growing_caches_name_their_base() {
    let mut old = 99;
    let program = steps(|p, _| {
        p.python("cache.py(5): update", |p| {
            p.op_with("aten::cat", json!({"Input Dims": [[[old, 64], [1, 64]], []]}), |p| p.kernel("cat_kernel", 300));
        });
        p.sync("cudaDeviceSynchronize");
        old += 1;
    });
    let found = program.found("SL046");
    assert!(found.len() == 1 && found[0].title.ends_with("100 % of GPU busy time"), "{}", text(&found));
    // Sizes that no tensor has are no reason to stop.
    let absurd = steps(|p, _| {
        let dims = json!({"Input Dims": [[[i64::MAX], [i64::MAX], [3, i64::MAX]], []]});
        p.op_with("aten::cat", dims, |p| p.work(100));
        let dims = json!({"Input Dims": [[[i64::MAX], [i64::MAX]], []]});
        p.op_with("aten::cat", dims, |p| p.work(100));
    });
    assert_eq!(absurd.found("SL046"), []);
}

/// Six steps of batches of sequences of such lengths, in every other step of twice: 0.1 ms to pad them, 1 ms of work of which 0.8 are on
/// the batch.
fn padded(lengths: &[usize]) -> Vec<Finding> {
    padded_in(|_| true, lengths, 798)
}

fn padded_in(is_padded: fn(usize) -> bool, lengths: &[usize], work_us: i64) -> Vec<Finding> {
    let program = steps(|p, step| {
        let times = 1 + step % 2;
        let inputs: Vec<[usize; 2]> = lengths.iter().map(|&length| [times * length, 64]).collect();
        if is_padded(step) {
            p.op_with("aten::pad_sequence", json!({"Input Dims": [inputs, [], []]}), |p| p.work(98));
        }
        let rows = lengths.len() * times * lengths.iter().max().copied().unwrap_or(0);
        p.op_with("aten::addmm", json!({"Input Dims": [[64], [rows, 64], [64, 64]]}), |p| p.work(work_us));
        p.op_with("aten::mm", json!({"Input Dims": [[64, 64], [64, 64]]}), |p| p.work(198));
    });
    program.found("SL061")
}

#[test]
fn padding_of_batches() {
    let found = padded(&[100, 20, 40, 40]);
    insta::assert_snapshot!(text(&found));
    // Half of 0.8 ms is on padding. Sorted, six batches hold 2,000 elements, not 3,600; at least half of the padding goes, at most all.
    let gain = found[0].gain.unwrap();
    let near = |ns: i64, us: i64| (ns - us * 1000).abs() < 8_000;
    assert!(near(gain.likely_ns, 356) && near(gain.low_ns, 200) && near(gain.high_ns, 400), "{gain:?}");
    // One batch cannot be sorted: half of its padding, as a hope.
    let found = padded_in(|step| step == 2, &[100, 20, 40, 40], 4000);
    assert!(found.len() == 1 && found[0].gain.unwrap().low_ns == 0, "{}", text(&found));
    assert_eq!(padded(&[100, 90, 95, 99]), [], "of about one length");
    assert_eq!(padded(&[5, 1, 2, 2]), [], "small");
}

/// Steps that pad two columns of a batch, and work on both.
#[test]
fn batch_columns_are_sorted_independently() {
    let program = steps(|p, step| {
        let pad = |p: &mut Program, lengths: &[usize]| {
            let inputs: Vec<[usize; 1]> = lengths.iter().map(|&length| [length]).collect();
            p.op_with("aten::pad_sequence", json!({"Input Dims": [inputs, [], []]}), |p| p.work(20));
        };
        let times = 1 + step % 2;
        pad(p, &[100 * times, 100 * times, 20 * times, 20 * times]);
        pad(p, &[60 * times, 60 * times, 12 * times, 12 * times]);
        p.op_with("aten::addmm", json!({"Input Dims": [[64], [400 * times, 64], [64, 64]]}), |p| p.work(400));
        p.op_with("aten::addmm", json!({"Input Dims": [[64], [240 * times, 64], [64, 64]]}), |p| p.work(240));
    });
    let found = program.found("SL061");
    assert!(found.len() == 1, "{}", text(&found));
    // Of each column 2,400 of 3,600 elements are left, as of one alone; of both in one pool other parts.
    let gain = found[0].gain.unwrap();
    let left = 1.0 - gain.likely_ns as f64 / 640e3;
    assert!(
        (left - 2_400.0 / 3_600.0).abs() < 0.01 && found[0].title.starts_with("Padding: 40 % of"),
        "{left} {}",
        text(&found)
    );
    // In one step alone there is nothing to sort, however many columns it pads.
    let once = steps(|p, step| {
        if step == 2 {
            for lengths in [[[100], [30], [30], [30]]; 2] {
                p.op_with("aten::pad_sequence", json!({"Input Dims": [lengths, [], []]}), |p| p.work(20));
            }
        }
        p.op_with("aten::addmm", json!({"Input Dims": [[64], [400, 64], [64, 64]]}), |p| p.work(4000));
    });
    let found = once.found("SL061");
    assert!(found.len() == 1 && found[0].gain.unwrap().low_ns == 0, "{}", text(&found));
}

/// Attention takes the squares of lengths, forward and backward, within a layer that holds other work, too.
#[test]
fn attention_on_padded_batches() {
    let program = steps(|p, step| {
        let times = 1 + step % 2;
        let inputs = [100, 20, 40, 40].map(|length| [times * length, 64]);
        p.op_with("aten::pad_sequence", json!({"Input Dims": [inputs, [], []]}), |p| p.work(20));
        let long = 100 * times;
        let scores = json!({"Input Dims": [[16, long, 16], [16, 16, long]]});
        p.op_with("aten::_transformer_encoder_layer_fwd", json!({"Input Dims": [[4, long, 64]]}), |p| {
            p.op_with("aten::addmm", json!({"Input Dims": [[64], [4 * long, 64], [64, 64]]}), |p| p.work(500));
            p.op_with("aten::bmm", scores.clone(), |p| p.work(300));
        });
        p.op_with("BmmBackward0", json!({"Input Dims": [[16, long, 16]]}), |p| {
            p.op_with("aten::bmm", scores, |p| p.work(600));
        });
    });
    let found = program.found("SL061");
    assert!(found.len() == 1, "{}", text(&found));
    // Of six steps: 2,000 of 3,600 elements and 244,800 of 600,000 pairs are left.
    let saved = 500.0 * (1.0 - 2000.0 / 3600.0) + 900.0 * (1.0 - 244_800.0 / 600_000.0);
    let gain = found[0].gain.unwrap();
    assert!((gain.likely_ns as f64 / 1e3 - saved).abs() < 20.0, "{saved} {}", text(&found));
    assert_eq!(found[0].edit_labels.len(), 2, "{:?}", found[0].edits);
}

/// Work of cuDNN's benchmark mode for a new shape: three candidates, each run twice.
fn search(p: &mut Program) {
    p.sync("cudaDeviceSynchronize");
    for us in [300, 100, 200] {
        p.kernel("candidate", us);
        p.sync("cudaDeviceSynchronize");
        p.kernel("candidate", us);
        p.sync("cudaEventSynchronize");
    }
}

/// Six steps of a convolution, which searches in the steps that `searches` names.
fn convolutions(searches: fn(usize) -> bool) -> Program {
    steps(move |p, number| {
        p.op("aten::conv2d", |p| {
            p.op("aten::_convolution", |p| {
                p.op("aten::cudnn_convolution", |p| {
                    if searches(number) {
                        search(p);
                        // cuDNN works on the host, too.
                        p.work(500);
                        search(p);
                    }
                    p.kernel("best", 100);
                });
            });
        });
        p.sync("cudaStreamSynchronize");
    })
}

/// PyTorch writes where functions are called: the line, where a function's name has its first one, or that at which recording began.
#[test]
fn call_site_lines_are_used() {
    let mut program = Program::new();
    program.span("python_function", "train.py(107): main", 0, 1000, json!({"CallFrom": "train.py:131"}));
    program.span("python_function", "torch/optim/adamw.py(40): step", 100, 500, json!({"CallFrom": "train.py:96"}));
    program.span("python_function", "<built-in method mm>", 200, 200, json!({"CallFrom": "torch/optim/adamw.py:44"}));
    program.span("cpu_op", "aten::mm", 250, 100, json!({}));
    program.span("cpu_op", "aten::add", 700, 100, json!({}));
    let trace = program.trace();
    let place =
        |name: &str| source_location_of(&trace, trace.events.ids().find(|&e| trace.name(e) == name).unwrap()).text();
    assert_eq!(place("aten::mm"), "train.py:96 in main");
    assert_eq!(place("aten::add"), "train.py:107 in main");
}

#[test]
fn algorithm_search_in_each_step() {
    let program = convolutions(|_| true);
    let found = program.found("SL062");
    insta::assert_snapshot!(text(&found));
    let saved = program.findings().step_ns - convolutions(|_| false).findings().step_ns;
    let gain = found[0].gain.unwrap();
    // Where all later steps search, the first one does so for no other reason (H100, images of new sizes: without, a step of 1417 ms
    // took 32).
    assert!((gain.likely_ns - saved).abs() < saved / 20, "{saved}: {}", text(&found));
    // Neither waits of searches nor their kernels are told as something else.
    for code in ["SL002", "SL004"] {
        let others = program.found(code);
        assert!(others.iter().all(|f| !f.title.contains("conv")), "{}", text(&others));
    }
    // A module around it launches another kernel: it is no chain of small ones, either.
    let around = steps(|p, _| {
        p.python("nn.Module: Net_0", |p| {
            p.op("aten::cudnn_convolution", search);
            p.op("aten::relu", |p| p.kernel("relu", 5));
        });
    });
    assert!(around.found("SL002").iter().all(|f| !f.title.contains("conv")), "{}", text(&around.found("SL002")));
    // Between steps nothing counts; a first step that searches more is a warm-up.
    let warms_up = steps(|p, number| {
        for _ in 0..if number == 0 { 5 } else { 1 } {
            p.op("aten::cudnn_convolution", search);
        }
    });
    assert!(
        warms_up.found("SL062")[0].title.contains("in 5 of the 5 steps after the first"),
        "{}",
        text(&warms_up.found("SL062"))
    );
    // In some steps: the first may have been a warm-up.
    let at_times = convolutions(|number| number % 2 == 0);
    let gain = at_times.found("SL062")[0].gain_ns();
    assert!((gain - saved / 3).abs() < saved / 20, "{saved}: {gain}");
    // Once for the only shape, in the first step; a convolution that waits once; none.
    assert_eq!(convolutions(|number| number == 0).found("SL062"), []);
    assert_eq!(convolutions(|_| false).found("SL062"), []);
    let waits_once = steps(|p, _| p.op("aten::cudnn_convolution", |p| p.sync("cudaStreamSynchronize")));
    assert_eq!(waits_once.found("SL062"), []);
}

#[test]
fn autotuning_in_each_step() {
    let program = steps(|p, _| {
        p.python("triton/runtime/autotuner.py(140): _bench", |p| {
            p.kernel("candidate", 500);
            p.sync("cudaDeviceSynchronize");
        });
        p.kernel("best", 100);
        p.sync("cudaStreamSynchronize");
    });
    let found = program.found("SL062");
    let [only] = &found[..] else { panic!("{}", text(&found)) };
    assert!(only.title.starts_with("Autotuning: an autotuner benchmarks kernels in all 6 steps"), "{}", only.title);
    assert!((480_000..=540_000).contains(&only.gain_ns()), "{}", text(&found));
    assert_eq!(only.place.text(), "train.py:10 in step");
}
