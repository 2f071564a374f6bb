//! Recordings of only kernels: no call, no thread.

use crate::support::{mini, read};
use stackline_critical_path::exact::{Category, Exact, WindowChoice, what_if};
use stackline_model::Trace;

/// Streams 7 and 9 take turns; a kernel of a µs ends last.
fn alternating_streams() -> Trace {
    let kernels = mini(
        "gpu0/7  kernel  a       0..100    correlation=1
         gpu0/7  kernel  b       110..200  correlation=111
         gpu0/9  kernel  c       205..300  correlation=206
         gpu0/7  kernel  d       305..306  correlation=306
         gpu0/9  kernel  beside  20..25    correlation=21",
    );
    read(kernels.json())
}

/// Time on the path through the whole trace by category, in ns.
fn spent(trace: &Trace) -> Vec<(Category, i64)> {
    let path = Exact::new(trace).path(&WindowChoice::Whole).unwrap();
    path.by_category().into_iter().filter(|(_, ns)| *ns > 0).collect()
}

/// Kernels of 100 µs one after the other: process, stream, device and start of each.
fn consecutive_kernels(kernels: [(i64, i64, i64, i64); 3]) -> Trace {
    let mut trace = mini("");
    for (pid, stream, device, start) in kernels {
        let args = format!("stream={stream} device={device} correlation={}", start + 1);
        trace.add(&format!("{pid}/{stream} kernel kernel {start}+100 {args}"));
    }
    read(trace.json())
}

#[test]
fn path_switches_to_the_active_stream() {
    let trace = alternating_streams();
    let exact = Exact::new(&trace);
    let path = exact.path(&WindowChoice::Whole).unwrap();
    let worked: Vec<&str> = path
        .segments
        .iter()
        .filter(|segment| segment.rule == "record")
        .map(|segment| trace.name(segment.event))
        .collect();
    assert_eq!(worked, ["a", "b", "c", "d"]);
    assert_eq!(spent(&trace), [(Category::GpuCompute, 286_000), (Category::GpuQueue, 20_000)]);
    let between = path.segments.iter().find(|segment| segment.end == 305_000).unwrap();
    assert_eq!((between.rule, between.evidence.name()), ("other_stream_without_launch", "inferred"));
}

/// Half of `c` is gained where the path goes through it; concurrent work gains nothing.
#[test]
fn edits_gain_time_on_the_path_only() {
    let trace = alternating_streams();
    let gain = |text: &str| {
        let edit = what_if::Edit::parse(text).unwrap();
        what_if::predict(&trace, &WindowChoice::Whole, &[edit]).unwrap().gain
    };
    assert_eq!(gain("scale kernel:c 0.5").likely_ns, 47_500);
    assert_eq!(gain("scale kernel:beside 0.5").likely_ns, 0);
}

/// Work that started long after all else: its launch time is unknown, and may be as late.
#[test]
fn gain_before_idle_time_is_uncertain() {
    for stream in [7, 9] {
        let mut t = mini("gpu0/7  kernel  a  0+100  correlation=1");
        t.add(&format!("gpu0/{stream} kernel b 5000+100 correlation=2"));
        let edit = what_if::Edit::parse("scale kernel:a 0.5").unwrap();
        let gain = what_if::predict(&read(t.json()), &WindowChoice::Whole, &[edit]).unwrap().gain;
        assert_eq!(gain.likely_ns, 50_000);
        // None, a ten-thousandth of the window for clocks and rounding, and 4 µs for a lag more.
        assert_eq!(gain.low_ns, -510 - 4_000);
    }
}

/// Long idle times of the device: the file has no cause for them.
#[test]
fn idle_time_is_unknown() {
    let t = mini(
        "gpu0/7  kernel  a  0+100     correlation=1
         gpu0/9  kernel  b  5000+100  correlation=2",
    );
    assert_eq!(spent(&read(t.json())), [(Category::GpuCompute, 200_000), (Category::Unknown, 4_900_000)]);
}

/// TensorFlow 1 has a process for each stream of a device.
#[test]
fn streams_recorded_as_processes_share_a_device() {
    let trace = consecutive_kernels([(1, 1, 0, 0), (2, 2, 0, 105), (1, 1, 0, 210)]);
    assert_eq!(spent(&trace), [(Category::GpuCompute, 300_000), (Category::GpuQueue, 10_000)]);
}

/// Work of another device delays nothing.
#[test]
fn devices_are_independent() {
    let trace = consecutive_kernels([(0, 7, 0, 0), (1, 7, 1, 105), (0, 7, 0, 210)]);
    assert_eq!(spent(&trace), [(Category::GpuCompute, 200_000), (Category::Unknown, 110_000)]);
}

/// A recorded call of a device shows that calls were recorded: then nothing is inferred from times alone.
#[test]
fn recorded_launches_disable_the_inference() {
    let t = mini(
        "gpu0/7  kernel        a                 0+100    correlation=1
         10/1    cuda_runtime  cudaLaunchKernel  40+10    correlation=2
         gpu0/9  kernel        b                 150+100  correlation=2
         gpu0/7  kernel        c                 300+10   correlation=3",
    );
    let trace = read(t.json());
    let path = Exact::new(&trace).path(&WindowChoice::Whole).unwrap();
    assert!(path.segments.iter().all(|segment| segment.rule != "other_stream_without_launch"));
}

/// Three steps of a device's own row, each with two fusions of 400 µs, and 200 µs between them.
fn steps_of_a_device() -> Trace {
    let mut trace = mini(
        r#"file -
        process 1 name=/device:TPU:0
        thread 1/1 name="Steps"
        thread 1/3 name="XLA Ops""#,
    );
    for step in 0..3 {
        let start = 1000 * step;
        trace.add(&format!("1/1 - {step} {start}+800"));
        trace.add(&format!("1/3 - fusion.1 {start}+400 hlo_category=\"loop fusion\""));
        trace.add(&format!("1/3 - fusion.2 {}+400 hlo_category=\"loop fusion\"", start + 400));
    }
    read(trace.json())
}

/// No thread has the steps: their path ends with the work of the device.
#[test]
fn device_steps_contain_device_work() {
    let trace = steps_of_a_device();
    assert_eq!(trace.steps.len(), 3);
    let exact = Exact::new(&trace);
    let compute = |choice: &WindowChoice| {
        let sums = exact.path(choice).unwrap().by_category();
        sums.iter().find(|(category, _)| *category == Category::GpuCompute).map_or(0, |(_, ns)| *ns)
    };
    let gain = |choice: &WindowChoice| {
        let edit = what_if::Edit::parse("scale kernel:fusion.2 0.5").unwrap();
        what_if::predict(&trace, choice, &[edit]).unwrap().gain
    };
    for (choice, steps) in [
        (WindowChoice::Steps(0, 2), 3),
        (WindowChoice::StepsWithWork(0, 2), 3),
        // What is before it moves its begin as much as its end.
        (WindowChoice::Steps(1, 1), 1),
    ] {
        assert_eq!(compute(&choice), steps * 800_000, "{choice:?}");
        let gain = gain(&choice);
        assert_eq!(gain.likely_ns, steps * 200_000, "{choice:?} {gain:?}");
        assert!(gain.high_ns >= gain.likely_ns, "{choice:?} {gain:?}");
    }
}
