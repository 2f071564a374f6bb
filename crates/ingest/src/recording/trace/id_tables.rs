//! Tables by the IDs of a stream, with placeholders at IDs that lost records defined.

use rustc_hash::FxHashSet;

/// Store a value at its ID, replacing an earlier one; `None` if more than `lost` earlier IDs are undefined.
pub(super) fn store<T: Default>(
    table: (&mut Vec<T>, &mut FxHashSet<u32>),
    id: u32,
    lost: usize,
    value: T,
) -> Option<()> {
    store_with(table, id, lost, value, T::default)
}

/// Store a value at its ID, with placeholders at undefined earlier IDs; `None` if these are more than `lost`.
pub(super) fn store_with<T>(
    (table, holes): (&mut Vec<T>, &mut FxHashSet<u32>),
    id: u32,
    lost: usize,
    value: T,
    missing: impl Fn() -> T,
) -> Option<()> {
    if id as usize > table.len().saturating_add(lost) {
        return None;
    }
    while table.len() < id as usize {
        holes.insert(table.len() as u32);
        table.push(missing());
    }
    match table.get_mut(id as usize) {
        None => table.push(value),
        Some(known) => {
            holes.remove(&id);
            *known = value;
        }
    }
    Some(())
}
