//! Conversion of profiles (stacks of frames with values) into a calling context tree.
//!
//! A format numbers its frames, because many formats define them only at the end, and provides the value of each stack.

pub(super) mod collapsed;
pub(super) mod firefox;
pub(super) mod pprof;
pub(super) mod speedscope;

use crate::diagnostics;
use rustc_hash::FxHashMap;
use stackline_model::{
    CallMetric, CallNodeId, CallProcess, CallProcessId, CallStats, CallThread, CallThreadId, CallingContextTree,
    CallingContextTreeBuilder, Frame, ReadReport, StrId, Unit,
};

/// Number of a path of frames; the empty path is 0.
pub(super) type Path = u32;

/// Function, file, lines and library of a frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FrameText<'a> {
    pub(super) function: &'a str,
    pub(super) file: &'a str,
    /// Running line, and first line of the function; 0 if unknown.
    pub(super) line: u32,
    pub(super) first_line: u32,
    /// Library of native code.
    pub(super) library: &'a str,
}

/// Builder of a calling context tree from the stacks and values of a profile.
pub(super) struct Profile {
    /// Parent and frame of each path except the empty one.
    paths: Vec<(Path, u32)>,
    by_frame: FxHashMap<(Path, u32), Path>,
    values: FxHashMap<(Path, CallThreadId, CallMetric), CallStats>,
    builder: CallingContextTreeBuilder,
    process: CallProcessId,
    /// Kinds of values that have a metric already.
    taken: Vec<(String, CallMetric)>,
}

/// Limit on values (2^63), which no database or other profiler exceeds.
const MOST: f64 = 9_223_372_036_854_775_808.0;

/// Frame of stacks without frames.
const NO_FRAMES: u32 = u32::MAX;

impl Profile {
    /// Create the builder of a call tree for a profile, with its first process.
    pub(super) fn new(process: CallProcess) -> Self {
        let mut builder = CallingContextTreeBuilder::new();
        let process = builder.process(process);
        Self {
            paths: Vec::new(),
            by_frame: FxHashMap::default(),
            values: FxHashMap::default(),
            builder,
            process,
            taken: Vec::new(),
        }
    }

    /// Start another process, to which the following threads belong.
    pub(super) fn next_process(&mut self, process: CallProcess) {
        self.process = self.builder.process(process);
    }

    /// Add a thread to the current process.
    pub(super) fn thread(&mut self, tid: u32, name: &str) -> CallThreadId {
        let name = self.builder.text(name);
        self.builder.thread(CallThread { process: self.process, tid, torch_id: 0, name })
    }

    /// Number of the path that extends `parent` by a frame, added if new.
    pub(super) fn child(&mut self, parent: Path, frame: u32) -> Path {
        let next = u32::try_from(self.paths.len() + 1).unwrap_or(u32::MAX);
        let path = *self.by_frame.entry((parent, frame)).or_insert(next);
        if path == next {
            self.paths.push((parent, frame));
        }
        path
    }

    /// Path number for frames from the outermost to the innermost.
    pub(super) fn path(&mut self, frames: impl Iterator<Item = u32>) -> Path {
        frames.fold(0, |path, frame| self.child(path, frame))
    }

    /// Add a value of a thread and metric at the end of a path; zeros are ignored.
    pub(super) fn add(&mut self, path: Path, thread: CallThreadId, metric: CallMetric, value: u64) {
        if value > 0 {
            let path = if path == 0 { self.child(0, NO_FRAMES) } else { path };
            self.values.entry((path, thread, metric)).or_default().merge(&CallStats::from_value(value));
        }
    }

    /// Add a value that may be any number, in units of the metric. An invalid value is counted, and `example` describes
    /// its position.
    pub(super) fn add_number(
        &mut self,
        (path, thread, metric): (Path, CallThreadId, CallMetric),
        value: f64,
        example: &str,
    ) {
        if value < 0.0 || value.is_nan() {
            diagnostics::NEGATIVE_VALUE.count(self.report(), None, example);
        } else {
            if value >= MOST {
                diagnostics::HUGE_VALUE.count(self.report(), None, example);
            }
            self.add(path, thread, metric, value.min(MOST).round() as u64);
        }
    }

    /// Largest frame number that the paths of the profile use; `None` without frames.
    pub(super) fn largest_frame(&self) -> Option<u32> {
        self.paths.iter().map(|&(_, frame)| frame).filter(|&frame| frame != NO_FRAMES).max()
    }

    /// Read report of the profile.
    pub(super) fn report(&mut self) -> &mut ReadReport {
        self.builder.report()
    }

    /// Metric for values with this name and unit, and the factor to the metric's unit. Values of another name with the
    /// same metric become a separate counter, with its unit.
    pub(super) fn metric(&mut self, what: &str, unit: &str) -> (CallMetric, f64) {
        let (metric, scale) = self.metric_of(what, unit);
        let is_of_other = self.taken.iter().any(|(first, taken)| *taken == metric && first != what);
        let metric = if is_of_other { self.counter(what, metric.unit()) } else { metric };
        if self.taken.iter().all(|(_, taken)| *taken != metric) {
            self.taken.push((what.to_owned(), metric));
        }
        (metric, scale)
    }

    /// Counter with this name and unit. A counter is stored by its name, so one of a known name and another unit has
    /// the unit in its name.
    fn counter(&mut self, name: &str, unit: Unit) -> CallMetric {
        let id = self.builder.text(name);
        let has_other_unit = self.taken.iter().any(|&(_, taken)| match taken {
            CallMetric::Counter(known, of) => known == id && of != unit,
            _ => false,
        });
        if !has_other_unit {
            return CallMetric::Counter(id, unit);
        }
        let of = if unit == Unit::None { "count" } else { unit.suffix() };
        CallMetric::Counter(self.builder.text(&format!("{name} ({of})")), unit)
    }

    /// Metric by the name and unit of values, and the factor to the metric's unit.
    fn metric_of(&mut self, what: &str, unit: &str) -> (CallMetric, f64) {
        let with_suffix =
            |names: &[(&[&str], f64)]| names.iter().find(|(names, _)| names.contains(&unit)).map(|&(_, scale)| scale);
        let own =
            CallMetric::ALL.into_iter().find(|metric| metric.name(&stackline_model::StringTable::default()) == what);
        match (with_suffix(TIMES), with_suffix(BYTES)) {
            (Some(scale), _) if what.contains("cpu") => (CallMetric::CpuTime, scale),
            (Some(scale), _) => (own.unwrap_or(CallMetric::WallTime), scale),
            (_, Some(scale)) if own.is_some() || ALLOCATED.contains(&what) => {
                (own.unwrap_or(CallMetric::Allocated), scale)
            }
            (_, scale) => {
                let name = if what.is_empty() { "samples" } else { what };
                let counter = self.counter(name, if scale.is_some() { Unit::Bytes } else { Unit::None });
                (own.unwrap_or(counter), scale.unwrap_or(1.0))
            }
        }
    }

    /// Finish the profile's calling context tree; `frame` provides the texts of a frame number.
    pub(super) fn finish<'f>(mut self, mut frame: impl FnMut(u32) -> FrameText<'f>) -> CallingContextTree {
        // No longer needed, and large.
        self.by_frame = FxHashMap::default();
        let mut frames = FxHashMap::default();
        let mut nodes: Vec<CallNodeId> = Vec::with_capacity(self.paths.len() + 1);
        nodes.push(CallNodeId::new(0));
        for (parent, number) in std::mem::take(&mut self.paths) {
            let builder = &mut self.builder;
            let id = *frames.entry(number).or_insert_with(|| {
                let made = match number {
                    NO_FRAMES => {
                        call_frame(&FrameText { function: "(stack without frames)", ..FrameText::default() }, builder)
                    }
                    _ => call_frame(&frame(number), builder),
                };
                builder.frame(made)
            });
            let node = builder.child(nodes[parent as usize], id);
            nodes.push(node);
        }
        let Self { values, mut builder, .. } = self;
        values.iter().for_each(|(&(path, thread, metric), sums)| {
            builder.add_sums(nodes[path as usize], thread, metric, sums);
        });
        builder.finish()
    }
}

const TIMES: &[(&[&str], f64)] = &[
    (&["nanoseconds", "ns"], 1.0),
    (&["microseconds", "us", "µs"], 1e3),
    (&["milliseconds", "ms"], 1e6),
    (&["seconds", "s"], 1e9),
    (&["minutes", "min"], 6e10),
    (&["hours", "h"], 3.6e12),
];
const BYTES: &[(&[&str], f64)] = &[
    (&["bytes", "byte", "B"], 1.0),
    (&["kilobytes", "kB"], 1024.0),
    (&["megabytes", "MB"], 1_048_576.0),
    (&["gigabytes", "GB"], 1_073_741_824.0),
];
/// Names of allocated bytes in memory profiles.
const ALLOCATED: &[&str] = &["", "alloc_space", "allocated", "space"];

/// Split a name such as `forward (model.py:12)` into function, file and line. Many tools write such names if their
/// format has no source files. Any other text is a name without location.
fn split_location(name: &str) -> FrameText<'_> {
    let plain = FrameText { function: name, ..FrameText::default() };
    let Some((function, place)) = name.strip_suffix(')').and_then(|name| name.rsplit_once(" (")) else { return plain };
    let (file, line) = match place.rsplit_once(':') {
        Some((file, line)) if line.bytes().all(|b| b.is_ascii_digit()) => (file, line.parse().unwrap_or(0)),
        _ => (place, 0),
    };
    let is_file = line > 0 || file.contains('.') || file.contains('/');
    if is_file { FrameText { function, file, line, ..FrameText::default() } } else { plain }
}

/// Frame of the call tree for the texts of a profile's frame: Python by its file name, else native.
fn call_frame(frame: &FrameText<'_>, builder: &mut CallingContextTreeBuilder) -> Frame {
    let placed = if frame.file.is_empty() { split_location(frame.function) } else { *frame };
    let line = if placed.line > 0 { placed.line } else { frame.line };
    let frame = &FrameText { library: frame.library, first_line: frame.first_line, line, ..placed };
    let function = builder.text(if frame.function.is_empty() { "function without a name" } else { frame.function });
    let &FrameText { line, first_line, .. } = frame;
    let mut some = |text: &str| if text.is_empty() { StrId::NONE } else { builder.text(text) };
    let (file, library) = (some(frame.file), some(frame.library));
    if is_python(frame.file) {
        return Frame::Python { function, file, line, first_line };
    }
    Frame::Native { library, build_id: StrId::NONE, offset: 0, function, file, line, inlined: 0 }
}

/// Check if a file name denotes Python code, such as `train.py` or `<string>`.
fn is_python(file: &str) -> bool {
    let is_script = [".py", ".pyx", ".ipynb"].iter().any(|end| file.ends_with(end));
    is_script
        || file.starts_with("<frozen ")
        || ["<string>", "<stdin>"].contains(&file)
        || file.starts_with("<ipython-input")
}
