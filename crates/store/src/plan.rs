//! Selection of arguments with their own column in the event table. A column has one key with one type, so values keep
//! their type. Rare keys beyond [`MAX_WIDE`] columns go to the long table.

use crate::attr_type;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::{AttrLayoutId, AttrType, StrId, Trace, TraceSet};

/// Maximum number of argument columns of an event table. Real traces have 30 to 60.
pub(crate) const MAX_WIDE: usize = 128;
const NO_POSITION: u16 = u16::MAX;

/// Event-table column of one argument (key and type), with the argument's position in each layout.
#[derive(Clone, Debug)]
pub(crate) struct WideColumn {
    pub(crate) key: StrId,
    pub(crate) kind: AttrType,
    /// Per layout: position of the field, or none.
    position: Vec<u16>,
}

/// Argument columns of a trace, most frequent first, and the positions of their values. Methods take the trace of the
/// plan.
pub(crate) struct Plan {
    pub(crate) columns: Vec<WideColumn>,
    /// Offset of each event's values.
    offset: Vec<u32>,
}

impl Plan {
    /// Choose the argument columns of a trace, and locate their values.
    pub(crate) fn from_trace(trace: &Trace) -> Self {
        let (shapes, shape, _) = trace.attrs.columns();
        let none = || vec![NO_POSITION; shapes.len()];
        let chosen = most_frequent(trace).into_iter();
        let mut columns: Vec<WideColumn> =
            chosen.map(|(key, kind, _)| WideColumn { key, kind, position: none() }).collect();
        let index: FxHashMap<_, _> = columns.iter().enumerate().map(|(i, c)| ((c.key, c.kind), i)).collect();
        for (id, shape) in shapes.iter().enumerate() {
            // If a record has a key twice, the first value gets the column; the others go to the long table.
            for (field, position) in shape.fields.iter().zip(0..NO_POSITION).rev() {
                if let Some(&column) = index.get(field) {
                    columns[column].position[id] = position;
                }
            }
        }
        let mut next = 0u32;
        let mut start = |id: &AttrLayoutId| {
            let from = next;
            next += shapes[id.index()].fields.len() as u32;
            from
        };
        Self { columns, offset: shape.iter().map(&mut start).collect() }
    }

    /// Argument column, if any, for the field at `position` of `shape`.
    pub(crate) fn column_of(&self, shape: AttrLayoutId, position: u32) -> Option<&WideColumn> {
        let position = u16::try_from(position).ok().filter(|p| *p != NO_POSITION)?;
        self.columns.iter().find(|c| c.position[shape.index()] == position)
    }

    /// Raw value (64 bits) of the argument column `column` at `event`; `None` if the event lacks the argument.
    pub(crate) fn raw(&self, trace: &Trace, column: &WideColumn, event: usize) -> Option<u64> {
        let (_, shape, values) = trace.attrs.columns();
        let position = column.position[shape[event].index()];
        (position != NO_POSITION).then(|| values[self.offset[event] as usize + position as usize])
    }
}

/// Keys and types of all arguments of a trace's events, in order of appearance.
pub(crate) fn fields(trace: &Trace) -> impl Iterator<Item = (StrId, AttrType)> {
    event_counts(trace).into_iter().map(|(key, kind, _)| (key, kind))
}

/// Argument keys and types that most events have, with their number of events. At most [`MAX_WIDE`].
fn most_frequent(trace: &Trace) -> Vec<(StrId, AttrType, u64)> {
    let mut counts = event_counts(trace);
    counts.sort_by(|a, b| b.2.cmp(&a.2).then(a.0.cmp(&b.0)).then(a.1.cmp(&b.1)));
    counts.truncate(MAX_WIDE);
    counts
}

/// Argument keys and types with their number of events, in order of appearance.
fn event_counts(trace: &Trace) -> Vec<(StrId, AttrType, u64)> {
    let (shapes, shape, _) = trace.attrs.columns();
    let mut events = vec![0u64; shapes.len()];
    for id in shape {
        events[id.index()] += 1;
    }
    let mut counts: Vec<(StrId, AttrType, u64)> = Vec::new();
    let mut index: FxHashMap<(StrId, AttrType), usize> = FxHashMap::default();
    for (shape, count) in shapes.iter().zip(events) {
        for &(key, kind) in shape.fields.iter().filter(|f| f.1 != AttrType::Null) {
            let slot = *index.entry((key, kind)).or_insert(counts.len());
            if slot == counts.len() {
                counts.push((key, kind, 0));
            }
            counts[slot].2 += count;
        }
    }
    counts
}

/// Column names for the arguments of a trace set: equal keys and types have equal names in all traces.
pub(crate) struct Names {
    /// Key, type and name, most frequent first.
    pub(crate) columns: Vec<(String, AttrType, String)>,
    index: FxHashMap<(String, AttrType), usize>,
}

impl Names {
    /// Choose column names for the most frequent arguments of a trace set.
    pub(crate) fn from_traces(set: &TraceSet) -> Self {
        let mut counts: Vec<(String, AttrType, u64)> = Vec::new();
        let mut index: FxHashMap<(String, AttrType), usize> = FxHashMap::default();
        for trace in &set.traces {
            for (key, kind, count) in most_frequent(trace) {
                let key = trace.strings.get(key).to_owned();
                let slot = *index.entry((key.clone(), kind)).or_insert(counts.len());
                if slot == counts.len() {
                    counts.push((key, kind, 0));
                }
                counts[slot].2 += count;
            }
        }
        // Stable sort: equally frequent ones stay in order of appearance.
        counts.sort_by_key(|c| std::cmp::Reverse(c.2));
        let mut taken = FxHashSet::default();
        let named = |(key, kind, _): (String, AttrType, u64)| {
            let name = free_name(&key, kind, &mut taken);
            (key, kind, name)
        };
        let columns: Vec<_> = counts.into_iter().map(named).collect();
        let index = columns.iter().enumerate().map(|(i, c)| ((c.0.clone(), c.1), i)).collect();
        Self { columns, index }
    }

    /// Name of the file column for an argument column of one trace.
    pub(crate) fn get(&self, trace: &Trace, column: &WideColumn) -> &str {
        let key = (trace.strings.get(column.key).to_owned(), column.kind);
        self.index.get(&key).map_or("", |i| &self.columns[*i].2)
    }
}

/// Choose an unused name of an argument column: `args:KEY` for the most frequent type of a key, `args:KEY|TYPE` for
/// others. Names are unique regardless of case, as SQL engines need.
fn free_name(key: &str, kind: AttrType, taken: &mut FxHashSet<String>) -> String {
    let plain = format!("args:{key}");
    let typed = format!("args:{key}|{}", attr_type::name(kind));
    let numbered = (2u32..).map(|n| format!("{typed}|{n}"));
    let mut names = [plain, typed.clone()].into_iter().chain(numbered);
    names.find(|n| taken.insert(n.to_lowercase())).unwrap_or(typed)
}
