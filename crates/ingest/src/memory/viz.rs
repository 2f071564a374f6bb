//! Extraction of the snapshot from a page of PyTorch's `_memory_viz`: HTML with a JSON list of files, each a base64
//! pickle.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Decode the first base64 pickle in a `_memory_viz` page or in its JSON list of files; `None` if there is none.
pub(super) fn pickle_in(text: &str) -> Option<Vec<u8>> {
    let from = text.find("\"base64\"")? + "\"base64\"".len();
    let rest = text[from..].trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let indifferent = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    GeneralPurpose::new(&STANDARD, indifferent).decode(rest.split('"').next()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_and_without_padding() {
        for (plain, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")]
        {
            let page = format!("const local_files = [{{\"name\": \"a\", \"base64\" : \"{coded}\"}}]");
            assert_eq!(pickle_in(&page).as_deref(), Some(plain.as_bytes()));
        }
        assert_eq!(pickle_in("{\"base64\": \"a*\"}"), None);
        assert_eq!(pickle_in("no page"), None);
    }
}
