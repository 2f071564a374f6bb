//! Reasons why a call tree cannot be analyzed.

/// Reason why an input has no call tree that can be analyzed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoCalls {
    /// No times of any thread; the measured metrics.
    NoTimes(Vec<String>),
    /// No process of this rank; the known ranks.
    NoRank(i64, Vec<i64>),
    /// Selected steps: a calling context tree has sums over all steps.
    Steps,
}

impl std::fmt::Display for NoCalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoTimes(measured) if measured.is_empty() => {
                f.write_str("the call tree of the input contains no measured values")
            }
            Self::NoTimes(measured) => write!(
                f,
                "findings need times, but the input contains only {}; to see these metrics, use `stackline calls`",
                measured.join(", ")
            ),
            Self::NoRank(requested, known) if known.is_empty() => {
                write!(f, "rank {requested} cannot be selected: no process of the input has a rank number")
            }
            Self::NoRank(requested, known) => {
                let known: Vec<String> = known.iter().map(i64::to_string).collect();
                write!(f, "the input has no rank {requested}; its ranks are {}", known.join(", "))
            }
            Self::Steps => f.write_str(
                "steps cannot be selected, because the input contains only totals over all steps; record again \
                 with `stackline record --mode trace`",
            ),
        }
    }
}

impl std::error::Error for NoCalls {}
