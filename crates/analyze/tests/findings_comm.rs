//! Rules about communication.

#![allow(clippy::unwrap_used, reason = "tests")]

mod findings_support;

use findings_support::{Program, text};
use serde_json::json;

const ALL_REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

/// Four steps: `inside` runs in each and gets its number.
fn steps(mut inside: impl FnMut(&mut Program, usize)) -> Program {
    let mut program = Program::new();
    for number in 0..4 {
        program.step(number, |p| p.python("train.py(10): step", |p| inside(p, number)));
    }
    program
}

fn collective(program: &mut Program, us: i64, stream: usize) {
    let size = json!({"In msg nelems": 1000, "Collective name": "allreduce"});
    program.op("c10d::allreduce_", |p| p.launch(("cudaLaunchKernel", "kernel"), ALL_REDUCE, us, stream, size));
}

#[test]
fn collectives_that_nothing_runs_beside() {
    let mut program = steps(|p, _| {
        p.op("aten::mm", |p| p.kernel("gemm", 100));
        collective(p, 300, 7);
        p.op("aten::mm", |p| p.kernel("gemm", 100));
        p.sync("cudaDeviceSynchronize");
    });
    insta::assert_snapshot!(text(&program.of("SL019")));
    let gain = program.of("SL019")[0].gain.unwrap();
    // Without it, a step is 300 µs shorter, less what the host takes to launch.
    assert!((250_000..=302_000).contains(&gain.ns), "{gain:?}");
    program = steps(|p, _| {
        collective(p, 80, 8);
        p.op("aten::mm", |p| p.kernel("gemm", 300));
        p.sync("cudaDeviceSynchronize");
    });
    assert_eq!(program.of("SL019"), []);
}

#[test]
fn parameters_that_are_looked_for() {
    const SEARCH: &str = "torch.distributed.ddp.reducer::search_unused_parameters";
    let searches = steps(|p, _| p.op(SEARCH, |p| p.work(400)));
    insta::assert_snapshot!(text(&searches.of("SL021")));
    let none = steps(|p, _| p.op("torch.distributed.ddp.reducer::copy_bucket_to_grad", |p| p.work(400)));
    assert_eq!(none.of("SL021"), []);
}

#[test]
fn ranks_that_come_late() {
    let of = |late: i64| {
        steps(|p, number| {
            collective(p, if number == 2 { late } else { 100 }, 7);
            p.sync("cudaDeviceSynchronize");
        })
    };
    let late = of(900);
    insta::assert_snapshot!(text(&late.of("SL023")));
    // 800 of four steps.
    assert_eq!(late.of("SL023")[0].gain.unwrap().ns, 200_000);
    assert_eq!(of(150).of("SL023"), []);
}
