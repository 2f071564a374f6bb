//! Shortening of texts to the width of table cells, so that different texts stay different.

use std::collections::HashMap;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Shorten texts with `cut` to `width` terminal cells. Different texts with equal results are cut again around their
/// first difference.
pub(crate) fn shorten_distinctly(texts: &[String], width: usize, cut: impl Fn(&str, usize) -> String) -> Vec<String> {
    let mut shown: Vec<String> = texts.iter().map(|text| cut(text, width)).collect();
    let mut of_text: HashMap<String, Vec<usize>> = HashMap::new();
    shown.iter().enumerate().for_each(|(at, text)| of_text.entry(text.clone()).or_default().push(at));
    for same in of_text.into_values().filter(|all| all.iter().any(|&at| texts[at] != texts[all[0]])) {
        let chars: Vec<Vec<char>> = same.iter().map(|&at| texts[at].chars().collect()).collect();
        let shared =
            (0..).take_while(|&i| chars.iter().all(|c| c.get(i).is_some() && c.get(i) == chars[0].get(i))).count();
        let head = width / 6;
        // Show a short shared part before the first difference.
        let from = shared.saturating_sub(head / 2).max(head);
        for (&at, chars) in same.iter().zip(&chars) {
            let (mut before, mut cells) = (String::new(), 0);
            // As wide as a terminal shows it: some characters take two cells.
            for &c in chars.iter().take(head) {
                cells += c.width().unwrap_or(0);
                if cells > head {
                    break;
                }
                before.push(c);
            }
            let after: String = chars.iter().skip(from).collect();
            shown[at] = format!("{before}…{}", cut(&after, width.saturating_sub(before.width() + 1)));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::shorten_distinctly;

    #[test]
    fn shortened_names_keep_their_differences() {
        let names = ["Cijk_Ailk_Bjlk_SB_MT64x16x16_MI16x16x1_SN", "Cijk_Ailk_Bjlk_SB_MT32x16x16_MI16x16x1_SN"]
            .map(str::to_owned);
        let cut = |text: &str, width: usize| text.chars().take(width).collect::<String>();
        let shown = shorten_distinctly(&names, 16, cut);
        assert_ne!(shown[0], shown[1]);
        assert!(shown.iter().all(|text| text.chars().count() <= 16), "{shown:?}");
        assert!(shown[0].contains("64") && shown[1].contains("32"), "{shown:?}");
    }
}
