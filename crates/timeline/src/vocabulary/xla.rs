//! Names of XLA's collectives on devices whose operations are instructions, as on TPUs. An instruction is named after
//! its operation, with a number if there are several: `all-reduce.3`, `all-gather-start`, `recv-done.1`.

use crate::kernel_type::KernelType::Communication;
use crate::kernel_type::NameTest::{Exact, Prefix};
use crate::kernel_type::Rule;

/// Argument with the category of an instruction: `all-reduce`, `loop fusion`, `while`.
pub const CATEGORY: &str = "hlo_category";

/// Instructions that communicate with other devices, by name.
pub(super) const RULES: &[Rule] = &[
    (Prefix("all-reduce"), Communication),
    (Prefix("all-gather"), Communication),
    (Prefix("all-to-all"), Communication),
    (Prefix("ragged-all-to-all"), Communication),
    (Prefix("reduce-scatter"), Communication),
    (Prefix("collective-permute"), Communication),
    (Prefix("collective-broadcast"), Communication),
    (Exact("send"), Communication),
    (Prefix("send."), Communication),
    (Prefix("send-done"), Communication),
    (Exact("recv"), Communication),
    (Prefix("recv."), Communication),
    (Prefix("recv-done"), Communication),
];

/// Test if an XLA category contains instructions that communicate with other devices. Fusions are named after their
/// parts: `all-reduce fusion`.
pub fn is_collective(category: &str) -> bool {
    let category = category.trim_start_matches("async ");
    crate::kernel_type::by_name(RULES, category) == Communication
}
