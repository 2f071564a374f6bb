//! Edits of a program that make it faster, and the edited program.
//!
//! Names match as substrings. An edit changes the program, not its outcome: the edited program runs again, with the
//! durations and lags of the original.

use crate::simulator::names;
use crate::simulator::program::build::COLLECTIVE;
use crate::simulator::program::{Op, Program, Span, Step, Work};

/// An edit that makes a simulated program faster.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Edit {
    /// Scale the duration of GPU operations of this name.
    ScaleKernels {
        /// Part of the operation's name.
        name: String,
        /// Factor; 0.5 halves them.
        factor: f64,
    },
    /// Remove GPU operations of this name and their launch calls (a graph keeps its launch).
    RemoveKernels {
        /// Part of the operation's name.
        name: String,
    },
    /// Remove synchronizing calls and queries; blocking copies become asynchronous.
    RemoveSyncs {
        /// Part of the name of the call, or of an enclosing span.
        name: String,
    },
    /// Scale all host time inside spans of this name, calls included, but not waits.
    ScaleHost {
        /// Part of the span's name.
        name: String,
        /// Factor; 0.5 halves it.
        factor: f64,
    },
    /// Remove the waits of other streams for collectives.
    OverlapCollectives,
    /// Add this many DataLoader workers, each with one prefetched index.
    MoreWorkers(usize),
    /// In each span of this name, merge the kernels of one stream into one, of the same total duration, in place of
    /// the first; the other launch calls are removed.
    Fuse {
        /// Part of the span's name.
        name: String,
    },
    /// In each span of this name that only launches, replace all launches by one; the other host time in it is
    /// removed.
    Graph {
        /// Part of the span's name.
        name: String,
    },
}

/// Apply an edit to a program; `None` if there was nothing to change.
pub(crate) fn apply(mut program: Program, edit: &Edit) -> Option<Program> {
    let done = match edit {
        Edit::ScaleKernels { name, factor } => {
            change_ops(&mut program, name, |op| op.duration = scaled(op.duration, *factor))
        }
        Edit::RemoveKernels { name } => {
            change_ops(&mut program, name, |op| op.removed = true) && {
                let ops = program.ops.clone();
                let gone = |step: &Step| match step {
                    Step::Launch { ops: launched, .. } => ops[launched.clone()].iter().all(|op| op.removed),
                    Step::Blocking { op, .. } => ops[*op].removed,
                    _ => false,
                };
                each_thread(&mut program, |_, steps| retain(steps, |step| !gone(step)));
                true
            }
        }
        Edit::RemoveSyncs { name } => each_thread(&mut program, |ops, steps| remove_syncs(ops, steps, name)),
        Edit::ScaleHost { name, factor } => each_thread(&mut program, |_, steps| scale_host(steps, name, *factor)),
        Edit::OverlapCollectives => overlap(&mut program),
        Edit::MoreWorkers(more) => more_workers(&mut program, *more),
        Edit::Fuse { name } => each_thread(&mut program, |ops, steps| fuse(ops, steps, name)),
        Edit::Graph { name } => each_thread(&mut program, |_, steps| graph(steps, name)),
    };
    done.then_some(program)
}

/// Edits to try on a simulated program; not all of them change it.
pub(crate) fn candidates(program: &Program) -> Vec<Edit> {
    let text = |name: &str| name.to_owned();
    let mut edits = vec![Edit::OverlapCollectives, Edit::MoreWorkers(1), Edit::MoreWorkers(2)];
    for name in names::KERNELS.iter().chain(&["ncclDevKernel", "Memcpy HtoD", "Memcpy DtoH", "Memset"]) {
        edits.push(Edit::ScaleKernels { name: text(name), factor: 0.5 });
        edits.push(Edit::RemoveKernels { name: text(name) });
    }
    for name in ["aten::item", "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaFree", "Query", "cudaMemcpy"] {
        edits.push(Edit::RemoveSyncs { name: text(name) });
    }
    for name in names::OPERATORS.iter().chain(&["Optimizer.step", "DataLoader", "fetch.py", "evaluate_function"]) {
        edits.push(Edit::ScaleHost { name: text(name), factor: 0.5 });
    }
    for name in names::MODULES.iter().map(|m| format!("nn.Module: {m}")).chain([text("Optimizer.step")]) {
        edits.push(Edit::Fuse { name: name.clone() });
        edits.push(Edit::Graph { name });
    }
    edits.retain(|edit| !matches!(edit, Edit::MoreWorkers(_)) || program.loader.is_some());
    edits
}

fn scaled(ns: i64, factor: f64) -> i64 {
    // Durations are far below 2^53 ns.
    (ns as f64 * factor).round() as i64
}

/// Call `change` with each GPU operation whose name contains `name`; true if there is one.
fn change_ops(program: &mut Program, name: &str, change: impl Fn(&mut Op)) -> bool {
    let mut found = false;
    for op in program.ops.iter_mut().filter(|op| op.name.contains(name)) {
        change(op);
        found = true;
    }
    found
}

/// Call `change` with the steps of each thread and of each DataLoader item; true if any call returned true.
fn each_thread(program: &mut Program, mut change: impl FnMut(&mut Vec<Op>, &mut Vec<Step>) -> bool) -> bool {
    let Program { threads, ops, loader, .. } = program;
    let own = threads.iter_mut().map(|thread| &mut thread.steps);
    let items = loader.iter_mut().flat_map(|loader| &mut loader.items);
    own.chain(items).fold(false, |any, steps| change(ops, steps) | any)
}

/// Keep the steps that satisfy `keep`; true if any was removed.
fn retain(steps: &mut Vec<Step>, keep: impl FnMut(&Step) -> bool) -> bool {
    let before = steps.len();
    steps.retain(keep);
    steps.len() < before
}

/// For each step, true if it is inside a span whose name contains `name`; the opening and closing steps count as
/// inside.
fn mark_steps_in_spans(steps: &[Step], name: &str) -> Vec<bool> {
    let mut open: Vec<bool> = Vec::new();
    let mut within = 0;
    let mut marks = Vec::with_capacity(steps.len());
    for step in steps {
        if let Step::Open(Span { name: found, .. }) = step {
            open.push(found.contains(name));
            within += usize::from(found.contains(name));
        }
        marks.push(within > 0);
        if matches!(step, Step::Close) {
            within -= usize::from(open.pop().unwrap_or(false));
        }
    }
    marks
}

/// Remove synchronizing calls and queries by name or enclosing span; true if there was one. Blocking copies become
/// asynchronous.
fn remove_syncs(ops: &mut [Op], steps: &mut Vec<Step>, target: &str) -> bool {
    let marks = mark_steps_in_spans(steps, target);
    let mut any = false;
    let old = std::mem::take(steps);
    for (step, marked) in old.into_iter().zip(marks) {
        match step {
            Step::Sync { ref name, .. } | Step::Poll { ref name, .. } if marked || name.contains(target) => any = true,
            Step::Blocking { name, op, ret } if marked || name.contains(target) => {
                any = true;
                let own = ops[op].latency;
                ops[op].latency = 501;
                steps.push(Step::Launch { driver: false, name, own, ops: op..op + 1, ret });
            }
            step => steps.push(step),
        }
    }
    any
}

/// Multiply the host time inside spans of a name by `factor`; true if there was any.
fn scale_host(steps: &mut [Step], target: &str, factor: f64) -> bool {
    let mut any = false;
    let marks = mark_steps_in_spans(steps, target);
    for (marked, step) in marks.into_iter().zip(steps) {
        if let (
            true,
            Step::Spend(own)
            | Step::Call { own, .. }
            | Step::Launch { own, .. }
            | Step::Record { own, .. }
            | Step::Wait { own, .. }
            | Step::Sync { own, .. }
            | Step::Poll { own, .. },
        ) = (marked, step)
        {
            *own = scaled(*own, factor);
            any = true;
        }
    }
    any
}

/// Remove the waits of other streams for collectives; true if there was one.
fn overlap(program: &mut Program) -> bool {
    let mut on_collectives = vec![false; program.records.len()];
    for step in program.threads.iter().flat_map(|thread| &thread.steps) {
        if let Step::Record { stream: COLLECTIVE, record, .. } = step {
            on_collectives[*record] = true;
        }
    }
    let waits = |step: &Step| matches!(step, Step::Wait { stream, record, .. } if *stream != COLLECTIVE && on_collectives[*record]);
    each_thread(program, |_, steps| retain(steps, |step| !waits(step)))
}

/// Add `more` DataLoader workers to the program, each with a prefetched index; true if an index is requested earlier.
fn more_workers(program: &mut Program, more: usize) -> bool {
    let Some(loader) = &mut program.loader else { return false };
    let ahead = loader.workers.min(loader.items.len());
    let earlier = more.min(loader.items.len() - ahead);
    loader.workers += more;
    if earlier == 0 || ahead == 0 {
        return false;
    }
    let Some(main) = program.threads.first_mut() else { return false };
    let puts: Vec<usize> = (0..main.steps.len()).filter(|&i| matches!(main.steps[i], Step::PutIndex)).collect();
    // A put is five steps: its frame (open, time, close), the token, and the time until the next put.
    for &put in puts.iter().rev().take(earlier) {
        main.steps.drain(put - 3..put + 2);
    }
    let last = puts[ahead - 1];
    let block: Vec<Step> = main.steps[last - 3..last + 2].to_vec();
    for _ in 0..earlier {
        main.steps.splice(last + 2..last + 2, block.iter().cloned());
    }
    true
}

/// Ranges of steps inside the outermost spans whose name contains `name`; spans that follow each other directly share a
/// range.
fn ranges_of_spans(steps: &[Step], name: &str) -> Vec<std::ops::Range<usize>> {
    let marks = mark_steps_in_spans(steps, name);
    let mut found = Vec::new();
    let mut start = None;
    for (i, step) in steps.iter().enumerate() {
        let before = i.checked_sub(1).is_some_and(|i| marks[i] && start.is_some());
        if marks[i] && !before {
            start = Some(i);
        }
        let ends = matches!(step, Step::Close) && !marks.get(i + 1).copied().unwrap_or(false);
        if let Some(from) = start.filter(|_| marks[i] && ends) {
            found.push(from..i + 1);
            start = None;
        }
    }
    found
}

/// Merge the kernels of one stream in each span of a name into the first one; true if there were several.
fn fuse(ops: &mut [Op], steps: &mut Vec<Step>, name: &str) -> bool {
    let mut gone = vec![false; steps.len()];
    for span in ranges_of_spans(steps, name) {
        let mut first: Option<usize> = None;
        for i in span {
            let Step::Launch { ops: launched, .. } = &steps[i] else { continue };
            let op = launched.start;
            if launched.len() != 1 || ops[op].work != Work::Kernel || ops[op].removed {
                continue;
            }
            match first.filter(|&first| ops[first].stream == ops[op].stream) {
                Some(first) => {
                    ops[first].duration += ops[op].duration;
                    ops[op].removed = true;
                    gone[i] = true;
                }
                None => first = first.or(Some(op)),
            }
        }
    }
    let mut gone = gone.into_iter();
    retain(steps, |_| !gone.next().unwrap_or(false))
}

/// Replace all launches in each span of a name by one graph launch; true if there was such a span.
fn graph(steps: &mut Vec<Step>, name: &str) -> bool {
    let mut any = false;
    for span in ranges_of_spans(steps, name).into_iter().rev() {
        let body = &steps[span.clone()];
        let plain = |step: &Step| {
            matches!(step, Step::Open(_) | Step::Close | Step::Spend(_) | Step::Call { .. } | Step::Launch { .. })
        };
        let launches: Vec<_> = body.iter().filter(|step| matches!(step, Step::Launch { .. })).collect();
        let (Some(Step::Launch { ops: first, own, ret, .. }), Some(Step::Launch { ops: last, .. })) =
            (launches.first(), launches.last())
        else {
            continue;
        };
        if launches.len() < 2 || !body.iter().all(plain) {
            continue;
        }
        let (ops, own, ret, opening) = (first.start..last.end, *own, *ret, body[0].clone());
        let launch = Step::Launch { driver: false, name: "cudaGraphLaunch".into(), own, ops, ret };
        steps.splice(span, [opening, launch, Step::Close]);
        any = true;
    }
    any
}
