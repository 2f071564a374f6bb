//! Missing records of GPU work, and their number from which on GPU times are not those of the program.

use crate::support::read_mini;
use stackline_model::{Trace, flags};
use std::fmt::Write as _;

/// Launches by a process, 10 µs each, and the kernels of those that have one.
fn launches(pid: u32, count: u32, has_kernel: impl Fn(u32) -> bool) -> String {
    let mut lines = String::new();
    for i in 0..count {
        let (at, id) = (10 * i, 100_000 * pid + i + 1);
        let _ = writeln!(lines, "{pid}/1 cuda_runtime cudaLaunchKernel {at}+2 correlation={id}");
        if has_kernel(i) {
            let _ = writeln!(lines, "gpu{pid}/7 kernel gemm {}+5 correlation={id}", at + 3);
        }
    }
    lines
}

/// Launches of a trace, how many of them lack a kernel, and whether GPU times are incomplete for that.
fn missing(trace: &Trace) -> (usize, usize, bool) {
    let records = trace.gpu_records();
    (records.launches.0, records.launches.1, records.lack_launches)
}

#[test]
fn early_end_of_kernel_records_is_detected() {
    let first_100 = launches(1, 1_000, |i| i < 100);
    let wait = "1/1 cuda_runtime cudaDeviceSynchronize 10000+5";
    let stream_wait = "1/1 cuda_runtime cudaStreamSynchronize 10000+5";
    let of_other_thread = "1/2 cuda_runtime cudaStreamSynchronize 10000+5";
    assert_eq!(missing(&read_mini(&format!("{first_100}{wait}"))), (1_000, 900, true));
    assert_eq!(missing(&read_mini(&format!("{first_100}{stream_wait}"))), (1_000, 900, true));
    // All of them may be in the queue still.
    assert_eq!(missing(&read_mini(&first_100)), (100, 0, false));
    assert_eq!(missing(&read_mini(&format!("{first_100}{of_other_thread}"))), (100, 0, false), "of another stream");
    // But no more than it holds.
    assert_eq!(missing(&read_mini(&launches(1, 3_000, |i| i < 1_500))), (1_976, 476, true));
}

#[test]
fn a_process_whose_kernels_are_all_missing_is_incomplete() {
    let file = launches(1, 100, |_| true) + &launches(2, 100, |_| false);
    assert_eq!(missing(&read_mini(&file)), (200, 100, true));
    // Operations without a launch may be those of launches without an operation.
    let unlinked: String = (0..100).map(|i| format!("gpu2/7 kernel gemm {}+5\n", 10 * i + 3)).collect();
    assert_eq!(missing(&read_mini(&(file + &unlinked))), (100, 0, false));
}

/// ROCm records RCCL's kernels without a correlation ID: they are there, and their launches are not missing ones.
#[test]
fn kernels_without_an_id_are_not_missing() {
    let half = launches(1, 40, |i| i % 2 == 0) + "1/1 cuda_runtime cudaDeviceSynchronize 10000+5\n";
    assert_eq!(missing(&read_mini(&half)), (40, 20, true));
    let kernels = |launches: std::ops::Range<u32>, id: &str| {
        let kernel = |i: u32| format!("gpu1/9 kernel ncclDevKernel_Generic {}+3 {id}\n", 10 * i + 5);
        half.clone() + &launches.filter(|i| i % 2 == 1).map(kernel).collect::<String>()
    };
    assert_eq!(missing(&read_mini(&kernels(0..40, "correlation=0"))), (20, 0, false));
    assert_eq!(missing(&read_mini(&kernels(0..20, "correlation=0"))), (30, 10, true), "half of them");
    assert_eq!(missing(&read_mini(&kernels(0..40, "correlation=7"))), (40, 20, true), "of other launches");
    // Kernels before all these launches belong to none of them.
    let early: String = (0..20).map(|i| format!("gpu1/{} kernel gemm 0+3\n", 20 + i)).collect();
    assert_eq!(missing(&read_mini(&(half.clone() + &early))), (40, 20, true));
}

#[test]
fn kernels_of_graphs_are_kernels_too() {
    let graph = |id: u32, kernels: u32| {
        let mut lines = format!("1/1 cuda_runtime cudaGraphLaunch {}+2 correlation={id}\n", 1_000 * id);
        for i in 0..kernels {
            let _ = writeln!(lines, "gpu1/7 kernel gemm {}+1 correlation={id}", 1_000 * id + 3 + 2 * i);
        }
        lines
    };
    let graphs: String = (1..=20).map(|id| graph(id, 100)).collect();
    // One launch in the middle of thirty beside 2,000 kernels of graphs.
    let one = launches(1, 30, |i| i != 15) + &graphs;
    assert_eq!(missing(&read_mini(&one)), (50, 1, false));
    // A graph in the middle without its kernels lacks as many as the others have.
    let without: String = (1..=20).map(|id| graph(id, if id == 7 { 0 } else { 100 })).collect();
    assert_eq!(missing(&read_mini(&(launches(1, 30, |_| true) + &without))), (50, 1, true));
}

#[test]
fn one_operation_in_a_hundred_without_a_time_is_too_many() {
    let lack_of = |untimed: usize, all: u32| {
        let mut trace = read_mini(&launches(1, all, |_| true));
        for at in 0..untimed {
            let event = trace.gpu.event[at];
            trace.events.flags[event.index()] |= flags::IMPLAUSIBLE;
        }
        trace.gpu_records().lack_times()
    };
    assert_eq!([0, 1, 2, 3].map(|untimed| lack_of(untimed, 200)), [false, false, true, true]);
    assert_eq!([49, 50, 90].map(|all| lack_of(1, all)), [true, false, false], "a single one");
}
