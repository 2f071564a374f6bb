//! What is measured at nodes, and the statistics that are kept of it.

use crate::{StrId, StringTable, Unit};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallMetric {
    /// Time within an operator or a span that the program named, without the operators and spans in it. ns.
    OperatorTime,
    /// Time from begin to end of a call of an operator. ns. Holds the time of operators below.
    CallTime,
    /// CPU time that samples stand for. ns.
    CpuTime,
    /// Wall-clock time that samples stand for. ns.
    WallTime,
    /// Wall-clock time for which threads that run operators waited, that samples stand for. ns.
    WaitTime,
    /// Time in which Python collected garbage, without the operators that finalizers called. ns.
    GcTime,
    /// Wall-clock time of a span of a thread, waits included, without the spans that it holds. ns.
    HostTime,
    /// Time that an operation of a GPU runs. ns.
    GpuTime,
    /// Memory allocated. bytes.
    Allocated,
    /// Memory freed, where it was freed. bytes.
    Freed,
    /// Calls that put work on a GPU, one each, however many operations they launch.
    Launches,
    /// What copies and fills of GPUs moved. bytes.
    Copied,
    /// Time in which a GPU had nothing to do, where the thread was that launched what ended it. ns.
    GpuIdle,
    /// Occurrences counted by the system or the processor, by name.
    Counter(StrId),
}

impl CallMetric {
    /// The metrics that are not counters.
    pub const ALL: [Self; 13] = [
        Self::OperatorTime,
        Self::CallTime,
        Self::CpuTime,
        Self::WallTime,
        Self::WaitTime,
        Self::GcTime,
        Self::HostTime,
        Self::GpuTime,
        Self::Allocated,
        Self::Freed,
        Self::Launches,
        Self::Copied,
        Self::GpuIdle,
    ];

    /// Stable name.
    pub fn name(self, strings: &StringTable) -> &str {
        match self {
            Self::OperatorTime => "operator_time",
            Self::CallTime => "call_time",
            Self::CpuTime => "cpu_time",
            Self::WallTime => "real_time",
            Self::WaitTime => "wait_time",
            Self::GcTime => "gc_time",
            Self::HostTime => "host_time",
            Self::GpuTime => "gpu_time",
            Self::Allocated => "allocated",
            Self::Freed => "freed",
            Self::Launches => "launches",
            Self::Copied => "copied",
            Self::GpuIdle => "gpu_idle",
            Self::Counter(name) => strings.get(name),
        }
    }

    /// What it is, for people.
    pub fn title(self, strings: &StringTable) -> &str {
        match self {
            Self::OperatorTime => "operator and span time",
            Self::CallTime => "operator call time",
            Self::CpuTime => "CPU time",
            Self::WallTime => "wall time",
            Self::WaitTime => "waiting time",
            Self::GcTime => "garbage collection time",
            Self::HostTime => "host time",
            Self::GpuTime => "GPU time",
            Self::Allocated => "memory allocated",
            Self::Freed => "memory freed",
            Self::Launches => "GPU launches",
            Self::Copied => "bytes copied and filled",
            Self::GpuIdle => "GPU idle time",
            Self::Counter(name) => strings.get(name),
        }
    }

    /// Unit of its sums.
    pub fn unit(self) -> Unit {
        match self {
            Self::OperatorTime
            | Self::CallTime
            | Self::CpuTime
            | Self::WallTime
            | Self::WaitTime
            | Self::GcTime
            | Self::HostTime
            | Self::GpuTime
            | Self::GpuIdle => Unit::Ns,
            Self::Allocated | Self::Freed | Self::Copied => Unit::Bytes,
            Self::Launches | Self::Counter(_) => Unit::None,
        }
    }

    /// Whether values of a node and of those below it add up. Times of calls do not: they hold each other.
    pub fn adds_up(self) -> bool {
        self != Self::CallTime
    }
}

/// The largest sum of squares that is kept: 38 decimal digits, as decimal columns of files have.
pub const MAX_SUM_OF_SQUARES: u128 = 10_u128.pow(38) - 1;

/// Count, sum and spread of some values. Sums saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallStats {
    /// How many values.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The least one, 0 if there is none.
    pub min: u64,
    /// The greatest one.
    pub max: u64,
    /// The sum of their squares, at most [`MAX_SUM_OF_SQUARES`].
    pub sum_of_squares: u128,
}

impl CallStats {
    /// The statistics of one value.
    pub fn from_value(value: u64) -> Self {
        let square = u128::from(value) * u128::from(value);
        Self { count: 1, sum: value, min: value, max: value, sum_of_squares: square.min(MAX_SUM_OF_SQUARES) }
    }

    /// The statistics of both sets of values together; commutative and associative.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.sum_of_squares = self.sum_of_squares.saturating_add(other.sum_of_squares).min(MAX_SUM_OF_SQUARES);
    }

    /// The mean, 0 without values.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Standard deviation of the values (population), 0 without values.
    pub fn standard_deviation(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        // n Σx² − (Σx)² in integers where they fit: the difference of two large floats would be noise.
        let (n, sum) = (u128::from(self.count), u128::from(self.sum));
        match (n.checked_mul(self.sum_of_squares), sum.checked_mul(sum)) {
            (Some(squares), Some(square)) => (squares.saturating_sub(square) as f64).sqrt() / n as f64,
            _ => (self.sum_of_squares as f64 / n as f64 - self.mean() * self.mean()).max(0.0).sqrt(),
        }
    }
}
