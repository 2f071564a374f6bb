//! Embeds the page: what `npm run build` in `web/` made of it, or one that says how to make it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// What stands in place of the page where it was not built.
const MISSING: &str = include_str!("src/missing.html");

fn main() -> std::io::Result<()> {
    let folder = Path::new(&env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../web/dist");
    println!("cargo:rerun-if-changed=src/missing.html");
    println!("cargo:rerun-if-changed={}", folder.display());
    let page = fs::read(folder.join("index.html")).unwrap_or_else(|_| MISSING.into());
    let target = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("page.html.gz");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(&page)?;
    fs::write(target, packed.finish()?)
}
