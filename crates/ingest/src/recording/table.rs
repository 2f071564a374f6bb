//! Tables indexed by a stream's IDs, which are dense except where records were lost.

/// Error for an ID that the stream has not defined, or that leaves out earlier IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dangling;

/// Table of values by the IDs of a stream.
#[derive(Debug)]
pub(super) struct Table<T>(Vec<Option<T>>);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Table<T> {
    /// Create a table of a stream's IDs with a value for ID 0.
    pub(super) fn with_first(value: T) -> Self {
        Self(vec![Some(value)])
    }

    /// Value that a recorder stream defined for an ID; an error if undefined.
    pub(super) fn get(&self, id: u32) -> Result<&T, Dangling> {
        self.0.get(id as usize).and_then(Option::as_ref).ok_or(Dangling)
    }

    /// Mutable value that a recorder stream defined for an ID; an error if undefined.
    pub(super) fn get_mut(&mut self, id: u32) -> Result<&mut T, Dangling> {
        self.0.get_mut(id as usize).and_then(Option::as_mut).ok_or(Dangling)
    }

    /// All values of an ID table, in ID order.
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }

    /// Define an ID; a later definition replaces an earlier one. IDs are dense, except for at most `lost` ones that
    /// skipped bytes may have defined.
    pub(super) fn put(&mut self, id: u32, lost: usize, value: T) -> Result<(), Dangling> {
        let id = id as usize;
        if id > self.0.len().saturating_add(lost) {
            return Err(Dangling);
        }
        if self.0.len() <= id {
            self.0.resize_with(id + 1, || None);
        }
        self.0[id] = Some(value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Dangling, Table};

    #[test]
    fn missing_ids_have_no_values() {
        let mut table = Table::with_first('a');
        assert_eq!(table.put(2, 0, 'c'), Err(Dangling), "nothing was lost");
        assert_eq!(table.put(2, 1, 'c'), Ok(()));
        assert_eq!([0, 1, 2, 3].map(|id| table.get(id).copied()), [Ok('a'), Err(Dangling), Ok('c'), Err(Dangling)]);
        assert_eq!((table.put(1, 0, 'b'), table.get(1)), (Ok(()), Ok(&'b')));
        assert_eq!(table.put(u32::MAX, 1000, 'z'), Err(Dangling), "no more than bytes were lost");
    }
}
