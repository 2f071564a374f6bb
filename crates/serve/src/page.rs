//! The page as it was built, packed.

use flate2::read::GzDecoder;
use std::io::Read;

/// One HTML file with all of its script and style, as gzip.
pub(crate) const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/page.html.gz"));
/// The policy under which only the page's own script and style run, and nothing is fetched.
pub(crate) const POLICY: &str = include_str!(concat!(env!("OUT_DIR"), "/policy.txt"));
/// What only the page has that was built.
const MARK: &str = "id=\"stackline\"";

/// The page as text.
pub(crate) fn html() -> String {
    let mut text = String::new();
    // What this very crate packed unpacks.
    let _ = GzDecoder::new(PACKED).read_to_string(&mut text);
    text
}

/// Whether the page was built before this program: otherwise one stands there that says how to.
pub fn is_built() -> bool {
    html().contains(MARK)
}
