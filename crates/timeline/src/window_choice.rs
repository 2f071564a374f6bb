//! Requested time windows by step number, by annotation or between two times, before they are resolved in a trace.

use stackline_model::{EventId, EventKind, Trace, TrackKind};

/// Requested time window of a trace, before it is resolved to times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WindowChoice {
    /// The whole trace.
    #[default]
    Whole,
    /// The trace from a time on, in ns since the trace's base.
    From(i64),
    /// Steps with a number in a range, both included: from the start of the first to the end of the last.
    Steps(i64, i64),
    /// Steps with their GPU work, for throughput: from the end of all earlier launched GPU work to the end of their
    /// own. If the host runs ahead of the GPU, this is the GPU's time for the steps.
    StepsWithWork(i64, i64),
    /// GPU work between two times, in ns since the trace's base: inferred steps of programs without step marks
    /// ([`crate::launch_pattern`]).
    Between(i64, i64),
    /// Annotations whose name contains a text, from the start of one to the end of another, counted from 0 in the order
    /// of the source.
    Annotation {
        /// Part of the name.
        text: String,
        /// First and last instance, both included.
        instances: (usize, usize),
    },
}

impl WindowChoice {
    /// Description of the window, such as `steps 3 to 9`.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self {
            Self::Whole => "the whole trace".to_owned(),
            Self::From(_) => "the trace without the module imports at its start".to_owned(),
            Self::StepsWithWork(a, b) if a == b => format!("step {a} with its GPU work"),
            Self::StepsWithWork(a, b) => format!("steps {a} to {b} with their GPU work"),
            Self::Steps(a, b) if a == b => format!("step {a}"),
            Self::Steps(a, b) => format!("steps {a} to {b}"),
            Self::Between(..) => "the inferred steps".to_owned(),
            Self::Annotation { text, instances: (a, b) } if a == b => format!("instance {a} of annotation {text:?}"),
            Self::Annotation { text, instances: (a, b) } => format!("instances {a} to {b} of annotation {text:?}"),
        }
    }
}

/// Time range of annotations ([`WindowChoice::Annotation`]), from the start of the first to the end of the last, in ns
/// since the trace's base. `None` if the trace does not have both.
pub(crate) fn annotation_span(trace: &Trace, text: &str, (first, last): (usize, usize)) -> Option<(i64, i64)> {
    let found = annotations(trace, text);
    let (from, to) = (found.get(first)?, found.get(last)?);
    Some((trace.events.start[from.index()], trace.events.end(*to)))
}

/// Find the annotations on CPU threads whose name contains a text, in the order of the source. Without such
/// annotations, operators and Python frames.
pub fn annotations(trace: &Trace, text: &str) -> Vec<EventId> {
    let on_thread = |e: EventId| trace.tracks.get(trace.events.track[e.index()]).kind == TrackKind::Thread;
    let is_match = |e: &EventId| trace.events.is_timed(*e) && on_thread(*e) && trace.name(*e).contains(text);
    let of_kind = |kinds: &[EventKind]| -> Vec<EventId> {
        trace.events.ids().filter(|&e| kinds.contains(&trace.kind(e))).filter(is_match).collect()
    };
    let found = of_kind(&[EventKind::Annotation]);
    if !found.is_empty() {
        return found;
    }
    of_kind(&[EventKind::Operator, EventKind::PythonFunction, EventKind::Other])
}
