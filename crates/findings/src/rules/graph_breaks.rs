//! SL027: functions that `torch.compile` could not compile in one piece.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::{Action, Gain};
use stackline_model::{EventId, EventKind};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;
use std::collections::BTreeSet;

pub(super) const RULE: Rule = Rule {
    code: "SL027",
    name: "graph-breaks",
    area: Area::Host,
    about: "graph breaks split compiled functions into several pieces with Python between them",
    why: "At each break, Python continues, finds the code of the next piece, and checks its guards. No kernel is \
        fused across the break, and no CUDA graph spans it.",
    gain_methods: &[GainMethod::Replay, GainMethod::Model],
    gain_text: "After each break, PyTorch finds the next piece and checks its guards. If all breaks are at one source \
                location and the trace has these checks, the estimate removes the checks (what-if operation \
                `remove`). Otherwise it assumes that each break on the critical path costs `SL027.check_us`; the \
                bounds are 0 and 3 times this cost. The \
         gain leaves out the effect of fusion across the breaks.",
    advice: "Find the breaks with TORCH_LOGS=graph_breaks or fullgraph=True. Move prints, .item() and calls that \
        Dynamo does not support out of the compiled function.",
    example: (
        "@torch.compile\ndef f(x):\n    y = x.relu()\n    print(y.sum())\n    return y * 2",
        "@torch.compile(fullgraph=True)\ndef f(x):\n    return x.relu() * 2",
    ),
    cost: "a few lines for each break",
    false_positives: "The break may be intentional, such as around an attention function that must not be compiled. \
        The gain includes only the guard checks; the gain of fusion across the break is unknown.",
    source: "common practice",
    needs: &[],
    settings: &[Setting {
        name: "check_us",
        default: 30.0,
        range: (0.0, 1e4),
        about: "assumed time to find the next compiled piece after a graph break and to check its guards, in µs; used \
            if the trace does not show this time",
    }],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Names of compiled pieces, of resumed functions after a break, and of the lookup of the next piece.
const REGION: &str = "Torch-Compiled Region";
const RESUMED: &str = "torch_dynamo_resume_in_";
const LOOKUP: &str = "TorchDynamo Cache Lookup";

/// Description of the gain model for graph breaks without recorded guard checks.
const MODEL: &str = "model: each graph break costs one guard check of the duration SL027.check_us; the upper bound is \
    three times this cost";

/// Find graph breaks in functions that torch.compile compiled, one candidate per source location.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let spans = [EventKind::Operator, EventKind::Annotation];
    // The resumed function after a break is part of the compiled function, and so is a callee that is compiled
    // separately.
    let resumed = context.named(&[EventKind::PythonFunction], |name| {
        name.rsplit_once("): ").is_some_and(|(_, function)| function.starts_with(RESUMED))
    });
    let mut breaks: Vec<EventId> = resumed;
    if breaks.is_empty() {
        let regions = context.named(&spans, |name| name.starts_with(REGION));
        let outermost: BTreeSet<EventId> = context.outermost(&regions).into_iter().collect();
        breaks = regions.into_iter().filter(|region| !outermost.contains(region)).collect();
    }
    if breaks.is_empty() {
        return Vec::new();
    }
    let lookups = context.named(&spans, |name| name.starts_with(LOOKUP));
    let lookups = inside_regions(context, &lookups);
    let by_place = context.by_place(&breaks);
    // The trace does not connect checks with breaks, so checks count only for a single source location.
    let one_place = by_place.len() == 1;
    let lookups = if one_place { lookups } else { Vec::new() };
    by_place.into_iter().filter_map(|(place, of)| candidate(context, place, of, &lookups)).collect()
}

/// Select the guard checks within a compiled region, which follow a graph break.
fn inside_regions(context: &RuleContext<'_>, lookups: &[EventId]) -> Vec<EventId> {
    let of_region = |&lookup: &EventId| {
        let trace = context.trace();
        trace.ancestors(lookup).any(|e| trace.name(e).starts_with(REGION))
    };
    lookups.iter().copied().filter(of_region).collect()
}

/// Candidate for the graph breaks at one source location, with the guard checks that they cause, if known.
fn candidate(
    context: &RuleContext<'_>,
    mut place: SourceLocation,
    breaks: Vec<EventId>,
    lookups: &[EventId],
) -> Option<Candidate> {
    let on_path = context.path_inside(&context.outermost(&breaks)).iter().filter(|&&ns| ns > 0).count();
    let check_ns = (context.setting("check_us") * 1e3) as i64;
    let likely = context.per_step(on_path as i64 * check_ns);
    let time = |ns: i64| context.words().time_per_step(ns);
    let (gain_estimate, checks) = match context.edit(Action::Remove, format!("operator:{LOOKUP}"), lookups) {
        Some(edit) => (
            GainEstimate::edits(vec![edit]),
            format!("guard checks take {}", time(context.per_step(context.total(lookups)))),
        ),
        None => (
            GainEstimate::Model(Gain::new(likely, 0, 3 * likely), MODEL),
            format!("guard checks take about {} (assumed)", time(likely)),
        ),
    };
    let per_step = breaks.len() as f64 / context.steps() as f64;
    let function = place.function.take();
    let (origin, line) = function.as_deref().map_or((None, None), origin);
    place.function = origin.map(str::to_owned).or(function.clone());
    place.line = line.or(place.line);
    place.operator = None;
    Some(Candidate {
        title: format!(
            "Compiled function split by {}{}; {checks}",
            breaks_text(per_step),
            context.words().in_each_step()
        ),
        place,
        facts: vec![
            Fact::count("breaks", breaks.len()),
            Fact::count("number of guard checks in the trace", lookups.len()),
        ],
        events: breaks,
        kind: None,
        support: Support::Exact,
        confidence: Confidence::Medium,
        gain_estimate,
    })
}

/// Text for a mean number of graph breaks, rounded: `a graph break`, `3 graph breaks`.
fn breaks_text(breaks: f64) -> String {
    if breaks < 1.5 { "a graph break".to_owned() } else { format!("{breaks:.0} graph breaks") }
}

/// Function and line of a graph break, from the resumed function's name: `torch_dynamo_resume_in_forward_at_12` is line
/// 12 of `forward`.
fn origin(function: &str) -> (Option<&str>, Option<u32>) {
    let Some((name, line)) = function.strip_prefix(RESUMED).and_then(|rest| rest.rsplit_once("_at_")) else {
        return (None, None);
    };
    (Some(name), line.parse().ok())
}
