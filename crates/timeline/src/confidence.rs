//! Levels of confidence: high, medium or low.

/// Confidence that a suggested change helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// The change nearly always helps.
    High,
    /// The change usually helps.
    Medium,
    /// The change may help.
    Low,
}

impl Confidence {
    /// Next lower level of confidence; `Low` stays `Low`.
    pub fn lower(self) -> Self {
        if self == Self::High { Self::Medium } else { Self::Low }
    }

    /// All levels, in descending order.
    pub const ALL: [Self; 3] = [Self::High, Self::Medium, Self::Low];

    /// Name of the confidence in documents: `high`, `medium` or `low`.
    pub fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}
