//! Table of live memory at a peak, by a key.

use super::{NamedPeak, int, percent};
use crate::curve::{alive_at, alive_by};
use crate::source_location::{path_text, place_text};
use crate::suggest::callers::Callers;
use stackline_model::{MemoryCallId, MemoryObjectId, MemoryTrace, Table, Unit};

/// Key to group live memory by, such as allocating line, kind or training phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Line of the program that allocated the memory.
    Place,
    /// Whole call path that allocated the memory.
    Path,
    /// Kind of the object at the peak.
    Kind,
    /// Module of the object.
    Module,
    /// Training phase of the allocation: forward, backward, optimizer, data, other.
    Phase,
    /// Size class of the object.
    Size,
    /// Operator that allocated the object.
    Operator,
    /// Element type.
    Dtype,
    /// Pool of the allocator.
    Pool,
}

impl By {
    /// All keys to group live memory by, in the order in which lists show them.
    pub const ALL: [Self; 9] = [
        Self::Place,
        Self::Path,
        Self::Kind,
        Self::Module,
        Self::Phase,
        Self::Size,
        Self::Operator,
        Self::Dtype,
        Self::Pool,
    ];

    /// Stable name of a grouping of live objects, also that of the table's column.
    pub fn name(self) -> &'static str {
        match self {
            Self::Place => "place",
            Self::Path => "path",
            Self::Kind => "kind",
            Self::Module => "module",
            Self::Phase => "phase",
            Self::Size => "size",
            Self::Operator => "operator",
            Self::Dtype => "dtype",
            Self::Pool => "pool",
        }
    }

    /// Name of the group of a live object, such as line, kind or phase.
    fn key(self, trace: &MemoryTrace, callers: &Callers<'_>, object: MemoryObjectId, at: MemoryCallId) -> String {
        let row = object.index();
        let objects = &trace.objects;
        let or = |text: &str, none: &str| if text.is_empty() { none.to_owned() } else { text.to_owned() };
        match self {
            Self::Place | Self::Path => {
                let text = if self == Self::Place { place_text } else { path_text };
                let unknown = if objects.allocated_by[row].is_none() {
                    "(allocated before the recording)"
                } else {
                    "(no call path)"
                };
                or(&text(trace, objects.stack[row]), unknown)
            }
            Self::Kind => trace.kind_at(object, at).name().to_owned(),
            Self::Module => or(trace.strings.get(objects.module[row]), "(unknown)"),
            Self::Phase => callers.phase_of(object).to_owned(),
            // Powers of two, so that similar sizes form one group.
            Self::Size => size_class(objects.bytes[row]),
            Self::Operator => or(trace.strings.get(objects.operator[row]), "(unknown)"),
            Self::Dtype => or(trace.strings.get(objects.dtype[row]), "(unknown)"),
            Self::Pool => or(trace.strings.get(objects.pool[row]), "usual"),
        }
    }
}

/// Size class of an object, by powers of two: `64 KiB and more`.
fn size_class(bytes: u64) -> String {
    let from = if bytes == 0 { 0 } else { 1u64 << (63 - bytes.leading_zeros()) };
    let text = |bytes: u64| match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    };
    format!("{} and more", text(from))
}

/// Live bytes at each peak, summed by a key, largest first.
pub fn at_peak_table(trace: &MemoryTrace, peaks: &[NamedPeak], by: By) -> Table {
    let (mut rows, callers) = (Vec::new(), Callers::new(trace));
    for peak in peaks {
        // Call paths are converted to text once each, not once per object.
        let key = |object: MemoryObjectId| match by {
            By::Place | By::Path if trace.objects.stack[object.index()].is_some() => {
                (Some(trace.objects.stack[object.index()]), String::new())
            }
            _ => (None, by.key(trace, &callers, object, peak.peak.position)),
        };
        let mut sums = std::collections::BTreeMap::<String, (u64, u32)>::new();
        for ((stack, text), bytes, objects) in alive_by(trace, peak.device, peak.peak.position, key) {
            let text = match (stack, by) {
                (Some(stack), By::Place) => place_text(trace, stack),
                (Some(stack), _) => path_text(trace, stack),
                (None, _) => text,
            };
            let sum = sums.entry(text).or_default();
            *sum = (sum.0.saturating_add(bytes), sum.1.saturating_add(objects));
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(_, (bytes, _))| std::cmp::Reverse(*bytes));
        rows.extend(sums.into_iter().map(|(key, (bytes, objects))| (peak, key, bytes, objects)));
    }
    Table::new("memory_at_peak", &format!("Live bytes at the memory peaks, by {}", by.name()))
        .text("peak", rows.iter().map(|row| Some(row.0.name.clone())))
        .text(by.name(), rows.iter().map(|row| Some(row.1.clone())))
        .i64("bytes", Unit::Bytes, rows.iter().map(|row| int(row.2)))
        .f64("share", Unit::Percent, rows.iter().map(|row| percent(row.2, row.0.peak.bytes)))
        .i64("objects", Unit::None, rows.iter().map(|row| i64::from(row.3)))
}

/// Table of the live objects at one peak, largest first.
pub fn alive_table(trace: &MemoryTrace, peak: &NamedPeak) -> Table {
    let alive = alive_at(trace, peak.device, peak.peak.position);
    let title = format!("Live objects at {}", peak.name);
    let kind = |object| trace.kind_at(object, peak.peak.position);
    super::objects::columns(Table::new("memory_alive", &title), trace, &alive, &kind)
}
