//! SL065: the gradient of a large embedding table is dense, though a batch looks up few of its rows.

use crate::critical_path::exact::what_if::{Action, Edit};
use crate::findings::{Area, Confidence, Draft, Fact, Need, Rule, Setting, Subject, Support, Worth};
use crate::vocabulary::aten;
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;
use stackline_model::{EventId, EventKind, StrId};
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL065",
    name: "dense-embedding-gradient",
    area: Area::Kernels,
    about: "the gradient of an embedding table is dense, though a batch looks up few of its rows",
    why: "A dense gradient is as large as the table: each step fills it with zeros, and the optimizer reads and writes all rows and \
          their state, of which nearly none has changed.",
    advice: "Create the table with sparse=True, and give it an optimizer that takes sparse gradients: SparseAdam, SGD or Adagrad; all \
             other parameters keep theirs.",
    example: (
        "table = nn.Embedding(10_000_000, 64)\noptimizer = torch.optim.Adam(model.parameters())",
        "table = nn.Embedding(10_000_000, 64, sparse=True)\nof_table = torch.optim.SparseAdam(table.parameters())\n\
         optimizer = torch.optim.Adam(others)",
    ),
    cost: "a second optimizer; SparseAdam leaves the state of rows alone that a batch does not look up, so results differ slightly; no weight \
           decay, and DistributedDataParallel gathers sparse gradients",
    wrong_when: "The weights are also used otherwise, such as tied to the last layer (tables whose shape another product takes are left out), or \
                 gradients are clipped by their norm. The gain supposes that work on the table shrinks to three times the share of rows that are \
                 looked up, its bounds to that share and to ten times of it. Work of optimizers on long lists of tensors, whose shapes traces leave \
                 out, is not counted.",
    source: "field practice; PyTorch's nn.Embedding(sparse=True)",
    needs: &[Need::Operators],
    settings: &[
        Setting {
            name: "rows",
            default: 10.0,
            range: (0.0, 100.0),
            about: "largest share of the table's rows that a batch looks up, in percent",
        },
        Setting {
            name: "share",
            default: 5.0,
            range: (0.0, 100.0),
            about: "least share of the window, or of the GPU's time, that work on the table takes, in percent",
        },
    ],
    elsewhere: &[],
    check,
};

/// What is left of the work on the table, as multiples of the share of rows that are looked up: likely, at least and at most.
const LEFT: [f64; 3] = [3.0, 1.0, 10.0];

/// Rows and columns.
type Shape = (i64, i64);

/// Work on a table, and the part of each operator of it that is the table's: an optimizer's may take several tensors.
type Work = Vec<(EventId, f64)>;

fn check(subject: &Subject<'_>) -> Vec<Draft> {
    let passes = subject.named(&[EventKind::Operator], |name| aten::EMBEDDING_BACKWARD.contains(&name));
    let mut tables: BTreeMap<Shape, Vec<(EventId, i64)>> = BTreeMap::new();
    for pass in passes {
        if let Some((table, looked_up)) = table(subject, pass) {
            tables.entry(table).or_default().push((pass, looked_up));
        }
    }
    tables.into_iter().filter_map(|(table, passes)| draft(subject, table, &passes)).collect()
}

/// The table that a backward pass makes a gradient of, and how many indices were looked up.
fn table(subject: &Subject<'_>, pass: EventId) -> Option<(Shape, i64)> {
    let inputs = subject.json("Input Dims", pass)?;
    let columns = sizes(inputs.get(0)?).last().copied()?;
    let looked_up = sizes(inputs.get(1)?).into_iter().fold(1, i64::saturating_mul);
    let filled = |operator: &EventId| match sizes(subject.json("Input Dims", *operator)?.get(0)?)[..] {
        [rows, of_table] if of_table == columns => Some((rows, columns)),
        _ => None,
    };
    // It fills the gradient with zeros first.
    let inside = subject.operators_in(&[pass]);
    Some((inside.iter().filter(|&&e| subject.trace().name(e) == aten::ZERO).find_map(filled)?, looked_up))
}

fn sizes(shape: &Value) -> Vec<i64> {
    shape.as_array().into_iter().flatten().filter_map(Value::as_i64).collect()
}

fn draft(subject: &Subject<'_>, (rows, columns): Shape, passes: &[(EventId, i64)]) -> Option<Draft> {
    let looked_up = passes.iter().map(|&(_, count)| count).max()?.min(rows);
    let used = looked_up as f64 / rows.max(1) as f64;
    if 100.0 * used > subject.setting("rows") {
        return None;
    }
    let (operators, lookup) = work(subject, (rows, columns))?;
    let ns_of = |work: &Work| work.iter().map(|&(event, part)| subject.dur(event) as f64 * part).sum::<f64>() as i64;
    let (work, ns, share, whose) = if subject.uses_gpu() {
        let kernels = kernels_of(subject, &operators);
        let ns = ns_of(&kernels);
        (kernels, ns, subject.percent_of_gpu(ns), "of the GPU's time")
    } else {
        let ns = ns_of(&operators);
        (operators, ns, subject.percent(ns), "of the window")
    };
    if share < subject.setting("share") {
        return None;
    }
    let [likely, least, most] = LEFT.map(|times| edits(subject, (rows, columns), &work, (used * times).min(1.0)));
    Some(Draft {
        title: format!(
            "a gradient of {rows} × {columns}, of whose rows a batch looks up {:.1} % at most, costs {share:.0} % {whose}",
            100.0 * used
        ),
        place: subject.place(lookup.unwrap_or(passes[0].0)),
        facts: vec![
            Fact::count("rows", usize::try_from(rows).unwrap_or(0)),
            Fact::count("indices of a batch", usize::try_from(looked_up).unwrap_or(0)),
            Fact::count("operators or kernels", work.len()),
            Fact::time("work on all rows, a step", subject.per_step(ns)),
        ],
        worth: Worth::Range(likely, vec![least, most]),
        events: work.into_iter().map(|(event, _)| event).collect(),
        support: Support::Exact,
        confidence: Confidence::High,
    })
}

/// Edits that leave so much of the table's part of the work.
fn edits(subject: &Subject<'_>, (rows, columns): Shape, work: &Work, left: f64) -> Vec<Edit> {
    let mut by_part: BTreeMap<u64, Vec<EventId>> = BTreeMap::new();
    for &(event, part) in work {
        by_part.entry(part.to_bits()).or_default().push(event);
    }
    let edit = |(part, events): (u64, Vec<EventId>)| {
        let scale = 1.0 - f64::from_bits(part) * (1.0 - left);
        subject.edit(Action::Scale(scale), format!("work on a table of {rows} × {columns}"), &events)
    };
    by_part.into_iter().filter_map(edit).collect()
}

/// The outermost operators that go over all rows of a table, and one that looks rows up; `None` if the model multiplies by it, too: its
/// gradient is dense then.
fn work(subject: &Subject<'_>, (rows, columns): Shape) -> Option<(Work, Option<EventId>)> {
    let trace = subject.trace();
    let texts = [format!("[{rows}, {columns}]"), format!("[{rows},{columns}]")];
    let is_named = |text: &str| texts.iter().any(|shape| text.contains(shape));
    let shapes: FxHashSet<StrId> =
        trace.strings.iter().enumerate().filter(|(_, text)| is_named(text)).map(|(at, _)| StrId::new(at)).collect();
    let column = trace.attr("Input Dims");
    let dims = |e: EventId| column.get(e)?.text_id();
    let takes_it = |&e: &EventId| dims(e).is_some_and(|shape| shapes.contains(&shape));
    let on_table: Vec<EventId> = subject.operators().into_iter().filter(takes_it).collect();
    if on_table.iter().any(|&e| aten::MULTIPLIES.contains(&trace.name(e))) {
        return None;
    }
    let mut parts: FxHashMap<StrId, Option<f64>> = FxHashMap::default();
    let (lookups, others): (Vec<EventId>, Vec<EventId>) =
        subject.outermost(&on_table).into_iter().partition(|&e| aten::EMBEDDING.contains(&trace.name(e)));
    let part = |e: EventId| {
        let shape = dims(e)?;
        let part = *parts.entry(shape).or_insert_with(|| part(trace.strings.get(shape), (rows, columns)));
        Some((e, part?))
    };
    Some((others.into_iter().filter_map(part).collect(), lookups.first().copied()))
}

/// The part of an operator's first input that is the table: the whole, or one tensor of a list.
fn part(dims: &str, (rows, columns): Shape) -> Option<f64> {
    let inputs: Value = serde_json::from_str(dims).ok()?;
    let first = inputs.get(0)?;
    if sizes(first) == [rows, columns] {
        return Some(1.0);
    }
    let tensors: Vec<Vec<i64>> = first.as_array()?.iter().map(sizes).collect();
    let elements = |sizes: &Vec<i64>| sizes.iter().map(|&size| size as f64).product::<f64>();
    let of_table: f64 = tensors.iter().filter(|sizes| **sizes == [rows, columns]).map(elements).sum();
    let all: f64 = tensors.iter().map(elements).sum();
    (of_table > 0.0).then(|| of_table / all)
}

/// The kernels that operators launch, with their parts.
fn kernels_of(subject: &Subject<'_>, work: &Work) -> Work {
    let trace = subject.trace();
    let launched = work.iter().flat_map(|&(operator, part)| subject.launched_in(operator).map(move |e| (e, part)));
    launched.filter(|&(e, _)| trace.events.kind[e.index()].is_gpu_work()).collect()
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn the_part_of_a_table_in_the_lists_of_an_optimizer() {
        let table = (200_000, 64);
        assert_eq!(part("[[200000, 64], []]", table), Some(1.0));
        assert_eq!(part("[[64, 20], [200000, 64]]", table), None, "what it reads only");
        assert_eq!(part("[[[200000, 64], [100000, 64]], []]", table), Some(2.0 / 3.0));
        assert_eq!(part("[[]]", table), None);
    }
}
