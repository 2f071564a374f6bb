//! Predictions compared with ground truth.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::print_stdout)]

use stackline_critical_path::exact::{Exact, WindowChoice, what_if};
use stackline_testkit::simulator::{Edit, Profile, Simulated};
use std::collections::BTreeMap;

/// Convert an edit of the simulator to a what-if edit; `None` if there is no such edit.
pub fn as_what_if(edit: &Edit) -> Option<String> {
    // The simulator matches parts of names of any kind of span.
    let span = |name: &str| match name {
        _ if name.starts_with("aten::") => Some(format!("operator:*{name}*")),
        "evaluate_function" => Some(format!("operator:*{name}*")),
        "Optimizer.step" => Some(format!("annotation:*{name}*")),
        "fetch.py" => Some(format!("frame:*{name}*")),
        _ => name.strip_prefix("nn.Module: ").map(|module| format!("module:{module}*")),
    };
    let starred = |name: &str| name.replace('*', "\\*").replace('?', "\\?");
    Some(match edit {
        Edit::ScaleKernels { name, factor } => format!("scale kernel:*{}* {factor}", starred(name)),
        Edit::RemoveKernels { name } => format!("remove kernel:*{}*", starred(name)),
        Edit::RemoveSyncs { name } => format!("remove sync:*{name}*"),
        // What-if scales the GPU work of annotations, too; these have none that the simulator leaves alone.
        Edit::ScaleHost { name, .. } if name == "Optimizer.step" => return None,
        Edit::ScaleHost { name, factor } => format!("scale {} {factor}", span(name)?),
        Edit::OverlapCollectives => "overlap collective:*".to_owned(),
        Edit::MoreWorkers(more) => format!("more-workers {more}"),
        Edit::Fuse { name } => format!("fuse {}", span(name)?),
        Edit::Graph { name } => format!("graph {}", span(name)?),
        _ => return None,
    })
}

/// Errors of the predictions of one kind of edit.
#[derive(Default)]
pub struct Accuracy {
    /// Relative to the real window, in percent.
    pub errors: Vec<f64>,
    /// Distance from the lower to the upper bound, relative to the window before, in percent.
    pub widths: Vec<f64>,
    pub inside: usize,
    pub refused: usize,
}

/// Percentile of a list.
pub fn at(list: &mut [f64], percent: usize) -> f64 {
    list.sort_by(f64::total_cmp);
    list.get(list.len().saturating_sub(1) * percent / 100).copied().unwrap_or(0.0)
}

impl Accuracy {
    pub fn error(&mut self, percent: usize) -> f64 {
        at(&mut self.errors, percent)
    }

    pub fn row(&mut self, name: &str) -> String {
        let all = self.errors.len();
        let inside = 100.0 * self.inside as f64 / all.max(1) as f64;
        let (half, most, worst) = (self.error(50), self.error(95), self.error(100));
        let widths = [50, 75, 90].map(|percent| format!("{:.2}", at(&mut self.widths, percent))).join(" / ");
        let refused = self.refused;
        format!("| {name} | {all} | {half:.3} | {most:.2} | {worst:.1} | {inside:.1} | {widths} | {refused} |")
    }
}

/// Features that may make a program hard to predict.
fn features(seed: u64) -> String {
    let profile = Profile::any(seed);
    let all = [
        (profile.gil, "gil"),
        (profile.locks, "locks"),
        (profile.workers > 0, "workers"),
        (profile.polls, "polls"),
        (profile.dependent_launch, "overlap"),
        (profile.queue_limit < 100, "queue"),
        (profile.graphs, "graphs"),
    ];
    all.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
}

/// True if a kind of edits is selected: `WHAT_IF_ONLY=MoreWorkers` excludes the others.
pub fn is_selected_kind(kind: &str) -> bool {
    std::env::var("WHAT_IF_ONLY").map_or(true, |only| only == kind)
}

/// Predicts every wanted edit of a program from a trace of it, and compares with the edited program.
pub fn try_program(
    seed: u64,
    (simulated, json): (&Simulated, &str),
    is_included: &dyn Fn(&str) -> bool,
    table: &mut BTreeMap<String, Accuracy>,
) {
    let trace = stackline_ingest::read_bytes("sim.json", json.as_bytes(), &Default::default()).unwrap();
    // Prepared once where that is enough.
    let exact = Exact::new(&trace);
    let ready = (!exact.clocks_disagree()).then(|| exact.what_if());
    for edit in simulated.possible_edits() {
        let Some(text) = as_what_if(&edit) else { continue };
        let kind = format!("{edit:?}").split([' ', '(']).next().unwrap_or("").to_owned();
        if !is_included(&kind) {
            continue;
        }
        let truth = simulated.edit(&edit).unwrap().window_ns;
        let parsed = what_if::Edit::parse(&text).unwrap();
        let edits = [parsed];
        let predicted = match &ready {
            Some(ready) => ready.predict(&WindowChoice::Whole, &edits),
            None => what_if::predict(&trace, &WindowChoice::Whole, &edits),
        };
        let Ok(found) = predicted else {
            if std::env::var("WHAT_IF_SHOW").is_ok() {
                println!("seed {seed}: {text}: refused");
            }
            table.entry(kind).or_default().refused += 1;
            continue;
        };
        // The program starts before its first record.
        let offset = simulated.truth().window_ns - found.before_ns();
        let (predicted, before) = (found.after_ns + offset, found.before_ns() + offset);
        let error = 100.0 * (predicted - truth).abs() as f64 / truth as f64;
        let inside = (before - found.gain.high_ns..=before - found.gain.low_ns).contains(&truth);
        if (error > 3.0 || !inside) && std::env::var("WHAT_IF_SHOW").is_ok() {
            let bounds = (before - found.gain.high_ns, before - found.gain.low_ns);
            let missed = (truth - bounds.1).max(bounds.0 - truth).max(0);
            println!(
                "seed {seed} [{}]: {text}: before {before}, predicted {:+} ({:+}, {:+}), true {:+}, missed by {missed}",
                features(seed),
                predicted - before,
                bounds.0 - before,
                bounds.1 - before,
                truth - before,
            );
        }
        let accuracy = table.entry(kind).or_default();
        accuracy.errors.push(error);
        let width = found.gain.high_ns - found.gain.low_ns;
        accuracy.widths.push(100.0 * width as f64 / before as f64);
        accuracy.inside += usize::from(inside);
    }
}
