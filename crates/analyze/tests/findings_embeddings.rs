//! Findings of embedding tables.

use crate::findings_support;

use findings_support::{Program, host_steps, steps, text};
use serde_json::{Value, json};
use stackline_findings::Finding;

/// Time of the table's work, in µs: the gradient's zeros, the optimizer's operator.
const ZEROS: i64 = 2_000;
const UPDATE: i64 = 6_000;

/// A step that looks rows up in a table of 100,000 × 64 and trains it: as operators of the CPU, or with their kernels.
fn training(p: &mut Program, (indices, list): (i64, bool), on_gpu: bool) {
    let work = |p: &mut Program, us: i64| if on_gpu { p.kernel("elementwise_kernel", us) } else { p.work(us) };
    let table = json!([100_000, 64]);
    let lookup = json!({"Input Dims": [table, [indices], [], [], []]});
    p.python("train.py(3): forward", |p| p.op_with("aten::embedding", lookup, |p| work(p, 20)));
    p.python("train.py(9): step", |p| {
        p.op_with("aten::linear", json!({"Input Dims": [[indices, 64], [8, 64], [8]]}), |p| work(p, 300));
        let gradient = json!({"Input Dims": [[indices, 64], [indices], [], [], []]});
        p.op("autograd::engine::evaluate_function: EmbeddingBackward0", |p| {
            p.op_with("aten::embedding_dense_backward", gradient, |p| {
                p.op_with("aten::zero_", json!({"Input Dims": [table]}), |p| work(p, ZEROS));
                work(p, 30);
            });
        });
        let (name, dims) = match list {
            // Half of what it updates is the table.
            true => ("aten::_fused_adam_", json!([[table, [100_000, 64, 1]], [], []])),
            false => ("aten::addcdiv_", json!([table, table, table])),
        };
        p.op_with(name, json!({"Input Dims": dims}), |p| work(p, UPDATE));
    });
    if on_gpu {
        p.sync("cudaDeviceSynchronize");
    }
}

fn found(how: (i64, bool), on_gpu: bool) -> Vec<Finding> {
    let step = move |p: &mut Program| training(p, how, on_gpu);
    let found = if on_gpu { steps(step) } else { host_steps(step) };
    found.found("SL065")
}

#[test]
fn dense_gradients_of_sparsely_used_tables() {
    for on_gpu in [false, true] {
        let one = found((1_000, false), on_gpu);
        assert_eq!(one.len(), 1, "{}", text(&one));
        let title = "Dense embedding gradient of 100000 × 64: a lookup reads at most 1.0 % of the rows, ";
        assert!(one[0].title.starts_with(title), "{}", one[0].title);
        assert_eq!(one[0].place.line, Some(3), "{:?}", one[0].place);
        // Three hundredths of 8 ms are left, at most a tenth.
        let gain = one[0].gain_ns() / 1000;
        assert!((7_700..=7_800).contains(&gain), "{gain}");
        let half = found((1_000, true), on_gpu)[0].gain_ns() / 1000;
        assert!((4_800..=4_900).contains(&half), "the table's half of the optimizer's work: {half}");
        assert_eq!(found((20_000, false), on_gpu), [], "a fifth of the rows");
    }
}

#[test]
fn tables_used_in_products_have_dense_gradients() {
    let tied = |dims: Value| {
        let step = move |p: &mut Program| {
            training(p, (1_000, false), false);
            p.op_with("aten::linear", json!({"Input Dims": dims.clone()}), |p| p.work(500));
        };
        host_steps(step).found("SL065").len()
    };
    assert_eq!(tied(json!([[32, 64], [100_000, 64]])), 0, "the last layer has the same weights");
    assert_eq!(tied(json!([[32, 64], [50_000, 64]])), 1);
}
