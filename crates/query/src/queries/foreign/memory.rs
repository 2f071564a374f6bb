//! TypeScript declarations of the answers of memory queries, which are tables made by crate `memory`.

use super::{Printed, Table};
use crate::queries::memory::{MemoryKeys, allocator, apply, holders, overview, suggestions};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// Devices, peaks and waste of memory.
#[derive(TS)]
#[expect(dead_code, reason = "a declaration")]
pub(in crate::queries) struct MemoryOverview<'a> {
    #[ts(flatten)]
    printed: Printed<MemoryTables>,
    #[ts(flatten)]
    keys: MemoryKeys<'a, overview::MemoryPage<'a>>,
}

#[derive(Debug, Deserialize, Serialize, TS)]
#[serde(deny_unknown_fields)]
pub(super) struct MemoryTables {
    memory_peaks: Table,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    memory_composition: Option<Table>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    memory_out_of_memory: Option<Table>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    memory_waste: Option<Table>,
}

/// Segments and blocks of the caching allocator.
#[derive(TS)]
#[expect(dead_code, reason = "a declaration")]
pub(in crate::queries) struct AllocatorDocument<'a> {
    #[ts(flatten)]
    printed: Printed<AllocatorTables>,
    #[ts(flatten)]
    keys: MemoryKeys<'a, allocator::AllocatorPage>,
}

#[derive(Debug, Deserialize, Serialize, TS)]
#[serde(deny_unknown_fields)]
pub(super) struct AllocatorTables {
    memory_allocator: Table,
}

/// Memory in use if suggestions were followed.
#[derive(TS)]
#[expect(dead_code, reason = "a declaration")]
pub(in crate::queries) struct AppliedDocument<'a> {
    #[ts(flatten)]
    printed: Printed<AppliedTables>,
    #[ts(flatten)]
    keys: MemoryKeys<'a, apply::AppliedPage<'a>>,
}

#[derive(Debug, Deserialize, Serialize, TS)]
#[serde(deny_unknown_fields)]
pub(super) struct AppliedTables {
    memory_applied: Table,
}

/// Live memory at each peak by owner.
#[derive(TS)]
#[expect(dead_code, reason = "a declaration")]
pub(in crate::queries) struct HoldersDocument<'a> {
    #[ts(flatten)]
    printed: Printed<HoldersTables>,
    #[ts(flatten)]
    keys: MemoryKeys<'a, holders::HoldersPage>,
}

#[derive(Debug, Deserialize, Serialize, TS)]
#[serde(deny_unknown_fields)]
pub(super) struct HoldersTables {
    memory_at_peak: Table,
}

/// Suggested changes with their savings.
#[derive(TS)]
#[expect(dead_code, reason = "a declaration")]
pub(in crate::queries) struct SuggestionsDocument<'a> {
    #[ts(flatten)]
    printed: Printed<SuggestionsTables>,
    #[ts(flatten)]
    keys: MemoryKeys<'a, suggestions::SuggestionsPage>,
}

#[derive(Debug, Deserialize, Serialize, TS)]
#[serde(deny_unknown_fields)]
pub(super) struct SuggestionsTables {
    memory_suggestions: Table,
}
