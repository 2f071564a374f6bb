//! Names of copies and fills that ROCm runs as kernels, and of copies in runtime records.

use crate::kernel_type::KernelType::Memory;
use crate::kernel_type::NameTest::Prefix;
use crate::kernel_type::Rule;

/// Names of ROCm's copies and fills.
pub(super) const RULES: &[Rule] = &[
    (Prefix("__amd_rocclr_copy"), Memory),
    (Prefix("__amd_rocclr_fill"), Memory),
    (Prefix("CopyHostToDevice"), Memory),
    (Prefix("CopyDeviceToHost"), Memory),
    (Prefix("CopyDeviceToDevice"), Memory),
    (Prefix("FillBuffer"), Memory),
    (Prefix("Memcpy "), Memory),
    (Prefix("Memset "), Memory),
];
