//! Edits of a what-if prediction, as text such as `scale kernel:*gemm* 0.5` and as data.

use super::selector::{NameKind, Selector, Target};
use crate::CriticalPathError;
use stackline_model::Trace;

/// Maximum number of missing positions in a message.
const MAX_MISSING_SHOWN: usize = 8;

/// Change that an edit makes to its selected events, such as scaling their time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// Multiply the time by a factor. For modules and annotations, this includes their GPU work.
    Scale(f64),
    /// Remove events: kernels with their launch calls, waits with their dependencies, spans with all their work.
    Remove,
    /// Set the duration of each event, in ns.
    SetNs(i64),
    /// Fuse the kernels that one span launches on its first stream into one, in place of the first.
    Fuse,
    /// Replace all host work of a span that only launches by one graph launch.
    Graph,
    /// Remove all dependencies on these collectives, except waits of the host.
    Overlap,
    /// Add data loading workers.
    AddLoaderWorkers(u32),
    /// Change nothing: the alternative to edits that may have no gain.
    Nothing,
}

/// Role of an edit: part of the prediction, of an alternative, or of a bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Case {
    /// Edits whose gain is predicted.
    #[default]
    Likely,
    /// Alternative with a number: the bounds cover its gain and its bounds.
    Other(u32),
    /// Edits whose gain is the lower bound.
    Lower,
    /// Edits whose upper bound is the upper bound.
    Upper,
}

impl Case {
    /// Split the text of an edit into its prefix, such as `case 1: `, and the edit itself.
    fn split(text: &str) -> (Self, &str) {
        let found = text.split_once(": ").and_then(|(start, rest)| {
            let case = match start {
                "lower" => Self::Lower,
                "upper" => Self::Upper,
                _ => Self::Other(start.strip_prefix("case ")?.parse().ok()?),
            };
            Some((case, rest))
        });
        found.unwrap_or((Self::Likely, text))
    }
}

impl std::fmt::Display for Case {
    /// Write the prefix of an edit's text, such as `case 1: `; nothing for a likely edit.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Likely => Ok(()),
            Self::Other(number) => write!(f, "case {number}: "),
            Self::Lower => f.write_str("lower: "),
            Self::Upper => f.write_str("upper: "),
        }
    }
}

/// Edit of a what-if: a change of selected events.
#[derive(Clone, Debug)]
pub struct Edit {
    /// Change of the selected events.
    pub action: Action,
    /// Selected events; none for more workers.
    pub selector: Option<Selector>,
    /// Case that the edit belongs to.
    pub case: Case,
}

const GRAMMAR: &str = "write 'scale SELECTOR FACTOR', 'set SELECTOR NANOSECONDS', 'remove SELECTOR', 'fuse SELECTOR', \
                       'graph SELECTOR', 'overlap SELECTOR' or 'more-workers N', such as 'scale kernel:*gemm* 0.5'. \
                       To let the bounds cover an alternative, begin its edits with 'case N: ' \
                       ('case 1: nothing' for no change)";

/// Text of an edit without effect.
const NOTHING: &str = "nothing";

const VERBS: &[&str] = &["scale", "set", "remove", "fuse", "graph", "overlap", "more-workers"];

/// Maximum duration of an edit in ns, far from overflow in sums over all events of a trace.
const MAX_DURATION_NS: i64 = 1_000_000_000_000;

impl Edit {
    /// Create an edit of the events that a selector text matches.
    ///
    /// # Errors
    /// Returns an error if the action does not apply to such events, or the selector is invalid.
    pub fn new(action: Action, selector: &str) -> Result<Self, CriticalPathError> {
        Self::on(action, Selector::parse(selector)?)
    }

    /// Create an edit of the events that a parsed selector matches.
    ///
    /// # Errors
    /// Returns an error if the action does not apply to such events.
    pub fn on(action: Action, selector: Selector) -> Result<Self, CriticalPathError> {
        let edit = Self { action, selector: Some(selector), case: Case::Likely };
        match edit.refusal() {
            Some(reason) => Err(CriticalPathError::RefusedEdit { text: edit.to_string(), reason: reason.to_owned() }),
            None => Ok(edit),
        }
    }

    /// Assign an edit to a case: likely, another alternative, or a bound.
    #[must_use]
    pub fn in_case(self, case: Case) -> Self {
        Self { case, ..self }
    }

    /// Create an edit without effect, for a case in which nothing changes.
    pub fn nothing(case: Case) -> Self {
        Self { action: Action::Nothing, selector: None, case }
    }

    /// True if another edit changes the same events in the same way in the same case.
    pub fn is_same_change(&self, other: &Self) -> bool {
        self.case == other.case && self.action == other.action && self.selector == other.selector
    }

    /// True for an edit without effect.
    pub(super) fn is_nothing(&self) -> bool {
        self.action == Action::Nothing
    }

    /// Note that the trace lacks events that the edit lists by number; `None` if it has all of them.
    pub(super) fn missing(&self, trace: &Trace) -> Option<String> {
        let Target::Listed(listed) = &self.selector.as_ref()?.target else { return None };
        let missing = listed.missing(trace);
        let more = missing.len().saturating_sub(MAX_MISSING_SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named = missing.iter().take(MAX_MISSING_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
        (!missing.is_empty()).then(|| {
            format!(
                "the selector `events:` lists event numbers that the trace does not have; they were ignored: \
                 {named}{more}"
            )
        })
    }

    /// Reason why the action does not apply to the selected events; `None` if it applies.
    fn refusal(&self) -> Option<&'static str> {
        let target = &self.selector.as_ref()?.target;
        // Events determine their own kind. Those to which an action does not apply stay unchanged.
        let are_events = matches!(target, Target::Events(..) | Target::Listed(..));
        let is_span = are_events
            || matches!(
                target,
                Target::Names(NameKind::Operator | NameKind::Module | NameKind::Annotation | NameKind::Frame, _)
            );
        let is_gpu = are_events
            || matches!(target, Target::Names(NameKind::Kernel | NameKind::Collective, _) | Target::Stream(_));
        match self.action {
            Action::Scale(factor) if !(factor.is_finite() && (0.0..=1000.0).contains(&factor)) => {
                Some("a factor must be a number from 0 to 1000")
            }
            Action::SetNs(ns) if !(0..=MAX_DURATION_NS).contains(&ns) => {
                Some("a duration must be a number of ns from 0 to 1000000000000 (1,000 s)")
            }
            Action::SetNs(_) if !(is_span || is_gpu) => Some("only the duration of kernels and spans can be set"),
            Action::Fuse | Action::Graph if !is_span => Some(
                "this edit needs spans that launch kernels; select them with module:, annotation:, operator: or \
                      frame:",
            ),
            Action::Overlap if !is_gpu => Some(
                "this edit needs GPU work; select it with collective:, kernel: or \
                                                stream:",
            ),
            Action::AddLoaderWorkers(_) => Some("more-workers takes no selector"),
            _ => None,
        }
    }

    /// Create an edit that adds data loading workers.
    ///
    /// # Errors
    /// Returns an error if the number is 0 or more than 1024.
    pub fn more_workers(more: u32) -> Result<Self, CriticalPathError> {
        if (1..=1024).contains(&more) {
            return Ok(Self { action: Action::AddLoaderWorkers(more), selector: None, case: Case::Likely });
        }
        let reason = "the number of additional workers must be from 1 to 1024".to_owned();
        Err(CriticalPathError::RefusedEdit { text: format!("more-workers {more}"), reason })
    }

    /// Parse several edits separated by `; `, as in findings. Names may contain `; ` as well.
    ///
    /// # Errors
    /// Returns the error of [`Self::parse`] for the first invalid edit.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, CriticalPathError> {
        const BETWEEN: &str = "; ";
        let begins = |rest: &str| {
            let (case, rest) = Case::split(rest);
            let is_nothing = case != Case::Likely && rest.split(BETWEEN).next() == Some(NOTHING);
            is_nothing || VERBS.iter().any(|verb| rest.strip_prefix(verb).is_some_and(|r| r.starts_with(' ')))
        };
        let is_end = |at: &usize| begins(&text[at + BETWEEN.len()..]);
        let ends = text.match_indices(BETWEEN).map(|(at, _)| at).filter(is_end).chain([text.len()]);
        let mut from = 0;
        let mut one = |end: usize| Self::parse(&text[std::mem::replace(&mut from, end + BETWEEN.len())..end]);
        ends.map(&mut one).collect()
    }

    /// Parse an edit of the form `VERB SELECTOR NUMBER`, such as `scale kernel:*gemm* 0.5`, with an optional case
    /// prefix.
    ///
    /// Forms: `scale kernel:*gemm* 0.5`, `remove sync:item()`, `set kernel:~flash 20000` (in ns), `fuse
    /// module:LayerNorm`, `graph annotation:forward`, `overlap collective:AllReduce`, `more-workers 2`. Edits of a case
    /// have a prefix: `case 1: scale kernel:*gemm* 0.7`, `case 2: nothing`, `lower: remove sync:item()`, `upper: remove
    /// sync:*`.
    ///
    /// # Errors
    /// Returns an error if the text has none of these forms.
    pub fn parse(text: &str) -> Result<Self, CriticalPathError> {
        let fail = || CriticalPathError::InvalidEdit { text: text.to_owned(), reason: GRAMMAR.to_owned() };
        let (case, edit) = Case::split(text.trim());
        if case != Case::Likely && edit.trim() == NOTHING {
            return Ok(Self::nothing(case));
        }
        let (verb, rest) = edit.trim().split_once(char::is_whitespace).ok_or_else(fail)?;
        let rest = rest.trim();
        let with_number = || rest.rsplit_once(char::is_whitespace).ok_or_else(fail);
        let edit = match verb {
            "scale" => {
                let (selector, factor) = with_number()?;
                Self::new(Action::Scale(factor.parse().map_err(|_| fail())?), selector.trim())
            }
            "set" => {
                let (selector, ns) = with_number()?;
                Self::new(Action::SetNs(ns.parse().map_err(|_| fail())?), selector.trim())
            }
            "remove" => Self::new(Action::Remove, rest),
            "fuse" => Self::new(Action::Fuse, rest),
            "graph" => Self::new(Action::Graph, rest),
            "overlap" => Self::new(Action::Overlap, rest),
            "more-workers" => Self::more_workers(rest.parse().map_err(|_| fail())?),
            _ => Err(fail()),
        };
        edit.map(|edit| edit.in_case(case))
    }
}

impl std::fmt::Display for Edit {
    /// Write the text for readers. [`Self::parse`] reads it back unless its events were selected individually
    /// ([`Selector::new`]).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text_with_selector(self.selector.as_ref().map_or("", |s| s.text.as_str())))
    }
}

impl Edit {
    /// Text from which [`Self::parse`] creates the same edit of this trace.
    pub fn exact_text(&self, trace: &Trace) -> String {
        self.text_with_selector(&self.selector.as_ref().map(|selector| selector.listed(trace)).unwrap_or_default())
    }

    /// Text of the edit with its case prefix, with `on` as text of the selector.
    fn text_with_selector(&self, on: &str) -> String {
        let edit = match self.action {
            // A number of 300 digits is unreadable.
            Action::Scale(factor) if factor.abs() >= 1e6 => format!("scale {on} {factor:e}"),
            Action::Scale(factor) => format!("scale {on} {factor}"),
            Action::Remove => format!("remove {on}"),
            Action::SetNs(ns) => format!("set {on} {ns}"),
            Action::Fuse => format!("fuse {on}"),
            Action::Graph => format!("graph {on}"),
            Action::Overlap => format!("overlap {on}"),
            Action::AddLoaderWorkers(more) => format!("more-workers {more}"),
            Action::Nothing => NOTHING.to_owned(),
        };
        format!("{}{edit}", self.case)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_as_text() {
        for text in [
            "scale kernel:void f<a, b> * 0.5",
            "remove sync:item()",
            "set kernel:~flash 20000",
            "fuse module:LayerNorm",
            "graph annotation:forward",
            "overlap collective:AllReduce",
            "more-workers 2",
            "scale events:12,15..18,[30-34],(40-44) 0.25",
            "remove events:7",
        ] {
            assert_eq!(Edit::parse(text).unwrap().to_string(), text);
        }
        let all = "scale kernel:a<b; c> 0.5; remove events:1,3; more-workers 2";
        let texts: Vec<String> = Edit::parse_all(all).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["scale kernel:a<b; c> 0.5", "remove events:1,3", "more-workers 2"]);
        assert!(Edit::parse_all("remove events:1; remove nothing").is_err());
        for bad in [
            "",
            "scale",
            "scale kernel:a",
            "scale kernel:a x",
            "scale kernel:a -1",
            "scale kernel:a NaN",
            "fuse kernel:a",
            "overlap operator:a",
            "set sync:a 1",
            "set kernel:a -1",
            "more-workers 0",
            "more-workers x",
            "explode kernel:a",
        ] {
            assert!(Edit::parse(bad).is_err(), "{bad}");
        }
    }

    /// Alternatives only count for the bounds, so none of these edits makes another one redundant.
    #[test]
    fn edits_of_different_cases_are_different_changes() {
        let texts = ["scale kernel:a 0.5", "case 2: scale kernel:a 0.5", "lower: scale kernel:a 0.5"];
        let edits = texts.map(|text| Edit::parse(text).unwrap());
        for (i, edit) in edits.iter().enumerate() {
            let same: Vec<usize> = (0..edits.len()).filter(|&other| edits[other].is_same_change(edit)).collect();
            assert_eq!(same, [i]);
        }
    }
}
