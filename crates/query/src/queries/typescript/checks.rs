//! Check answers against the declared keys of documents and names of columns.

use super::{Declarations, layout};
use crate::queries::ALL;
use crate::queries::samples::{answers, opened};
use serde_json::Value;
use std::collections::BTreeSet;

/// Assert that a query's names match the declared ones, each with true if optional.
fn check<'n>(query: &str, names: impl Iterator<Item = &'n str>, declared: &[(&str, bool)]) {
    let names: BTreeSet<&str> = names.collect();
    let known: BTreeSet<&str> = declared.iter().map(|(name, _)| *name).collect();
    let needed: BTreeSet<&str> = declared.iter().filter(|(_, may_lack)| !may_lack).map(|(name, _)| *name).collect();
    assert!(needed.is_subset(&names) && names.is_subset(&known), "{query}: {names:?} instead of {declared:?}");
}

#[test]
fn answers_match_their_declarations() {
    let declared = Declarations::all();
    let mut seen = BTreeSet::new();
    for opened in opened() {
        for (name, answer) in answers(&opened) {
            seen.insert(name);
            let document: Value = serde_json::from_str(&answer.json).expect("JSON");
            let keys = document.as_object().expect("an object").keys().map(String::as_str);
            if let Some(fields) = layout::fields(&declared.documents[name].inline) {
                check(name, keys, &fields.into_iter().map(layout::name).collect::<Vec<_>>());
            }
            let query = ALL.iter().find(|query| query.name == name).expect("a query");
            let columns: Vec<_> =
                query.columns.iter().map(|name| (name.trim_end_matches('?'), name.ends_with('?'))).collect();
            check(name, answer.columns.iter().map(|(name, _)| *name), &columns);
        }
    }
    let missed: Vec<_> = ALL.iter().map(|query| query.name).filter(|name| !seen.contains(name)).collect();
    assert!(missed.is_empty(), "{missed:?} had no answer");
}
