//! Reader of `memory_timeline.raw`: files that `torch.profiler`'s `export_memory_timeline` writes with a name that ends
//! in `.raw.json.gz`.
//!
//! The file is a list of `[time in ns, action, bytes, category]`. It has no addresses, so a free is matched to the
//! youngest object of the same size and category. Bytes in use are exact, also by category; ages of objects are
//! estimates.

use super::MOST_BYTES;
use super::snapshot::kind;
use super::values::{Kind, Value, Values};
use crate::diagnostics;
use rustc_hash::FxHashMap;
use stackline_model::{
    MemoryCallId, MemoryKindChange, MemoryObjectId, MemoryObjectKind, MemoryTrace, NewCall, NewObject,
};

const PREEXISTING: i128 = 1;
const CREATE: i128 = 2;
const NEW_VERSION: i128 = 3;
const DESTROY: i128 = 4;

/// Categories by their number in `torch.profiler`.
const CATEGORIES: [&str; 8] =
    ["parameter", "optimizer_state", "input", "temporary", "activation", "gradient", "autograd_detail", "unknown"];

/// Check if a document is a timeline: a list whose first element is a list of four numbers.
pub(super) fn is_timeline(values: &Values, root: Value) -> bool {
    let first = values.as_list(root).and_then(|list| values.items(list).first().copied());
    first.is_some_and(|first| row(values, first).is_some())
}

/// Check if a document contains sums: a list of times, and a list of sizes by category for each time. Both are empty if
/// nothing was recorded.
pub(super) fn is_sums_document(values: &Values, root: Value) -> bool {
    let Some([times, sizes]) = values.as_list(root).map(|list| values.items(list)) else { return false };
    let (Some(times), Some(sizes)) = (values.as_list(*times), values.as_list(*sizes)) else { return false };
    let is_number = |value: &Value| matches!(values.kind(*value), Kind::Int(_) | Kind::Float(_));
    let is_list = |value: &Value| values.as_list(*value).is_some();
    values.items(times).first().is_none_or(is_number) && values.items(sizes).first().is_none_or(is_list)
}

/// Numbers of a row: time in ns, action, bytes, category; `None` for any other value.
fn row(values: &Values, value: Value) -> Option<[i128; 4]> {
    let items = values.items(values.as_list(value)?);
    let numbers: Vec<i128> = items.iter().filter_map(|item| values.as_int(*item)).collect();
    numbers.try_into().ok().filter(|_| items.len() == 4)
}

/// Read a `memory_timeline.raw` document into a memory trace.
pub(super) fn read(label: &str, values: &Values, root: Value) -> MemoryTrace {
    let mut reader = Reader::new(label);
    let rows = values.as_list(root).map_or(&[][..], |list| values.items(list));
    for value in rows {
        reader.trace.report.records += 1;
        match row(values, *value) {
            Some(row) => reader.row(row),
            None => diagnostics::MEMORY_BAD_EVENT.count(
                &mut reader.trace.report,
                None,
                "a row of the memory timeline that is not a list of four numbers",
            ),
        }
    }
    let mut trace = reader.trace;
    trace.kind_changes.sort_by_key(|change| (change.object, change.before));
    let older = trace.objects.allocated_by.iter().filter(|call| call.is_none()).count();
    diagnostics::MEMORY_OLDER.count_many(&mut trace.report, older as u64, None, "");
    diagnostics::MEMORY_NO_ADDRESS.count_many(&mut trace.report, trace.calls.len() as u64, None, "");
    trace.report.events = trace.calls.len() as u64;
    trace.report.sort();
    trace
}

/// Conversion of the rows of a timeline to a memory trace.
struct Reader {
    trace: MemoryTrace,
    device: stackline_model::MemoryDeviceId,
    /// Live objects by bytes and category, oldest first.
    live: FxHashMap<(u64, usize), Vec<MemoryObjectId>>,
    /// The object of an open change of version, which gets a new category by the second record.
    changing: Option<MemoryObjectId>,
    time_ns: i64,
}

impl Reader {
    fn new(label: &str) -> Self {
        let mut trace = MemoryTrace { label: label.to_owned(), ..MemoryTrace::default() };
        // The file belongs to one device, which it does not name.
        let device = trace.device("device");
        Self { trace, device, live: FxHashMap::default(), changing: None, time_ns: 0 }
    }

    /// Apply a row: add an older object, allocate, change a category, or free; invalid rows are only counted.
    fn row(&mut self, [time, action, bytes, category]: [i128; 4]) {
        let category =
            usize::try_from(category).ok().filter(|at| *at < CATEGORIES.len()).unwrap_or(CATEGORIES.len() - 1);
        let Some(size) = u64::try_from(bytes.unsigned_abs()).ok().filter(|size| *size <= MOST_BYTES) else {
            return self.wrong_size(action, bytes);
        };
        let time = i64::try_from(time).unwrap_or(self.time_ns);
        if time < self.time_ns && action != PREEXISTING {
            diagnostics::MEMORY_CLOCK_BACK.count(
                &mut self.trace.report,
                None,
                &format!("{} ns", self.time_ns.saturating_sub(time)),
            );
        }
        self.time_ns = self.time_ns.max(time);
        let call = NewCall { start_ns: self.time_ns, ..NewCall::default() };
        let object =
            NewObject { bytes: size, device: self.device, kind: kind(CATEGORIES[category]), ..NewObject::default() };
        match (action, bytes < 0) {
            (PREEXISTING, false) => {
                let object = self.trace.add_older(object);
                self.live.entry((size, category)).or_default().push(object);
            }
            (CREATE, false) => {
                let object = self.trace.allocate(object, call);
                self.live.entry((size, category)).or_default().push(object);
            }
            (NEW_VERSION, true) => self.changing = self.take_live(size, category),
            (NEW_VERSION, false) => {
                if let Some(object) = self.changing.take() {
                    self.change_kind(object, kind(CATEGORIES[category]));
                    self.live.entry((size, category)).or_default().push(object);
                }
            }
            // An object without bytes is freed with 0 bytes, if such an object is alive.
            (DESTROY, _) if bytes < 0 || bytes == 0 && self.is_live(size, category) => {
                let object = self.take_live(size, category).unwrap_or(MemoryObjectId::NONE);
                self.trace.release(object, call);
            }
            (PREEXISTING | CREATE | DESTROY, _) => self.wrong_size(action, bytes),
            _ => diagnostics::MEMORY_UNKNOWN_EVENT.count(&mut self.trace.report, None, &format!("action {action}")),
        }
    }

    /// Change the kind of an object from the next call on.
    fn change_kind(&mut self, object: MemoryObjectId, kind: MemoryObjectKind) {
        let before = MemoryCallId::new(self.trace.calls.len());
        let kind = std::mem::replace(&mut self.trace.objects.kind[object.index()], kind);
        self.trace.kind_changes.push(MemoryKindChange { object, before, kind });
    }

    /// Check if an object of this size in bytes and category is alive.
    fn is_live(&self, size: u64, category: usize) -> bool {
        self.live.get(&(size, category)).is_some_and(|objects| !objects.is_empty())
    }

    /// Count a row whose size is impossible for its action.
    fn wrong_size(&mut self, action: i128, bytes: i128) {
        let example = match action {
            PREEXISTING => format!("an object from before the recording has a size of {bytes} bytes"),
            CREATE => format!("an allocation has a size of {bytes} bytes"),
            NEW_VERSION => format!("an object of {bytes} bytes changes its category"),
            DESTROY => format!("a free has a size of {bytes} bytes"),
            _ => format!("a record of the unknown action {action} has a size of {bytes} bytes"),
        };
        diagnostics::MEMORY_BAD_EVENT.count(&mut self.trace.report, None, &example);
    }

    /// Remove and return the youngest live object of this size in bytes and category; a missing one is counted.
    fn take_live(&mut self, size: u64, category: usize) -> Option<MemoryObjectId> {
        let found = self.live.get_mut(&(size, category)).and_then(Vec::pop);
        if found.is_none() {
            let example = format!("a free of {size} bytes of category {}", CATEGORIES[category]);
            diagnostics::MEMORY_UNKNOWN_FREE.count(&mut self.trace.report, None, &example);
        }
        found
    }
}
