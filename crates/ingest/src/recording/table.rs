//! Tables of the ids of a stream: dense, but for holes where records were lost.

/// An id that is not dense, or refers to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dangling;

/// Values by id.
#[derive(Debug)]
pub(super) struct Table<T>(Vec<Option<T>>);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Table<T> {
    /// A table with the value of id 0.
    pub(super) fn with_first(value: T) -> Self {
        Self(vec![Some(value)])
    }

    /// The value of an id.
    pub(super) fn get(&self, id: u32) -> Result<&T, Dangling> {
        self.0.get(id as usize).and_then(Option::as_ref).ok_or(Dangling)
    }

    /// The value of an id, to change it.
    pub(super) fn get_mut(&mut self, id: u32) -> Result<&mut T, Dangling> {
        self.0.get_mut(id as usize).and_then(Option::as_mut).ok_or(Dangling)
    }

    /// All values, in the order of their ids.
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }

    /// Defines an id; a later definition replaces an earlier one. Ids are dense, but for `lost` ones at most that may have been
    /// defined where bytes were skipped.
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
    fn holes_are_no_values() {
        let mut table = Table::with_first('a');
        assert_eq!(table.put(2, 0, 'c'), Err(Dangling), "nothing was lost");
        assert_eq!(table.put(2, 1, 'c'), Ok(()));
        assert_eq!([0, 1, 2, 3].map(|id| table.get(id).copied()), [Ok('a'), Err(Dangling), Ok('c'), Err(Dangling)]);
        assert_eq!((table.put(1, 0, 'b'), table.get(1)), (Ok(()), Ok(&'b')));
        assert_eq!(table.put(u32::MAX, 1000, 'z'), Err(Dangling), "no more than bytes were lost");
    }
}
