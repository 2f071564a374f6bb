//! The web page that the server sends, embedded as compressed HTML.

use flate2::read::GzDecoder;
use std::io::Read;

/// One HTML file with its script and style, as gzip.
pub(crate) const COMPRESSED_PAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/page.html.gz"));
/// Content security policy that allows only the page's own script and style, and no requests.
pub(crate) const POLICY: &str = include_str!(concat!(env!("OUT_DIR"), "/policy.txt"));
/// Text that only the built page contains.
const BUILT_MARK: &str = "id=\"stackline\"";

/// Decompress the embedded web page to HTML text.
pub(crate) fn html() -> String {
    let mut text = String::new();
    // The data are from our own build script, so they decompress.
    let _ = GzDecoder::new(COMPRESSED_PAGE).read_to_string(&mut text);
    text
}

/// Check if this program contains the real web page. A program built before the page contains only build instructions.
pub fn is_built() -> bool {
    html().contains(BUILT_MARK)
}
