//! Devices whose clocks are off are shifted onto the host's clock.

use crate::repairs::{list, read, x};
use stackline_model::{EventKind, Trace};

const HOUR: i64 = 3_600_000_000;

/// Thirty launches, one per 100 µs from `BASE` µs on, and a synchronization. Their kernels start 8 µs later by a clock
/// that is `off` µs ahead.
const BASE: i64 = 1_000_000_000;

fn program(off: i64, is_linked: bool, more: &[String]) -> Trace {
    let mut events = Vec::new();
    for i in 0..30 {
        let at = BASE + 100 * i;
        let args = format!(r#""correlation":{}"#, i + 1);
        events.push(x("cpu_op", "aten::mm", (100, 1), (at, 20), ""));
        events.push(x("cuda_runtime", "cudaLaunchKernel", (100, 1), (at + 2, 5), &args));
        let link = if is_linked { args } else { String::from(r#""correlation":0"#) };
        let args = format!(r#""device":0,"stream":7,{link}"#);
        events.push(x("kernel", "k", (0, 7), (at + 10 + off, 40), &args));
    }
    events.push(x("gpu_user_annotation", "step", (0, 7), (BASE + 10 + off, 2940), ""));
    events.extend_from_slice(more);
    read(&list(&events))
}

/// Starts of kernels in µs since `BASE`.
fn kernels(trace: &Trace) -> Vec<i64> {
    let kernels = trace.events.ids().filter(|e| trace.kind(*e) == EventKind::Kernel && trace.events.is_plausible(*e));
    kernels.map(|e| trace.events.start[e.index()] / 1000 - BASE).collect()
}

#[test]
fn clock_offsets_do_not_change_the_window() {
    let right = program(0, true, &[]);
    assert_eq!(right.report.count_of("device_clock_shifted"), 0);
    let (first, last) = right.span().unwrap();
    for off in [-2 * BASE, -72 * HOUR, -5_000_000, -100_000, -2_000, 2_000, 100_000, 5_000_000, 72 * HOUR] {
        let trace = program(off, true, &[]);
        assert_eq!(trace.report.count_of("device_clock_shifted"), 1, "{off}");
        assert_eq!(trace.report.count_of("implausible_time"), 0, "{off}");
        let (from, to) = trace.span().unwrap();
        assert!((from - first).abs() <= 10_000 && (to - last).abs() <= 10_000, "{off}: {from}..{to}");
        assert_eq!(kernels(&trace).len(), 30);
        let clock = trace.meta.clocks[0];
        assert!((clock.applied_ns + off * 1000).abs() <= 10_000, "{off}: {clock:?}");
        // The bounds apply to recorded times; no operation is early after the shift.
        assert_eq!(clock.least_ns, Some(-off * 1000 - 8_000));
        assert_eq!(trace.report.count_of("kernel_before_launch"), 0);
        // Annotations on the stream are shifted, too.
        let step = trace.events.ids().find(|e| trace.kind(*e) == EventKind::GpuAnnotation).unwrap();
        assert_eq!(trace.events.start[step.index()] / 1000 - BASE, kernels(&trace)[0]);
    }
}

#[test]
fn small_differences_stay_as_recorded_unless_launches_prove_them() {
    // The quickest launch takes 8 µs: a clock 30 µs behind violates causality by 22 µs.
    let trace = program(-30, true, &[]);
    assert_eq!((kernels(&trace)[0], trace.meta.clocks[0].applied_ns), (-20, 0));
    assert_eq!(trace.report.count_of("kernel_before_launch"), 30);
    // By 492 µs in 30 launches. The quickest launch is assumed to take the usual 4 µs.
    let trace = program(-500, true, &[]);
    assert_eq!((kernels(&trace)[0], trace.meta.clocks[0].applied_ns), (6, 496_000));
    assert_eq!(trace.report.count_of("kernel_before_launch"), 0);
}

#[test]
fn waits_prove_that_a_clock_is_ahead_by_less_than_a_millisecond() {
    // Each wait begins after a launch and returns 5 µs after the true end of its kernel, which is at 50 µs.
    let wait = |i: i64| {
        let args = format!(r#""correlation":{}"#, 100 + i);
        x("cuda_runtime", "cudaDeviceSynchronize", (100, 2), (BASE + 100 * i + 8, 47), &args)
    };
    let waits: Vec<String> = (0..30).map(wait).collect();
    let trace = program(395, true, &waits);
    // Between 403 µs by the quickest launch and 390 µs by the quickest wait, of which 4 µs are usual.
    assert_eq!((kernels(&trace)[0], trace.meta.clocks[0].applied_ns), (11, -394_000));
    assert_eq!(trace.report.count_of("kernel_after_wait"), 0);
    let trace = program(0, true, &waits);
    assert_eq!((kernels(&trace)[0], trace.meta.clocks[0].applied_ns), (10, 0));
    // Half of the launches require 387 µs, but waits of the others allow only 5 µs: the clock jumped.
    let jumped: Vec<String> = (31..61)
        .flat_map(|i| {
            let (at, args) = (BASE + 100 * i, format!(r#""correlation":{}"#, 200 + i));
            let on_device = format!(r#""device":0,"stream":7,{args}"#);
            let call = x("cuda_runtime", "cudaLaunchKernel", (100, 1), (at + 2, 5), &args);
            [call, x("kernel", "k", (0, 7), (at + 10 - 395, 40), &on_device)]
        })
        .collect();
    let trace = program(0, true, &[waits, jumped].concat());
    assert_eq!((trace.meta.clocks[0].applied_ns, trace.meta.clocks[0].contradicted_ns), (0, 382_000));
    assert_eq!(trace.report.count_of("device_clock_contradicted"), 1);
}

#[test]
fn clocks_that_jump_ahead_are_contradicted() {
    // Each of sixty kernels runs for 300 µs and is awaited. The clock is `off` µs ahead, and `by` more after a kernel.
    let jump = |off: i64, by: i64, before: i64| {
        let step = |i: i64| {
            let (at, link) = (BASE + 1000 * i, format!(r#""correlation":{}"#, i + 1));
            let start = at + 20 + off + if i < before { 0 } else { by };
            let (on_device, own) =
                (format!(r#""device":0,"stream":7,{link}"#), format!(r#""correlation":{}"#, 100 + i));
            [
                x("cuda_runtime", "cudaLaunchKernel", (100, 1), (at, 5), &link),
                x("kernel", "k", (0, 7), (start, 300), &on_device),
                x("cuda_runtime", "cudaDeviceSynchronize", (100, 1), (at + 100, 230), &own),
            ]
        };
        let trace = read(&list(&(0..60).flat_map(step).collect::<Vec<String>>()));
        let clock = trace.meta.clocks[0];
        assert_eq!(trace.report.count_of("device_clock_contradicted"), u64::from(clock.contradicted_ns > 0));
        (clock.applied_ns / 1000, clock.contradicted_ns / 1000)
    };
    // Launches allow a shift of -20 µs, and waits require one of 10 µs less than the jump.
    for (by, contradicted) in [(500, 470), (5_000, 4_970), (50_000, 49_970)] {
        assert_eq!(jump(0, by, 30), (0, contradicted));
        assert_eq!(jump(0, by, 54), (0, contradicted), "at the end");
        assert_eq!(jump(0, by, 6), (0, contradicted), "at the start");
    }
    assert_eq!(jump(0, 0, 30), (0, 0));
    assert_eq!(jump(0, 20, 30), (0, 0), "noise");
    assert_eq!(jump(0, 5_000, 59), (0, 0), "one wrong record");
    assert_eq!(jump(0, 5_000, 0), (-4_990, 0), "a constant difference");
    assert_eq!(jump(2_000_000, 5_000, 30), (-2_000_020, 4_970), "after the constant difference is corrected");
    let (applied, contradicted) = jump(0, -5_000, 30);
    assert!(applied == 0 && contradicted > 4_000, "back: {contradicted}");
}

#[test]
fn waits_bound_the_shift_of_busy_devices() {
    let busy = |off: i64, waits: bool| {
        let mut events = Vec::new();
        for i in 0..30 {
            let args = format!(r#""correlation":{}"#, i + 1);
            events.push(x("cuda_runtime", "cudaLaunchKernel", (100, 1), (BASE + 10 * i, 5), &args));
            let args = format!(r#""device":0,"stream":7,{args}"#);
            events.push(x("kernel", "k", (0, 7), (BASE + 10 + 100 * i + off, 100), &args));
        }
        if waits {
            // A single wait may be an outlier, so three threads wait.
            for thread in 1..=3 {
                let args = format!(r#""correlation":{}"#, 98 + thread);
                events.push(x("cuda_runtime", "cudaDeviceSynchronize", (100, thread), (BASE + 300, 2715), &args));
            }
        }
        read(&list(&events))
    };
    // A queue may be that long, and there is no other evidence.
    assert_eq!(busy(100_000, false).meta.clocks[0].applied_ns, 0);
    assert_eq!(busy(100_000, true).meta.clocks[0].applied_ns, -99_995_000);
}

#[test]
fn single_wrong_records_cause_no_shift() {
    let wrong = |start: i64| x("kernel", "wrong", (0, 7), (start, 5), r#""device":0,"stream":7,"correlation":1"#);
    for start in [5, BASE - 72 * HOUR / 100, BASE - 300_000, BASE + 72 * HOUR] {
        let trace = program(0, true, &[wrong(start)]);
        assert_eq!((kernels(&trace)[0], trace.meta.clocks[0].applied_ns), (10, 0), "{start}");
    }
}

#[test]
fn launch_order_gives_the_shift_without_links() {
    for off in [-2 * BASE, -72 * HOUR, -100_000, 100_000, 5_000_000, 72 * HOUR] {
        let trace = program(off, false, &[]);
        assert_eq!(trace.report.count_of("device_clock_unknown"), 1, "{off}");
        assert_eq!((kernels(&trace).len(), kernels(&trace)[0]), (30, 7), "{off}");
        assert_eq!((trace.meta.clocks[0].launches, trace.meta.clocks[0].least_ns), (0, None));
    }
    assert_eq!(program(0, false, &[]).meta.clocks, []);
}
