//! Kernel names of DeepEP (all-to-all of mixtures of experts) and similar libraries.

use crate::kernel_type::KernelType::Communication;
use crate::kernel_type::NameTest::Contains;
use crate::kernel_type::Rule;

/// Names of DeepEP's kernels: dispatch, combine, `notify_dispatch` and `cached_notify`. The last two poll until the
/// other ranks have arrived.
pub(super) const RULES: &[Rule] = &[
    (Contains("deep_ep::"), Communication),
    (Contains("deepep"), Communication),
    (Contains("hybrid_ep::"), Communication),
    (Contains("dpsk::ep"), Communication),
    (Contains("mori::moe::EpDispatch"), Communication),
    (Contains("mori::moe::EpCombine"), Communication),
    (Contains("pplx::"), Communication),
    (Contains("notify_dispatch"), Communication),
    (Contains("cached_notify_combine"), Communication),
];

#[cfg(test)]
mod tests {
    use super::{Contains, RULES};
    use crate::classify::Collective;

    #[test]
    fn kernels_are_all_to_all_collectives() {
        for (test, _) in RULES {
            let Contains(part) = test else { panic!("{test:?}") };
            let kernel = format!("void {part}<8>(void*)");
            assert_eq!(Collective::find(&kernel).map(|family| family.name), Some("all_to_all"), "{kernel}");
        }
    }
}
