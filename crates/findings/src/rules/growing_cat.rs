//! SL046: a tensor that grows by `cat` from step to step.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use serde_json::Value;
use stackline_critical_path::exact::what_if::Action;
use stackline_model::{EventId, EventKind, Unit};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;
use stackline_timeline::vocabulary::aten;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(super) const RULE: Rule = Rule {
    code: "SL046",
    name: "growing-cat",
    area: Area::Copies,
    about: "a cache or history grows by torch.cat, which copies all of it each time",
    why: "torch.cat allocates a new tensor and copies all inputs into it. The number of copied bytes grows with the \
        square of the number of calls, and both the old and the new tensor are in memory.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate shortens each call to the share of its new elements among all elements that it copies \
         (what-if operation `scale`). On a GPU it shortens the kernels, otherwise the operators.",
    advice: "Allocate the tensor once at its maximum size and write each part in place: StaticCache for keys and \
        values of transformers, otherwise index_copy_ or slices. If only the final tensor is read, collect the parts \
        in a list and call cat once.",
    example: ("keys = torch.cat([keys, k], dim=1)", "keys[:, at : at + 1] = k  # allocated once\nat += 1"),
    cost: "some lines; memory of the maximum size from the start",
    false_positives: "A preallocated tensor does not help if sizes grow because the inputs of the program grow. If the \
        growth restarts within each step, as with the features of a DenseNet, sequences shorter than about a hundred \
        calls are not reported. The gain assumes that only the new elements are copied.",
    source: "common practice",
    needs: &[Requirement::Operators, Requirement::Shapes],
    settings: &[
        Setting {
            name: "calls",
            default: 3.0,
            range: (3.0, 1e6),
            about: "report only sequences of at least this many calls of torch.cat at one line with growing input; \
                within fewer than three steps, 20 times as many calls (34 times as many if the growth restarts from \
                the same size)",
        },
        Setting {
            name: "share",
            default: 2.0,
            range: (0.0, 100.0),
            about: "report only lines whose calls take at least this percentage of GPU busy time (in programs without \
                a GPU: of the analyzed time)",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Call of `cat`, with the number of elements of its largest input, and of all inputs.
struct Call {
    event: EventId,
    start: i64,
    largest: i64,
    all: i64,
}

/// Minimum number of steps with a chain that grows across steps instead of restarting in each.
const MIN_STEPS: usize = 3;
/// Factor of the minimum length in fewer steps: a model that concatenates the outputs of its layers grows within each
/// forward pass.
const MIN_GROWTH: f64 = 20.0;
/// Factor of the minimum length for chains that restart from the same size, such as the cache of each prompt. No model
/// concatenates the outputs of so many layers.
const MIN_RESTARTED_GROWTH: f64 = 34.0;
/// Maximum number of calls at one source location between two calls of a chain.
const MAX_CALLS_BETWEEN: usize = 4096;

/// Find lines at which a tensor grows by `cat` from call to call, and is copied each time.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let operators = context.named(&[EventKind::Operator], |name| name == aten::CAT);
    // Each layer has its own chain; a line is reported once.
    let mut by_line: BTreeMap<SourceLocation, Vec<Call>> = BTreeMap::new();
    for (place, of) in context.by_place(&operators) {
        for growing in growing(context, &of) {
            let line = SourceLocation { module: None, operator: None, ..place.clone() };
            by_line.entry(line).or_default().extend(growing);
        }
    }
    by_line.into_iter().filter_map(|(place, calls)| candidate(context, place, &calls)).collect()
}

/// Sequences of calls at one source location, one per growing tensor: each call starts with the result of the previous
/// call, across steps.
fn growing(context: &RuleContext<'_>, operators: &[EventId]) -> Vec<Vec<Call>> {
    let call = |&event: &EventId| {
        let (largest, all) = sizes(&context.json("Input Dims", event)?)?;
        Some(Call { event, start: context.trace().events.start[event.index()], largest, all })
    };
    let mut calls: Vec<Call> = operators.iter().filter_map(call).collect();
    calls.sort_unstable_by_key(|call| (call.start, call.event));
    let least = context.setting("calls");
    let mut chains = chains(calls);
    chains.retain(|chain| chain.len() as f64 >= least);
    let restart_sizes = restart_sizes(&chains);
    let is_long = |chain: &[Call]| {
        let times = if restart_sizes.contains(&chain[0].largest) { MIN_RESTARTED_GROWTH } else { MIN_GROWTH };
        chain.len() as f64 >= times * least
    };
    let steps = |chain: &[Call]| context.steps_with(&context.trace().steps, chain.iter().map(|call| call.event)).len();
    chains.retain(|chain| steps(chain) >= MIN_STEPS || is_long(chain));
    chains
}

/// Sequences of calls in order of time. The largest input of each call is as large as the result of the previous call.
fn chains(calls: Vec<Call>) -> Vec<Vec<Call>> {
    // Open chains by size of the result, with the number of the last call: tensors of one size alternate.
    let mut open: BTreeMap<i64, VecDeque<(usize, Vec<Call>)>> = BTreeMap::new();
    let mut order: VecDeque<(usize, i64)> = VecDeque::new();
    let mut chains = Vec::new();
    for (number, call) in calls.into_iter().enumerate() {
        let size = call.all;
        let before = open.get_mut(&call.largest).and_then(VecDeque::pop_front);
        let mut chain = before.map(|(_, chain)| chain).unwrap_or_default();
        chain.push(call);
        open.entry(size).or_default().push_back((number, chain));
        order.push_back((number, size));
        if order.len() > MAX_CALLS_BETWEEN
            && let Some((number, size)) = order.pop_front()
            && let Some(of_size) = open.get_mut(&size)
        {
            // No other chain of this size is older.
            let is_it = of_size.front().is_some_and(|(last, _)| *last == number);
            let ended = if is_it { of_size.pop_front() } else { None };
            chains.extend(ended.map(|(_, chain)| chain).filter(|chain| chain.len() > 1));
            if of_size.is_empty() {
                open.remove(&size);
            }
        }
    }
    chains.extend(open.into_values().flatten().map(|(_, chain)| chain));
    chains.sort_unstable_by_key(|chain| (chain[0].start, chain[0].event));
    chains
}

/// Sizes from which a chain starts after the end of another chain from the same size.
fn restart_sizes(chains: &[Vec<Call>]) -> BTreeSet<i64> {
    let mut first_end: BTreeMap<i64, i64> = BTreeMap::new();
    for chain in chains {
        let end = chain[chain.len() - 1].start;
        first_end.entry(chain[0].largest).and_modify(|first| *first = end.min(*first)).or_insert(end);
    }
    let is_after = |chain: &&Vec<Call>| first_end.get(&chain[0].largest).is_some_and(|end| *end < chain[0].start);
    chains.iter().filter(is_after).map(|chain| chain[0].largest).collect()
}

/// Number of elements of the largest input of a call, and of all inputs. None if the largest is all of them, empty or
/// too large.
fn sizes(dims: &Value) -> Option<(i64, i64)> {
    let sizes: Vec<i64> = dims.get(0)?.as_array()?.iter().map(elements).collect::<Option<_>>()?;
    let largest = *sizes.iter().max()?;
    let all = sizes.iter().try_fold(0_i64, |sum, &size| sum.checked_add(size))?;
    (largest > 0 && largest < all).then_some((largest, all))
}

/// Number of elements of a recorded shape; `None` if invalid or too large.
fn elements(shape: &Value) -> Option<i64> {
    let mut sizes = shape.as_array()?.iter().map(|n| n.as_i64().filter(|n| *n >= 0));
    sizes.try_fold(1_i64, |product, n| product.checked_mul(n?))
}

/// Candidate for the calls at one line; `None` if their share of the time is small.
fn candidate(context: &RuleContext<'_>, place: SourceLocation, calls: &[Call]) -> Option<Candidate> {
    let operators: Vec<EventId> = calls.iter().map(|call| call.event).collect();
    let kernels: Vec<EventId> = operators.iter().flat_map(|&operator| context.launched_in(operator)).collect();
    let (copies, share, whose) = if context.uses_gpu() {
        let share = context.percent_of_gpu(context.total(&kernels));
        (kernels, share, "GPU busy time")
    } else {
        let share = context.percent(context.total(&operators));
        (operators.clone(), share, "the time")
    };
    if share < context.setting("share") {
        return None;
    }
    let (old, all) =
        calls.iter().fold((0.0, 0.0), |(old, all), call| (old + call.largest as f64, all + call.all as f64));
    let edit = context.edit(
        Action::Scale((all - old) / f64::max(all, 1.0)),
        format!("operator:{} that grows", aten::CAT),
        &copies,
    )?;
    let largest = calls.iter().map(|call| call.all).max().unwrap_or(0);
    Some(Candidate {
        title: format!(
            "Tensor grows by torch.cat {} times, and is copied each time: {share:.0} % of {whose}",
            calls.len()
        ),
        place,
        facts: vec![
            Fact::count("calls", calls.len()),
            Fact { name: "number of elements of the largest tensor", value: largest as f64, unit: Unit::None },
            Fact {
                name: "share of copied elements that earlier calls already copied",
                value: 100.0 * old / f64::max(all, 1.0),
                unit: Unit::Percent,
            },
            Fact::time("total time of the torch.cat calls per step", context.per_step(context.total(&copies))),
        ],
        events: operators,
        kind: None,
        support: Support::Exact,
        confidence: Confidence::Medium,
        gain_estimate: GainEstimate::edits(vec![edit]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn calls(sizes: impl IntoIterator<Item = (i64, i64)>) -> Vec<Call> {
        let call = |(at, (largest, all))| Call { event: EventId::new(at), start: at as i64, largest, all };
        sizes.into_iter().enumerate().map(call).collect()
    }

    fn lengths(chains: &[Vec<Call>]) -> Vec<usize> {
        chains.iter().map(Vec::len).collect()
    }

    #[test]
    fn tensors_of_equal_size_grow_independently() {
        let grown = chains(calls((10..20).flat_map(|n| [(n, n + 1); 3])));
        assert_eq!(lengths(&grown), [10, 10, 10]);
        assert!(restart_sizes(&grown).is_empty());
        let again = chains(calls((0..4).flat_map(|_| (10..20).map(|n| (n, n + 1)))));
        assert_eq!((lengths(&again), restart_sizes(&again)), (vec![10; 4], BTreeSet::from([10])));
    }

    /// Each sequence is visited once, independent of the number of earlier ones.
    #[test]
    fn chains_without_continuation_are_dropped() {
        const MANY: i64 = 300_000;
        for same in [true, false] {
            let size = |n: i64| if same { 64 } else { 3 * n + 64 };
            let found = chains(calls((0..MANY).map(|n| (size(n), size(n) + 1))));
            assert_eq!((found.len(), found[0].len()), (MAX_CALLS_BETWEEN, 1), "{same}");
        }
        // One that grows is kept, though much else is between its calls, and after it.
        let other = |n: i64| (10 * n + 100_000, 10 * n + 100_005);
        let between = |n: i64| (0..1000).map(move |i| other(1000 * n + i));
        let mixed =
            (1..9).flat_map(|n| between(n).chain([(n, n + 1)])).chain(between(9)).chain((10..20).flat_map(between));
        let found = chains(calls(mixed));
        assert_eq!(lengths(&found).into_iter().filter(|&length| length > 1).collect::<Vec<_>>(), [8]);
    }

    #[test]
    fn sizes_of_inputs() {
        assert_eq!(sizes(&json!([[[9, 64], [1, 64]], []])), Some((576, 640)));
        let most = i64::MAX;
        for none in [
            json!([[[most], [most]], []]),
            json!([[[most, most], [1]], []]),
            json!([[[-3, -3], [1]], []]),
            json!([[[0], [5]], []]),
            json!([[[5]], []]),
            json!([[], []]),
            json!([]),
        ] {
            assert_eq!(sizes(&none), None, "{none}");
        }
    }
}
