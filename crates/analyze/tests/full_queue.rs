//! A program that the GPU bounds, whose host runs ahead until CUDA's launch queue is full: gain of faster kernels.

use crate::support::read_mini;
use stackline_critical_path::exact::WindowChoice;
use stackline_critical_path::exact::what_if::{Edit, predict};
use stackline_model::Trace;
use std::fmt::Write as _;

/// Launches that wait in the queue, at most.
const QUEUE: usize = 1_022;
/// Kernels of each kind, in µs: in float32 and in bfloat16, in turns.
const KERNELS: usize = 2_300;
const FLOAT32_US: i64 = 100;
const BFLOAT16_US: i64 = 50;

/// Kernels one after the other; a call takes 5 µs, and longer where it waits until there is room.
fn gpu_bound() -> Trace {
    let mut lines = String::new();
    let mut ends: Vec<i64> = Vec::new();
    let mut now = 0;
    for at in 0..2 * KERNELS {
        let room = at.checked_sub(QUEUE).map_or(0, |first| ends[first]);
        let returns = (now + 5).max(room + 3);
        let (name, us) = if at % 2 == 0 { ("gemm_f32f32", FLOAT32_US) } else { ("gemm_bf16", BFLOAT16_US) };
        let start = ends.last().copied().unwrap_or(0).max(now + 8);
        let _ = writeln!(lines, "1/1 cuda_runtime cudaLaunchKernel {now}+{} correlation={}", returns - now, at + 1);
        let _ = writeln!(lines, "gpu0/7 kernel {name} {start}+{us} correlation={}", at + 1);
        ends.push(start + us);
        now = returns + 1;
    }
    let end = ends.last().copied().unwrap_or(0);
    let _ = writeln!(lines, "1/1 cuda_runtime cudaDeviceSynchronize {now}+{}", end + 5 - now);
    read_mini(&lines)
}

/// Calls that wait for room are no work of the host: half of 230 ms in float32 are 115 ms.
#[test]
fn halving_float32_kernels_gains_half_of_their_time() {
    let trace = gpu_bound();
    let float32_ns = KERNELS as i64 * FLOAT32_US * 1_000;
    assert_eq!(float32_ns / 2, 115_000_000);
    let edits = Edit::parse_all("scale kernel:gemm_f32f32 0.5").unwrap();
    let found = predict(&trace, &WindowChoice::Whole, &edits).unwrap();
    let off = (found.gain.likely_ns - float32_ns / 2).abs();
    assert!(off <= 100_000, "{} ns instead of {}", found.gain.likely_ns, float32_ns / 2);
}
