//! Table of the methods' accuracy over many programs.

use crate::methods::found::{Found, KINDS};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Comparison of two sets of events.
#[derive(Clone, Copy, Default)]
struct Overlap {
    on_true_path: usize,
    on_path: usize,
    both: usize,
}

impl Overlap {
    fn new<T: Ord>(truth: &BTreeSet<T>, found: &BTreeSet<T>) -> Self {
        Self { on_true_path: truth.len(), on_path: found.len(), both: truth.intersection(found).count() }
    }

    fn add(&mut self, other: Self) {
        self.on_true_path += other.on_true_path;
        self.on_path += other.on_path;
        self.both += other.both;
    }

    /// Share of the real path that is on the method's path, in percent.
    fn recall(self) -> f64 {
        100.0 * self.both as f64 / self.on_true_path.max(1) as f64
    }

    /// Share of the method's path that is on the real path, in percent.
    fn precision(self) -> f64 {
        100.0 * self.both as f64 / self.on_path.max(1) as f64
    }
}

/// Result of one method on one program.
#[derive(Clone)]
pub(crate) struct Sample {
    /// In percent of the window, as the following fields.
    covered: f64,
    /// Error of the time of each kind.
    errors: [f64; 4],
    gpu: Overlap,
    operators: Overlap,
}

impl Sample {
    pub(crate) fn new(truth: &Found, found: &Found, window_ns: f64) -> Self {
        let percent = |ns: f64| 100.0 * ns / window_ns;
        Self {
            covered: percent(found.covered_ns),
            errors: std::array::from_fn(|kind| percent((found.kinds_ns[kind] - truth.kinds_ns[kind]).abs())),
            gpu: Overlap::new(&truth.gpu, &found.gpu),
            operators: Overlap::new(&truth.operators, &found.operators),
        }
    }
}

/// Results of one method over many programs.
#[derive(Default)]
pub(crate) struct Accuracy {
    /// Number of programs with a result.
    programs: usize,
    without_result: usize,
    covered: f64,
    errors: [f64; 4],
    /// Total error of all kinds, per program.
    sums: Vec<f64>,
    /// Number of programs with exactly the right GPU operations.
    right: usize,
    gpu: Overlap,
    operators: Overlap,
}

impl Accuracy {
    pub(crate) fn add(&mut self, sample: Option<&Sample>) {
        let Some(sample) = sample else {
            self.without_result += 1;
            return;
        };
        self.programs += 1;
        self.covered += sample.covered;
        for (sum, error) in self.errors.iter_mut().zip(sample.errors) {
            *sum += error;
        }
        self.sums.push(sample.errors.iter().sum());
        self.right += usize::from(sample.gpu.both == sample.gpu.on_true_path && sample.gpu.both == sample.gpu.on_path);
        self.gpu.add(sample.gpu);
        self.operators.add(sample.operators);
    }

    fn mean(&self, sum: f64) -> f64 {
        sum / self.programs.max(1) as f64
    }

    pub(crate) fn covered(&self) -> f64 {
        self.mean(self.covered)
    }

    pub(crate) fn gpu_recall(&self) -> f64 {
        self.gpu.recall()
    }

    pub(crate) fn gpu_precision(&self) -> f64 {
        self.gpu.precision()
    }

    pub(crate) fn operator_recall(&self) -> f64 {
        self.operators.recall()
    }

    pub(crate) fn operator_precision(&self) -> f64 {
        self.operators.precision()
    }

    /// Mean total error of all kinds, in percent of the window.
    pub(crate) fn error(&self) -> f64 {
        self.mean(self.sums.iter().sum())
    }

    /// Percentile over programs of the total error of all kinds.
    fn error_at(&self, percent: usize) -> f64 {
        let mut sorted = self.sums.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len().saturating_sub(1) * percent / 100).copied().unwrap_or(0.0)
    }
}

fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The tables in the form of the page.
pub(crate) fn text(programs: u64, all: &[(&'static str, Accuracy)], easier: &[(&'static str, Accuracy)]) -> String {
    let counts = &all[0].1;
    let mut out = format!(
        "{} programs; on their true paths {} operations of the GPU and {} framework operators.\n\n",
        grouped(programs as usize),
        grouped(counts.gpu.on_true_path),
        grouped(counts.operators.on_true_path),
    );
    out.push_str("| method | no result | window covered | GPU operations: recall | precision | all right in | operators: recall | precision |\n");
    out.push_str("|---|---|---|---|---|---|---|---|\n");
    for (name, a) in all {
        let _ = writeln!(
            out,
            "| `{name}` | {} | {:.2} % | {:.2} % | {:.2} % | {:.1} % | {:.2} % | {:.2} % |",
            grouped(a.without_result),
            a.covered(),
            a.gpu_recall(),
            a.gpu_precision(),
            100.0 * a.right as f64 / a.programs.max(1) as f64,
            a.operator_recall(),
            a.operator_precision(),
        );
    }
    let _ = writeln!(out, "\n| mean error, % of the window | {} | all | all, 95th percentile |", KINDS.join(" | "));
    out.push_str("|---|---|---|---|---|---|---|\n");
    all.iter().for_each(|(name, a)| errors(&mut out, name, a));
    let number = grouped(easier[0].1.programs);
    let _ = writeln!(out, "| *neither polling nor a long hold of the GIL ({number} programs):* | | | | | | |");
    easier.iter().for_each(|(name, a)| errors(&mut out, name, a));
    out.trim_end().to_owned()
}

fn errors(out: &mut String, name: &str, a: &Accuracy) {
    let kinds: Vec<String> = a.errors.iter().map(|&e| format!("{:.3}", a.mean(e))).collect();
    let _ = writeln!(out, "| `{name}` | {} | {:.3} | {:.2} |", kinds.join(" | "), a.error(), a.error_at(95));
}

const BEGIN: &str = "<!-- table: begin -->\n";
const END: &str = "<!-- table: end -->";

/// A page with its table replaced.
pub(crate) fn put_into(page: &str, table: &str) -> String {
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    format!("{before}{BEGIN}\n{table}\n\n{END}{after}")
}
