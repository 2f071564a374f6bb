//! Embeds the page that `npm run build` in `web/` wrote, or a page with build instructions, and the content security
//! policy that allows only the page's own script and style.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Page with build instructions, for programs compiled without the page.
const MISSING: &str = include_str!("src/missing.html");

fn main() -> std::io::Result<()> {
    let folder = Path::new(&env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../web/dist");
    println!("cargo:rerun-if-changed=src/missing.html");
    println!("cargo:rerun-if-changed={}", folder.display());
    let page = fs::read_to_string(folder.join("index.html")).unwrap_or_else(|_| MISSING.to_owned());
    let target = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(page.as_bytes())?;
    fs::write(target.join("page.html.gz"), packed.finish()?)?;
    // Frames, images and requests have the same policy for all pages; scripts and styles are allowed by their hashes.
    let policy = format!(
        "default-src 'none'; script-src {}; style-src {}; img-src data: blob:; base-uri 'none'; form-action 'none'",
        hashes(&page, "script"),
        hashes(&page, "style"),
    );
    fs::write(target.join("policy.txt"), policy)
}

/// Hashes of all inline elements of a kind, in the syntax of the policy.
fn hashes(page: &str, element: &str) -> String {
    let (open, close) = (format!("<{element}"), format!("</{element}>"));
    let mut found = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find(&open) {
        let Some((head, after)) = rest[at..].split_once('>') else { break };
        let Some((text, next)) = after.split_once(&close) else { break };
        // Data elements are not executed.
        if !head.contains("application/json") {
            found.push(format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text.as_bytes()))));
        }
        rest = next;
    }
    if found.is_empty() { "'none'".to_owned() } else { found.join(" ") }
}
