//! Profile of one rank of one run for comparisons: time of each row (such as an operator) in each step.

use super::functions;
use super::inferred_steps;
use super::kernel_families::kernel_family;
use super::missing_records::{self, ImplausibleCount};
use super::paths::Paths;
use super::units::{Units, steps};
use rustc_hash::FxHashMap;
use stackline_model::names::STEP_PREFIX;
use stackline_model::{EventId, GpuRecords, StrId, Trace, Vendor, flags};
use stackline_timeline::Scope;
use stackline_timeline::gpu_view::{Definition, GpuView};
use stackline_timeline::intervals::{total, union};
use stackline_timeline::op_tree::{OpTree, ROOT};
use stackline_timeline::operator_costs::{Cost, costs};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Measured quantity of a row, such as GPU time; in ns per step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// Step time from the end of the previous step (or the start, if that is later) to the end of the step with its GPU
    /// work.
    Step,
    /// Step time up to the start of the next step, including time between steps. Measured only if that is considerable.
    StepAndBetween,
    /// GPU time. For steps: time in which work that the step launched runs. For other rows: summed durations.
    Gpu,
    /// Host self time of operators; inclusive host time of call paths and recordings.
    Cpu,
    /// Inclusive host time of operators.
    CpuTotal,
}

impl Measure {
    /// Name of the measured quantity in documents, such as `gpu` or `cpu_total`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::StepAndBetween => "step_and_between",
            Self::Gpu => "gpu",
            Self::Cpu => "cpu",
            Self::CpuTotal => "cpu_total",
        }
    }
}

/// Number of calls and times (GPU, host self, host inclusive; in ns) of one row in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Calls, or GPU operations.
    pub count: i64,
    /// [`Measure::Gpu`].
    pub gpu: i64,
    /// [`Measure::Cpu`].
    pub cpu: i64,
    /// [`Measure::CpuTotal`].
    pub cpu_total: i64,
}

impl Cell {
    /// Add the counts and times of another cell to this one.
    pub fn add(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.gpu = self.gpu.saturating_add(other.gpu);
        self.cpu = self.cpu.saturating_add(other.cpu);
        self.cpu_total = self.cpu_total.saturating_add(other.cpu_total);
    }

    /// Time of a cell by one measure, in ns. For whole steps, the step length.
    #[must_use]
    pub fn time(&self, measure: Measure) -> i64 {
        match measure {
            Measure::Step | Measure::StepAndBetween | Measure::CpuTotal => self.cpu_total,
            Measure::Gpu => self.gpu,
            Measure::Cpu => self.cpu,
        }
    }
}

/// Calls and times of a row in each step in which it occurs. Most paths of long runs occur in few steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row(Vec<(u32, Cell)>);

impl Row {
    /// Add calls and times to those of a step.
    pub(super) fn add(&mut self, step: usize, cell: &Cell) {
        let step = step as u32;
        // Most cells arrive in the order of steps.
        let at = match self.0.last() {
            Some((last, _)) if *last < step => self.0.len(),
            _ => self.0.partition_point(|(of, _)| *of < step),
        };
        match self.0.get_mut(at) {
            Some((of, sum)) if *of == step => sum.add(cell),
            _ => self.0.insert(at, (step, *cell)),
        }
    }

    /// Calls and times in a step; `None` if the row does not occur in it.
    #[must_use]
    pub fn get(&self, step: usize) -> Option<&Cell> {
        let at = self.0.binary_search_by_key(&step, |(of, _)| *of as usize).ok()?;
        Some(&self.0[at].1)
    }

    /// Steps in which the row occurs, ascending, with their calls and times.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Cell)> {
        self.0.iter().map(|(step, cell)| (*step as usize, cell))
    }

    /// Remove cells of these steps (ascending indices) from the row, and renumber later steps.
    pub(super) fn leave_out(&mut self, steps: &[usize]) {
        self.0.retain(|(of, _)| steps.binary_search(&(*of as usize)).is_err());
        self.0.iter_mut().for_each(|(of, _)| *of -= steps.partition_point(|&step| step < *of as usize) as u32);
    }

    /// True if the row occurs in no step.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Release the unused memory of a row's cells.
    pub(super) fn shrunk(mut self) -> Self {
        self.0.shrink_to_fit();
        self
    }
}

impl<'c> FromIterator<&'c Cell> for Row {
    /// Create a profile row from one cell (count and times) per step, in step order.
    fn from_iter<I: IntoIterator<Item = &'c Cell>>(cells: I) -> Self {
        Self((0..).zip(cells.into_iter().copied()).collect())
    }
}

/// Length of a step, and whether it is compared or excluded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepLength {
    /// Step number.
    pub number: i64,
    /// Index of the process, in order of first steps, from 0.
    pub process: usize,
    /// Length from the end of the previous step (or the start, if that is later) to the end of all its work, in ns.
    pub ns: i64,
    /// Length up to the start of the next step of its process, in ns; for the last step an estimate from earlier ones.
    pub with_between_ns: i64,
    /// Reason for exclusion; `None` if the step is compared.
    pub left_out: Option<&'static str>,
}

/// Mean step length of a run for which single steps were not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeanStep {
    /// Mean length in ns, without recording overhead if that was measured.
    pub ns: i64,
    /// Number of steps.
    pub steps: usize,
    /// Recording overhead in ns; `None` if it was not measured and is part of the length.
    pub recording_ns: Option<i64>,
}

impl MeanStep {
    /// Mean step length as recorded, including recording overhead.
    pub(super) fn as_recorded(&self) -> i64 {
        self.ns.saturating_add(self.recording_ns.unwrap_or(0))
    }
}

/// Profile of one rank of one run for comparisons.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// Label of the trace.
    pub name: String,
    /// Input format; `None` for recordings.
    pub format: Option<String>,
    /// Names of the GPUs; `None` if the trace lacks them.
    pub device: Option<String>,
    /// Rank number, as in the engine.
    pub rank: i64,
    /// Vendor of the GPUs, if known.
    pub vendor: Option<Vendor>,
    /// Steps; empty if the trace has none and counts as one unit.
    pub steps: Vec<StepLength>,
    /// Mean step length, if single steps were not kept.
    pub mean_step: Option<MeanStep>,
    /// Totals of each compared step: `cpu_total` is its length, `count` its GPU operations.
    pub totals: Vec<Cell>,
    /// Time up to the next step of each compared step, as `cpu_total`; empty without steps.
    pub totals_with_between: Vec<Cell>,
    /// Operators by name.
    pub operators: BTreeMap<String, Row>,
    /// GPU work by name.
    pub kernels: BTreeMap<String, Row>,
    /// GPU work by launching operator and kernel family.
    pub families: BTreeMap<(String, &'static str), Row>,
    /// Call paths. Their long texts are shared with other structures.
    pub paths: BTreeMap<Arc<str>, Row>,
    /// Python functions by file and name; `cpu` is the self time.
    pub functions: BTreeMap<Arc<str>, Row>,
    /// Number of call paths without a row, because they have more than 512 frames.
    pub long_paths: usize,
    /// Method of measuring functions (`calls`, `samples`); `None` if unknown. With samples, `count` is the number of
    /// samples.
    pub functions_by: Option<&'static str>,
    /// Kind of frames in paths; different kinds cannot be compared.
    pub path_kind: &'static str,
    /// Number of events that are excluded because of implausible times.
    pub implausible: usize,
    /// Completeness of GPU records.
    pub gpu_records: GpuRecords,
    /// Calls and operators of the host, and the number excluded for implausible times.
    pub host_records: ImplausibleCount,
    /// Profile of the same run by inferred steps, if it marks none but launches repeat, for comparison to a run with
    /// marks.
    pub by_inferred_steps: Option<Box<Profile>>,
    /// Origin of inferred steps as text; `None` for marked steps.
    pub inferred_from: Option<String>,
}

/// Frames of the longest call path with a row. Times of paths include callees, so the row of its first frames contains
/// the times of a longer path; a row with its text would take quadratic memory in deep recursion.
pub(super) const MOST_FRAMES: usize = 512;

/// Placeholder for the operator of GPU work without one.
pub(super) const NO_OPERATOR: &str = "(no operator)";

impl Profile {
    /// Build the comparison profile of one rank's trace.
    #[must_use]
    pub fn from_trace(trace: &Trace, rank: i64, scope: &Scope) -> Self {
        let view = GpuView::new(trace, &Scope::default(), Definition::Exact);
        let mut profile = Self::from_units(trace, rank, steps(trace, scope, &view.counted), &view);
        profile.by_inferred_steps = inferred_steps::profile(trace, rank, scope, &view).map(Box::new);
        profile
    }

    /// Build the comparison profile of a trace from the given steps and the assignment of events to them.
    pub(super) fn from_units(
        trace: &Trace,
        rank: i64,
        (steps, units): (Vec<StepLength>, Units),
        view: &GpuView<'_>,
    ) -> Self {
        let timed = |e: &EventId| trace.events.has(*e, flags::HAS_DURATION) && !trace.events.is_plausible(*e);
        let mut profile = Self {
            name: trace.meta.name.clone(),
            format: Some(trace.meta.format.clone()).filter(|format| !format.is_empty()),
            device: device(trace),
            rank,
            vendor: vendor(trace),
            steps,
            implausible: trace.events.ids().filter(timed).count(),
            gpu_records: *trace.gpu_records(),
            host_records: missing_records::count_host_records(trace),
            ..Self::default()
        };
        profile.totals(trace, &units, view);
        profile.operators(trace, &units, view);
        profile.kernels(trace, &units, view);
        let paths = Paths::new(trace);
        profile.path_kind = paths.kind();
        profile.paths = paths.rows(trace, &units, &view.counted);
        profile.long_paths = paths.long_paths();
        (profile.functions, profile.functions_by) = functions::functions(trace, &units);
        profile
    }

    /// Fill the totals of each compared step: length, GPU time and number of GPU operations.
    fn totals(&mut self, trace: &Trace, units: &Units, view: &GpuView<'_>) {
        let lengths: Vec<i64> = match units.whole {
            true => trace.span().map(|(start, end)| end.saturating_sub(start)).into_iter().collect(),
            false => self.steps.iter().filter(|s| s.left_out.is_none()).map(|s| s.ns).collect(),
        };
        let compared = self.steps.iter().filter(|step| step.left_out.is_none());
        let with_between = compared.map(|step| Cell { cpu_total: step.with_between_ns, ..Cell::default() });
        self.totals_with_between = with_between.collect();
        self.totals = lengths.into_iter().map(|ns| Cell { cpu_total: ns, ..Cell::default() }).collect();
        let mut spans = vec![Vec::new(); self.totals.len()];
        for gpu in trace.gpu.ids().filter(|gpu| view.counted[gpu.index()]) {
            let event = trace.gpu.event[gpu.index()];
            let Some(unit) = units.of_gpu(trace, gpu).filter(|&unit| unit < spans.len()) else { continue };
            spans[unit].push((trace.events.start[event.index()], trace.events.end(event)));
            self.totals[unit].count += 1;
        }
        for (total_of, spans) in self.totals.iter_mut().zip(spans) {
            total_of.gpu = total(&union(spans));
        }
    }

    /// Fill calls and times of each operator per step, and add the host times to the totals of the steps.
    fn operators(&mut self, trace: &Trace, units: &Units, view: &GpuView<'_>) {
        let tree = OpTree::new(trace);
        let costs: Vec<Cost> = costs(trace, view, &tree);
        let mut rows: FxHashMap<StrId, Row> = FxHashMap::default();
        for (node, (&op, cost)) in tree.op.iter().zip(&costs).enumerate() {
            let counts = trace.events.is_plausible(op) && !is_step(trace, op);
            let Some(unit) = units.of_event(trace, op).filter(|_| counts) else { continue };
            let name = trace.events.name[op.index()];
            let cpu_total = if is_recursive(trace, &tree, node) { 0 } else { cost.host_total };
            let cell = Cell { count: 1, gpu: cost.gpu_self, cpu: cost.host_self, cpu_total };
            rows.entry(name).or_default().add(unit, &cell);
            if let Some(total) = self.totals.get_mut(unit) {
                total.cpu = total.cpu.saturating_add(cost.host_self);
            }
        }
        self.operators = rows_by_name(trace, rows);
    }

    /// Fill calls and times of GPU work per step: by name, and by launching operator and kernel family.
    fn kernels(&mut self, trace: &Trace, units: &Units, view: &GpuView<'_>) {
        let mut rows: FxHashMap<StrId, Row> = FxHashMap::default();
        let mut families: FxHashMap<(StrId, &'static str), Row> = FxHashMap::default();
        let mut known: FxHashMap<StrId, &'static str> = FxHashMap::default();
        for gpu in trace.gpu.ids().filter(|gpu| view.counted[gpu.index()]) {
            let Some(unit) = units.of_gpu(trace, gpu) else { continue };
            let event = trace.gpu.event[gpu.index()];
            let name = trace.events.name[event.index()];
            let cell = Cell { count: 1, gpu: trace.events.dur[event.index()], ..Cell::default() };
            rows.entry(name).or_default().add(unit, &cell);
            let of = *known.entry(name).or_insert_with(|| kernel_family(trace, event));
            let operator = trace.gpu.operator[gpu.index()].some().filter(|&op| !is_step(trace, op));
            let operator = operator.map_or(StrId::NONE, |op| trace.events.name[op.index()]);
            families.entry((operator, of)).or_default().add(unit, &cell);
        }
        self.kernels = rows_by_name(trace, rows);
        let text = |name: StrId| name.some().map_or(NO_OPERATOR, |name| trace.strings.get(name)).to_owned();
        let families = families.into_iter().map(|((operator, family), row)| ((text(operator), family), row));
        self.families = families.collect();
    }

    /// Number of compared steps; 1 for a trace without steps.
    #[must_use]
    pub fn units(&self) -> usize {
        self.totals.len()
    }
}

/// Test if an operator is a step annotation (`ProfilerStep#N`), as in older traces of `PyTorch`. Each has a different
/// name.
fn is_step(trace: &Trace, op: EventId) -> bool {
    trace.name(op).starts_with(STEP_PREFIX)
}

/// Convert rows by interned name to rows by text. Strings are interned by spelling, so two may read the same.
pub(super) fn rows_by_name(trace: &Trace, rows: FxHashMap<StrId, Row>) -> BTreeMap<String, Row> {
    let mut out: BTreeMap<String, Row> = BTreeMap::new();
    let mut rows: Vec<(StrId, Row)> = rows.into_iter().collect();
    rows.sort_unstable_by_key(|(name, _)| *name);
    for (name, row) in rows {
        let into = out.entry(trace.strings.get(name).to_owned()).or_default();
        row.iter().for_each(|(unit, cell)| into.add(unit, cell));
    }
    out.into_iter().map(|(name, row)| (name, row.shrunk())).collect()
}

/// Test if an operator runs inside another one of the same name, whose inclusive time already contains it.
fn is_recursive(trace: &Trace, tree: &OpTree, node: usize) -> bool {
    let name = |node: u32| trace.events.name[tree.op[node as usize].index()];
    let own = name(node as u32);
    let mut above = tree.parent[node];
    while above != ROOT {
        if name(above) == own {
            return true;
        }
        above = tree.parent[above as usize];
    }
    false
}

/// Distinct names of the GPUs, joined by commas; `None` if there are none.
fn device(trace: &Trace) -> Option<String> {
    let devices = trace.meta.devices();
    let names: BTreeSet<&str> = devices.iter().filter_map(|device| device.name.as_deref()).collect();
    (!names.is_empty()).then(|| names.into_iter().collect::<Vec<_>>().join(", "))
}

/// Vendor of the GPUs, by their launch calls, otherwise by the file's metadata.
fn vendor(trace: &Trace) -> Option<Vendor> {
    let of_call = |name: &str| match name {
        _ if name.starts_with("hip") => Some(Vendor::Amd),
        _ if name.starts_with("cu") => Some(Vendor::Nvidia),
        _ => None,
    };
    let mut launches = trace.gpu.launch.iter().filter_map(|launch| launch.some());
    if let Some(vendor) = launches.find_map(|launch| of_call(trace.name(launch))) {
        return Some(vendor);
    }
    let devices = trace.meta.devices();
    let vendors: BTreeSet<Vendor> = devices.iter().filter_map(|device| device.vendor).collect();
    vendors.first().copied().filter(|_| vendors.len() == 1)
}
