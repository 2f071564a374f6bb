//! Reasons for which a call tree has no answer.

/// Why nothing can be looked for in calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoCalls {
    /// No time of any thread was measured, but maybe other things: what was.
    NoTimes(Vec<String>),
    /// No process is of this rank; those that there are.
    NoRank(i64, Vec<i64>),
    /// Steps were chosen, and a tree of calls has them all in one.
    Steps,
}

impl std::fmt::Display for NoCalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoTimes(measured) if measured.is_empty() => f.write_str("nothing was measured in it"),
            Self::NoTimes(measured) => write!(
                f,
                "it has no times ({} alone): findings tell what takes time; stackline calls shows what there is",
                measured.join(", ")
            ),
            Self::NoRank(wanted, known) if known.is_empty() => {
                write!(f, "no rank {wanted}: none of its processes says which rank it is")
            }
            Self::NoRank(wanted, known) => {
                let known: Vec<String> = known.iter().map(i64::to_string).collect();
                write!(f, "no rank {wanted}; there are {}", known.join(", "))
            }
            Self::Steps => f.write_str(
                "its calls are summed over all steps: none can be chosen (stackline record --mode trace keeps each)",
            ),
        }
    }
}

impl std::error::Error for NoCalls {}
