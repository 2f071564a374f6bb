//! Corpus files and formatted arguments of events.

use stackline_model::{AttrValue, EventId, StrId, Trace};
use stackline_testkit::corpus::files;
pub(crate) use stackline_testkit::corpus::{folder as corpus, unpacked as text};
use std::path::PathBuf;

/// The Kineto traces of the corpus, by name.
pub(crate) fn kineto() -> Vec<PathBuf> {
    files("kineto")
}

/// The arguments of an event: ` key=value` each, in order.
pub(crate) fn arguments(trace: &Trace, event: EventId) -> String {
    let argument = |(key, value): (StrId, AttrValue)| {
        let key = trace.strings.get(key);
        match value {
            AttrValue::Str(text) | AttrValue::Json(text) => format!(" {key}={}", trace.strings.get(text)),
            other => format!(" {key}={other:?}"),
        }
    };
    trace.attrs.of_event(event).map(argument).collect()
}
