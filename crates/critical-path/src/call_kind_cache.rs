//! Cache of the kind of API call (launch, copy, synchronization) for each name of one trace.

use stackline_model::gpu_calls::{CallKind, kind_of_name};
use stackline_model::{EventId, StrId, Trace};

/// Kind of API call per name of a trace, computed once per name.
pub(crate) struct CallKindCache(Vec<Option<CallKind>>);

impl CallKindCache {
    /// Compute the kind of API call for each name of a trace.
    pub(crate) fn new(trace: &Trace) -> Self {
        Self(trace.strings.iter().map(kind_of_name).collect())
    }

    /// Kind of a runtime or driver call; `None` for other events and for names of unknown kind.
    pub(crate) fn kind_of(&self, trace: &Trace, event: EventId) -> Option<CallKind> {
        if event.is_some() && trace.kind(event).is_api_call() {
            self.kind_of_name(trace.events.name[event.index()])
        } else {
            None
        }
    }

    /// Kind of the API call with this name; `None` if the name is no known call.
    fn kind_of_name(&self, name: StrId) -> Option<CallKind> {
        self.0.get(name.index()).copied().flatten()
    }
}
