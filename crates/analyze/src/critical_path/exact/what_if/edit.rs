//! What may be changed, as text and as data.

use super::selector::{Selector, Target, What};
use crate::critical_path::CriticalPathError;

/// What is done to what a selector means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// It takes this many times as long. For modules and annotations their GPU work, too.
    Scale(f64),
    /// It is gone: kernels with their launch calls, waits with what they waited for, spans with all that they did.
    Remove,
    /// Each of it takes this long, in ns.
    SetNs(i64),
    /// The kernels that one span launches on its first stream become one, in place of the first.
    Fuse,
    /// One graph launch in place of all host work of a span that does nothing but launch.
    Graph,
    /// Nothing but waits of the host depends on these collectives.
    Overlap,
    /// So many more workers load data.
    MoreWorkers(u32),
}

/// A change.
#[derive(Clone, Debug)]
pub struct Edit {
    /// What is done.
    pub action: Action,
    /// To what; none for more workers.
    pub selector: Option<Selector>,
}

const GRAMMAR: &str = "write 'scale SELECTOR FACTOR', 'set SELECTOR NANOSECONDS', 'remove SELECTOR', 'fuse SELECTOR', \
                       'graph SELECTOR', 'overlap SELECTOR' or 'more-workers N', such as 'scale kernel:*gemm* 0.5'";

/// The longest duration that can be set, in ns: sums over all events of a trace stay far from overflowing.
const LONGEST_NS: i64 = 1_000_000_000_000;

impl Edit {
    /// An edit of what a selector means.
    ///
    /// # Errors
    /// If the action cannot be done to such things, or the selector cannot be understood.
    pub fn new(action: Action, selector: &str) -> Result<Self, CriticalPathError> {
        Self::on(action, Selector::parse(selector)?)
    }

    /// An edit of what a selector means.
    ///
    /// # Errors
    /// If the action cannot be done to such things.
    pub fn on(action: Action, selector: Selector) -> Result<Self, CriticalPathError> {
        let edit = Self { action, selector: Some(selector) };
        match edit.refusal() {
            Some(reason) => Err(CriticalPathError::RefusedEdit { text: edit.to_string(), reason: reason.to_owned() }),
            None => Ok(edit),
        }
    }

    /// Why the action cannot be done to what is selected.
    fn refusal(&self) -> Option<&'static str> {
        let target = &self.selector.as_ref()?.target;
        // Events say themselves what they are: those that an action cannot be done to are left as they are.
        let are_events = matches!(target, Target::Events(..));
        let is_span = are_events
            || matches!(target, Target::Names(What::Operator | What::Module | What::Annotation | What::Frame, _));
        let is_gpu =
            are_events || matches!(target, Target::Names(What::Kernel | What::Collective, _) | Target::Stream(_));
        match self.action {
            Action::Scale(factor) if !(factor.is_finite() && (0.0..=1000.0).contains(&factor)) => {
                Some("a factor is a number from 0 to 1000")
            }
            Action::SetNs(ns) if !(0..=LONGEST_NS).contains(&ns) => {
                Some("a duration is a number of ns from 0 to 1000000000000 (1,000 s)")
            }
            Action::SetNs(_) if !(is_span || is_gpu) => Some("a duration can be set of kernels and spans only"),
            Action::Fuse | Action::Graph if !is_span => {
                Some("choose the spans whose kernels are meant by module:, annotation:, operator: or frame:")
            }
            Action::Overlap if !is_gpu => Some("choose GPU work by collective:, kernel: or stream:"),
            Action::MoreWorkers(_) => Some("more workers need no selector"),
            _ => None,
        }
    }

    /// More workers for the loading of data.
    ///
    /// # Errors
    /// If it is none, or more than 1024.
    pub fn more_workers(more: u32) -> Result<Self, CriticalPathError> {
        if (1..=1024).contains(&more) {
            return Ok(Self { action: Action::MoreWorkers(more), selector: None });
        }
        let reason = "more workers are 1 to 1024".to_owned();
        Err(CriticalPathError::RefusedEdit { text: format!("more-workers {more}"), reason })
    }

    /// Reads an edit as text: `scale kernel:*gemm* 0.5`, `remove sync:item()`, `set kernel:~flash 20000` (in ns),
    /// `fuse module:LayerNorm`, `graph annotation:forward`, `overlap collective:AllReduce`, `more-workers 2`.
    ///
    /// # Errors
    /// If the text is none of these.
    pub fn parse(text: &str) -> Result<Self, CriticalPathError> {
        let fail = || CriticalPathError::InvalidEdit { text: text.to_owned(), reason: GRAMMAR.to_owned() };
        let (verb, rest) = text.trim().split_once(char::is_whitespace).ok_or_else(fail)?;
        let rest = rest.trim();
        let with_number = || rest.rsplit_once(char::is_whitespace).ok_or_else(fail);
        match verb {
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
        }
    }
}

impl std::fmt::Display for Edit {
    /// The text that [`Self::parse`] reads.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let on = self.selector.as_ref().map_or("", |s| s.text.as_str());
        match self.action {
            // 300 digits help nobody.
            Action::Scale(factor) if factor.abs() >= 1e6 => write!(f, "scale {on} {factor:e}"),
            Action::Scale(factor) => write!(f, "scale {on} {factor}"),
            Action::Remove => write!(f, "remove {on}"),
            Action::SetNs(ns) => write!(f, "set {on} {ns}"),
            Action::Fuse => write!(f, "fuse {on}"),
            Action::Graph => write!(f, "graph {on}"),
            Action::Overlap => write!(f, "overlap {on}"),
            Action::MoreWorkers(more) => write!(f, "more-workers {more}"),
        }
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
        ] {
            assert_eq!(Edit::parse(text).unwrap().to_string(), text);
        }
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
}
