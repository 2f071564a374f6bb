//! SL045: constants, or tensors of Python lists, that each step builds again.

mod lists;
mod tables;

use crate::constant_runs::constant_runs;
use crate::{
    AdviceVariant, Area, Candidate, CandidateKind, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext,
    Setting, Support,
};
use lists::{LISTS_TITLE, ListReads, Lists};
use rustc_hash::FxHashMap;
use stackline_critical_path::exact::what_if::{Action, Chosen, Edit};
use stackline_model::{EventId, EventKind, StrId, Unit};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;
use stackline_timeline::vocabulary::aten;
use stackline_timeline::vocabulary::aten::constants;
use std::cell::LazyCell;
use std::collections::BTreeMap;
use tables::Blank;

pub(super) use lists::list_lines;

pub(super) const RULE: Rule = Rule {
    code: "SL045",
    name: "rebuilt-constants",
    area: Area::Host,
    about: "each step builds the same masks, positions or tables again, with the same operators and shapes",
    why: "Values that depend only on sizes are the same in each step. torch.tensor(list) also reads a Python list \
         element by element.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "If a function only builds constants, the reported share is the percentage of the critical path in \
                the function. Otherwise it is the percentage in the builtin functions and operators that build the \
                constants. The estimate removes this code and its GPU work (what-if operation `remove`). The lower \
                bound removes only the operators. The upper bound also removes all time from the first to the last \
                of these operators. `torch.tensor` reads a list twice: before its first operator, and between its \
                first and last operator. Without a GPU, the estimate assumes that the first pass takes 1.2 times as \
                long as the second. The upper bound assumes 2 times.",
    advice: "Build the tensor once: use register_buffer in __init__, or functools.lru_cache by size and device. Use \
         is_causal=True instead of a mask.",
    example: (
        "def forward(self, x):\n    mask = torch.tril(torch.ones(n, n))",
        "def __init__(self):\n    self.register_buffer(\"mask\", torch.tril(torch.ones(n, n)))",
    ),
    cost: "the change takes a few lines, and the tensors stay allocated",
    false_positives: "The finding is wrong if the values differ between steps: a trace records shapes, not values. \
         The rule checks lines and functions that only create tensors from sizes and Python values (arange, ones, \
         full, tensor) and compute element-wise with such tensors. In other functions, it checks only sequences of \
         such operators on tensors with the same shapes as the created tensors. Random numbers are not reported. \
         Tensors of zeros are usually filled with other values later. The rule reports them only if sines and \
         cosines are written to slices of them, or numbers to the same slices in each step. To compare the slices, \
         the rule needs recorded indices (record_shapes). A tensor that other code changes later cannot be built \
         only once. The trace does not show if a reported line also reads tensors that differ between steps. It also \
         does not show if the numbers in a list differ between steps. torch.from_numpy and torch.as_tensor of an \
         array are not reported, because they read no list.",
    source: "common practice",
    needs: &[Requirement::Operators, Requirement::Steps],
    settings: &[Setting {
        name: "share",
        default: 3.0,
        range: (0.0, 100.0),
        about: "report only lines or functions that take at least this percentage of the critical path, including the \
             GPU work that they launch",
    }],
    advice_variants: &[AdviceVariant::for_all(
        "programs that make tensors from Python lists",
        CandidateKind::PythonLists,
        "Build the tensor once if its values do not change (register_buffer in __init__). Otherwise read the data \
             into a NumPy array (np.asarray) instead of a list: torch.as_tensor of an array copies nothing.",
        ("table = torch.tensor(self.rows)", "table = torch.as_tensor(self.rows)  # a NumPy array, made once"),
    )],
    properties: &[],
    check,
};

/// Name part of frames that create a batch.
pub(super) const LOADER: &str = "torch/utils/data/";

/// Least number of steps that show repeated work.
const MIN_STEPS: usize = 3;

/// Test if an ATen operator occurs in any of the lists of names without prefix.
fn is_in_lists(lists: &[&[&str]], name: &str) -> bool {
    aten::short_name(name).is_some_and(|name| lists.iter().any(|list| list.contains(&name)))
}

/// Check if an operator runs in a data loader, where values differ from step to step.
fn is_of_loader(context: &RuleContext<'_>, operator: EventId) -> bool {
    context.trace().ancestors(operator).any(|e| context.trace().name(e).contains(LOADER))
}

/// Find functions, lines or runs of operators that build the same constants or list tensors in each step.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let trace = context.trace();
    // Most programs create no tensors this way and need no further analysis.
    if !trace
        .strings
        .iter()
        .any(|name| is_in_lists(constants::FACTORIES, name) || is_in_lists(&[constants::BLANK], name))
    {
        return Vec::new();
    }
    let mut operators = context.outermost(&context.operators());
    operators.retain(|&operator| !is_of_loader(context, operator));
    // Evaluated only for lines that create nothing but constants.
    let per_call = LazyCell::new(|| operators_per_call(context, &operators));
    let reads = ListReads::new(context, &operators);
    let of_line = |place, of| line_candidate(context, place, of, (&reads, &|| &*per_call));
    let mut by_line: BTreeMap<SourceLocation, Vec<EventId>> = BTreeMap::new();
    for (place, of) in context.by_place(&operators) {
        by_line.entry(SourceLocation { operator: None, module: None, ..place }).or_default().extend(of);
    }
    let mut by_function: BTreeMap<SourceLocation, Vec<(SourceLocation, Vec<EventId>)>> = BTreeMap::new();
    for (place, of) in by_line {
        by_function.entry(SourceLocation { line: None, ..place.clone() }).or_default().push((place, of));
    }
    // All lines of a function of constants only, or its lines of constants only, or sequences among its other work.
    let of_function = |(_, lines): (SourceLocation, Vec<(SourceLocation, Vec<EventId>)>)| {
        let mut all: Vec<EventId> = lines.iter().flat_map(|(_, of)| of).copied().collect();
        let made = tables::up_to_last_write(context, &lines);
        let of_table: Vec<EventId> = lines[..made].iter().flat_map(|(_, of)| of).copied().collect();
        let first = lines.first().map(|(place, _)| place.clone()).unwrap_or_default();
        // The work of a function between a list and other lines may be unrelated.
        let is_whole = made > 1 && !all.iter().any(|&e| reads.has(e));
        let whole = if is_whole { of_line(first, of_table) } else { None };
        if whole.is_some() {
            return whole.into_iter().collect();
        }
        let of_lines: Vec<Candidate> = lines.into_iter().filter_map(|(place, of)| of_line(place, of)).collect();
        if !of_lines.is_empty() {
            return of_lines;
        }
        all.sort_unstable_by_key(|&e| (trace.events.track[e.index()], trace.events.start[e.index()], e));
        let of_runs = equal_operators(context, constant_runs(context, &all)).into_iter().filter_map(|run| {
            let place = context.place(*run.first()?);
            of_line(SourceLocation { operator: None, module: None, ..place }, run)
        });
        of_runs.collect()
    };
    by_function.into_iter().flat_map(of_function).collect()
}

/// Merge runs with equal operator names and shapes, such as those of all steps and layers; one list of operators each.
fn equal_operators(context: &RuleContext<'_>, runs: Vec<Vec<EventId>>) -> Vec<Vec<EventId>> {
    let trace = context.trace();
    let dims = trace.attr("Input Dims");
    let mut equal: BTreeMap<Vec<(StrId, Option<&str>)>, Vec<EventId>> = BTreeMap::new();
    for run in runs {
        let part =
            |&e: &EventId| (trace.events.name[e.index()], dims.get(e).and_then(|value| value.as_str(&trace.strings)));
        equal.entry(run.iter().map(part).collect()).or_default().extend(run);
    }
    equal.into_values().collect()
}

/// Number of outermost operators in each call of the user's functions.
type OperatorsPerCall = FxHashMap<EventId, usize>;

/// Count the given operators in each call of a user function around them.
fn operators_per_call(context: &RuleContext<'_>, operators: &[EventId]) -> OperatorsPerCall {
    let mut per_call = OperatorsPerCall::default();
    for &operator in operators {
        for call in context.trace().ancestors(operator).filter(|&e| context.is_own_frame(e)) {
            *per_call.entry(call).or_default() += 1;
        }
    }
    per_call
}

/// Candidate for operators at one line; `None` unless they build equal constants in each step and take enough time.
fn line_candidate<'h>(
    context: &RuleContext<'_>,
    place: SourceLocation,
    mut operators: Vec<EventId>,
    (reads, all_per_call): (&ListReads, &dyn Fn() -> &'h OperatorsPerCall),
) -> Option<Candidate> {
    let trace = context.trace();
    place.file.as_ref()?;
    let name = |event: EventId| trace.name(event);
    let only_uploads = operators.iter().all(|&e| is_in_lists(constants::UPLOADS, name(e)));
    let is_factory = |e: EventId| {
        is_in_lists(constants::FACTORIES, name(e)) && (reads.has(e) || !is_in_lists(constants::LISTS, name(e)))
    };
    let is_constant = |&e: &EventId| is_factory(e) || is_in_lists(constants::DERIVED, name(e));
    if !operators.iter().all(is_constant) || !is_in_each_step(context, &mut operators) {
        return None;
    }
    match Blank::new(context, &operators) {
        Blank::Unknown => return None,
        Blank::Unwritten if !operators.iter().any(|&e| is_factory(e)) => return None,
        Blank::Unwritten | Blank::Constants => (),
    }
    let lists = Lists::measure(context, &place, &operators, reads);
    let spans = whole_calls(context, &operators, (lists.is_some(), all_per_call));
    // Copies to the GPU belong to SL030, unless most of the time goes into reading a list.
    if context.uses_gpu() && only_uploads && context.total(&spans) < 2 * context.total(&operators) {
        return None;
    }
    let lists_ns = lists.as_ref().map_or(0, Lists::ns);
    let launched: Vec<EventId> = operators.iter().flat_map(|&operator| context.launched_in(operator)).collect();
    let on_gpu: i64 = launched.iter().filter_map(|work| context.on_path().get(work)).sum();
    let path: i64 = context.path_inside(&spans).iter().sum();
    let share = context.percent(path.max(lists_ns) + on_gpu);
    if share < context.setting("share") {
        return None;
    }
    let mut facts = vec![
        Fact::count("operators", operators.len()),
        Fact { name: "share of the critical path in making the constants", value: share, unit: Unit::Percent },
        Fact::time("host time of making the constants per step", context.per_step(context.total(&spans).max(lists_ns))),
    ];
    if !launched.is_empty() {
        facts.push(Fact::time("GPU time of making the constants per step", context.per_step(context.total(&launched))));
    }
    facts.extend(lists.as_ref().and_then(Lists::fact));
    let title = if lists.is_some() { LISTS_TITLE } else { "Rebuilt constants" };
    Some(Candidate {
        title: format!("{title}{}: {share:.0} % of the critical path", context.words().in_each_step()),
        facts,
        gain_estimate: gain_estimate(context, (&operators, &launched), (&spans, lists.as_ref()))?,
        place,
        events: operators,
        kind: lists.map(|_| CandidateKind::PythonLists),
        support: Support::Inferred,
        confidence: Confidence::Medium,
    })
}

/// Name of an operator, its shapes, and the accessed part of a tensor.
type OperatorKey<'t> = (StrId, [Option<&'t str>; 2]);

/// Check if operators occur in each step in the same order, with equal input shapes and accessed parts. The first and
/// last step may be cut off, and hold only the end or the beginning. Sorts the operators by time.
fn is_in_each_step(context: &RuleContext<'_>, operators: &mut [EventId]) -> bool {
    let trace = context.trace();
    let [dims, places] = ["Input Dims", "Concrete Inputs"].map(|key| trace.attr(key));
    operators.sort_unstable_by_key(|&e| (trace.events.start[e.index()], e));
    let mut by_step: BTreeMap<Option<usize>, Vec<OperatorKey<'_>>> = BTreeMap::new();
    for &operator in operators.iter() {
        let part = places.get(operator).filter(|_| is_in_lists(&[constants::PARTS], trace.name(operator)));
        let shapes = [dims.get(operator), part].map(|value| value.and_then(|value| value.as_str(&trace.strings)));
        let of_step = by_step.entry(context.step_of(&trace.steps, operator)).or_default();
        of_step.push((trace.events.name[operator.index()], shapes));
    }
    let by_step: BTreeMap<usize, Vec<OperatorKey<'_>>> =
        by_step.into_iter().filter_map(|(step, of)| Some((step?, of))).collect();
    let steps: Vec<_> = by_step.values().collect();
    if steps.len() < MIN_STEPS || !context.are_all_steps(&by_step.keys().copied().collect()) {
        return false;
    }
    let whole = steps[1];
    let (first, last) = (steps[0], steps[steps.len() - 1]);
    steps[1..steps.len() - 1].iter().all(|of| *of == whole) && whole.ends_with(first) && whole.starts_with(last)
}

/// Outermost spans that vanish with the operators: calls that contain nothing else, or the operators themselves.
///
/// The spans are calls of the user's functions without other operators, otherwise calls of built-in functions,
/// otherwise the operators. With lists or samples, functions of the user may do other work, so they do not count.
fn whole_calls<'h>(
    context: &RuleContext<'_>,
    operators: &[EventId],
    (is_of_lists, all_per_call): (bool, &dyn Fn() -> &'h OperatorsPerCall),
) -> Vec<EventId> {
    let trace = context.trace();
    let is_known = !is_of_lists && context.host_gaps().all.is_empty();
    let (given_per_call, all_per_call) =
        if is_known { (operators_per_call(context, operators), Some(all_per_call())) } else { Default::default() };
    let holds_no_other = |call: &EventId| all_per_call.is_some_and(|all| given_per_call.get(call) == all.get(call));
    let own = |&operator: &EventId| trace.ancestors(operator).find(|&e| context.is_own_frame(e)).filter(holds_no_other);
    // Builtins such as `<built-in method tensor of type object>` include work that their operator does not.
    let builtin = |&operator: &EventId| {
        trace.ancestors(operator).take_while(|&e| !context.is_own_frame(e)).filter(|&e| is_builtin(context, e)).last()
    };
    let span = |operator: &EventId| own(operator).or_else(|| builtin(operator)).unwrap_or(*operator);
    let mut spans: Vec<EventId> = operators.iter().map(span).collect();
    spans.sort_unstable();
    spans.dedup();
    context.outermost(&spans)
}

/// Test if an event is a call of a built-in method of Python, such as `torch.tensor`.
fn is_builtin(context: &RuleContext<'_>, event: EventId) -> bool {
    context.trace().kind(event) == EventKind::PythonFunction
        && context.trace().name(event).starts_with("<built-in method ")
}

/// Gain estimate of removing the operators with the Python around them and their GPU work. The lower bound removes the
/// operators alone.
fn gain_estimate(
    context: &RuleContext<'_>,
    (operators, work): (&[EventId], &[EventId]),
    (spans, lists): (&[EventId], Option<&Lists>),
) -> Option<GainEstimate> {
    let removable = |events: &[EventId], ranges: &[(EventId, EventId)]| -> Option<Edit> {
        let events = events.iter().chain(work).copied().collect();
        let chosen = Chosen { events, ranges: ranges.to_vec(), ..Chosen::default() };
        context.edit_of(Action::Remove, "constants built in each step", chosen)
    };
    // Python between the operators of one line belongs to the line, too.
    let runs = context.consecutive_runs(operators).runs;
    let Some(lists) = lists else {
        // For functions that only samples saw, only the time between their operators is known.
        let between: &[_] = if context.host_gaps().all.is_empty() { &[] } else { &runs };
        return Some(GainEstimate::range(
            vec![removable(spans, between)?],
            vec![vec![removable(operators, &[])?], vec![removable(spans, &runs)?]],
        ));
    };
    let least = lists.lower_bound_edit(context).map_or_else(|| removable(operators, &[]), Some)?;
    let likely =
        std::iter::once(removable(spans, &lists.runs)?).chain(lists.without_before(context, lists.before_ns)).collect();
    let most = std::iter::once(removable(spans, &runs)?).chain(lists.without_before(context, lists.most_ns)).collect();
    Some(GainEstimate::range(likely, vec![vec![least], most]))
}
