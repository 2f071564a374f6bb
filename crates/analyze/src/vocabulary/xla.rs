//! XLA: its collectives, where an operation of a device is one instruction, as on TPUs. Instructions have the name of what they do, with a
//! number behind it unless it is the only one: `all-reduce.3`, `all-gather-start`, `recv-done.1`.

use crate::kernel_type::KernelType::Communication;
use crate::kernel_type::NameTest::{Exact, Prefix};
use crate::kernel_type::Rule;

/// The argument that says what an instruction does: `all-reduce`, `loop fusion`, `while`.
pub(crate) const CATEGORY: &str = "hlo_category";

/// Instructions that talk to other devices, by name.
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

/// Whether a category is of instructions that talk to other devices. Fusions are named after what they fuse: `all-reduce fusion`.
pub(crate) fn is_collective(category: &str) -> bool {
    let category = category.trim_start_matches("async ");
    crate::kernel_type::by_name(RULES, category) == Communication
}
