//! Damage to traces, in ways that occur in real files.
//!
//! One [`Kind`] per row of the damage table (or several, if a row has several variants). A kind is a function that
//! adds edits to an undamaged trace at random positions fixed by a seed. The kind also defines the expected behavior
//! of a reader, for tests: [`Kind::kept`], [`Kind::reported`], and as text [`Kind::expects`].

mod content;
mod cut;
mod doc;
mod ids;
mod kinds;
mod syntax;
mod times;

use crate::rng::Rng;
use doc::Doc;

/// Part of a damaged trace that a reader must still return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kept {
    /// All events; only the damaged values may differ from the undamaged trace.
    All,
    /// All events except those at or next to the damaged positions.
    Others,
    /// All events that end before the first damaged position.
    Prefix,
    /// Possibly none: a one-line message with file and byte is enough.
    Nothing,
}

/// A kind of damage to traces: the function that applies it, and the expected behavior of a reader.
#[derive(Debug)]
pub struct Kind {
    /// Short name, stable, for command lines and test names.
    pub name: &'static str,
    /// Row of the damage table.
    pub row: &'static str,
    /// Expected behavior of a reader.
    pub expects: &'static str,
    /// Part of the trace that a reader should return.
    pub kept: Kept,
    /// True if the read report must list the damage.
    pub reported: bool,
    act: fn(&mut Doc<'_>, &mut Rng) -> Option<Vec<u8>>,
}

/// A damaged trace and the positions of the damage.
#[derive(Debug, Clone)]
pub struct Mutation {
    /// The file's new bytes.
    pub bytes: Vec<u8>,
    /// First byte of each change in `bytes`; empty if the trace has nothing that this kind could change.
    pub offsets: Vec<usize>,
}

/// All kinds of damage to traces, in the order of the damage table.
#[must_use]
pub fn kinds() -> &'static [Kind] {
    kinds::KINDS
}

/// Find the kind of damage to traces with this name.
#[must_use]
pub fn kind(name: &str) -> Option<&'static Kind> {
    kinds().iter().find(|kind| kind.name == name)
}

/// Damage `text`, an undamaged trace in uncompressed JSON, at positions fixed by `seed`.
///
/// Returns it unchanged if it has nothing to damage in this way (no kernels, for example) or is not a trace.
#[must_use]
pub fn apply(kind: &Kind, text: &[u8], seed: u64) -> Vec<u8> {
    mutate(kind, text, seed).bytes
}

/// Damage an undamaged trace, and return its bytes with the positions of the changes.
#[must_use]
pub fn mutate(kind: &Kind, text: &[u8], seed: u64) -> Mutation {
    // Different kinds should not damage the same positions for the same seed.
    let salt = kind.name.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let mut rng = Rng::new(seed ^ salt);
    let Some(mut doc) = Doc::new(text) else {
        return Mutation { bytes: text.to_vec(), offsets: Vec::new() };
    };
    match (kind.act)(&mut doc, &mut rng) {
        Some(bytes) => {
            let differs =
                bytes.iter().zip(text).position(|(a, b)| a != b).unwrap_or_else(|| bytes.len().min(text.len()));
            Mutation { bytes, offsets: vec![differs] }
        }
        None => doc.finish(),
    }
}
