//! What a recording says of itself: processors, load, and what recording costs.

use serde_json::Value;
use stackline_model::{RECORDING, Trace};

/// A recording, as its trace describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Processes of the machine that were recorded.
    pub processes: Vec<RecordedProcess>,
}

/// One process of a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedProcess {
    /// Its number.
    pub pid: i64,
    /// Whether it is one of the trace's; the others ran beside it.
    pub own: bool,
    /// What it may use, in processors; none if that is not known.
    pub usable: Option<f64>,
    /// When (ns since the base), and for how many ns its threads had run and waited for a processor by then.
    pub loads: Vec<(i64, f64, f64)>,
    /// What it costs to record an operator, in ns; none if it was not measured.
    pub cost: Option<OperatorCost>,
}

/// What it costs to record an operator, in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OperatorCost {
    /// Of the recorder, when it begins and when it ends.
    pub recorder_ns: f64,
    /// Of `PyTorch`, to call the recorder; none if it could not be measured.
    pub torch_ns: Option<f64>,
    /// On so many operators it was measured.
    pub measured: f64,
}

impl OperatorCost {
    /// All of it, in ns.
    pub fn ns(&self) -> f64 {
        self.recorder_ns + self.torch_ns.unwrap_or(0.0)
    }
}

/// More per operator is damage.
const MOST_NS: f64 = 100_000.0;

impl Recording {
    /// What the trace of a recording says; `None` of other traces.
    pub fn from_trace(trace: &Trace) -> Option<Self> {
        let value: Value = serde_json::from_str(trace.meta.entry(RECORDING)?).ok()?;
        let processes = value["processes"].as_array()?.iter().map(process).collect();
        Some(Self { processes })
    }

    /// The processes of the trace itself.
    pub fn own(&self) -> impl Iterator<Item = &RecordedProcess> {
        self.processes.iter().filter(|process| process.own)
    }

    /// Whether it is known of any of the trace's processes what it may use.
    pub fn knows_processors(&self) -> bool {
        self.most_usable().is_some()
    }

    /// What one of the trace's processes may use, in processors: the most of those that had the number one after another.
    pub fn usable(&self, pid: i64) -> Option<f64> {
        self.numbered(pid).filter_map(|process| process.usable).max_by(f64::total_cmp)
    }

    /// How many threads of one of the trace's processes were ready to run at once, in the mean of a stretch of time; none if the
    /// system did not count.
    pub fn runnable(&self, pid: i64, from: i64, to: i64) -> Option<f64> {
        ready(self.numbered(pid), from, to)
    }

    /// For how long threads of one of the trace's processes were ready to run and waited for a processor, all together in ns; 0 if
    /// the system did not count.
    pub(crate) fn delayed(&self, pid: i64, from: i64, to: i64) -> f64 {
        let waited = |process: &RecordedProcess, at: i64| process.by(at, |load| load.2);
        self.numbered(pid)
            .filter_map(|process| Some(waited(process, to)? - waited(process, from)?))
            .sum::<f64>()
            .max(0.0)
    }

    /// How many threads of all recorded processes were ready to run at once, in the mean of a stretch of time; none if the
    /// system did not count.
    pub fn busy(&self, from: i64, to: i64) -> Option<f64> {
        ready(self.processes.iter(), from, to)
    }

    /// How many of all recorded processes have a thread ready to run for at least half of a stretch of time.
    pub fn computing(&self, from: i64, to: i64) -> usize {
        let computes =
            |process: &&RecordedProcess| ready(std::iter::once(*process), from, to).is_some_and(|ready| ready >= 0.5);
        self.processes.iter().filter(computes).count()
    }

    /// The most processors that one of the trace's processes may use.
    pub fn most_usable(&self) -> Option<f64> {
        self.own().filter_map(|process| process.usable).max_by(f64::total_cmp)
    }

    /// How many times as many threads would find a processor, in the mean of a stretch of time; at least 1.
    pub fn room(&self, from: i64, to: i64) -> Option<f64> {
        let busy = self.busy(from, to).filter(|busy| *busy > 0.0)?;
        Some((self.most_usable()? / busy).max(1.0))
    }

    fn numbered(&self, pid: i64) -> impl Iterator<Item = &RecordedProcess> {
        self.own().filter(move |process| process.pid == pid)
    }

    /// What it costs to record an operator: of the process in which most were measured.
    pub fn cost(&self) -> Option<OperatorCost> {
        self.own().filter_map(|process| process.cost).max_by(|a, b| a.measured.total_cmp(&b.measured))
    }
}

/// How many threads of some processes were ready to run at once, in the mean.
fn ready<'r>(processes: impl Iterator<Item = &'r RecordedProcess>, from: i64, to: i64) -> Option<f64> {
    let busy: Vec<f64> = processes.filter_map(|process| Some(process.busy(to)? - process.busy(from)?)).collect();
    (!busy.is_empty() && to > from).then(|| busy.iter().sum::<f64>() / (to - from) as f64)
}

impl RecordedProcess {
    /// What its threads had done by a moment, in ns, taken as even between two looks. The first look holds what they did
    /// since they began, be that before the recording: as long as nothing is known, they did nothing.
    fn by(&self, at: i64, of: impl Fn(&(i64, f64, f64)) -> f64) -> Option<f64> {
        let next = self.loads.partition_point(|load| load.0 < at);
        let (Some(before), Some(after)) = (next.checked_sub(1).map(|i| &self.loads[i]), self.loads.get(next)) else {
            // Behind the last look nothing happens any more.
            return if next == 0 { self.loads.first() } else { self.loads.last() }.map(of);
        };
        let part = (at - before.0) as f64 / (after.0 - before.0).max(1) as f64;
        Some(of(before) + (of(after) - of(before)) * part)
    }

    /// ns that they had run or waited for a processor.
    fn busy(&self, at: i64) -> Option<f64> {
        self.by(at, |load| load.1 + load.2)
    }
}

fn process(value: &Value) -> RecordedProcess {
    let number = |value: &Value| value.as_f64().filter(|number| number.is_finite() && *number >= 0.0);
    let load = |load: &Value| Some((load[0].as_i64()?, number(&load[1])?, number(&load[2])?));
    let mut loads: Vec<_> = value["loads"].as_array().into_iter().flatten().filter_map(load).collect();
    loads.sort_unstable_by_key(|load| load.0);
    let cost = &value["cost"];
    let within = |value: &Value| number(value).filter(|ns| *ns <= MOST_NS);
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
