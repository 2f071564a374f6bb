//! Built-in rules: one file per rule, registered by one line here.

mod all_reduce_of_shards;
mod autograd_in_inference;
mod autotuning;
mod backward_slower;
mod block_size;
pub(super) mod busy_python;
mod collective_not_overlapped;
mod collective_waits;
pub(super) mod copy_chains;
pub(super) mod dataloader_starved;
mod dense_embedding_gradient;
mod eager_not_compiled;
mod evaluation_in_step;
mod few_blocks;
mod find_unused_parameters;
pub(super) mod garbage_collection;
mod graph_breaks;
mod growing_cat;
mod host_copies;
mod host_sync;
pub(super) mod host_waits;
mod host_work;
mod hotspot;
mod index_backward;
mod kernel_outliers;
mod launch_bound;
mod layout_conversion;
mod logging_frames;
pub(super) mod logging_in_step;
mod many_small_kernels;
mod memory;
mod misaligned_products;
mod needless_gradient_sync;
mod no_tensor_cores;
pub(super) mod operators_in_loops;
mod oversubscribed;
mod padding;
mod pageable_copies;
pub(super) mod preprocessing;
mod profiler_overhead;
mod rebuilt_constants;
pub(super) mod recompilation;
mod repeated_casts;
mod slow_conversion;
mod small_collectives;
mod small_uploads;
mod stalled_kernels;
mod steady_allocations;
mod straggler;
mod throttling;
mod too_few_threads;
mod unfused_attention;
mod unfused_loss;
pub(super) mod unfused_optimizer;
mod unstable_steps;
pub(super) mod zeroed_gradients;

pub(super) use straggler::{are_similar, find as find_straggler};

use super::rule::{Rule, RuleProperty};
pub(super) use stackline_timeline::frame_names::matches_parts;

/// All built-in rules, by code.
pub const ALL: &[Rule] = &[
    hotspot::RULE,
    many_small_kernels::RULE,
    layout_conversion::RULE,
    host_sync::RULE,
    host_work::RULE,
    backward_slower::RULE,
    index_backward::RULE,
    stalled_kernels::RULE,
    dataloader_starved::RULE,
    preprocessing::RULE,
    pageable_copies::RULE,
    launch_bound::RULE,
    unfused_loss::RULE,
    unfused_attention::RULE,
    unfused_optimizer::RULE,
    repeated_casts::RULE,
    copy_chains::RULE,
    no_tensor_cores::RULE,
    collective_not_overlapped::RULE,
    all_reduce_of_shards::RULE,
    find_unused_parameters::RULE,
    needless_gradient_sync::RULE,
    collective_waits::RULE,
    steady_allocations::RULE,
    garbage_collection::RULE,
    recompilation::RULE,
    graph_breaks::RULE,
    oversubscribed::RULE,
    logging_in_step::RULE,
    small_uploads::RULE,
    unstable_steps::RULE,
    kernel_outliers::RULE,
    profiler_overhead::RULE,
    throttling::RULE,
    block_size::RULE,
    eager_not_compiled::RULE,
    slow_conversion::RULE,
    operators_in_loops::RULE,
    host_waits::RULE,
    straggler::RULE,
    few_blocks::RULE,
    zeroed_gradients::RULE,
    busy_python::RULE,
    small_collectives::RULE,
    rebuilt_constants::RULE,
    growing_cat::RULE,
    evaluation_in_step::RULE,
    autograd_in_inference::RULE,
    too_few_threads::RULE,
    memory::EARLY_ALLOCATION,
    memory::LATE_DEALLOCATION,
    memory::REDUNDANT_ALLOCATION,
    memory::UNUSED_ALLOCATION,
    memory::NEVER_READ,
    memory::MEMORY_LEAK,
    memory::TEMPORARY_IDLENESS,
    memory::DEAD_WRITE,
    memory::OVERALLOCATION,
    memory::NON_UNIFORM_ACCESS,
    memory::STRUCTURED_ACCESS,
    padding::RULE,
    autotuning::RULE,
    misaligned_products::RULE,
    host_copies::RULE,
    dense_embedding_gradient::RULE,
];

/// Check if a finding reports waits for other ranks, which a finding of the last rank may explain.
pub(super) fn is_wait_for_ranks(finding: &super::Finding) -> bool {
    properties_of(&finding.rule.code).contains(&RuleProperty::WaitsForRanks)
        || finding.kind == Some(super::CandidateKind::OtherRanks)
}

/// Built-in rules that examine execution traces.
pub(super) fn trace_rules() -> impl Iterator<Item = &'static Rule> {
    ALL.iter().filter(|rule| !rule.is_of_memory())
}

/// Built-in rules that examine memory traces.
pub fn memory_rules() -> impl Iterator<Item = &'static Rule> {
    ALL.iter().filter(|rule| rule.is_of_memory())
}

/// Look up a built-in rule by its code, in any case, or by its name; `None` if unknown.
pub fn find(code: &str) -> Option<&'static Rule> {
    ALL.iter().find(|rule| rule.code.eq_ignore_ascii_case(code) || rule.name == code)
}

/// Properties of the built-in rule with a code; none for Python rules.
pub(super) fn properties_of(code: &str) -> &'static [RuleProperty] {
    ALL.iter().find(|rule| rule.code == code).map(|rule| rule.properties).unwrap_or_default()
}

/// Short form of a kernel, operator or module name for titles, at most 48 characters.
fn shorten_name(name: &str) -> String {
    const CHARACTERS: usize = 48;
    let name = name.strip_prefix(stackline_model::names::MODULE_PREFIX).unwrap_or(name).trim_start();
    let name = stackline_model::kernel_names::short_name(name);
    let short: String = name.chars().take(CHARACTERS).collect();
    if short.len() < name.len() { format!("{}…", short.trim_end()) } else { short }
}

/// 5th and 95th percentile of ascending times; empty without times.
fn spread(sorted: &[i64]) -> Vec<i64> {
    let last = sorted.len().saturating_sub(1);
    [last / 20, last - last / 20].into_iter().filter_map(|at| sorted.get(at).copied()).collect()
}

/// Kind of the first entry of a table whose name parts all occur in a frame name ([`matches_parts`]); `None` without a
/// match.
fn kind_in(table: &[(&'static str, &[&str])], name: &str) -> Option<&'static str> {
    table.iter().find(|(_, parts)| matches_parts(name, parts)).map(|&(kind, _)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GainMethod;

    #[test]
    fn codes_and_names_are_unique_and_settings_make_sense() {
        for (i, rule) in ALL.iter().enumerate() {
            assert!(rule.code.len() == 5 && rule.code.starts_with("SL"), "{rule:?}");
            assert!(ALL[..i].iter().all(|other| other.code < rule.code && other.name != rule.name), "{rule:?}");
            for setting in rule.settings {
                let (least, most) = setting.range;
                assert!((least..=most).contains(&setting.default), "{rule:?} {}", setting.name);
            }
            let texts =
                [rule.about, rule.why, rule.gain_text, rule.advice, rule.cost, rule.false_positives, rule.source];
            assert!(texts.iter().all(|text| !text.is_empty()), "{rule:?}");
            assert!(!rule.gain_methods.is_empty(), "{rule:?}");
        }
    }

    #[test]
    fn gain_texts_name_settings_and_edits_that_exist() {
        let edits = ["remove", "fuse", "overlap", "more-workers", "set", "scale", "scale 0.5"];
        for rule in ALL {
            let (code, text) = (rule.code, rule.gain_text);
            for name in text.split('`').skip(1).step_by(2) {
                let setting = name.strip_prefix(&format!("{code}."));
                assert!(
                    setting.is_none_or(|name| rule.settings.iter().any(|setting| setting.name == name)),
                    "{code} has no setting {name}"
                );
                assert!(!name.starts_with("SL") || setting.is_some(), "{code} names {name}");
            }
            let has_edit = edits.iter().any(|edit| text.contains(&format!("`{edit}`")));
            let is_replay = |method: &GainMethod| matches!(method, GainMethod::Replay | GainMethod::Speculative);
            assert!(has_edit || !rule.gain_methods.iter().any(is_replay), "{code}: which edit?");
        }
    }
}
