//! Breaks a trace in each of the ways that were seen in files from the wild.
//!
//! One [`Kind`] per row of the damage table (and more where a row names several things). A kind is a function that
//! notes edits on an undamaged trace at random, seeded places; what a reader should make of the result is part of the
//! kind, so that a test can hold a reader to it: [`Kind::kept`], [`Kind::reported`], and in words [`Kind::expects`].

mod content;
mod cut;
mod doc;
mod ids;
mod kinds;
mod syntax;
mod times;

use crate::rng::Rng;
use doc::Doc;

/// How much of the trace a reader should still deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kept {
    /// Every event; only the damaged values may differ from the undamaged trace.
    All,
    /// Every event but those that hold the damaged places or touch them.
    Others,
    /// Every event that ends before the first damaged place.
    Prefix,
    /// Perhaps nothing: a one-line reason with file and byte is enough.
    Nothing,
}

/// One way in which a trace can be broken or odd.
#[derive(Debug)]
pub struct Kind {
    /// Short name, stable, for command lines and test names.
    pub name: &'static str,
    /// The row of the damage table that it belongs to.
    pub row: &'static str,
    /// What a reader should do.
    pub expects: &'static str,
    /// How much a reader should still deliver.
    pub kept: Kept,
    /// Whether the read report must not be empty.
    pub reported: bool,
    act: fn(&mut Doc<'_>, &mut Rng) -> Option<Vec<u8>>,
}

/// A damaged trace and where it was damaged.
#[derive(Debug, Clone)]
pub struct Mutation {
    /// The file's new bytes.
    pub bytes: Vec<u8>,
    /// First byte of each change, counted in `bytes`; empty if the trace holds nothing that this kind could change.
    pub offsets: Vec<usize>,
}

/// All kinds, in the order of the damage table.
#[must_use]
pub fn kinds() -> &'static [Kind] {
    kinds::KINDS
}

/// The kind of this name.
#[must_use]
pub fn kind(name: &str) -> Option<&'static Kind> {
    kinds().iter().find(|kind| kind.name == name)
}

/// `text`, an undamaged trace in JSON (not compressed), damaged in one way at places that `seed` fixes.
///
/// Comes back unchanged if the trace holds nothing that could be damaged this way (no kernels, say) or is no trace.
#[must_use]
pub fn apply(kind: &Kind, text: &[u8], seed: u64) -> Vec<u8> {
    mutate(kind, text, seed).bytes
}

/// Like [`apply`], and says where the changes are.
#[must_use]
pub fn mutate(kind: &Kind, text: &[u8], seed: u64) -> Mutation {
    // Different kinds should not hit the same places only because the seed is the same.
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
