//! Launches: duration of the launch call on the CPU, duration of the operation on the GPU, and the delay in between.
//!
//! The launch delay is the start of the GPU operation minus the end of its launch call, at least 0. A *short kernel* is
//! shorter than its launch call (of calls up to 50 µs); a *runtime outlier* is a call above 50 µs; a *launch delay
//! outlier* is a delay above 100 µs.
//!
//! The exact table covers every GPU operation with a known launch, independent of the call's name, in nanoseconds.
//! HTA's tables (HTA 0.6.1 `get_cuda_kernel_launch_stats`) pair rows without stream and rows with stream of equal
//! correlation, if a call named `cudaLaunchKernel`, `cudaLaunchKernelExC`, MTIA's launch, or (with memory events)
//! `cudaMemcpyAsync` or `cudaMemsetAsync` has that correlation. So HTA excludes launches by HIP, by the driver API, and
//! of graphs.

use crate::hta_rows::{CallPairs, HtaRows, Row, note_limited};
use crate::{Analysis, Display, TableCommand};
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::{Table, Trace, Unit};
use stackline_timeline::stats::{columns, describe, sum};
use stackline_timeline::{DefaultWindow, Scope};

/// The registered analysis.
pub const ANALYSIS: Analysis = Analysis {
    name: "hta_launch_stats",
    about: "Launch calls and launch delays, with counts of short kernels, slow launch calls and long launch delays",
    tables: &["launch_stats", "hta_launch_stats", "hta_launches"],
    window: DefaultWindow::WholeAs("HTA"),
    commands: &[TableCommand::Kernels],
    display: Display::Except(&["hta_launches"]),
    run: |trace, scope| {
        let (pairs, limited) = pairs_limited(&HtaRows::load(trace, scope), true);
        vec![exact(trace, scope), note_limited(hta_summary(&pairs), limited), hta_launches(&pairs)]
    },
};

/// HTA's limit for calls, in microseconds.
const RUNTIME_CUTOFF_US: f64 = 50.0;
/// HTA's limit for launch delays, in microseconds.
const LAUNCH_DELAY_CUTOFF_US: f64 = 100.0;

const KERNEL_LAUNCHES: &[&str] =
    &["cudaLaunchKernel", "cudaLaunchKernelExC", "runFunction - job_prep_and_submit_for_execution"];
const MEMORY_LAUNCHES: &[&str] = &["cudaMemcpyAsync", "cudaMemsetAsync"];

/// A launch call paired with a GPU operation that it started; times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Launch {
    /// Correlation ID of both.
    pub correlation: i64,
    /// Duration of the call.
    pub cpu_duration: f64,
    /// Duration of the operation.
    pub gpu_duration: f64,
    /// Delay from the end of the call to the start of the operation, at least 0.
    pub launch_delay: f64,
}

impl Launch {
    /// Test if the GPU operation is shorter than its launch call. False for calls above HTA's limit of call time.
    pub fn is_short(&self) -> bool {
        self.cpu_duration <= RUNTIME_CUTOFF_US && self.gpu_duration < self.cpu_duration
    }

    /// Test if the launch call takes longer than HTA's limit of call time.
    fn is_slow_call(&self) -> bool {
        self.cpu_duration > RUNTIME_CUTOFF_US
    }

    /// Test if the launch delay is above HTA's limit.
    pub fn is_delayed(&self) -> bool {
        self.launch_delay > LAUNCH_DELAY_CUTOFF_US
    }
}

/// Pairs of launch call and GPU operation as in HTA, ordered by the call's row, then by the operation's row.
pub fn pairs(rows: &HtaRows, memory: bool) -> Vec<Launch> {
    pairs_limited(rows, memory).0
}

/// Pairs of launch call and GPU operation as in HTA. Also returns the number of calls that are paired with only one of
/// several operations.
fn pairs_limited(rows: &HtaRows, memory: bool) -> (Vec<Launch>, usize) {
    let is_launch = |name: &str| KERNEL_LAUNCHES.contains(&name) || (memory && MEMORY_LAUNCHES.contains(&name));
    let launched: FxHashSet<i64> =
        rows.rows.iter().filter(|r| is_launch(rows.trace.strings.get(r.name))).map(|r| r.correlation).collect();
    // -1 means "no correlation": HTA would pair all such rows with each other.
    let selected = |r: &&Row| r.correlation != -1 && launched.contains(&r.correlation);
    let mut operations: FxHashMap<i64, Vec<&Row>> = FxHashMap::default();
    for row in rows.gpu().filter(selected) {
        operations.entry(row.correlation).or_default().push(row);
    }
    let mut found = Vec::new();
    let mut pairs = CallPairs::default();
    for call in rows.rows.iter().filter(|r| r.stream == -1).filter(selected) {
        let of_call = operations.get(&call.correlation).map_or(&[][..], |o| pairs.next(call.correlation, o));
        for operation in of_call {
            found.push(Launch {
                correlation: call.correlation,
                cpu_duration: call.dur,
                gpu_duration: operation.dur,
                launch_delay: (operation.ts - call.ts - call.dur).max(0.0),
            });
        }
    }
    (found, pairs.limited)
}

type Measure = fn(&Launch) -> f64;

/// Create a table of the statistics of call time, GPU time and launch delay in µs, with a note on outliers.
fn summary(name: &str, title: &str, launches: &[Launch]) -> Table {
    let count = |test: fn(&Launch) -> bool| launches.iter().filter(|l| test(l)).count() as i64;
    let measures: [(&str, Measure); 3] = [
        ("cpu_duration", |l| l.cpu_duration),
        ("gpu_duration", |l| l.gpu_duration),
        ("launch_delay", |l| l.launch_delay),
    ];
    let values: Vec<Vec<f64>> = measures.iter().map(|(_, get)| launches.iter().map(get).collect()).collect();
    let mut table = Table::new(name, title).text("measure", measures.iter().map(|m| m.0.to_owned())).f64(
        "sum",
        Unit::Us,
        values.iter().map(|v| sum(v.iter().copied())),
    );
    table.columns.extend(columns(&values.iter().map(|v| describe(v)).collect::<Vec<_>>(), Unit::Us));
    table.note(format!(
        "The table covers {} launches. Short kernels: {} launch calls took at most {RUNTIME_CUTOFF_US} µs, but longer \
         than their GPU operation. Slow calls: {} launch calls took more than {RUNTIME_CUTOFF_US} µs. Long delays: {} \
         launches had a launch delay above {LAUNCH_DELAY_CUTOFF_US} µs.",
        launches.len(),
        count(Launch::is_short),
        count(Launch::is_slow_call),
        count(Launch::is_delayed),
    ))
}

/// Table `launch_stats` (times not rounded, unlike HTA): call time, GPU time and launch delay in fractional µs. GPU
/// operations without a known launch are not counted.
pub fn exact(trace: &Trace, scope: &Scope) -> Table {
    let mut launches = Vec::new();
    let mut orphans = 0;
    let work = scope.gpu_work(trace);
    for gpu in trace.gpu.ids().filter(|&g| work.has(g)) {
        let (event, launch) = (trace.gpu.event[gpu.index()], trace.gpu.launch[gpu.index()]);
        if launch.is_none() || !trace.events.is_plausible(event) || !trace.events.is_plausible(launch) {
            orphans += 1;
            continue;
        }
        let delay = trace.events.start[event.index()].saturating_sub(trace.events.end(launch)).max(0);
        launches.push(Launch {
            correlation: trace.gpu.correlation[gpu.index()],
            cpu_duration: trace.events.dur[launch.index()] as f64 / 1e3,
            gpu_duration: trace.events.dur[event.index()] as f64 / 1e3,
            launch_delay: delay as f64 / 1e3,
        });
    }
    summary(
        "launch_stats",
        "Call time, GPU time and launch delay of GPU operations (not rounded to µs, unlike HTA)",
        &launches,
    )
    .note(format!("{orphans} GPU operations have no known launch and are not counted."))
}

/// Table `hta_launch_stats`: number of launches, short kernels, slow calls and long delays, as HTA counts them.
pub fn hta_summary(launches: &[Launch]) -> Table {
    let count = |test: fn(&Launch) -> bool| launches.iter().filter(|l| test(l)).count() as i64;
    let lines = [
        ("launches", launches.len() as i64),
        ("short_kernels", count(Launch::is_short)),
        ("runtime_outliers", count(Launch::is_slow_call)),
        ("launch_delay_outliers", count(Launch::is_delayed)),
    ];
    Table::new(
        "hta_launch_stats",
        "Number of launches, short kernels, slow calls and long delays, as HTA 0.6.1 counts them",
    )
    .text("measure", lines.iter().map(|l| l.0.to_owned()))
    .i64("count", Unit::None, lines.iter().map(|l| l.1))
}

/// Table `hta_launches`: one row per GPU launch that HTA counts, with durations and delay.
pub fn hta_launches(launches: &[Launch]) -> Table {
    Table::new("hta_launches", "Durations and launch delay of every launch that HTA 0.6.1 counts")
        .i64("correlation", Unit::None, launches.iter().map(|l| l.correlation))
        .f64("cpu_duration_us", Unit::Us, launches.iter().map(|l| l.cpu_duration))
        .f64("gpu_duration_us", Unit::Us, launches.iter().map(|l| l.gpu_duration))
        .f64("launch_delay_us", Unit::Us, launches.iter().map(|l| l.launch_delay))
}
