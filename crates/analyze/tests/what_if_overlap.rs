//! Collectives that run concurrently with other GPU work.

use crate::support::{mini, read};
use stackline_critical_path::exact::WindowChoice;
use stackline_critical_path::exact::what_if::{Edit, Gain, predict};
use stackline_model::Trace;

const ALL_REDUCE: (&str, i64) = ("ncclDevKernel_AllReduce_Sum", 130);
const ALL_GATHER: (&str, i64) = ("ncclDevKernel_AllGather", 130);
const GEMM: (&str, i64) = ("gemm", 100);

/// Eight times the same kernels with their times in µs, on one stream with gaps of 1 µs. All are launched early, and the
/// host waits for the last one.
fn one_stream(kernels: &[(&str, i64)]) -> Trace {
    let mut trace = mini("10/10 cpu_op aten::mm 0+82");
    let mut at = 100;
    for (number, (name, us)) in kernels.repeat(8).into_iter().enumerate() {
        trace.add(&format!(
            "10/10   cuda_runtime  cudaLaunchKernel  {}+2     correlation=1{number}
             gpu0/7  kernel        {name}            {at}+{us}  correlation=1{number}",
            3 * number
        ));
        at += us + 1;
    }
    trace.add(&format!("10/10 cuda_runtime cudaDeviceSynchronize 85+{} correlation=2", at + 3 - 85));
    read(trace.json())
}

fn gain(kernels: &[(&str, i64)], edit: &str) -> Gain {
    predict(&one_stream(kernels), &WindowChoice::Whole, &[Edit::parse(edit).unwrap()]).unwrap().gain
}

/// Seven products of 100 µs are hidden. The first collective starts after the first product, and eight collectives follow
/// one another.
#[test]
fn collectives_of_one_stream_stay_one_after_another() {
    let all = gain(&[GEMM, ALL_REDUCE], "overlap collective:*");
    assert!((690_000..=720_000).contains(&all.likely_ns), "{all:?}");
    assert!(all.high_ns <= 720_000, "{all:?}");
}

#[test]
fn collectives_of_other_names_stay_in_order() {
    let kernels = [GEMM, ALL_REDUCE, ALL_GATHER];
    for edit in ["overlap collective:AllGather", "overlap collective:*"] {
        let hidden = gain(&kernels, edit);
        assert!((690_000..=720_000).contains(&hidden.likely_ns) && hidden.high_ns <= 720_000, "{edit}: {hidden:?}");
    }
    // The products still wait for the other collective, which waits for this one.
    let none = gain(&kernels, "overlap collective:AllReduce");
    assert_eq!((none.likely_ns, none.high_ns), (0, 0), "{none:?}");
}
