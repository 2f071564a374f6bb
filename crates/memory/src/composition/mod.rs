//! Composition of a peak: parameters, gradients, optimizer state, activations.
//!
//! Snapshots say nothing of what memory is for. But a gradient has the size of its parameter, and so have the two moments that Adam
//! keeps of it: sets of objects with equal sizes, one allocated in the backward pass, some in an optimizer, one outside of both and
//! of the forward pass, are these.
//! Where the source tells kinds (recordings, memory timelines), they are taken.

mod remedies;
mod sets;

use crate::curve::alive_at;
use crate::source_location::place_text;
use crate::suggest::callers::Callers;
pub use remedies::remedies;
use rustc_hash::FxHashMap;
use sets::{Classes, recognize};
use stackline_model::library_workspaces::WorkspaceLibrary;
use stackline_model::native_names::is_autocast_copy;
use stackline_model::{MemoryCallId, MemoryDeviceId, MemoryObjectId, MemoryObjectKind, MemoryStackId, MemoryTrace};
use std::collections::BTreeMap;

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// Parameters of the model.
    Parameters,
    /// Their gradients.
    Gradients,
    /// Adam's averages of gradients, or a momentum.
    FirstMoments,
    /// Adam's averages of squared gradients.
    SecondMoments,
    /// Other state of an optimizer.
    OptimizerState,
    /// Copies in a lower precision that autocast made of weights and inputs.
    AutocastCopies,
    /// Made by the forward pass.
    Activations,
    /// Made by the backward pass, and no gradient of a parameter.
    Backward,
    /// Made in an optimizer, and no state that is recognized.
    Optimizer,
    /// Made and gone within one operator or phase, as the source says; in the backward pass [`Self::Backward`], where call paths tell it.
    Temporary,
    /// Working memory of CUDA libraries.
    Workspaces,
    /// Inputs of the model, and what loads data.
    Inputs,
    /// Older than the records, and not recognized.
    Older,
    /// All else.
    Other,
}

impl Use {
    /// Stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parameters => "parameters",
            Self::Gradients => "gradients",
            Self::FirstMoments => "first moments",
            Self::SecondMoments => "second moments",
            Self::OptimizerState => "optimizer state",
            Self::AutocastCopies => "autocast copies",
            Self::Activations => "activations",
            Self::Backward => "backward pass, other",
            Self::Optimizer => "optimizer, other",
            Self::Temporary => "temporary",
            Self::Workspaces => "library workspaces",
            Self::Inputs => "inputs",
            Self::Older => "older than the records",
            Self::Other => "other",
        }
    }

    /// Whether it grows with the model and not with the batch.
    pub const fn is_of_model(self) -> bool {
        use Use::{FirstMoments, Gradients, OptimizerState, Parameters, SecondMoments};
        matches!(self, Parameters | Gradients | FirstMoments | SecondMoments | OptimizerState)
    }
}

/// How it is known what memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The source says so.
    Source,
    /// Sets of objects have equal sizes.
    EqualSizes,
    /// The call path of the allocation.
    CallPath,
    /// It is not known.
    Unknown,
}

impl Evidence {
    /// Stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::EqualSizes => "equal sizes",
            Self::CallPath => "call path",
            Self::Unknown => "unknown",
        }
    }
}

/// A part of a peak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it is for.
    pub of: Use,
    /// How that is known.
    pub evidence: Evidence,
    /// Bytes.
    pub bytes: u64,
    /// Number of objects.
    pub objects: u32,
    /// The line that made all of it, empty if it was not one line.
    pub place: String,
    /// Of workspaces: bytes by library, the largest first.
    pub libraries: Vec<(&'static WorkspaceLibrary, u64)>,
}

impl Part {
    fn add_library(&mut self, library: &'static WorkspaceLibrary, bytes: u64) {
        match self.libraries.iter_mut().find(|(known, _)| *known == library) {
            Some((_, sum)) => *sum = sum.saturating_add(bytes),
            None => self.libraries.push((library, bytes)),
        }
        self.libraries.sort_by_key(|(_, sum)| std::cmp::Reverse(*sum));
    }
}

/// The parts of what is in use on a device at a position, in the order of [`Use`].
pub fn composition(trace: &MemoryTrace, device: MemoryDeviceId, position: MemoryCallId) -> Vec<Part> {
    let callers = Callers::new(trace);
    parts(trace, &callers, &uses_at(trace, &callers, device, position))
}

/// The parts at each of some peaks. What an object is stays the same: the parameters of a peak in the forward pass are those that
/// gradients and moments of another peak tell apart.
pub fn compositions(trace: &MemoryTrace, peaks: &[(MemoryDeviceId, MemoryCallId)]) -> Vec<Vec<Part>> {
    let callers = Callers::new(trace);
    let mut all: Vec<Vec<ObjectUse>> = peaks.iter().map(|&(device, at)| uses_at(trace, &callers, device, at)).collect();
    let mut known: FxHashMap<MemoryObjectId, Use> = FxHashMap::default();
    for (object, of, _) in all.iter().flatten().filter(|(.., evidence)| *evidence == Evidence::EqualSizes) {
        known.entry(*object).or_insert(*of);
    }
    for (object, of, evidence) in all.iter_mut().flatten().filter(|(.., evidence)| *evidence != Evidence::Source) {
        if let Some(recognized) = known.get(object) {
            (*of, *evidence) = (*recognized, Evidence::EqualSizes);
        }
    }
    all.iter().map(|uses| parts(trace, &callers, uses)).collect()
}

/// What an object is for, and how that is known.
type ObjectUse = (MemoryObjectId, Use, Evidence);

fn uses_at(
    trace: &MemoryTrace,
    callers: &Callers<'_>,
    device: MemoryDeviceId,
    position: MemoryCallId,
) -> Vec<ObjectUse> {
    let alive = alive_at(trace, device, position);
    let bytes = |object: &MemoryObjectId| trace.objects.bytes[object.index()];
    let kind = |object: &MemoryObjectId| trace.kind_at(*object, position);
    let sum = |objects: &mut dyn Iterator<Item = &MemoryObjectId>| objects.map(bytes).fold(0, u64::saturating_add);
    let told = sum(&mut alive.iter().filter(|object| kind(object) != MemoryObjectKind::Unknown));
    if told > 0 && told >= sum(&mut alive.iter()) / 2 {
        let of = |object: &MemoryObjectId| of_kind(kind(object), callers.phase_of(*object));
        return alive.iter().map(|object| (*object, of(object), Evidence::Source)).collect();
    }
    by_sets(trace, callers, &alive)
}

fn of_kind(kind: MemoryObjectKind, phase: &str) -> Use {
    match kind {
        MemoryObjectKind::Parameter => Use::Parameters,
        MemoryObjectKind::Gradient => Use::Gradients,
        MemoryObjectKind::OptimizerState => Use::OptimizerState,
        MemoryObjectKind::Activation => Use::Activations,
        MemoryObjectKind::Input => Use::Inputs,
        MemoryObjectKind::Workspace => Use::Workspaces,
        MemoryObjectKind::Temporary if phase == "backward" => Use::Backward,
        MemoryObjectKind::Temporary => Use::Temporary,
        _ => Use::Other,
    }
}

/// By sets of equal sizes; what is in none of them by its call path.
fn by_sets(trace: &MemoryTrace, callers: &Callers<'_>, alive: &[MemoryObjectId]) -> Vec<ObjectUse> {
    let mut copies: FxHashMap<MemoryStackId, bool> = FxHashMap::default();
    let (mut classes, mut uses) = (Classes::default(), Vec::new());
    for object in alive {
        let stack = trace.objects.stack[object.index()];
        let is_copy = *copies.entry(stack).or_insert_with(|| {
            trace.stacks.frames_of(stack).any(|frame| is_autocast_copy(trace.strings.get(frame.function)))
        });
        match callers.phase_of(*object) {
            _ if callers.workspace_of(*object).is_some() => {
                uses.push((*object, Use::Workspaces, Evidence::CallPath));
            }
            _ if is_copy => uses.push((*object, Use::AutocastCopies, Evidence::CallPath)),
            "optimizer" => classes.optimizer.push(*object),
            "forward" => classes.forward.push(*object),
            "backward" if callers.is_recomputed(*object) => classes.forward.push(*object),
            "backward" => classes.backward.push(*object),
            _ => classes.others.push(*object),
        }
    }
    // Parameters are older than what else has their sizes.
    let is_made = |object: &MemoryObjectId| trace.objects.allocated_by[object.index()].is_some();
    classes.others.sort_by_key(|object| (is_made(object), *object));
    let recognized = recognize(trace, &classes);
    let known: FxHashMap<MemoryObjectId, Use> = recognized.iter().copied().collect();
    uses.extend(recognized.into_iter().map(|(object, of)| (object, of, Evidence::EqualSizes)));
    for object in classes.all().filter(|object| !known.contains_key(object)) {
        let (of, evidence) = match callers.phase_of(object) {
            "optimizer" => (Use::Optimizer, Evidence::CallPath),
            "backward" => (Use::Backward, Evidence::CallPath),
            "forward" => (Use::Activations, Evidence::CallPath),
            "data" => (Use::Inputs, Evidence::CallPath),
            _ if !is_made(&object) => (Use::Older, Evidence::Unknown),
            _ => (Use::Other, Evidence::Unknown),
        };
        uses.push((object, of, evidence));
    }
    uses
}

fn parts(trace: &MemoryTrace, callers: &Callers<'_>, uses: &[ObjectUse]) -> Vec<Part> {
    let mut parts = BTreeMap::<Use, Part>::new();
    let mut places: FxHashMap<MemoryStackId, String> = FxHashMap::default();
    for &(object, of, evidence) in uses {
        let stack = trace.objects.stack[object.index()];
        let place = places.entry(stack).or_insert_with(|| place_text(trace, stack)).clone();
        let new = || Part { of, evidence, bytes: 0, objects: 0, place: place.clone(), libraries: Vec::new() };
        let part = parts.entry(of).or_insert_with(new);
        let bytes = trace.objects.bytes[object.index()];
        part.bytes = part.bytes.saturating_add(bytes);
        if let Some(library) = callers.workspace_of(object).filter(|_| of == Use::Workspaces) {
            part.add_library(library, bytes);
        }
        part.objects += 1;
        if part.place != place {
            part.place.clear();
        }
    }
    parts.into_values().collect()
}
