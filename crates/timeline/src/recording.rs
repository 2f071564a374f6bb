//! Metadata of a recording: usable processors, runnable threads, and recording overhead.

use serde_json::Value;
use stackline_model::{RECORDING, Trace};

/// Processes of a recording with their processors, load and recording overhead.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Recorded processes of the machine.
    pub processes: Vec<RecordedProcess>,
}

/// One process of a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedProcess {
    /// Process ID.
    pub pid: i64,
    /// True for processes of the trace; the others ran concurrently.
    pub own: bool,
    /// Usable processors; `None` if unknown.
    pub usable: Option<f64>,
    /// Time (ns since the base), and cumulative ns in which its threads ran, and waited for a processor.
    pub loads: Vec<(i64, f64, f64)>,
    /// Recording overhead per operator; `None` if it was not measured.
    pub cost: Option<OperatorCost>,
}

/// Recording overhead per operator, in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OperatorCost {
    /// Time in the recorder, at the operator's begin and end.
    pub recorder_ns: f64,
    /// Time in `PyTorch` to call the recorder; `None` if it was not measured.
    pub torch_ns: Option<f64>,
    /// Number of operators in the measurement.
    pub measured: f64,
}

impl OperatorCost {
    /// Recording overhead of an operator by recorder and PyTorch together, in ns.
    pub fn ns(&self) -> f64 {
        self.recorder_ns + self.torch_ns.unwrap_or(0.0)
    }
}

/// Maximum plausible overhead per operator, in ns; larger values are damage.
const MAX_OVERHEAD_NS: f64 = 100_000.0;

impl Recording {
    /// Read the metadata of a recording's trace; `None` for other traces.
    pub fn from_trace(trace: &Trace) -> Option<Self> {
        let value: Value = serde_json::from_str(trace.meta.entry(RECORDING)?).ok()?;
        let processes = value["processes"].as_array()?.iter().map(parse_process).collect();
        Some(Self { processes })
    }

    /// Processes of this trace, without others that were recorded concurrently.
    pub fn own_processes(&self) -> impl Iterator<Item = &RecordedProcess> {
        self.processes.iter().filter(|process| process.own)
    }

    /// Test if the usable processors of any of the trace's processes are known.
    pub fn knows_usable_processors(&self) -> bool {
        self.max_usable_processors().is_some()
    }

    /// Usable processors of one of the trace's processes, the maximum if its process ID was reused; `None` if unknown.
    pub fn usable_processors(&self, pid: i64) -> Option<f64> {
        self.processes_with_pid(pid).filter_map(|process| process.usable).max_by(f64::total_cmp)
    }

    /// Mean number of runnable threads of one of the trace's processes in a time range; `None` if the system did not
    /// count.
    pub fn runnable_threads(&self, pid: i64, from: i64, to: i64) -> Option<f64> {
        mean_runnable(self.processes_with_pid(pid), from, to)
    }

    /// Total time in ns in which runnable threads of one of the trace's processes waited for a processor; 0 if the
    /// system did not count.
    pub fn processor_wait_ns(&self, pid: i64, from: i64, to: i64) -> f64 {
        let waited = |process: &RecordedProcess, at: i64| process.cumulative_at(at, |load| load.2);
        self.processes_with_pid(pid)
            .filter_map(|process| Some(waited(process, to)? - waited(process, from)?))
            .sum::<f64>()
            .max(0.0)
    }

    /// Mean number of runnable threads of all recorded processes in a time range; `None` if the system did not count.
    pub fn total_runnable_threads(&self, from: i64, to: i64) -> Option<f64> {
        mean_runnable(self.processes.iter(), from, to)
    }

    /// Number of recorded processes with a runnable thread for at least half of a time range.
    pub fn computing_processes(&self, from: i64, to: i64) -> usize {
        let computes = |process: &&RecordedProcess| {
            mean_runnable(std::iter::once(*process), from, to).is_some_and(|ready| ready >= 0.5)
        };
        self.processes.iter().filter(computes).count()
    }

    /// Maximum of usable processors among the trace's processes; `None` if unknown for all.
    pub fn max_usable_processors(&self) -> Option<f64> {
        self.own_processes().filter_map(|process| process.usable).max_by(f64::total_cmp)
    }

    /// Ratio of usable processors to mean runnable threads of all recorded processes in a time range, at least 1;
    /// `None` if unknown.
    pub fn processor_headroom(&self, from: i64, to: i64) -> Option<f64> {
        let busy = self.total_runnable_threads(from, to).filter(|busy| *busy > 0.0)?;
        Some((self.max_usable_processors()? / busy).max(1.0))
    }

    /// Processes of this trace with a process ID; several if the system reused the ID.
    fn processes_with_pid(&self, pid: i64) -> impl Iterator<Item = &RecordedProcess> {
        self.own_processes().filter(move |process| process.pid == pid)
    }

    /// Recording overhead per operator, from the process with the most measured operators; `None` if not measured.
    pub fn operator_cost(&self) -> Option<OperatorCost> {
        self.own_processes().filter_map(|process| process.cost).max_by(|a, b| a.measured.total_cmp(&b.measured))
    }
}

/// Mean number of runnable threads of some processes in a time range; `None` if the system did not count.
fn mean_runnable<'r>(processes: impl Iterator<Item = &'r RecordedProcess>, from: i64, to: i64) -> Option<f64> {
    let busy: Vec<f64> =
        processes.filter_map(|process| Some(process.runnable_ns_at(to)? - process.runnable_ns_at(from)?)).collect();
    (!busy.is_empty() && to > from).then(|| busy.iter().sum::<f64>() / (to - from) as f64)
}

impl RecordedProcess {
    /// Cumulative ns of the process's threads at a time, interpolated linearly between observations; `of` selects
    /// running or waiting. The first observation includes time before the recording, so earlier times get its value.
    fn cumulative_at(&self, at: i64, of: impl Fn(&(i64, f64, f64)) -> f64) -> Option<f64> {
        let next = self.loads.partition_point(|load| load.0 < at);
        let (Some(before), Some(after)) = (next.checked_sub(1).map(|i| &self.loads[i]), self.loads.get(next)) else {
            // After the last observation the value is constant.
            return if next == 0 { self.loads.first() } else { self.loads.last() }.map(of);
        };
        let part = (at - before.0) as f64 / (after.0 - before.0).max(1) as f64;
        Some(of(before) + (of(after) - of(before)) * part)
    }

    /// Cumulative ns until `at` in which the threads ran or waited for a processor; `None` without observations.
    fn runnable_ns_at(&self, at: i64) -> Option<f64> {
        self.cumulative_at(at, |load| load.1 + load.2)
    }
}

/// Parse a process from the JSON metadata of a recording; invalid values become unknown.
fn parse_process(value: &Value) -> RecordedProcess {
    let number = |value: &Value| value.as_f64().filter(|number| number.is_finite() && *number >= 0.0);
    let load = |load: &Value| Some((load[0].as_i64()?, number(&load[1])?, number(&load[2])?));
    let mut loads: Vec<_> = value["loads"].as_array().into_iter().flatten().filter_map(load).collect();
    loads.sort_unstable_by_key(|load| load.0);
    let cost = &value["cost"];
    let within = |value: &Value| number(value).filter(|ns| *ns <= MAX_OVERHEAD_NS);
    RecordedProcess {
        pid: value["pid"].as_i64().unwrap_or(0),
        own: value["own"].as_bool().unwrap_or(false),
        usable: number(&value["usable_milli"]).filter(|milli| *milli > 0.0).map(|milli| milli / 1e3),
        loads,
        cost: within(&cost["begin_ns"]).zip(within(&cost["end_ns"])).map(|(begin, end)| OperatorCost {
            recorder_ns: begin + end,
            torch_ns: within(&cost["torch_ns"]),
            measured: number(&cost["measured"]).unwrap_or(0.0),
        }),
    }
}
