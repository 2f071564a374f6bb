//! Which arguments get a column of their own in the event table. A column holds one key with one type, so that its
//! values stay what they were; rare keys beyond [`MAX_WIDE`] columns go to the long table.

use crate::attr_type;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::{AttrType, ShapeId, StrId, Trace};

/// Most columns of arguments that an event table gets. Real traces have 30 to 60.
pub(crate) const MAX_WIDE: usize = 128;
const NO_POSITION: u32 = u32::MAX;

/// A column of arguments.
#[derive(Clone, Debug)]
pub(crate) struct WideColumn {
    /// `args:KEY`, with `|TYPE` behind it if another type of the key is more frequent.
    pub(crate) name: String,
    pub(crate) key: StrId,
    pub(crate) kind: AttrType,
    /// Per shape: position of the field, or none.
    position: Vec<u32>,
    /// How many events have it.
    pub(crate) count: u64,
}

/// The wide columns of a trace, and where their values are. Methods take the trace that the plan was made of.
pub(crate) struct Plan {
    pub(crate) columns: Vec<WideColumn>,
    /// Per event: where its values start.
    offset: Vec<u32>,
}

impl Plan {
    pub(crate) fn of(trace: &Trace) -> Self {
        let (shapes, shape, _) = trace.attrs.columns();
        let mut events = vec![0u64; shapes.len()];
        let mut offset = Vec::with_capacity(shape.len());
        let mut next = 0u32;
        for id in shape {
            events[id.index()] += 1;
            offset.push(next);
            next += shapes[id.index()].fields.len() as u32;
        }
        let mut columns = candidates(trace, &events);
        columns.sort_by(|a, b| b.count.cmp(&a.count).then(a.key.cmp(&b.key)).then(a.kind.cmp(&b.kind)));
        columns.truncate(MAX_WIDE);
        name(trace, &mut columns);
        Self { columns, offset }
    }

    /// Which wide column, if any, holds the field at `position` of `shape`.
    pub(crate) fn column_of(&self, shape: ShapeId, position: u32) -> Option<&WideColumn> {
        self.columns.iter().find(|c| c.position[shape.index()] == position)
    }

    /// The raw value of `column` at `event`.
    pub(crate) fn raw(&self, trace: &Trace, column: &WideColumn, event: usize) -> Option<u64> {
        let (_, shape, values) = trace.attrs.columns();
        let position = column.position[shape[event].index()];
        (position != NO_POSITION).then(|| values[(self.offset[event] + position) as usize])
    }
}

/// One column per key and type. Where a record names a key twice, the first value counts; the others are rare and long.
fn candidates(trace: &Trace, events: &[u64]) -> Vec<WideColumn> {
    let (shapes, _, _) = trace.attrs.columns();
    let mut columns: Vec<WideColumn> = Vec::new();
    let mut index: FxHashMap<(StrId, AttrType), usize> = FxHashMap::default();
    for (id, shape) in shapes.iter().enumerate() {
        for (position, &(key, kind)) in shape.fields.iter().enumerate() {
            if kind == AttrType::Null {
                continue;
            }
            let slot = *index.entry((key, kind)).or_insert_with(|| {
                let position = vec![NO_POSITION; shapes.len()];
                columns.push(WideColumn { name: String::new(), key, kind, position, count: 0 });
                columns.len() - 1
            });
            let column = &mut columns[slot];
            if column.position[id] == NO_POSITION {
                column.position[id] = position as u32;
                column.count += events[id];
            }
        }
    }
    columns
}

fn name(trace: &Trace, columns: &mut [WideColumn]) {
    let names = names(columns.iter().map(|c| (trace.strings.get(c.key), c.kind)));
    for (column, name) in columns.iter_mut().zip(names) {
        column.name = name;
    }
}

/// Names for columns of arguments, the most frequent first: the first type of a key has no suffix. Names differ even
/// where case does not count, as SQL engines want it.
pub(crate) fn names<'a>(columns: impl Iterator<Item = (&'a str, AttrType)>) -> Vec<String> {
    let mut taken: FxHashSet<String> = FxHashSet::default();
    let name = |(key, kind): (&str, AttrType)| {
        let plain = format!("args:{key}");
        let typed = format!("args:{key}|{}", attr_type::name(kind));
        let numbered = (2u32..).map(|n| format!("{typed}|{n}"));
        let mut names = [plain, typed.clone()].into_iter().chain(numbered);
        names.find(|n| taken.insert(n.to_lowercase())).unwrap_or(typed)
    };
    columns.map(name).collect()
}
