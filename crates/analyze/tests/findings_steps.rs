//! Rules and steps: work that recurs in steady state, shares of steps without a standstill, titles of traces without steps.

use crate::findings_support;

use crate::support::read;
use findings_support::{Program, text};
use stackline_findings::LargeKind;
use stackline_testkit::mini::MiniTrace;

/// Steps of a product that the host reads: `inside` runs before it in each, with its number.
fn steps(count: usize, mut inside: impl FnMut(&mut Program, usize)) -> Program {
    let mut program = Program::new();
    for number in 0..count {
        program.step(number, |p| {
            p.python("train.py(10): step", |p| {
                inside(p, number);
                p.op("aten::mm", |p| p.kernel("gemm", 400));
                p.op("aten::item", |p| p.sync("cudaStreamSynchronize"));
            });
        });
    }
    program
}

/// The setup collects once, and no step gets shorter without it: only collections in steady-state steps count.
#[test]
fn garbage_collection_in_set_up() {
    let collects = |name: &'static str, us: fn(usize) -> i64| {
        let program = steps(8, move |p, number| {
            if us(number) > 0 {
                p.python(name, |p| p.work(us(number)));
            }
        });
        program.found("SL025")
    };
    for name in ["<built-in function collect>", "Python GC"] {
        // Those of the first step, of one later step (such as before gc.freeze()), and of both.
        assert_eq!(collects(name, |number| if number == 0 { 900 } else { 0 }), []);
        assert_eq!(collects(name, |number| if number == 3 { 900 } else { 0 }), []);
        assert_eq!(collects(name, |number| if number % 3 == 0 && number < 4 { 900 } else { 0 }), []);
        // Every third step collects; the first one more than the others.
        let found = collects(name, |number| [1300, 0, 0, 600, 0, 0, 600, 0][number]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].events.len(), 2, "{}", text(&found));
        // Whether the first step counts or not.
        assert!((2 * 602_000 / 8 - 5_000..2 * 602_000 / 7 + 5_000).contains(&found[0].gain_ns()), "{}", text(&found));
    }
    // Modules that steps import, one after the other.
    let imports = steps(8, |p, _| {
        p.python("<frozen importlib._bootstrap>(1022): _find_and_load", |p| p.python("Python GC", |p| p.work(600)));
    });
    assert_eq!(imports.found("SL025"), []);
}

/// Without steps: all the time, or when the program begins.
#[test]
fn garbage_collection_without_steps() {
    let collects = |is_in: fn(usize) -> bool| {
        let mut program = Program::new();
        for number in 0..40 {
            program.python("serve.py(9): answer", |p| {
                if is_in(number) {
                    p.python("Python GC", |p| p.work(900));
                }
                p.op("aten::mm", |p| p.work(100));
            });
        }
        program.found("SL025")
    };
    assert_eq!(collects(|number| number % 10 == 0).len(), 1);
    assert_eq!(collects(|number| number < 5), []);
    assert_eq!(collects(|number| number == 30), []);
}

/// Launches of a step.
fn launch_adds(p: &mut Program) {
    for _ in 0..100 {
        p.op("aten::add", |p| {
            p.work(8);
            p.kernel("add", 3);
        });
    }
}

/// A pause between steps, or within one, leaves the share of a rule as it is.
#[test]
fn shares_are_of_steps_without_a_standstill() {
    let paused = |between_us: i64, within_us: i64| {
        let mut program = Program::new();
        for number in 0..8 {
            program.step(number, |p| {
                p.python("train.py(10): step", launch_adds);
                p.work(if number == 5 { within_us } else { 0 });
            });
            program.work(if number == 3 { between_us } else { 10 });
        }
        let found = program.found("SL012");
        found.into_iter().map(|finding| finding.title).collect::<Vec<_>>()
    };
    let usual = paused(10, 0);
    assert_eq!(usual.len(), 1);
    assert_eq!(paused(1_000_000, 0), usual);
    assert_eq!(paused(10, 1_000_000), usual);
}

/// Titles of a trace without steps do not speak of steps; names of the program stay as they are.
#[test]
fn titles_without_steps() {
    let mut program = Program::new();
    for _ in 0..2 {
        program.annotation("Optimizer.zero_grad#Takes a step.zero_grad", |p| {
            for _ in 0..40 {
                p.op("aten::zero_", |p| p.op("aten::fill_", |p| p.kernel("vectorized_elementwise_kernel", 2)));
            }
        });
        program.op("aten::mm", |p| p.kernel("gemm", 200));
        program.python("train.py(12): log", |p| p.op("aten::item", |p| p.sync("cudaStreamSynchronize")));
    }
    let found = program.found("SL042");
    assert!(
        found[0].title.starts_with("Zeroed gradients: Takes a step.zero_grad fills 40 gradients"),
        "{}",
        text(&found)
    );
    assert!(found[0].facts.iter().any(|fact| fact.name == "time of the zeroing kernels"), "{:?}", found[0].facts);
    let reads = program.found("SL004");
    assert!(reads[0].title.contains("waits for the GPU 2 times: "), "{}", text(&reads));
}

/// The main thread runs unrecorded Python before autograd's thread starts: the advice is not about the GPU.
#[test]
fn work_before_a_handover_asks_for_python_frames() {
    let mut trace = MiniTrace::new("");
    for step in 0..5 {
        let [a, b] = [2 * step + 1, 2 * step + 2];
        let lines = format!(
            "1/1     user_annotation  ProfilerStep#{step}  0+1000
             1/1     cpu_op           aten::mm             10+100
             1/1     cuda_runtime     cudaLaunchKernel     50+10    correlation={a}
             gpu0/7  kernel           gemm                 70+300   correlation={a}
             1/2     cpu_op           autograd::engine::evaluate_function: MmBackward0  450+100
             1/2     cuda_runtime     cudaLaunchKernel     460+10   correlation={b}
             gpu0/7  kernel           gemm_bwd             480+400  correlation={b}"
        );
        trace.add_at(1000 + 1000 * step, &lines);
    }
    let found = findings_support::find(&read(trace.json()), &[]);
    let groups = &found.uncovered.groups;
    let wait = groups.iter().find(|group| group.kind == LargeKind::Wait).unwrap_or_else(|| panic!("{groups:?}"));
    assert!(wait.advice.starts_with("record Python frames"), "{wait:?}");
}
