//! Rules: one file each, registered by one line here.

mod backward_slower;
mod block_size;
mod copy_chains;
mod eager_not_compiled;
mod host_sync;
mod host_work;
mod hotspot;
mod index_backward;
mod launch_bound;
mod layout_conversion;
mod many_small_kernels;
mod no_tensor_cores;
mod repeated_casts;
mod slow_conversion;
mod stalled_kernels;
mod unfused_attention;
mod unfused_loss;
mod unfused_optimizer;

use super::rule::Rule;

/// Every rule, by code.
#[rustfmt::skip]
pub const ALL: &[Rule] = &[
    hotspot::RULE,
    many_small_kernels::RULE,
    layout_conversion::RULE,
    host_sync::RULE,
    host_work::RULE,
    backward_slower::RULE,
    index_backward::RULE,
    stalled_kernels::RULE,
    launch_bound::RULE,
    unfused_loss::RULE,
    unfused_attention::RULE,
    unfused_optimizer::RULE,
    repeated_casts::RULE,
    copy_chains::RULE,
    no_tensor_cores::RULE,
    block_size::RULE,
    eager_not_compiled::RULE,
    slow_conversion::RULE,
];

/// The rule of a code or name.
pub fn find(code: &str) -> Option<&'static Rule> {
    ALL.iter().find(|rule| rule.code.eq_ignore_ascii_case(code) || rule.name == code)
}

/// Names of kernels can be thousands of characters long: the beginning says enough.
fn short(name: &str) -> String {
    const CHARACTERS: usize = 48;
    let name = name.strip_prefix(stackline_model::names::MODULE_PREFIX).unwrap_or(name).trim_start();
    let short: String = name.chars().take(CHARACTERS).collect();
    if short.len() < name.len() { format!("{}…", short.trim_end()) } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_unique_and_settings_make_sense() {
        for (i, rule) in ALL.iter().enumerate() {
            assert!(rule.code.len() == 5 && rule.code.starts_with("SL"), "{rule:?}");
            assert!(ALL[..i].iter().all(|other| other.code < rule.code && other.name != rule.name), "{rule:?}");
            for setting in rule.settings {
                let (least, most) = setting.range;
                assert!((least..=most).contains(&setting.default), "{rule:?} {}", setting.name);
            }
            for text in [rule.about, rule.why, rule.advice, rule.cost, rule.wrong_when, rule.source] {
                assert!(!text.is_empty(), "{rule:?}");
            }
        }
    }
}
