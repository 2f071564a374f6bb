//! Search for names similar to a name that was not found.

use rustc_hash::FxHashSet;
use stackline_model::{EventKind, Trace};

/// Number of names to suggest, of names to compare, and of characters to compare per name.
const MAX_NAMES: usize = 3;
const MAX_COMPARED: usize = 20_000;
const MAX_CHARACTERS: usize = 256;

/// Names of up to 3 annotations of the trace that are most similar to `requested`, best first; for error messages.
pub(super) fn nearest_annotations(trace: &Trace, requested: &str) -> Vec<String> {
    let mut seen = FxHashSet::default();
    let mut names: Vec<&str> = Vec::new();
    for event in trace.events.ids() {
        if matches!(trace.kind(event), EventKind::Annotation | EventKind::GpuAnnotation)
            && seen.insert(trace.events.name[event.index()])
            && names.len() < MAX_COMPARED
        {
            names.push(trace.name(event));
        }
    }
    nearest(names, requested)
}

/// Up to 3 of `names` that are most similar to `requested` by edit distance, best first.
pub(super) fn nearest<'a>(names: impl IntoIterator<Item = &'a str>, requested: &str) -> Vec<String> {
    let requested = simplified(requested);
    let scored = names.into_iter().take(MAX_COMPARED).map(|n| (distance(&requested, &simplified(n)), n));
    let mut scored: Vec<(usize, &str)> = scored.collect();
    scored.sort();
    scored.into_iter().take(MAX_NAMES).map(|(_, name)| name.to_owned()).collect()
}

/// Lowercase characters of a name for comparison, at most 256.
fn simplified(text: &str) -> Vec<char> {
    text.chars().take(MAX_CHARACTERS).flat_map(char::to_lowercase).collect()
}

/// Edit distance of `requested` to the most similar part of `name`, times 4, plus 1 unless the lengths are equal. So a
/// whole match is better than a part.
fn distance(requested: &[char], name: &[char]) -> usize {
    let mut row: Vec<usize> = vec![0; name.len() + 1];
    for (i, w) in requested.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, n) in name.iter().enumerate() {
            let substituted = diagonal + usize::from(w != n);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    let best = row.iter().copied().min().unwrap_or(requested.len());
    best * 4 + usize::from(name.len() != requested.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similarity_counts_name_parts() {
        let d = |a: &str, b: &str| distance(&simplified(a), &simplified(b));
        assert_eq!(d("Step", "step"), 0);
        assert!(d("ProfilerStep", "ProfilerStep#5") < d("ProfilerStep", "Optimizer.step#SGD.step"));
        assert!(d("PofilerStep", "ProfilerStep#5") < d("PofilerStep", "forward"));
    }
}
