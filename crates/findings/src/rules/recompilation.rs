//! SL026: `torch.compile` that still compiles in later steps.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Support};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::format::duration;
use stackline_model::names::is_compilation;
use stackline_model::{EventId, EventKind};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;

pub(super) const RULE: Rule = Rule {
    code: "SL026",
    name: "recompilation-in-steady-state",
    area: Area::Host,
    about: "torch.compile compiles again in steps after the first",
    why: "A compilation takes as long as many steps, and repeats for each new shape or value that the compiled code \
         does not support.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "Compilation in steps after the first takes no time (`remove`). Of nested spans only the outermost \
         counts.",
    advice: "Find the reason with TORCH_LOGS=recompiles. Use torch.compile(dynamic=True) or mark_dynamic for varying \
         sizes, pad to few sizes, and avoid changing Python numbers in compiled code.",
    example: ("model = torch.compile(model)", "model = torch.compile(model, dynamic=True)"),
    cost: "one argument; code for any size can be slightly slower than code for one size",
    false_positives: "The recording is of the beginning of the program, and all shapes will have occurred soon.",
    source: "common practice",
    needs: &[Requirement::Steps],
    settings: &[],
    advice_variants: &[],
    check,
};

/// Name parts of compilation events in traces of torch.profiler.
const COMPILES: &[&[&str]] = &[
    &["entire_frame_compile"],
    &["entire_backward_compile"],
    &["_compile.compile_inner"],
    &["torch/_dynamo/convert_frame.py(", "): _compile"],
    &["torch/_inductor/compile_fx.py(", "): compile_fx"],
    &["triton/compiler/compiler.py(", "): compile"],
    &["torch/_inductor/", "): benchmark_all_configs"],
];

fn compiles(name: &str) -> bool {
    is_compilation(name) || COMPILES.iter().any(|parts| super::matches_parts(name, parts)) && !name.contains("_data: ")
}

fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let steps = context.later_steps();
    let kinds = [EventKind::Operator, EventKind::Annotation, EventKind::PythonFunction];
    let mut spans = context.named(&kinds, compiles);
    spans.retain(|&span| context.step_of(steps, span).is_some());
    let groups = context.by_place(&context.outermost(&spans)).into_iter();
    groups.filter_map(|(place, of)| candidate(context, place, of)).collect()
}

fn candidate(context: &RuleContext<'_>, mut place: SourceLocation, spans: Vec<EventId>) -> Option<Candidate> {
    let steps = context.later_steps();
    let of_steps = context.steps_with(steps, spans.iter().copied());
    // Operators within a compilation do not name the compiled function.
    place.operator = None;
    let edit = context.edit(Action::Remove, format!("operator:{}", context.trace().name(spans[0])), &spans)?;
    Some(Candidate {
        title: format!(
            "Recompilation: torch.compile compiles in {} of the {} steps after the first, {} each time",
            of_steps.len(),
            steps.len(),
            duration(context.total(&spans) / spans.len().max(1) as i64)
        ),
        place,
        facts: vec![
            Fact::count("compilations", spans.len()),
            Fact::time("compiling per step", context.per_step(context.total(&spans))),
        ],
        events: spans,
        support: Support::Exact,
        confidence: Confidence::High,
        gain_estimate: GainEstimate::Edits(vec![edit]),
    })
}
