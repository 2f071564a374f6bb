//! Metrics of call-tree nodes, and their statistics.

use crate::{StrId, StringTable, Unit};

/// Metric of a call-tree node, such as GPU time, launches or allocated bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallMetric {
    /// Time in an operator or a named span, without nested operators and spans, in ns.
    OperatorTime,
    /// Time from begin to end of an operator call, with nested operators, in ns.
    CallTime,
    /// CPU time by samples, in ns.
    CpuTime,
    /// Wall time by samples, in ns.
    WallTime,
    /// Waiting time (wall time) of threads that run operators, by samples, in ns.
    WaitTime,
    /// Time of Python's garbage collection, without operators that finalizers call, in ns.
    GcTime,
    /// Wall time of a span on a host thread, including waits, without nested spans, in ns.
    HostTime,
    /// Run time of a GPU operation, in ns.
    GpuTime,
    /// Allocated memory, in bytes.
    Allocated,
    /// Freed memory, at the call that freed it, in bytes.
    Freed,
    /// Calls that launch GPU work; a call counts once, independent of the number of its operations.
    Launches,
    /// Bytes that copies and fills of GPUs moved.
    Copied,
    /// GPU idle time, at the calls of the thread that launched the operation which ended it, in ns.
    GpuIdle,
    /// Events counted by the system or the processor, or values of a profile without a metric of their own, by name,
    /// and the unit of their sums.
    Counter(StrId, Unit),
}

impl CallMetric {
    /// Metrics except counters.
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

    /// Declaration of a fixed metric; `None` for counters, which are declared by their source.
    fn declaration(self) -> Option<Declaration> {
        Some(match self {
            Self::OperatorTime => Declaration::time("operator_time", "operator and span time"),
            Self::CallTime => Declaration { adds_up: false, ..Declaration::time("call_time", "operator call time") },
            Self::CpuTime => Declaration::time("cpu_time", "CPU time"),
            // The former name of wall time. It is a stable key of run directories, exports and options.
            Self::WallTime => Declaration::time("real_time", "wall time"),
            Self::WaitTime => Declaration::time("wait_time", "waiting time"),
            Self::GcTime => Declaration::time("gc_time", "garbage collection time"),
            Self::HostTime => Declaration::time("host_time", "host time"),
            Self::GpuTime => Declaration::time("gpu_time", "GPU time"),
            Self::Allocated => Declaration::sum("allocated", "memory allocated", Unit::Bytes),
            Self::Freed => Declaration::sum("freed", "memory freed", Unit::Bytes),
            Self::Launches => Declaration::sum("launches", "GPU launches", Unit::None),
            Self::Copied => Declaration::sum("copied", "bytes copied and filled", Unit::Bytes),
            Self::GpuIdle => Declaration::time("gpu_idle", "GPU idle time"),
            Self::Counter(..) => return None,
        })
    }

    /// Stable name of a call-tree metric, such as `gpu_time`.
    pub fn name(self, strings: &StringTable) -> &str {
        match self {
            Self::Counter(name, _) => strings.get(name),
            fixed => fixed.declaration().map_or("", |declared| declared.name),
        }
    }

    /// Title of a call-tree metric for people, such as `GPU time`.
    pub fn title(self, strings: &StringTable) -> &str {
        match self {
            Self::Counter(name, _) => strings.get(name),
            fixed => fixed.declaration().map_or("", |declared| declared.title),
        }
    }

    /// Unit of the sums of a call-tree metric.
    pub fn unit(self) -> Unit {
        match self {
            Self::Counter(_, unit) => unit,
            fixed => fixed.declaration().map_or(Unit::None, |declared| declared.unit),
        }
    }

    /// True if values of a node and of its descendants add up. Times of calls do not, because they include nested
    /// calls.
    pub fn adds_up(self) -> bool {
        self.declaration().is_none_or(|declared| declared.adds_up)
    }

    /// True for times in ns whose values add up over calls. Counters are excluded, also those in ns, because they
    /// repeat the time of another metric.
    pub fn is_time(self) -> bool {
        self.unit() == Unit::Ns && self.adds_up() && !matches!(self, Self::Counter(..))
    }
}

/// Declaration of a fixed metric: stable name, title for people, unit of the sums, and how they add up.
struct Declaration {
    name: &'static str,
    title: &'static str,
    unit: Unit,
    /// True if values of a node and of its descendants add up.
    adds_up: bool,
}

impl Declaration {
    /// Declare a metric whose values add up over calls.
    const fn sum(name: &'static str, title: &'static str, unit: Unit) -> Self {
        Self { name, title, unit, adds_up: true }
    }

    /// Declare a time in ns that adds up over calls.
    const fn time(name: &'static str, title: &'static str) -> Self {
        Self::sum(name, title, Unit::Ns)
    }
}

/// Upper limit of sums of squares: 38 decimal digits, as in decimal columns of files.
pub const MAX_SUM_OF_SQUARES: u128 = 10_u128.pow(38) - 1;

/// Count, sum and spread of values. Sums saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallStats {
    /// Number of values.
    pub count: u64,
    /// Sum of the values.
    pub sum: u64,
    /// Minimum, 0 without values.
    pub min: u64,
    /// Maximum.
    pub max: u64,
    /// Sum of squares, at most [`MAX_SUM_OF_SQUARES`].
    pub sum_of_squares: u128,
}

impl CallStats {
    /// Statistics of a metric that has one value.
    pub fn from_value(value: u64) -> Self {
        let square = u128::from(value) * u128::from(value);
        Self { count: 1, sum: value, min: value, max: value, sum_of_squares: square.min(MAX_SUM_OF_SQUARES) }
    }

    /// Merge the statistics of another set of values; commutative and associative.
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

    /// Mean of the values of a metric, 0 without values.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Standard deviation of the values (population), 0 without values.
    pub fn standard_deviation(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        // n Σx² − (Σx)² in integers where they fit: the difference of two large floats would be inaccurate.
        let (n, sum) = (u128::from(self.count), u128::from(self.sum));
        match (n.checked_mul(self.sum_of_squares), sum.checked_mul(sum)) {
            (Some(squares), Some(square)) => (squares.saturating_sub(square) as f64).sqrt() / n as f64,
            _ => (self.sum_of_squares as f64 / n as f64 - self.mean() * self.mean()).max(0.0).sqrt(),
        }
    }
}
