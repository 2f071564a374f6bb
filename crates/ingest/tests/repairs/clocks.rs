//! Bounds on the clocks of devices.

use crate::repairs::{common, list, read, x};
use stackline_ingest::{ReadOptions, read_bytes};
use stackline_model::{DeviceClock, Trace};

fn call(name: &str, time: (i64, i64), correlation: i64) -> String {
    x("cuda_runtime", name, (100, 1), time, &format!(r#""correlation":{correlation}"#))
}

fn work(cat: &str, name: &str, device: i64, time: (i64, i64), correlation: i64) -> String {
    let args = format!(r#""device":{device},"stream":7,"correlation":{correlation}"#);
    x(cat, name, (device, 7), time, &args)
}

fn bounds(trace: &Trace) -> Vec<(i32, Option<i64>, Option<i64>)> {
    trace.meta.clocks.iter().map(|c| (c.device, c.least_ns, c.most_ns)).collect()
}

#[test]
fn launches_give_lower_and_waits_upper_bounds() {
    let mut events = vec![
        call("cudaLaunchKernel", (100, 5), 1),
        call("cudaLaunchKernel", (110, 5), 2),
        work("kernel", "k", 0, (60, 20), 1),
        work("kernel", "k", 0, (85, 30), 2),
    ];
    let trace = read(&list(&events));
    assert_eq!(bounds(&trace), [(0, Some(40_000), None)]);
    let problem = trace.report.problems.iter().find(|p| p.code == "kernel_before_launch").unwrap();
    assert_eq!(
        (problem.count, &*problem.example),
        (2, "device 0: the device clock is at least 40000 ns behind the host clock")
    );
    assert_eq!(problem.offsets.len(), 2);
    // The device is idle when this returns: its last kernel has ended by 160, which is 45 later than recorded.
    events.push(call("cudaDeviceSynchronize", (120, 40), 3));
    let trace = read(&list(&events));
    assert_eq!(bounds(&trace), [(0, Some(40_000), Some(45_000))]);
    assert_eq!(trace.meta.clocks[0].shift_ns(), Some(40_000));
    let example = &trace.report.problems.iter().find(|p| p.code == "kernel_before_launch").unwrap().example;
    assert_eq!(example, "device 0: the device clock is 40000 to 45000 ns behind the host clock");
    // Times are as recorded.
    assert_eq!(trace.span(), Some((60_000, 160_000)));
}

#[test]
fn waits_reveal_early_device_clocks() {
    let trace = read(&list(&[
        x("cpu_op", "aten::copy_", (100, 1), (90, 100), ""),
        call("cudaMemcpyAsync", (100, 5), 1),
        work("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 0, (150, 10), 1),
        call("cudaStreamSynchronize", (106, 24), 2),
    ]));
    assert_eq!(bounds(&trace), [(0, Some(-50_000), Some(-30_000))]);
    assert_eq!(trace.report.count_of("kernel_after_wait"), 1);
    assert_eq!(trace.meta.clocks[0].shift_ns(), Some(-30_000));
}

#[test]
fn only_certain_waits_give_bounds() {
    // An unnamed stream, and a process with two devices.
    let trace = read(&list(&[
        call("cudaLaunchKernel", (100, 5), 1),
        call("cudaLaunchKernel", (105, 5), 2),
        work("kernel", "k", 0, (120, 500), 1),
        work("kernel", "k", 1, (120, 500), 2),
        call("cudaStreamSynchronize", (111, 5), 3),
        call("cudaDeviceSynchronize", (120, 5), 4),
    ]));
    assert_eq!(bounds(&trace), [(0, Some(-20_000), None), (1, Some(-15_000), None)]);
    // A synchronization record names the device.
    let trace = read(&list(&[
        call("cudaLaunchKernel", (100, 5), 1),
        call("cudaLaunchKernel", (105, 5), 2),
        work("kernel", "k", 0, (120, 50), 1),
        work("kernel", "k", 1, (120, 500), 2),
        call("cudaDeviceSynchronize", (120, 60), 4),
        work("cuda_sync", "Context Sync", 0, (121, 58), 4),
    ]));
    assert_eq!(bounds(&trace), [(0, Some(-20_000), Some(10_000)), (1, Some(-15_000), None)]);
}

#[test]
fn contradictory_bounds_are_reported() {
    let trace = read(&list(&[
        call("cudaLaunchKernel", (100, 5), 1),
        work("kernel", "k", 0, (90, 200), 1),
        call("cudaDeviceSynchronize", (110, 20), 2),
    ]));
    let clock = &trace.meta.clocks[0];
    assert!(clock.is_contradictory() && clock.shift_ns().is_none(), "{clock:?}");
}

/// Forty launches, whose kernels of 4 µs start 4 µs after their call by a clock that is so many µs ahead. After every
/// tenth, the program waits for an event that the trace does not name.
fn clock_ahead(us: i64) -> Trace {
    let mut events = Vec::new();
    for i in 0..40 {
        let at = 100 + 20 * i;
        events.push(call("cudaLaunchKernel", (at, 5), i + 1));
        events.push(work("kernel", "k", 0, (at + 4 + us, 4), i + 1));
        if i % 10 == 9 {
            events.push(call("cudaEventSynchronize", (at + 6, 3), 100 + i));
        }
    }
    read(&list(&events))
}

#[test]
fn constant_launch_delays_show_a_clock_ahead() {
    let shift = |us: i64| clock_ahead(us).meta.clocks[0].applied_ns;
    // The launches require -304 µs at least. The waits return at 9 µs, and the work ends at 308 µs: -299 µs at most.
    assert_eq!(shift(300), -301_500);
    assert_eq!((shift(0), shift(20)), (0, 0), "small differences");
}

/// Clocks of one driver agree to some µs: the bounds of real traces contain 0, or nearly.
#[test]
fn clock_bounds_of_real_traces_are_consistent() {
    let mut bounded = 0;
    for path in common::kineto() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let trace = read_bytes(&name, &std::fs::read(&path).unwrap(), &ReadOptions::default()).unwrap();
        for clock in &trace.meta.clocks {
            println!("{name}: {clock:?}");
            bounded += usize::from(clock.least_ns.is_some() && clock.most_ns.is_some());
            let agrees = |c: &DeviceClock| c.shift_ns().is_some_and(|s| s.abs() < 20_000);
            assert!(agrees(clock), "{name}: {clock:?}");
        }
    }
    assert!(bounded >= 10 || common::corpus().is_none(), "{bounded} clocks with both bounds");
}
