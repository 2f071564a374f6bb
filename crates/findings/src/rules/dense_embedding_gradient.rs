//! SL065: a large embedding table has a dense gradient, although a batch looks up few of its rows.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;
use stackline_critical_path::exact::what_if::{Action, Edit};
use stackline_model::{EventId, StrId};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::vocabulary::aten;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL065",
    name: "dense-embedding-gradient",
    area: Area::Kernels,
    about: "an embedding table has a dense gradient, although a batch looks up few of its rows",
    why: "A dense gradient is as large as the table. Each step fills it with zeros, and the optimizer reads and \
        writes all rows and their state, although few rows changed.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate shortens operators (on a GPU, their kernels) that read or write all rows of the embedding \
         table (what-if operation `scale`). Such operators have the table's shape as first input; lookups and copies \
         of the table stay unchanged. The share of used rows is the number of indices in the largest lookup divided by \
         the number of rows. Three times this share of the time remains; the bounds are one and ten times the share. \
         If an operator processes a list of tensors, the estimate shortens only the table's part of its time (by \
         number of elements).",
    advice: "Create the table with sparse=True, and use an optimizer with sparse gradients for it: SparseAdam, SGD \
        or Adagrad. All other parameters keep their optimizer.",
    example: (
        "table = nn.Embedding(10_000_000, 64)\noptimizer = torch.optim.Adam(model.parameters())",
        "table = nn.Embedding(10_000_000, 64, sparse=True)\nof_table = torch.optim.SparseAdam(table.parameters())\n\
         optimizer = torch.optim.Adam(others)",
    ),
    cost: "a second optimizer without weight decay. SparseAdam does not update the state of rows that a batch does not \
        look up, so results differ slightly. DistributedDataParallel gathers sparse gradients instead of reducing them",
    false_positives: "A sparse gradient is not possible if the weights have another use, such as a last layer with \
        tied weights, or if gradients are clipped by their norm. Tables whose shape is an input of another matrix \
        product are not reported. The gain assumes that operators on all rows keep a share of their time: three times \
        the share of rows in the largest lookup. The bounds assume one and ten times the share of these rows, or three \
        times the share of rows in all lookups of a step. Traces omit the shapes in long lists of tensors, so \
        optimizer work on such lists does not count.",
    source: "common practice; PyTorch's nn.Embedding(sparse=True)",
    needs: &[Requirement::Operators],
    settings: &[
        Setting {
            name: "rows",
            default: 10.0,
            range: (0.0, 100.0),
            about: "report only embedding tables if every lookup reads at most this percentage of the table's rows",
        },
        Setting {
            name: "share",
            default: 5.0,
            range: (0.0, 100.0),
            about: "report only if the work on all rows of the reported tables takes at least this percentage of GPU \
                time (in programs without a GPU: of the analyzed time)",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Remaining work on a table, as multiples of the share of looked-up rows: likely, minimum and maximum.
const REMAINING: [f64; 3] = [3.0, 1.0, 10.0];

/// Rows and columns.
type Shape = (i64, i64);

/// Operators or kernels, and the table's share of each; an optimizer's operator may process several tensors.
type Work = Vec<(EventId, f64)>;

/// One or more embedding tables of one shape with a dense gradient, with their lookups and the work on all rows.
#[derive(Default)]
struct Table {
    /// First backward pass that fills a gradient of the table.
    first: Option<EventId>,
    /// Number of indices in the largest lookup, and in all lookups.
    largest: i64,
    all: i64,
    /// Operator that looks up rows.
    lookup: Option<EventId>,
    /// Work on all rows from the first backward pass on.
    work: Work,
    /// True if the table is also an input of a matrix product, so that its gradient is dense.
    is_multiplied: bool,
}

/// Find embedding tables with dense gradients of which a lookup reads few rows; at most one candidate for all.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let operators = context.operators();
    let mut tables = tables(context, &operators);
    if tables.is_empty() {
        return Vec::new();
    }
    add_work(context, &operators, &mut tables);
    let largest_share = context.setting("rows") / 100.0;
    tables.retain(|&(rows, _), table| !table.is_multiplied && used_share(rows, table.largest) <= largest_share);
    candidate(context, &tables).into_iter().collect()
}

/// Share of a table's rows that a number of looked-up indices can cover, 0 to 1.
fn used_share(rows: i64, indices: i64) -> f64 {
    (indices as f64 / rows.max(1) as f64).min(1.0)
}

/// Embedding tables by shape, from backward passes, each of which fills a gradient with zeros first.
fn tables(context: &RuleContext<'_>, operators: &[EventId]) -> BTreeMap<Shape, Table> {
    let trace = context.trace();
    let is_pass = |e: &EventId| aten::EMBEDDING_BACKWARD.contains(&trace.name(*e));
    let mut tables: BTreeMap<Shape, Table> = BTreeMap::new();
    let mut filled = FxHashSet::default();
    for &zero in operators.iter().filter(|&&e| trace.name(e) == aten::ZERO) {
        let Some(pass) = trace.ancestors(zero).find(is_pass).filter(|pass| filled.insert(*pass)) else { continue };
        let (Some(zeros), Some(inputs)) = (context.json("Input Dims", zero), context.json("Input Dims", pass)) else {
            continue;
        };
        let columns = inputs.get(0).and_then(|gradient| sizes(gradient).last().copied());
        let [rows, of_table] = zeros.get(0).map(sizes).unwrap_or_default()[..] else { continue };
        if columns == Some(of_table) {
            let indices = inputs.get(1).map(sizes).unwrap_or_default().into_iter().fold(1, i64::saturating_mul);
            let table = tables.entry((rows, of_table)).or_default();
            table.largest = table.largest.max(indices);
            table.all = table.all.saturating_add(indices);
            let start = |e: EventId| trace.events.start[e.index()];
            table.first = Some(table.first.filter(|&first| start(first) <= start(pass)).unwrap_or(pass));
        }
    }
    tables
}

/// Add to each table its lookup operator, and the outermost operators that process all rows; mark tables in matrix
/// products.
fn add_work(context: &RuleContext<'_>, operators: &[EventId], tables: &mut BTreeMap<Shape, Table>) {
    let trace = context.trace();
    let column = trace.attr("Input Dims");
    let mut known: FxHashMap<StrId, Vec<(Shape, Option<f64>)>> = FxHashMap::default();
    let mut taken: Vec<(EventId, StrId)> = Vec::new();
    for &event in operators {
        let Some(dims) = column.get(event).and_then(|dims| dims.text_id()) else { continue };
        let of = known
            .entry(dims)
            .or_insert_with(|| tables_in_inputs(trace.strings.get(dims), |shape| tables.contains_key(&shape)));
        if !of.is_empty() {
            taken.push((event, dims));
        }
    }
    for (_, dims) in taken.iter().filter(|(event, _)| aten::MULTIPLIES.contains(&trace.name(*event))) {
        for (shape, _) in &known[dims] {
            if let Some(table) = tables.get_mut(shape) {
                table.is_multiplied = true;
            }
        }
    }
    let events: Vec<EventId> = taken.iter().map(|&(event, _)| event).collect();
    let outermost: FxHashSet<EventId> = context.outermost(&events).into_iter().collect();
    let start = |e: EventId| trace.events.start[e.index()];
    for (event, dims) in taken.into_iter().filter(|(event, _)| outermost.contains(event)) {
        let name = trace.name(event);
        for &(shape, part) in &known[&dims] {
            let Some(table) = tables.get_mut(&shape) else { continue };
            // Earlier operators create the table, and copies of the table do not belong to the gradient.
            let is_after = table.first.is_some_and(|first| start(first) <= start(event));
            if aten::EMBEDDING.contains(&name) {
                table.lookup = table.lookup.or(Some(event));
            } else if let Some(part) = part.filter(|_| is_after && !aten::COPIES.contains(&name)) {
                table.work.push((event, part));
            }
        }
    }
}

/// Embedding tables among an operator's inputs, with their share of its first input. The share is none for a table that
/// the operator only reads.
fn tables_in_inputs(dims: &str, is_table: impl Fn(Shape) -> bool) -> Vec<(Shape, Option<f64>)> {
    let Ok(inputs) = serde_json::from_str::<Value>(dims) else { return Vec::new() };
    let inputs = inputs.as_array().map(Vec::as_slice).unwrap_or_default();
    let shape = |sizes: &[i64]| {
        if let [rows, columns] = *sizes { Some((rows, columns)).filter(|&s| is_table(s)) } else { None }
    };
    let mut found: BTreeMap<Shape, Option<f64>> = BTreeMap::new();
    for (at, input) in inputs.iter().enumerate() {
        if let Some(table) = shape(&sizes(input)) {
            let part = found.entry(table).or_default();
            *part = part.or((at == 0).then_some(1.0));
            continue;
        }
        let tensors: Vec<Vec<i64>> = input.as_array().into_iter().flatten().map(sizes).collect();
        let elements = |sizes: &[i64]| sizes.iter().map(|&size| size as f64).product::<f64>();
        let all: f64 = tensors.iter().map(|sizes| elements(sizes)).sum();
        for sizes in &tensors {
            if let Some(table) = shape(sizes) {
                let part = found.entry(table).or_default();
                if at == 0 {
                    *part = Some(part.unwrap_or(0.0) + elements(sizes) / all);
                }
            }
        }
    }
    found.into_iter().collect()
}

/// Sizes of a tensor's dimensions, from its recorded shape; empty for other values.
fn sizes(shape: &Value) -> Vec<i64> {
    shape.as_array().into_iter().flatten().filter_map(Value::as_i64).collect()
}

/// One candidate for all embedding tables, as one optimizer operator often processes all; `None` if the share is small.
fn candidate(context: &RuleContext<'_>, tables: &BTreeMap<Shape, Table>) -> Option<Candidate> {
    let uses_gpu = context.uses_gpu();
    let works: Vec<(&Shape, &Table, Work)> = tables
        .iter()
        .map(|(shape, table)| {
            (shape, table, if uses_gpu { kernels_of(context, &table.work) } else { table.work.clone() })
        })
        .collect();
    let ns_of = |work: &Work| work.iter().map(|&(event, part)| context.dur(event) as f64 * part).sum::<f64>() as i64;
    let ns = works.iter().map(|(.., work)| ns_of(work)).fold(0, i64::saturating_add);
    let share = if uses_gpu { context.percent_of_gpu(ns) } else { context.percent(ns) };
    let &(&(rows, columns), first, _) = works.iter().max_by_key(|(.., work)| ns_of(work))?;
    if share < context.setting("share") {
        return None;
    }
    let [likely, least, most] = REMAINING.map(|times| edits(context, &works, times));
    let whole = if uses_gpu { "GPU time" } else { "the analyzed time" };
    let percent = 100.0 * works.iter().map(|(shape, table, _)| used_share(shape.0, table.largest)).fold(0.0, f64::max);
    let gradients = match works.len() {
        1 => format!("Dense embedding gradient of {rows} × {columns}"),
        count => format!("Dense embedding gradients of {count} shapes, such as {rows} × {columns}"),
    };
    Some(Candidate {
        title: format!(
            "{gradients}: a lookup reads at most {percent:.1} % of the rows, but work on all rows takes {share:.0} % \
             of {whole}"
        ),
        place: context.place(first.lookup.or(first.first)?),
        facts: vec![
            Fact::count("rows", usize::try_from(rows).unwrap_or(0)),
            Fact::count("number of indices in the largest lookup", usize::try_from(first.largest).unwrap_or(0)),
            Fact::count(
                if uses_gpu { "kernels on all rows" } else { "operators on all rows" },
                works.iter().map(|(.., work)| work.len()).sum(),
            ),
            Fact::time("time per step of operators that process all rows of embedding tables", context.per_step(ns)),
        ],
        gain_estimate: GainEstimate::range(likely, vec![least, most]),
        events: works.iter().flat_map(|(.., work)| work).map(|&(event, _)| event).collect(),
        kind: None,
        support: Support::Exact,
        confidence: Confidence::High,
    })
}

/// Edits that scale the tables' share of the work to `times` the share of rows in the largest lookup. For the maximum,
/// at least the rows of all lookups of a step remain, as if all were distinct.
fn edits(context: &RuleContext<'_>, works: &[(&Shape, &Table, Work)], times: f64) -> Vec<Edit> {
    let mut removable: BTreeMap<EventId, f64> = BTreeMap::new();
    for ((rows, _), table, work) in works {
        let lookups = used_share(*rows, table.all / context.steps().max(1) as i64);
        let least = if times > REMAINING[0] { REMAINING[0] * lookups } else { 0.0 };
        let left = (used_share(*rows, table.largest) * times).max(least).min(1.0);
        for &(event, part) in work {
            *removable.entry(event).or_default() += part * (1.0 - left);
        }
    }
    let mut by_scale: BTreeMap<u64, Vec<EventId>> = BTreeMap::new();
    for (event, part) in removable {
        by_scale.entry((1.0 - part).max(0.0).to_bits()).or_default().push(event);
    }
    let edit = |(scale, events): (u64, Vec<EventId>)| {
        context.edit(Action::Scale(f64::from_bits(scale)), "work on all rows of embedding tables", &events)
    };
    by_scale.into_iter().filter_map(edit).collect()
}

/// GPU operations that the operators launch, each with the share of the operator's work on the table.
fn kernels_of(context: &RuleContext<'_>, work: &Work) -> Work {
    let trace = context.trace();
    let launched = work.iter().flat_map(|&(operator, part)| context.launched_in(operator).map(move |e| (e, part)));
    launched.filter(|&(e, _)| trace.events.kind[e.index()].is_gpu_work()).collect()
}

#[cfg(test)]
mod tests {
    use super::tables_in_inputs;

    #[test]
    fn the_part_of_a_table_in_the_inputs_of_an_operator() {
        let (table, other) = ((200_000, 64), (100_000, 64));
        let of = |dims: &str| tables_in_inputs(dims, |shape| shape == table || shape == other);
        assert_eq!(of("[[200000, 64], []]"), [(table, Some(1.0))]);
        assert_eq!(of("[[64, 20], [200000, 64]]"), [(table, None)], "what it reads only");
        let both = [(other, Some(1.0 / 3.0)), (table, Some(2.0 / 3.0))];
        assert_eq!(of("[[[200000, 64], [100000, 64]], [[200000, 64], [100000, 64]]]"), both);
        assert_eq!(of("[[]]"), []);
        assert_eq!(of("no list"), []);
    }
}
