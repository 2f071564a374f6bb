//! Cache of [`kind_of_name`] for the names of one trace.

use stackline_model::gpu_calls::{CallKind, kind_of_name};
use stackline_model::{EventId, StrId, Trace};

/// What calls do to the order of work, per name of a trace, each looked up once.
pub(crate) struct CallKindCache(Vec<Option<CallKind>>);

impl CallKindCache {
    pub(crate) fn new(trace: &Trace) -> Self {
        Self(trace.strings.iter().map(kind_of_name).collect())
    }

    /// What a call does; `None` for events that are no runtime or driver calls, and for no event.
    pub(crate) fn kind_of(&self, trace: &Trace, event: EventId) -> Option<CallKind> {
        if event.is_some() && trace.kind(event).is_api_call() {
            self.of_name(trace.events.name[event.index()])
        } else {
            None
        }
    }

    fn of_name(&self, name: StrId) -> Option<CallKind> {
        self.0.get(name.index()).copied().flatten()
    }
}
