//! Traces of Intel's GPUs: SYCL's calls (`ur…`) and those of Level Zero inside them (`ze…`); calls of all vendors do the same.

use crate::support::read_mini;
use stackline_analyze::{analyses, checks};
use stackline_critical_path::ctda;
use stackline_critical_path::ctda::{CtdaEdgeKind, CtdaOptions};
use stackline_critical_path::exact::{Category, Exact, WindowChoice};
use stackline_model::{Trace, Values};
use stackline_timeline::Scope;

/// Forty launches, of which every other one lost its kernel; with both calls of a launch, as newer profilers record them.
fn launches(with_driver: bool) -> Trace {
    let mut lines = String::new();
    for i in 0..40 {
        let (at, id) = (100 * i, i + 1);
        let operator = if i % 2 == 0 { "aten::mm" } else { "aten::add" };
        lines += &format!(
            "1/1 cpu_op       {operator}                        {at}+40
             1/1 xpu_runtime  urEnqueueKernelLaunchWithArgsExp  {}+10    correlation={id}\n",
            at + 5
        );
        if with_driver {
            lines += &format!("1/1 xpu_driver zeCommandListAppendLaunchKernel {}+5 correlation={id}\n", at + 7);
        }
        if i % 2 == 0 {
            lines += &format!("gpu0/7 kernel gemm {}+60 correlation={id}\n", at + 20);
        }
    }
    read_mini(&lines)
}

#[test]
fn missing_kernels_are_counted_not_zero() {
    for with_driver in [false, true] {
        let trace = launches(with_driver);
        assert_eq!(trace.unrecorded_launches().len(), 20, "{with_driver}");
        assert_eq!(trace.report.count_of("no_device_record"), 20, "{with_driver}");
        assert_eq!(trace.report.count_of("kernels_not_recorded"), 19, "{with_driver}: the last one may run later");
        let check = checks::ALL.iter().find(|check| check.name == "launch_without_record").unwrap();
        assert_eq!((check.run)(&trace).breaches.len(), 20, "{with_driver}");
        let operators = &(analyses::find("operators").unwrap().run)(&trace, &Scope::default())[0];
        let Values::F64(gpu) = &operators.column("gpu_self_us").unwrap().values else { panic!() };
        assert_eq!(gpu[..], [Some(1200.0), None], "{with_driver}");
        let Values::I64(launches) = &operators.column("launches_self").unwrap().values else { panic!() };
        assert_eq!(launches[..], [Some(20), Some(20)], "{with_driver}");
    }
}

#[test]
fn queue_wait_call_is_no_host_work() {
    let trace = read_mini(
        "1/1     cpu_op       aten::mm               0..20
         1/1     xpu_runtime  urEnqueueKernelLaunch  5..15     correlation=1
         gpu0/7  kernel       gemm                   20..1000  correlation=1
         1/1     cpu_op       aten::item             30..1010
         1/1     xpu_runtime  urEnqueueUSMMemcpy     40..50    correlation=2
         gpu0/7  gpu_memcpy   Memcpy D2M (DEVICE -> MEMORY(Unknown))  1000..1002  correlation=2
         1/1     xpu_runtime  urQueueFinish          60..1005",
    );
    let path = Exact::new(&trace).path(&WindowChoice::Whole).unwrap();
    let time = |of: &[Category]| -> i64 {
        path.segments
            .iter()
            .filter(|segment| of.contains(&segment.category))
            .map(|segment| segment.end - segment.start)
            .sum()
    };
    assert_eq!(time(&[Category::GpuCompute, Category::GpuCopy]), 982_000, "{:?}", path.segments);
    assert_eq!(time(&[Category::SyncReturn]), 3_000, "{:?}", path.segments);
}

/// Launch, wait and copy of one program by the names of a vendor's calls.
fn edges_of_ctda(category: &str, [launch, wait, copy]: [&str; 3]) -> Vec<(CtdaEdgeKind, i64)> {
    let trace = read_mini(&format!(
        "1/1     {category}  {launch}    10..15    correlation=1
         gpu0/7  kernel      gemm        20..200   correlation=1
         1/1     {category}  {wait}      30..210
         1/1     cpu_op      aten::item  220..400
         1/1     {category}  {copy}      230..390  correlation=2
         gpu0/7  gpu_memcpy  Memcpy DtoH 240..380  correlation=2
         1/1     cpu_op      aten::add   410..450"
    ));
    let path = ctda::analyze(&trace, &CtdaOptions::default()).unwrap();
    path.graph.edges.iter().map(|edge| (edge.kind, edge.at_ns)).collect()
}

#[test]
fn waits_and_copies_of_all_vendors_match_cuda() {
    let cuda = edges_of_ctda("cuda_runtime", ["cudaLaunchKernel", "cudaStreamSynchronize", "cudaMemcpyAsync"]);
    let waits: Vec<i64> = cuda.iter().filter(|(kind, _)| *kind == CtdaEdgeKind::Sync).map(|(_, at)| *at).collect();
    assert_eq!(waits, [200_000, 380_000], "{cuda:?}");
    for (category, calls) in [
        ("hip_runtime", ["hipLaunchKernel", "hipStreamSynchronize", "hipMemcpyWithStream"]),
        ("privateuse1_runtime", ["musaLaunchKernelExC", "musaStreamSynchronize", "musaMemcpyAsync"]),
        ("xpu_runtime", ["urEnqueueKernelLaunch", "urQueueFinish", "urEnqueueMemBufferRead"]),
        (
            "xpu_driver",
            ["zeCommandListAppendLaunchKernel", "zeCommandListHostSynchronize", "zeCommandListAppendMemoryCopy"],
        ),
    ] {
        assert_eq!(edges_of_ctda(category, calls), cuda, "{calls:?}");
    }
}
