//! Settings of the allocator, which newer snapshots contain (`allocator_settings`).

use crate::memory::values::{Value, Values};
use stackline_model::MemoryAllocatorSettings;

/// Read the settings of a snapshot. Missing or unknown settings get their defaults.
pub(super) fn read(values: &Values, root: Value) -> MemoryAllocatorSettings {
    let part = |dict: Value, name: &str| values.find(values.as_dict(dict)?, name);
    let mut settings = MemoryAllocatorSettings::default();
    let Some(recorded) = part(root, "allocator_settings") else { return settings };
    settings.expandable = part(recorded, "expandable_segments") == Some(Value::TRUE);
    let Some(divisions) = part(recorded, "roundup_power2_divisions") else { return settings };
    // By the size in MiB from which they apply: 1, 2, 4 to 32768.
    for (at, known) in settings.divisions.iter_mut().enumerate() {
        let number = part(divisions, &(1u32 << at).to_string()).and_then(|number| values.as_int(number));
        *known = number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
    }
    settings
}
