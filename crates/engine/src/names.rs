//! Suggestions for mistyped names ("Did you mean").

/// Up to `count` of `names` that resemble `typed`, nearest first: those that contain it (or are contained), then by
/// edit distance. Equal names appear once. The order is deterministic.
pub fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>, count: usize) -> Vec<&'a str> {
    let typed_chars = typed.to_lowercase();
    let typed_chars: Vec<char> = typed_chars.chars().take(MAX_CHARS).collect();
    let typed_text: String = typed_chars.iter().collect();
    let mut names: Vec<&str> = names.into_iter().filter(|n| !n.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    let mut scored: Vec<(usize, &str)> = names
        .into_iter()
        .filter_map(|name| {
            let lower = name.to_lowercase();
            let chars: Vec<char> = lower.chars().take(MAX_CHARS).collect();
            if !typed_chars.is_empty() && (lower.contains(&typed_text) || typed_text.contains(&lower)) {
                return Some((chars.len().abs_diff(typed_chars.len()).min(1), name));
            }
            let distance = distance(&typed_chars, &chars);
            let limit = (typed_chars.len().max(chars.len()) * 3).div_ceil(5);
            (distance <= limit).then_some((1 + distance, name))
        })
        .collect();
    scored.sort();
    scored.into_iter().take(count).map(|(_, name)| name).collect()
}

/// Number of compared characters: kernel names can have thousands.
const MAX_CHARS: usize = 64;

/// Levenshtein distance (insert, delete, replace: 1 each), row by row.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_first() {
        let names = ["ProfilerStep#5", "Optimizer.step#SGD.step", "aten::mm", "ProfilerStep#5", ""];
        assert_eq!(nearest("profilerstep", names, 3)[0], "ProfilerStep#5");
        assert_eq!(nearest("ProfilreStep#5", names, 1), ["ProfilerStep#5"]);
        assert!(nearest("zzzzzzzzzzzzzzzzzzzz", names, 3).is_empty());
    }

    #[test]
    fn distance_counts_edits() {
        let d = |a: &str, b: &str| distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        assert_eq!((d("kitten", "sitting"), d("", "abc"), d("same", "same")), (3, 3, 0));
    }
}
