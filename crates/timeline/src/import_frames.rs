//! Frames of Python's import machinery, which views fold into one entry per import, because these frames are many,
//! deep, and rarely relevant. Call trees fold them by the same rules.

use stackline_model::format::count;
use stackline_model::names::{IMPORTS, python_frame};
use stackline_model::vocabulary::is_own_code;
use stackline_model::{EventId, EventKind, Trace};

/// Name of the entry that replaces an import with all its calls.
pub const IMPORT_ENTRY: &str = "imports";

/// Name of a row that replaces a number of calls of imports: `imports (3 calls)`.
#[must_use]
pub fn import_row(calls: usize) -> String {
    format!("{IMPORT_ENTRY} ({} {})", count(calls as i64), if calls == 1 { "call" } else { "calls" })
}

/// Test by its name if a Python frame belongs to the import machinery.
#[must_use]
pub fn is_import_name(name: &str) -> bool {
    name.strip_prefix('$').unwrap_or(name).starts_with(IMPORTS)
}

/// Part of a name for imports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameKind {
    /// Frame of the import machinery.
    Import,
    /// Frame of the user's code.
    Own,
    Other,
}

/// Lookup of import frames in a trace.
#[derive(Debug)]
pub struct ImportFrames {
    /// Kind of each name, by string.
    kinds: Vec<NameKind>,
    /// Outermost frame of the import of each event; none outside of imports. Computed once, because stacks may be deep.
    imports: Vec<EventId>,
}

impl ImportFrames {
    /// Classify the names of a trace; `None` for a trace without imports.
    #[must_use]
    pub fn from_trace(trace: &Trace) -> Option<Self> {
        if !trace.strings.iter().any(is_import_name) {
            return None;
        }
        let kind_of = |name: &str| match python_frame(name) {
            Some(_) if is_import_name(name) => NameKind::Import,
            Some((file, ..)) if is_own_code(file) => NameKind::Own,
            _ => NameKind::Other,
        };
        let mut frames = Self { kinds: trace.strings.iter().map(kind_of).collect(), imports: Vec::new() };
        frames.imports = frames.imports_of_events(trace);
        Some(frames)
    }

    /// Outermost frame of the import of each event of a trace.
    fn imports_of_events(&self, trace: &Trace) -> Vec<EventId> {
        let mut known: Vec<Option<EventId>> = vec![None; trace.events.len()];
        let mut open: Vec<EventId> = Vec::new();
        for event in trace.events.ids() {
            let around = std::iter::once(event).chain(trace.ancestors(event));
            open.extend(around.take_while(|around| known[around.index()].is_none()));
            while let Some(inner) = open.pop() {
                let caller = trace.events.parent[inner.index()].some();
                let outer = caller.and_then(|caller| known[caller.index()]).unwrap_or(EventId::NONE);
                known[inner.index()] = Some(match self.kind(trace, inner) {
                    NameKind::Own => EventId::NONE,
                    NameKind::Import if outer.is_none() => inner,
                    NameKind::Import | NameKind::Other => outer,
                });
            }
        }
        known.into_iter().map(|import| import.unwrap_or(EventId::NONE)).collect()
    }

    fn kind(&self, trace: &Trace, event: EventId) -> NameKind {
        if trace.kind(event) != EventKind::PythonFunction {
            return NameKind::Other;
        }
        let name = trace.events.name[event.index()];
        self.kinds.get(name.index()).copied().unwrap_or(NameKind::Other)
    }

    /// Test if an event is a frame of the import machinery.
    #[must_use]
    pub fn is_frame(&self, trace: &Trace, event: EventId) -> bool {
        self.kind(trace, event) == NameKind::Import
    }

    /// Outermost frame of the import that an event is a part of: a frame of the import machinery, or library code that
    /// it runs. `None` for other events and for the user's code in imported modules.
    #[must_use]
    pub fn import_of(&self, event: EventId) -> Option<EventId> {
        self.imports.get(event.index()).copied().and_then(EventId::some)
    }

    /// Test if views hide an event: a frame of the import machinery within another one, without the user's code in
    /// between.
    #[must_use]
    pub fn is_hidden(&self, trace: &Trace, event: EventId) -> bool {
        self.is_frame(trace, event) && self.import_of(event) != Some(event)
    }

    /// File of the first module that an import runs; `None` for modules without Python code.
    #[must_use]
    pub fn imported_file<'t>(&self, trace: &'t Trace, import: EventId) -> Option<&'t str> {
        let end = trace.events.end(import);
        let start = |event: EventId| trace.events.start[event.index()];
        let events = trace.track_events(trace.events.track[import.index()]);
        let from = events.partition_point(|&event| start(event) < start(import));
        let mut inside = events[from..].iter().copied().take_while(|&event| start(event) < end);
        inside.find_map(|event| match python_frame(trace.name(event)) {
            Some((file, _, "<module>")) if trace.ancestors(event).any(|around| around == import) => Some(file),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{ImportFrames, import_row};
    use stackline_model::{EventId, Trace};
    use stackline_testkit::mini;

    fn read(lines: &str) -> Trace {
        stackline_ingest::read_bytes("t", mini::trace(lines).as_bytes(), &Default::default()).unwrap()
    }

    fn named(trace: &Trace, part: &str) -> EventId {
        trace.events.ids().find(|&event| trace.name(event).contains(part)).unwrap()
    }

    #[test]
    fn library_code_is_a_part_of_its_import_and_own_code_is_not() {
        let trace = read(
            "1/1  python_function  train.py(1): <module>                                        0..1000
             1/1  python_function  <frozen importlib._bootstrap>(9): _find_and_load             10..500
             1/1  python_function  <frozen importlib._bootstrap_external>(5): exec_module       20..400
             1/1  python_function  site-packages/numpy/__init__.py(1): <module>                 30..300
             1/1  python_function  <frozen importlib._bootstrap>(8): _handle_fromlist           40..60
             1/1  python_function  model.py(1): <module>                                        310..390
             1/1  python_function  <frozen importlib._bootstrap>(7): _gcd_import                320..330
             1/1  python_function  train.py(8): step                                            600..900",
        );
        let imports = ImportFrames::from_trace(&trace).unwrap();
        let import = named(&trace, "_find_and_load");
        for part in ["_find_and_load", "exec_module", "numpy", "_handle_fromlist"] {
            assert_eq!(imports.import_of(named(&trace, part)), Some(import), "{part}");
        }
        for part in ["train.py(1)", "model.py", "step"] {
            assert_eq!(imports.import_of(named(&trace, part)), None, "{part}");
        }
        let nested = named(&trace, "_gcd_import");
        assert_eq!(imports.import_of(nested), Some(nested), "the user's module imports");
        let hidden = |part: &str| imports.is_hidden(&trace, named(&trace, part));
        assert!(hidden("exec_module") && hidden("_handle_fromlist"));
        assert!(!hidden("_find_and_load") && !hidden("numpy") && !hidden("_gcd_import"));
        assert_eq!(imports.imported_file(&trace, import), Some("site-packages/numpy/__init__.py"));
        assert_eq!(imports.imported_file(&trace, nested), None);
    }

    #[test]
    fn traces_without_imports_have_no_frames() {
        assert!(ImportFrames::from_trace(&read("1/1  python_function  train.py(1): <module>  0..1000")).is_none());
        assert_eq!([1, 1200].map(import_row), ["imports (1 call)", "imports (1,200 calls)"]);
    }
}
