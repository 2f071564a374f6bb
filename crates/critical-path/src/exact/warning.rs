//! Warnings about the records from which a critical path of method "exact" was computed.

use serde::Serialize;

/// Warning about the records from which the path was computed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExactWarning {
    /// Stable name.
    pub code: &'static str,
    /// Number of occurrences.
    pub count: u64,
    /// Clause for readers, see [`Self::sentence`].
    #[serde(skip)]
    pub message: &'static str,
    /// True if the causes of the path are not known because of it.
    #[serde(skip)]
    pub is_unreliable: bool,
}

impl ExactWarning {
    /// Consequence of the warnings with [`Self::is_unreliable`], as the beginning of a sentence that names them.
    pub const CONSEQUENCE: &'static str = "the causes of the critical path are uncertain: ";

    /// Sentence of the warning, without period; callers print the count after it.
    #[must_use]
    pub fn sentence(&self) -> String {
        let consequence = if self.is_unreliable { Self::CONSEQUENCE } else { "" };
        format!("{consequence}{}", self.message)
    }
}

/// Text of the warnings because of which the causes of a path are not known, with their numbers of records; `None`
/// without such warnings.
#[must_use]
pub fn reasons_in_words<'a>(unreliable: impl Iterator<Item = &'a ExactWarning>) -> Option<String> {
    let reasons = unreliable.map(|warning| format!("{} ({} records)", warning.message, warning.count));
    let reasons: Vec<String> = reasons.collect();
    (!reasons.is_empty()).then(|| format!("{}{}", ExactWarning::CONSEQUENCE, reasons.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::{ExactWarning, reasons_in_words};

    #[test]
    fn several_reasons_have_one_consequence() {
        let warning = |count, message| ExactWarning { code: "code", count, message, is_unreliable: true };
        let both = [warning(2, "clocks jump"), warning(9, "kernels are missing")];
        assert_eq!(
            reasons_in_words(both.iter()).as_deref(),
            Some(
                "the causes of the critical path are uncertain: clocks jump (2 records); kernels are missing (9 records)"
            )
        );
        assert_eq!(both[0].sentence(), "the causes of the critical path are uncertain: clocks jump");
        assert_eq!(reasons_in_words([].iter()), None);
    }
}
