//! Inference of block sizes from the order of events, for blocks that were not split.
//!
//! PyTorch's allocator splits a block of its pool for large blocks only if more than 1 MiB remains. Otherwise the
//! request gets the whole block, and `torch.cuda.memory_allocated` counts all of it. Events contain only the request.
//! But no block of that pool is as small as such a remainder, and free neighbors are merged at once: a gap of up to 1
//! MiB between an object and the next one belongs to the object. (Blocks of the other pool and of expandable segments
//! are always split, so they have no such gaps.)
//!
//! Another allocator may have other rules. If an allocation lies in a gap that was assigned to an object, no object
//! gets a gap.

use super::Reader;
use rustc_hash::FxHashSet;
use stackline_model::caching_allocator::{SMALL_REQUEST, SMALL_SEGMENT};
use stackline_model::{MemoryCallKind, MemoryDeviceId, MemoryObjectId, MemorySegmentEvent, MemorySegmentEventKind};
use std::collections::BTreeMap;

/// Device and address.
type Place = (MemoryDeviceId, u64);

/// Allocator layout at one moment: large segments and live objects, by device and address.
#[derive(Default)]
struct Layout {
    /// Bytes of segments of large blocks.
    segments: BTreeMap<Place, u64>,
    /// Objects with the bytes of their blocks.
    objects: BTreeMap<Place, (MemoryObjectId, u64)>,
}

/// Objects with blocks larger than known, and the bytes of these blocks.
type LargerBlocks = Vec<(MemoryObjectId, u64)>;

impl Layout {
    /// Add or remove a segment according to an event; `Map` and `Unmap` have no effect.
    fn apply(&mut self, event: &MemorySegmentEvent) {
        match event.kind {
            MemorySegmentEventKind::Allocate => self.add_segment((event.device, event.address), event.bytes),
            MemorySegmentEventKind::Free => drop(self.segments.remove(&(event.device, event.address))),
            MemorySegmentEventKind::Map | MemorySegmentEventKind::Unmap => {}
        }
    }

    /// Add a segment, unless it is so small that it belongs to the pool for small blocks.
    fn add_segment(&mut self, place: Place, bytes: u64) {
        if bytes > SMALL_SEGMENT {
            self.segments.insert(place, bytes);
        }
    }

    /// Check if the block of an object that begins at a lower address covers this address.
    fn is_taken(&self, place: Place) -> bool {
        let before = self.objects.range(..place).next_back();
        before.is_some_and(|((device, at), (_, bytes))| *device == place.0 && at.saturating_add(*bytes) > place.1)
    }

    /// Size in bytes of the block of an object, up to the next object or the segment's end; `None` unless slightly
    /// larger than `bytes`.
    fn block(&self, place: Place, bytes: u64) -> Option<u64> {
        let ((device, segment), size) = self.segments.range(..=place).next_back()?;
        let end = segment.saturating_add(*size);
        if *device != place.0 || end <= place.1 {
            return None;
        }
        let next = self.objects.range((place.0, place.1.saturating_add(1))..).next();
        let next = next.filter(|((device, _), _)| *device == place.0).map_or(end, |((_, at), _)| end.min(*at));
        let block = next - place.1;
        let remainder = block.checked_sub(bytes)?;
        (bytes > 0 && (1..=SMALL_REQUEST).contains(&remainder)).then_some(block)
    }
}

impl Reader<'_> {
    /// Enlarge objects to the inferred size of their allocator blocks, except objects whose blocks the snapshot lists.
    /// Snapshots with expandable segments stay unchanged.
    pub(super) fn infer_block_sizes(&mut self) {
        let settings = &self.trace.allocator_settings;
        if settings.expandable || self.trace.segments.iter().any(|segment| segment.expandable) {
            return;
        }
        for (object, bytes) in self.larger_blocks().unwrap_or_default() {
            self.trace.objects.bytes[object.index()] = bytes;
        }
    }

    /// Objects whose inferred blocks are larger than the request, with bytes; `None` if the order of events contradicts
    /// the rules.
    fn larger_blocks(&self) -> Option<LargerBlocks> {
        let (calls, objects) = (&self.trace.calls, &self.trace.objects);
        let known: FxHashSet<MemoryObjectId> = self.trace.blocks.iter().map(|block| block.object).collect();
        let (mut layout, mut larger) = (self.before_all(), LargerBlocks::new());
        for place in layout.objects.keys().copied().collect::<Vec<Place>>() {
            let Some((object, bytes)) = layout.objects.get(&place).copied() else { continue };
            if let Some(block) = layout.block(place, bytes).filter(|_| !known.contains(&object)) {
                larger.push((object, block));
                layout.objects.insert(place, (object, block));
            }
        }
        let mut events = self.trace.segment_events.iter().peekable();
        for call in calls.ids() {
            while let Some(event) = events.next_if(|event| event.before <= call) {
                layout.apply(event);
            }
            let object = calls.target_object(call);
            let Some(row) = object.some().map(MemoryObjectId::index) else { continue };
            let place = (objects.device[row], objects.address[row]);
            match calls.kind[call.index()] {
                MemoryCallKind::Allocate if layout.is_taken(place) => return None,
                MemoryCallKind::Allocate => {
                    let block = layout.block(place, objects.bytes[row]).filter(|_| !known.contains(&object));
                    larger.extend(block.map(|block| (object, block)));
                    layout.objects.insert(place, (object, block.unwrap_or(objects.bytes[row])));
                }
                MemoryCallKind::Free if layout.objects.get(&place).is_some_and(|(there, _)| *there == object) => {
                    layout.objects.remove(&place);
                }
                _ => {}
            }
        }
        Some(larger)
    }

    /// Reconstruct the allocator layout before the first event: final segments with the changes of all events undone,
    /// and objects that no event allocated.
    fn before_all(&self) -> Layout {
        let mut layout = Layout::default();
        for segment in &self.trace.segments {
            layout.add_segment((segment.device, segment.address), segment.bytes);
        }
        for event in self.trace.segment_events.iter().rev() {
            let back = match event.kind {
                MemorySegmentEventKind::Allocate => MemorySegmentEventKind::Free,
                MemorySegmentEventKind::Free => MemorySegmentEventKind::Allocate,
                other => other,
            };
            layout.apply(&MemorySegmentEvent { kind: back, ..*event });
        }
        let objects = &self.trace.objects;
        for object in objects.ids().filter(|object| objects.allocated_by[object.index()].is_none()) {
            let row = object.index();
            layout.objects.insert((objects.device[row], objects.address[row]), (object, objects.bytes[row]));
        }
        layout
    }
}
