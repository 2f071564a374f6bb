//! Shortening of names and source locations for the report for AI agents.

use super::short;
use stackline_model::kernel_names::short_names;

/// Shorten kernel names to `most` characters and keep them distinct. Names with equal beginnings get their purpose or
/// first differing part appended.
pub(super) fn distinct_short_names(names: &[&str], most: usize) -> Vec<String> {
    let owned: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let cut: Vec<String> = names.iter().map(|name| short(name, most)).collect();
    // Different names have different texts here, of which the beginnings may be alike.
    let shortened = short_names(&owned);
    let name = |row: usize| {
        let others = (0..names.len()).filter(|&other| names[other] != names[row] && cut[other] == cut[row]);
        let others: Vec<usize> = others.collect();
        if others.is_empty() {
            return cut[row].clone();
        }
        let text = short(&shortened[row], most);
        if text != cut[row] && others.iter().all(|other| short(&shortened[*other], most) != text) {
            return format!("{} ({text})", cut[row]);
        }
        let others: Vec<&str> = others.into_iter().map(|other| shortened[other].as_str()).collect();
        format!("{} (differs at {})", cut[row], difference(&shortened[row], &others))
    };
    (0..names.len()).map(name).collect()
}

/// Characters of the differing part and of the text before it.
const PART: usize = 32;
const BEFORE: usize = 8;

/// Part of a name by which it differs from the other names, with the word before.
fn difference(name: &str, others: &[&str]) -> String {
    let common = |other: &&str| name.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let from = others.iter().map(common).max().unwrap_or(0);
    let chars: Vec<char> = name.chars().collect();
    let word = chars[..from].iter().rev().take_while(|c| c.is_alphanumeric()).count();
    let start = from - word.min(BEFORE);
    let end = (from + PART).min(chars.len());
    let (before, after) = (if start > 0 { "…" } else { "" }, if end < chars.len() { "…" } else { "" });
    short(&format!("{before}{}{after}", chars[start..end].iter().collect::<String>()), 2 * PART)
}

/// Folders of a file that are shown.
const FOLDERS: usize = 1;

/// Shorten each file path in a text to the last folder and the file name.
pub(super) fn without_folders(text: &str) -> String {
    let word = |word: &str| {
        let parts: Vec<&str> = word.split('/').collect();
        // A rate or a choice (`CPU/GPU`) is no path: that of a file ends with a name that has a suffix.
        let is_file = parts.last().is_some_and(|file| file.contains('.'));
        match parts.len().checked_sub(FOLDERS + 1) {
            Some(left_out @ 1..) if is_file => format!("…/{}", parts[left_out..].join("/")),
            _ => word.to_owned(),
        }
    };
    text.split(' ').map(word).collect::<Vec<String>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::{distinct_short_names, short, without_folders};
    use std::collections::BTreeSet;

    #[test]
    fn equally_shortened_names_are_distinguished() {
        let long = |part: &str| format!("Cijk_Alik_Bljk_{}{part}{}_WSGRB0_WS64", "BBS_".repeat(20), "SK0_".repeat(20));
        let names = [long("MT256x128x64_"), long("MT256x96x64_"), "attn_fwd".to_owned()];
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for most in [72, 40] {
            let shown = distinct_short_names(&names, most);
            assert_eq!(shown.iter().collect::<BTreeSet<_>>().len(), 3, "{shown:?}");
            assert!(shown[0].contains("MT256x128x64") && shown[1].contains("MT256x96x64"), "{shown:?}");
            assert_eq!(shown[2], "attn_fwd");
        }
        // A name may be a prefix of another one. The functor of a C++ name is more informative than the first
        // difference.
        let begun = ["k".repeat(90), "k".repeat(91)];
        let shown = distinct_short_names(&[&begun[0], &begun[1]], 72);
        assert_ne!(shown[0], shown[1]);
        let functor = |name: &str| {
            format!(
                "void at::native::vectorized_elementwise_kernel<4, at::native::{name}<float>, std::array<char*, 3ul>, at::native::{}>",
                "OffsetCalculator<3, unsigned int, false>, at::native::memory::LoadWithoutCast"
            )
        };
        let [mul, add] = ["BinaryFunctor<MulFunctor>", "BinaryFunctor<AddFunctor>"].map(functor);
        let shown = distinct_short_names(&[&mul, &add], 40);
        assert!(shown[0].contains("Mul") && shown[1].contains("Add"), "{shown:?}");
        // Equal names stay equal.
        assert_eq!(distinct_short_names(&[&begun[0], &begun[0]], 72), [short(&begun[0], 72), short(&begun[0], 72)]);
        assert_eq!(distinct_short_names(&["\u{e9}".repeat(100).as_str(), ""], 10).len(), 2);
    }

    #[test]
    fn files_keep_one_folder() {
        let long = "- aten::mm (96 operators at lib/hub/adapters/model.py:28 in run): 16 % of CPU/GPU time";
        assert_eq!(
            without_folders(long),
            "- aten::mm (96 operators at …/adapters/model.py:28 in run): 16 % of CPU/GPU time"
        );
        assert_eq!(without_folders("train.py:3 in step; a/b.py"), "train.py:3 in step; a/b.py");
    }
}
