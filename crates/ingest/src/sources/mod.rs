//! The registry of formats: one file or folder each, one line each in [`ALL`].

pub(crate) mod chrome;
pub(crate) mod device_rows;
pub(crate) mod nsys;
mod processes;
mod row;
mod rpd;
mod tables;
mod xplane;
pub(crate) mod xprof;

use crate::{Error, ReadOptions};
use stackline_model::Trace;
use stackline_sqlite::Database;
use std::io::Read;

/// An input without its packing, as a format gets it.
pub enum Content<'a> {
    /// Bytes, read once from their beginning.
    Bytes {
        /// The first of them (at most 64 KiB).
        head: &'a [u8],
        /// All of them.
        stream: &'a mut dyn Read,
    },
    /// Tables, read in any order.
    Tables(&'a Database),
}

/// Whether an input is of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sniff {
    /// It is not.
    No,
    /// It looks like it, and nothing says that it is. Any [`Sniff::Yes`] of another format goes before.
    Maybe,
    /// It is: this was seen in it.
    Yes(&'static str),
}

/// A format that can be read.
#[derive(Clone, Copy)]
pub struct Source {
    /// Stable name; its documentation is `docs/formats/<name>.md`.
    pub name: &'static str,
    /// Whether an input is of this format.
    pub sniff: fn(&Content<'_>) -> Sniff,
    /// Reads the traces of an input with this label, one for each process that is worth one.
    pub read: fn(&str, Content<'_>, &ReadOptions) -> Result<Vec<Trace>, Error>,
}

/// Every format.
pub const ALL: &[Source] = &[
    Source { name: "chrome", sniff: chrome::sniff, read: chrome::open },
    Source { name: "nsys", sniff: nsys::sniff, read: nsys::open },
    Source { name: "rpd", sniff: rpd::sniff, read: rpd::open },
    Source { name: "xplane", sniff: xplane::sniff, read: xplane::open },
];

/// The format of an input, if one fits.
///
/// # Errors
/// If several formats are sure that it is theirs: a sentence that names them.
pub fn of(content: &Content<'_>) -> Result<Option<&'static Source>, String> {
    best(ALL, content)
}

fn best<'s>(sources: &'s [Source], content: &Content<'_>) -> Result<Option<&'s Source>, String> {
    let answers = sources.iter().map(|source| (source, (source.sniff)(content)));
    let (mut sure, mut maybe) = (Vec::new(), None);
    for (source, answer) in answers {
        match answer {
            Sniff::Yes(reason) => sure.push((source, reason)),
            Sniff::Maybe => maybe = maybe.or(Some(source)),
            Sniff::No => {}
        }
    }
    match sure[..] {
        [] => Ok(maybe),
        [(source, _)] => Ok(Some(source)),
        _ => {
            let each = sure.iter().map(|(source, reason)| format!("{} ({reason})", source.name));
            Err(format!("several formats fit: {}", each.collect::<Vec<_>>().join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &'static str, sniff: fn(&Content<'_>) -> Sniff) -> Source {
        Source { name, sniff, read: |_, _, _| Ok(Vec::new()) }
    }

    #[test]
    fn the_surest_format_is_taken() {
        let [no, maybe, also] =
            [named("no", |_| Sniff::No), named("maybe", |_| Sniff::Maybe), named("also", |_| Sniff::Maybe)];
        let [yes, other] = [named("yes", |_| Sniff::Yes("a key")), named("other", |_| Sniff::Yes("a table"))];
        let name = |sources: &[Source]| {
            let content = Content::Bytes { head: b"", stream: &mut std::io::empty() };
            best(sources, &content).map(|found| found.map(|source| source.name))
        };
        assert_eq!(name(&[no]), Ok(None));
        assert_eq!(name(&[no, maybe, also]), Ok(Some("maybe")));
        assert_eq!(name(&[maybe, yes, also]), Ok(Some("yes")));
        assert_eq!(name(&[yes, maybe, other]), Err("several formats fit: yes (a key), other (a table)".to_owned()));
    }
}
