//! Shared base of TraceLens' tables: counted GPU work, arithmetic, and launching operators.
//!
//! TraceLens (AMD, <https://github.com/AMD-AGI/TraceLens>) defines widely known tables. Stackline computes the same
//! tables without the gaps of TraceLens' definitions. [`Definition::TraceLens`] reproduces these gaps, so that a test
//! can compare every number. `docs/analyses/tracelens-differences.md` lists the differences.

use crate::Scope;
use crate::classify;
use crate::intervals::subtract;
use crate::intervals::{total, union};
use crate::kernel_type::{KernelType, NameTypes, RULES, is_fill};
use crate::op_tree::OpTree;
use crate::stats::percent;
use crate::vocabulary::categories::TRACELENS_OTHER;
use rustc_hash::FxHashMap;
use stackline_model::{EventId, EventKind, GpuOpId, StrId, Trace};

/// Choice between exact tables and tables by TraceLens' own definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Definition {
    /// Exact: all GPU work, nanoseconds, operators in the category of their computation.
    #[default]
    Exact,
    /// TraceLens' definition of 2026: only GPU work with a flow arrow from its launch, spans in 64-bit floating-point
    /// microseconds (whose precision is 2^-10 µs at current clock values), and [`TRACELENS_OTHER`].
    TraceLens,
}

/// GPU work of a trace in a scope, classified for tables as in TraceLens: counted, linked, type.
#[derive(Debug)]
pub struct GpuView<'a> {
    /// The trace.
    pub trace: &'a Trace,
    definition: Definition,
    /// Per row of [`Trace::gpu`]: true if it is in scope and its launch or operator is known.
    pub linked: Vec<bool>,
    /// Per row of [`Trace::gpu`]: true if it is in scope and has plausible times.
    pub counted: Vec<bool>,
    /// Per row of [`Trace::gpu`]: true if it belongs to a communication library.
    pub communication: Vec<bool>,
    /// Per row of [`Trace::gpu`]: communication, memory (copies), or computation. TraceLens counts fills as
    /// computation.
    pub types: Vec<KernelType>,
}

impl<'a> GpuView<'a> {
    /// Classify the GPU work of `trace` in `scope`.
    pub fn new(trace: &'a Trace, scope: &Scope, definition: Definition) -> Self {
        let mut types = NameTypes::new(trace, RULES);
        let mut type_of = |event: EventId| match definition {
            Definition::Exact => match types.of_event(event) {
                KernelType::Memory if is_fill(trace, event) => KernelType::Computation,
                other => other,
            },
            Definition::TraceLens if trace.kind(event) == EventKind::Memcpy => KernelType::Memory,
            Definition::TraceLens if classify::is_tracelens_communication(trace.name(event)) => {
                KernelType::Communication
            }
            Definition::TraceLens => KernelType::Computation,
        };
        let work = scope.gpu_work(trace);
        let counted: Vec<bool> =
            trace.gpu.ids().map(|g| work.has(g) && trace.events.is_plausible(trace.gpu.event[g.index()])).collect();
        let linked = trace
            .gpu
            .ids()
            .map(|g| {
                let known = match definition {
                    Definition::Exact => trace.gpu.launcher(g).is_some(),
                    Definition::TraceLens => has_flow_arrow(trace, g),
                };
                counted[g.index()] && known
            })
            .collect();
        let types: Vec<KernelType> = trace.gpu.event.iter().map(|&event| type_of(event)).collect();
        let communication = types.iter().map(|&t| t == KernelType::Communication).collect();
        Self { trace, definition, linked, counted, communication, types }
    }

    /// Flags by GPU operation, true for those that count in time shares: all in scope, or only those linked to a launch
    /// (TraceLens).
    pub fn timed(&self) -> &[bool] {
        match self.definition {
            Definition::Exact => &self.counted,
            Definition::TraceLens => &self.linked,
        }
    }

    /// Definition (exact or TraceLens') by which this view counts GPU work.
    pub fn definition(&self) -> Definition {
        self.definition
    }

    /// Duration of a GPU operation in µs.
    pub fn duration_us(&self, gpu: GpuOpId) -> f64 {
        self.trace.events.dur[self.trace.gpu.event[gpu.index()].index()] as f64 / 1e3
    }

    /// Time in µs during which at least one of `gpu` runs.
    pub fn busy_us(&self, gpu: impl IntoIterator<Item = GpuOpId>) -> f64 {
        Spans::new(self, gpu).total_us()
    }

    /// Note on the share of GPU time with a known launch, operator and step.
    pub fn coverage_note(&self) -> String {
        gpu_coverage_note(self.trace, self.trace.gpu.ids().filter(|g| self.counted[g.index()]))
    }
}

/// Test if TraceLens links a GPU operation to its launch. TraceLens follows flow arrows. ROCm's profiler starts none at
/// `hipMemset` calls, although their correlation ID names the call.
fn has_flow_arrow(trace: &Trace, gpu: GpuOpId) -> bool {
    let launch = trace.gpu.launch[gpu.index()];
    let is_fill = trace.kind(trace.gpu.event[gpu.index()]) == EventKind::Memset;
    launch.is_some() && !(is_fill && trace.name(launch).starts_with("hip"))
}

/// Set of disjoint time spans, in exact ns or in TraceLens' floating-point µs.
#[derive(Clone, Debug)]
pub enum Spans {
    /// Exact ns.
    Ns(Vec<(i64, i64)>),
    /// Floating-point µs.
    Us(Vec<(f64, f64)>),
}

impl Spans {
    /// Union of the time spans of the given GPU operations.
    pub fn new(view: &GpuView<'_>, operations: impl IntoIterator<Item = GpuOpId>) -> Self {
        let events = &view.trace.events;
        let row = |g: GpuOpId| view.trace.gpu.event[g.index()];
        let spans = operations.into_iter();
        match view.definition {
            Definition::Exact => Self::Ns(union(spans.map(|g| (events.start[row(g).index()], events.end(row(g)))))),
            Definition::TraceLens => Self::Us(union(spans.map(|g| {
                let start = events.start[row(g).index()] as f64 / 1e3;
                (start, start + events.dur[row(g).index()] as f64 / 1e3)
            }))),
        }
    }

    /// Subtract the spans of `other` from these spans.
    pub fn without(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Ns(a), Self::Ns(b)) => Self::Ns(subtract(a, b)),
            (Self::Us(a), Self::Us(b)) => Self::Us(subtract(a, b)),
            _ => self.clone(),
        }
    }

    /// Time that a set of spans covers, in µs.
    pub fn total_us(&self) -> f64 {
        match self {
            Self::Ns(spans) => total(spans) as f64 / 1e3,
            Self::Us(spans) => total(spans),
        }
    }

    /// Time from the first start to the last end, in µs; 0 for an empty set.
    pub fn extent_us(&self) -> f64 {
        match self {
            Self::Ns(s) => s.first().zip(s.last()).map_or(0.0, |(a, b)| b.1.saturating_sub(a.0) as f64 / 1e3),
            Self::Us(s) => s.first().zip(s.last()).map_or(0.0, |(a, b)| b.1 - a.0),
        }
    }
}

/// Set of events inside the second forward pass of `torch.utils.checkpoint`: operators, calls and GPU work of a
/// recomputation. Empty if the trace records no such pass, which requires Python frames.
#[derive(Debug, Default)]
pub struct Recompute {
    events: Vec<bool>,
}

impl Recompute {
    /// Find the events and GPU work of recomputed forward passes (activation checkpointing).
    pub fn find(trace: &Trace) -> Self {
        let mut names: FxHashMap<StrId, bool> = FxHashMap::default();
        let mut is_frame = |event: EventId| {
            trace.kind(event) == EventKind::PythonFunction
                && *names
                    .entry(trace.events.name[event.index()])
                    .or_insert_with(|| classify::is_recompute_frame(trace.name(event)))
        };
        let roots: Vec<EventId> = trace.events.ids().filter(|&e| is_frame(e)).collect();
        if roots.is_empty() {
            return Self::default();
        }
        let mut events = vec![false; trace.events.len()];
        for root in roots {
            events[root.index()] = true;
        }
        // On a track, enclosing events come first.
        for track in trace.tracks.ids() {
            for &event in trace.track_events(track) {
                let parent = trace.events.parent[event.index()];
                if parent.is_some() && events[parent.index()] {
                    events[event.index()] = true;
                }
            }
        }
        Self { events }
    }

    /// Test if the trace has any recomputation (activation checkpointing).
    pub fn any(&self) -> bool {
        !self.events.is_empty()
    }

    /// Test if an event on a CPU thread is part of a recomputation; false for no event.
    pub fn has(&self, event: EventId) -> bool {
        event.is_some() && self.events.get(event.index()).copied().unwrap_or(false)
    }

    /// Test if a recomputation launched this GPU work.
    pub fn has_gpu(&self, trace: &Trace, gpu: GpuOpId) -> bool {
        trace.gpu.launcher(gpu).is_some_and(|launcher| self.has(launcher))
    }
}

/// Launcher of GPU work: the innermost operator around the launches, or the launch call if there is none. Communication
/// kernels are excluded, because the table of collectives contains them.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The operator or the runtime call.
    pub event: EventId,
    /// GPU work in order of launch.
    pub gpu: Vec<GpuOpId>,
    /// Time in µs in which any of its GPU work runs.
    pub direct_us: f64,
    /// The same for all GPU work launched under it, including operators inside it and communication libraries.
    pub subtree_us: f64,
    /// Category of its computation: see [`classify::operator_category`].
    pub category: &'static str,
    /// Innermost `nn.Module` call around it.
    pub module: EventId,
    /// True if it runs in a recomputation.
    pub recompute: bool,
}

/// List of all launchers of GPU work, in order of start.
#[derive(Debug)]
pub struct Launchers {
    /// The launchers.
    pub list: Vec<Launcher>,
    /// True if the trace records any recomputation.
    pub any_recompute: bool,
}

impl Launchers {
    /// Find all operators, or bare launch calls, that launch GPU computation, copies or fills, each with the launched
    /// work.
    pub fn find(view: &GpuView<'_>) -> Self {
        let trace = view.trace;
        let recompute = Recompute::find(trace);
        let mut index: FxHashMap<EventId, usize> = FxHashMap::default();
        let mut list: Vec<Launcher> = Vec::new();
        for gpu in trace.gpu.ids().filter(|g| view.linked[g.index()] && !view.communication[g.index()]) {
            let operator = trace.gpu.operator[gpu.index()];
            let event = operator.some().unwrap_or(trace.gpu.launch[gpu.index()]);
            let at = *index.entry(event).or_insert_with(|| {
                list.push(Launcher {
                    event,
                    gpu: Vec::new(),
                    direct_us: 0.0,
                    subtree_us: 0.0,
                    category: classify::OTHER,
                    module: trace.gpu.module[gpu.index()],
                    recompute: recompute.has(event),
                });
                list.len() - 1
            });
            list[at].gpu.push(gpu);
        }
        let tree = OpTree::new(trace);
        let work = tree.gpu_work(trace, &view.linked);
        for launcher in &mut list {
            launcher.gpu.sort_by_key(|g| {
                let launch = trace.gpu.launch[g.index()];
                (launch.some().map(|l| trace.events.start[l.index()]), launch, *g)
            });
            launcher.direct_us = view.busy_us(launcher.gpu.iter().copied());
            launcher.category = category(view, launcher);
            launcher.subtree_us = match tree.node_of(launcher.event) {
                Some(node) => view.busy_us(work.subtree(&tree, node).iter().copied()),
                None => launcher.direct_us,
            };
        }
        list.sort_by_key(|l| trace.events.start[l.event.index()]);
        Self { list, any_recompute: recompute.any() }
    }
}

/// Category of a launcher's computation, by its name, otherwise by its first kernel.
fn category(view: &GpuView<'_>, launcher: &Launcher) -> &'static str {
    let trace = view.trace;
    let name = trace.name(launcher.event);
    if view.definition == Definition::TraceLens && TRACELENS_OTHER.contains(&name) {
        return classify::OTHER;
    }
    let events = launcher.gpu.iter().map(|g| trace.gpu.event[g.index()]);
    let kernel = events.into_iter().find(|&e| trace.kind(e) == EventKind::Kernel);
    classify::operator_category(name, kernel.map(|e| trace.name(e)))
}

/// Note on the coverage of GPU operations: shares of their time with a known launch, operator and step.
pub fn gpu_coverage_note(trace: &Trace, operations: impl Iterator<Item = GpuOpId>) -> String {
    let mut total = 0i64;
    let mut times = [0i64; 3];
    for id in operations {
        let (i, dur) = (id.index(), trace.events.dur[trace.gpu.event[id.index()].index()]);
        let gpu = &trace.gpu;
        let known = [gpu.launch[i].is_some(), gpu.operator[i].is_some(), (gpu.step[i] as usize) < trace.steps.len()];
        total = total.saturating_add(dur);
        for (time, known) in times.iter_mut().zip(known) {
            *time = time.saturating_add(if known { dur } else { 0 });
        }
    }
    let [launch, operator, step] = times.map(|t| percent(t as f64, total as f64).unwrap_or(0.0));
    format!(
        "Coverage: of the GPU time, {launch:.1} % has a known launch, {operator:.1} % a known operator and {step:.1} % \
         a known step."
    )
}
