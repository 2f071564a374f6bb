//! Profiles of recordings of calls for comparisons. These recordings keep no single steps, so each run is one unit.

use super::functions::BY_SAMPLES;
use super::profile::{Cell, MOST_FRAMES, MeanStep, Profile};
use stackline_calls::{CallLabel, CallView, ViewDirection, ViewOptions, view};
use stackline_model::{CallMetric, CallingContextTree};

impl Profile {
    /// Build the profile of a recording as one unit, with host time only.
    ///
    /// # Errors
    /// A message if the recording has no times.
    pub fn from_calls(tree: &CallingContextTree, name: &str, mean_step: Option<MeanStep>) -> Result<Self, String> {
        let metric = tree.measured().into_iter().find(|metric| metric.is_time());
        let metric = metric.ok_or_else(|| format!("{name}: the recording has no times to compare"))?;
        let options = ViewOptions { by_line: false, by_inputs: false, ..ViewOptions::new(metric) };
        let down = view(tree, &options);
        let flat = view(tree, &ViewOptions { shape: ViewDirection::Flat, ..options });
        let lasted = tree.processes.iter().filter_map(|process| process.lasted_ns).max().unwrap_or(0);
        let mut profile = Self { name: name.to_owned(), path_kind: "calls", ..Self::default() };
        // Operator times and sample times have different meanings.
        profile.format = Some(format!("calls by {}", metric.title(&tree.strings)));
        let total = Cell { cpu: ns(down.total.sum), cpu_total: ns(lasted), ..Cell::default() };
        profile.totals = vec![total];
        for row in (1..flat.nodes.len()).filter(|&row| flat.label(row).kind == "operator") {
            let own = Cell { cpu: ns(flat.nodes[row].exclusive.sum), ..call_cell(&flat, row) };
            profile.operators.entry(flat.label(row).name.clone()).or_default().add(0, &own);
        }
        let mut texts = vec![String::new(); down.nodes.len()];
        for row in 1..down.nodes.len() {
            if down.nodes[row].depth > MOST_FRAMES {
                profile.long_paths += 1;
                continue;
            }
            let label = text(down.label(row));
            let above = &texts[down.nodes[row].parent];
            texts[row] = if above.is_empty() { label } else { format!("{above} > {label}") };
            profile.paths.entry(texts[row].as_str().into()).or_default().add(0, &call_cell(&down, row));
        }
        profile.functions(tree);
        profile.mean_step = mean_step;
        Ok(profile)
    }
}

impl Profile {
    /// Fill the times of Python functions from sampled stacks, because operator times do not cover them.
    fn functions(&mut self, tree: &CallingContextTree) {
        let candidates = [CallMetric::CpuTime, CallMetric::WallTime, CallMetric::HostTime];
        let measured = tree.measured();
        let Some(metric) = candidates.into_iter().find(|metric| measured.contains(metric)) else { return };
        let options = ViewOptions { by_line: false, by_inputs: false, ..ViewOptions::new(metric) };
        let down = view(tree, &options);
        // The Python function that each frame belongs to. Built-in and library frames belong to their caller.
        let mut of: Vec<Option<usize>> = vec![None; down.nodes.len()];
        let mut add = |label: &CallLabel, cell: &Cell| {
            self.functions.entry(text(label).into()).or_default().add(0, cell);
        };
        for row in 1..down.nodes.len() {
            let (label, node) = (down.label(row), &down.nodes[row]);
            of[row] = match label.kind {
                "python" => Some(row),
                "operator" => None,
                _ => of[node.parent],
            };
            if let Some(function) = of[row] {
                add(down.label(function), &Cell { cpu: ns(node.exclusive.sum), ..Cell::default() });
            }
        }
        let flat = view(tree, &ViewOptions { shape: ViewDirection::Flat, ..options });
        for row in (1..flat.nodes.len()).filter(|&row| flat.label(row).kind == "python") {
            add(flat.label(row), &Cell { cpu: 0, ..sample_cell(&flat, row) });
        }
        self.functions_by = Some(BY_SAMPLES);
    }
}

/// Inclusive time of a call tree row, with its number of calls (0 if calls were not counted).
fn call_cell(view: &CallView, row: usize) -> Cell {
    let count = i64::try_from(view.nodes[row].calls).unwrap_or(i64::MAX);
    Cell { count, ..sample_cell(view, row) }
}

/// Inclusive time of a call tree row, with its number of samples.
fn sample_cell(view: &CallView, row: usize) -> Cell {
    let node = &view.nodes[row];
    let count = i64::try_from(node.inclusive.count).unwrap_or(i64::MAX);
    Cell { count, gpu: 0, cpu: ns(node.inclusive.sum), cpu_total: ns(node.inclusive.sum) }
}

/// Convert a time in ns to a signed number, limited to its maximum.
fn ns(sum: u64) -> i64 {
    i64::try_from(sum).unwrap_or(i64::MAX)
}

/// Text of a call path frame: name, with its file if known.
fn text(label: &CallLabel) -> String {
    if label.file.is_empty() { label.name.clone() } else { format!("{}: {}", label.file, label.name) }
}
