//! Search for names that resemble a mistyped text.

/// Names are compared by their beginnings only: those of kernels can be thousands of characters long.
const MAX_CHARS: usize = 200;
/// A text is compared by so many of its characters.
const MAX_TYPED: usize = 40;
/// Letters of a text per allowed error: a third may be wrong.
const PER_WRONG: usize = 3;

/// Up to `count` names of which a part resembles `typed`, the nearest first; of equally near ones the shorter.
pub(crate) fn nearest<'n>(typed: &str, names: impl IntoIterator<Item = &'n str>, count: usize) -> Vec<&'n str> {
    let typed_chars: Vec<char> = typed.trim().to_lowercase().chars().take(MAX_TYPED).collect();
    let most = typed_chars.len() / PER_WRONG;
    let mut found: Vec<(usize, usize, &str)> = Vec::new();
    if most > 0 {
        let near = |name: &'n str| {
            let far = distance(&typed_chars, name, most)?;
            Some((far, name.chars().count(), name))
        };
        found.extend(names.into_iter().filter_map(near));
    }
    found.sort_unstable();
    found.dedup();
    found.into_iter().take(count).map(|(.., name)| name).collect()
}

/// Edit distance between the typed text and the best matching part of a name; `None` above `most`.
fn distance(typed_chars: &[char], name: &str, most: usize) -> Option<usize> {
    // Edit cost of an alignment that ends at each letter of the text. A part may begin anywhere without cost.
    let mut row: Vec<usize> = (0..=typed_chars.len()).collect();
    let mut least = typed_chars.len();
    for letter in name.chars().flat_map(char::to_lowercase).take(MAX_CHARS) {
        let mut diagonal = row[0];
        for (at, &own) in typed_chars.iter().enumerate() {
            let replaced = diagonal + usize::from(own != letter);
            diagonal = row[at + 1];
            row[at + 1] = replaced.min(row[at] + 1).min(diagonal + 1);
        }
        least = least.min(row[typed_chars.len()]);
    }
    (least <= most).then_some(least)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn parts_of_names_match() {
        let names = ["ampere_sgemm_128x64_nn", "aten::mm", "aten::addmm", "volta_gemm", "Memcpy HtoD"];
        assert_eq!(nearest("gemn", names, 2), ["volta_gemm", "ampere_sgemm_128x64_nn"]);
        assert_eq!(nearest("aten::admm", names, 1), ["aten::addmm"]);
        assert_eq!(nearest("MEMCOPY", names, 5), ["Memcpy HtoD"]);
        assert!(nearest("zzzzzz", names, 5).is_empty());
        assert!(nearest("", names, 5).is_empty() && nearest("q", names, 5).is_empty(), "of so little nothing is near");
    }
}
