//! GPU work of the demo program, with durations on a simulated GPU.

use super::event::{Args, numbers};
use super::sim::{COMPUTE, COPY, NCCL, Sim, Work};

/// Throughput of GEMM kernels, floating-point operations per nanosecond.
const FLOPS_PER_NS: i64 = 190_000;
/// Memory throughput of other kernels, bytes per nanosecond.
const BYTES_PER_NS: i64 = 1_350;
/// Bus bandwidth of collectives, bytes per nanosecond.
const BUS_BYTES_PER_NS: i64 = 160;
/// Throughput of copies from pinned host memory to the device, bytes per nanosecond.
const PCIE_BYTES_PER_NS: i64 = 22;

const LAUNCH: (&str, u32) = ("cudaLaunchKernel", 211);
const LAUNCH_EX: (&str, u32) = ("cudaLaunchKernelExC", 430);
const COPY_ASYNC: (&str, u32) = ("cudaMemcpyAsync", 41);
const SET_ASYNC: (&str, u32) = ("cudaMemsetAsync", 51);

/// Arguments of a kernel: registers, shared memory, grid, block and occupancy.
fn geometry(registers: u32, shared: u32, grid: i64, block: i64) -> Args {
    // 132 multiprocessors with at most 64 warps each; Kineto prints these two with at most six decimals.
    let per_sm = grid as f64 / 132.0;
    let warps = per_sm * block as f64 / 32.0;
    let occupancy = (warps / 64.0 * 100.0).min(100.0) as i64;
    Args::default()
        .num("registers per thread", registers)
        .num("shared memory", shared)
        .num("blocks per SM", short(per_sm))
        .num("warps per SM", short(warps))
        .num("grid", numbers(&[grid.max(1), 1, 1]))
        .num("block", numbers(&[block, 1, 1]))
        .num("est. achieved occupancy %", occupancy)
}

/// Format a number with at most six decimals.
fn short(value: f64) -> String {
    format!("{value:.6}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Sim {
    /// Launch a kernel of about `ns` on the compute stream; returns its end.
    fn kernel(&mut self, name: &str, ns: i64, args: Args, call: (&'static str, u32)) -> i64 {
        let duration = self.rng.jitter(ns, 4).max(900);
        let name = name.to_owned();
        self.launch(Work { category: "kernel", name, duration, stream: COMPUTE, call, args })
    }

    /// Launch a GEMM of m x k by k x n.
    pub(super) fn gemm(&mut self, m: i64, n: i64, k: i64) {
        let tile = if m * n >= 1 << 22 { "128x256x64" } else { "128x128x64" };
        let name = format!("nvjet_tst_{tile}_2x1_v_bz_TNT");
        let args = geometry(168, 213_000, (m / 128).max(1) * (n / 128).max(1), 384);
        self.kernel(&name, 2 * m * n * k / FLOPS_PER_NS + 2_500, args, LAUNCH_EX);
    }

    /// Launch an elementwise kernel that moves `bytes` in total.
    pub(super) fn elementwise(&mut self, functor: &str, bytes: i64) {
        let name = format!(
            "void at::native::vectorized_elementwise_kernel<4, {functor}, std::array<char*, 3ul> >(int, {functor}, std::array<char*, 3ul>)"
        );
        let args = geometry(32, 0, bytes / 4 / 512, 128);
        self.kernel(&name, bytes / BYTES_PER_NS + 1_400, args, LAUNCH);
    }

    /// Launch a kernel that is limited by memory bandwidth and moves `bytes` in total, with `block` threads per block.
    pub(super) fn memory_kernel(&mut self, name: &str, bytes: i64, block: i64) {
        let args = geometry(40, 4_096, bytes / 8 / block, block);
        self.kernel(name, bytes / BYTES_PER_NS + 2_100, args, LAUNCH);
    }

    /// Launch a fused attention kernel over `batch` sequences of `length` tokens, with `heads` heads of `width`;
    /// `passes` is its number of GEMM pairs.
    pub(super) fn attention(&mut self, name: &str, batch: i64, heads: i64, length: i64, width: i64, passes: i64) {
        let flops = 4 * batch * heads * length * length * width * passes;
        let args = geometry(255, 164_000, batch * heads * length / 128, 256);
        self.kernel(name, flops / (FLOPS_PER_NS * 2 / 3) + 3_000, args, LAUNCH);
    }

    /// Launch a fill of `bytes` of device memory in the demo.
    pub(super) fn memset(&mut self, bytes: i64) {
        let duration = bytes / BYTES_PER_NS + 800;
        let args = copy_args(bytes, duration);
        let name = "Memset (Device)".to_owned();
        self.launch(Work { category: "gpu_memset", name, duration, stream: COMPUTE, call: SET_ASYNC, args });
    }

    /// Copy `bytes` of a pinned batch to the device on the copy stream.
    pub(super) fn copy_in(&mut self, bytes: i64) {
        let duration = bytes / PCIE_BYTES_PER_NS + 1_500;
        let args = copy_args(bytes, duration);
        let name = "Memcpy HtoD (Pinned -> Device)".to_owned();
        self.launch(Work { category: "gpu_memcpy", name, duration, stream: COPY, call: COPY_ASYNC, args });
    }

    /// Copy a few bytes to pinned host memory, after all work of the compute stream (for pageable memory the call
    /// itself would wait).
    pub(super) fn copy_out(&mut self, bytes: i64) {
        let duration = 1_500;
        let args = copy_args(bytes, duration);
        let name = "Memcpy DtoH (Device -> Pinned)".to_owned();
        self.launch(Work { category: "gpu_memcpy", name, duration, stream: COMPUTE, call: COPY_ASYNC, args });
    }

    /// Launch a ring all-reduce of `elements` bfloat16 values among `world` ranks on the NCCL stream. Its duration
    /// includes a random wait for the slowest rank.
    pub(super) fn all_reduce(&mut self, elements: i64, world: u32, args: Args) {
        let world = i64::from(world.max(1));
        let moved = 2 * elements * 2 * (world - 1) / world;
        let late_peer = self.rng.between(2_000, 60_000);
        let duration = moved / BUS_BYTES_PER_NS + 18_000 + late_peer;
        let mut all = geometry(96, 102_400, 24, 544);
        all.0.extend(args.0);
        let name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)".to_owned();
        self.launch(Work { category: "kernel", name, duration, stream: NCCL, call: LAUNCH_EX, args: all });
    }
}

/// Arguments of a copy or fill: bytes and bandwidth.
fn copy_args(bytes: i64, duration: i64) -> Args {
    Args::default().num("bytes", bytes).num("memory bandwidth (GB/s)", bytes as f64 / duration as f64)
}
