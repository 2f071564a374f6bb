//! DeepEP (all-to-all of mixtures of experts) and its relatives.

use crate::kernel_type::KernelType::Communication;
use crate::kernel_type::NameTest::Contains;
use crate::kernel_type::Rule;

/// Dispatch, combine, and `notify_dispatch` and `cached_notify`, which poll until the other ranks have arrived.
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
