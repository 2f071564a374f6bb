//! Logical parents: the event that caused another one, with the evidence for it.
//!
//! The parent by nesting ([`EventTable::parent`](crate::EventTable::parent)) is the enclosing event on the same track;
//! it determines self times. The logical parent may be on another track: the launch call of a kernel, the forward
//! operator of a backward operator, the event that handed work to another thread. Both are derived from existing
//! columns (launches of [`GpuTable`](crate::GpuTable), [`LinkTable`](crate::LinkTable), ids among the attributes), so
//! no second table can contradict them.

mod containment;
#[cfg(test)]
mod tests;

use crate::kind::named_enum;
use crate::{CONTEXT_FLOW, EventId, EventKind, GpuOpId, LinkKind, StrId, Trace, TrackKind};
use rustc_hash::{FxHashMap, FxHashSet};

named_enum!(
    /// Evidence for a logical parent.
    ParentEvidence {
        /// The parent encloses the event on the same track.
        Nesting = 0 "nesting",
        /// Both records have the same id, or one has the id of the other.
        ExplicitId = 1 "explicit_id",
        /// The launch call has the correlation id of the GPU operation.
        Correlation = 2 "correlation",
        /// An arrow of the source leads from the parent to the event.
        Flow = 3 "flow",
        /// Forward and backward operator have the same sequence number of autograd.
        SequenceNumber = 4 "sequence_number",
        /// The parent encloses the event in time, on another track of the same device or on a stream.
        TimeContainment = 5 "time_containment",
    }
);

/// An event, its logical parent and the evidence for it.
pub(crate) type Parent = (EventId, EventId, ParentEvidence);

/// Categories of arrows from an event to work that it handed to another thread. Other arrows may have any meaning: data
/// dependencies (TensorFlow 1), or a critical path drawn into the trace.
const HANDOVERS: [&str; 2] = [CONTEXT_FLOW, "async"];

impl Trace {
    /// Logical parent of an event: the launch of a GPU operation, the forward operator of a backward operator, the
    /// event that handed over work, else the enclosing event.
    pub(crate) fn logical_parent(&self, event: EventId) -> Option<(EventId, ParentEvidence)> {
        let operation = self.gpu_operation(event);
        let launched = operation.and_then(|operation| self.launch_of(operation));
        let nested = || Some((self.events.parent[event.index()].some()?, ParentEvidence::Nesting));
        launched.or_else(|| self.forward_of(event)).or_else(|| self.other_parent(event)).or_else(nested)
    }

    /// Events whose logical parent is not the one by nesting, in the order of events: event, parent, evidence.
    pub fn logical_parents(&self) -> impl Iterator<Item = (EventId, EventId, ParentEvidence)> + '_ {
        let parent = move |event| self.logical_parent(event).map(|(parent, evidence)| (event, parent, evidence));
        self.events.ids().filter_map(parent).filter(|&(.., evidence)| evidence != ParentEvidence::Nesting)
    }

    /// Forward operator of a backward operator: the first of its links from a host event that starts earlier. Links to
    /// an earlier time are wrong, and could form cycles.
    pub fn forward_of(&self, backward: EventId) -> Option<(EventId, ParentEvidence)> {
        let mut links = self.links.ending_at(LinkKind::Backward, backward);
        let (from, category) = links.find(|&(from, _)| self.is_host_link(from, backward))?;
        let is_arrow = category.is_some();
        Some((from, if is_arrow { ParentEvidence::Flow } else { ParentEvidence::SequenceNumber }))
    }

    /// Launch call of a GPU operation, or the operator with its external ID.
    fn launch_of(&self, gpu: GpuOpId) -> Option<(EventId, ParentEvidence)> {
        let launcher = self.gpu.launcher(gpu).filter(|&launcher| self.is_on_thread(launcher))?;
        let evidence = match self.gpu.launch[gpu.index()].some() {
            None => ParentEvidence::ExplicitId,
            // Arrows are used if no call has the correlation ID; sources with such ids have a call for nearly all
            // operations.
            Some(_) if self.gpu.correlation[gpu.index()] > 0 => ParentEvidence::Correlation,
            Some(_) => ParentEvidence::Flow,
        };
        (!self.is_on_thread(self.gpu.event[gpu.index()])).then_some((launcher, evidence))
    }

    /// True if an event's track is a host thread, not a stream or another row of a device.
    fn is_on_thread(&self, event: EventId) -> bool {
        self.tracks.get(self.events.track[event.index()]).kind == TrackKind::Thread
    }

    /// True if both events are on host threads, the first one earlier.
    fn is_host_link(&self, from: EventId, to: EventId) -> bool {
        let start = |event: EventId| self.events.start[event.index()];
        start(from) < start(to) && self.is_on_thread(from) && self.is_on_thread(to)
    }

    /// Logical parent of an event by arrow, ID or time, from the lookup table of [`Self::find_other_parents`].
    fn other_parent(&self, event: EventId) -> Option<(EventId, ParentEvidence)> {
        let all = self.other_parents.get_or_init(|| self.find_other_parents());
        let at = all.binary_search_by_key(&event, |&(child, ..)| child).ok()?;
        Some((all[at].1, all[at].2))
    }

    /// Parents by arrows between threads, by ids, and by time; ascending by event, at most one per event.
    fn find_other_parents(&self) -> Vec<Parent> {
        let mut found = self.handed_over();
        found.extend(self.projected_annotations());
        let known: FxHashSet<EventId> = found.iter().map(|&(child, ..)| child).collect();
        found.extend(containment::parents(self, |event| known.contains(&event)));
        // Stable sort: the stronger evidence comes first.
        found.sort_by_key(|&(child, ..)| child);
        found.dedup_by_key(|&mut (child, ..)| child);
        found
    }

    /// Parents of work that one thread handed to another, by arrows of the source with the categories [`HANDOVERS`].
    fn handed_over(&self) -> Vec<Parent> {
        let categories: Vec<StrId> = HANDOVERS.iter().filter_map(|category| self.strings.find(category)).collect();
        let track = |event: EventId| self.events.track[event.index()];
        let mut arrows: Vec<(EventId, EventId, StrId)> = self.links.of_kind(LinkKind::Flow).collect();
        arrows.retain(|&(from, to, category)| {
            categories.contains(&category) && track(from) != track(to) && self.is_host_link(from, to)
        });
        arrows.into_iter().map(|(from, to, _)| (to, from, ParentEvidence::Flow)).collect()
    }

    /// Parents of annotations that a profiler projected on a device: host annotations with the same external ID and
    /// name (Kineto).
    fn projected_annotations(&self) -> Vec<Parent> {
        let ids = self.attr("External id");
        if !ids.exists() || !self.events.kind.contains(&EventKind::GpuAnnotation) {
            return Vec::new();
        }
        let of_kind = |kind: EventKind| {
            let events = self.events.ids().filter(move |&event| self.kind(event) == kind);
            let ids = &ids;
            events.filter_map(move |event| Some((event, ids.i64(event).filter(|&id| id > 0)?)))
        };
        let name = |event: EventId| self.events.name[event.index()];
        let mut annotations: FxHashMap<(i64, StrId), EventId> = FxHashMap::default();
        for (event, id) in of_kind(EventKind::Annotation).filter(|&(event, _)| self.is_on_thread(event)) {
            // Ranks in one file have equal ids; then an id identifies no event.
            annotations.entry((id, name(event))).and_modify(|only| *only = EventId::NONE).or_insert(event);
        }
        let on_device = of_kind(EventKind::GpuAnnotation).filter(|&(event, _)| !self.is_on_thread(event));
        let parent = |(event, id): (EventId, i64)| {
            let annotation = annotations.get(&(id, name(event)))?.some()?;
            Some((event, annotation, ParentEvidence::ExplicitId))
        };
        on_device.filter_map(parent).collect()
    }
}
