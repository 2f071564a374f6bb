//! Printable metadata of rules, and their areas.

/// Area of the performance problems that a rule reports, such as the host, data or kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    /// The host keeps the GPU waiting.
    Host,
    /// Waits of the host for the GPU.
    Synchronization,
    /// Loading and preprocessing of data.
    Data,
    /// Kernels that could be fewer or faster.
    Kernels,
    /// Copies between host and GPU, and within each.
    Copies,
    /// Communication between ranks.
    Communication,
    /// Allocation of memory.
    Memory,
    /// Validity of the measurement.
    Measurement,
    /// Problems of Python rules.
    Own,
}

impl Area {
    /// All areas, in the order in which lists show them.
    pub const ALL: [Self; 9] = [
        Self::Host,
        Self::Synchronization,
        Self::Data,
        Self::Kernels,
        Self::Copies,
        Self::Communication,
        Self::Memory,
        Self::Measurement,
        Self::Own,
    ];

    /// Name of the area in documents, such as `host`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Synchronization => "synchronization",
            Self::Data => "data",
            Self::Kernels => "kernels",
            Self::Copies => "copies",
            Self::Communication => "communication",
            Self::Memory => "memory",
            Self::Measurement => "measurement",
            Self::Own => "own",
        }
    }
}

/// Printable metadata of a rule, built-in or in Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleInfo {
    /// Stable code, such as `SL001` or, for a Python rule, `MY001`.
    pub code: String,
    /// Stable name in words, such as `hotspot`.
    pub name: String,
    /// Area.
    pub area: Area,
    /// Summary in one line.
    pub about: String,
    /// Reason why the problem costs time; may be empty for Python rules.
    pub why: String,
    /// Advice.
    pub advice: String,
    /// Example code before and after the change; none for Python rules.
    pub example: Option<(String, String)>,
    /// Cost of the change; may be empty for Python rules.
    pub cost: String,
    /// Page in the repository, `Rule::page_path`; none for Python rules.
    pub page: Option<String>,
}
