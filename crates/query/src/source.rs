//! Reading of source files on this machine.

use crate::OpenRun;
use crate::source_roots::SourceRoots;
use serde::Serialize;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Longest file that is read, in bytes.
const LONGEST: u64 = 4 << 20;
/// Ends of names of source files. A trace may come from a stranger, and name anything.
const SUFFIXES: [&str; 14] = ["py", "pyx", "pxd", "pyi", "c", "cc", "cpp", "cxx", "h", "hpp", "cu", "cuh", "hip", "rs"];

/// Names of the source files of the frames in a text, such as `a/train.py(12): step`; `;` or line breaks separate
/// frames.
pub(crate) fn files_in(text: &str) -> impl Iterator<Item = &str> {
    text.split([';', '\n']).filter_map(|part| {
        let (file, rest) = part.trim().split_once('(')?;
        let (line, _) = rest.split_once(')')?;
        (is_source(file) && line.parse::<u32>().is_ok()).then_some(file)
    })
}

/// Check by its suffix if a file name is that of a source file.
pub(crate) fn is_source(file: &str) -> bool {
    Path::new(file).extension().is_some_and(|end| SUFFIXES.iter().any(|known| end == *known))
}

/// Read the text of a source file. `None` if the file is outside of the allowed directories, not a plain file, or
/// larger than 4 MiB.
pub(crate) fn read(roots: &SourceRoots, file: &str) -> Option<String> {
    let path = roots.find(file)?;
    let is_plain = std::fs::metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() <= LONGEST);
    // A link of an innocent name may lead to something else.
    if !is_plain || !is_source(file) || !is_source(&path.to_string_lossy()) {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(&path).ok()?.take(LONGEST).read_to_end(&mut bytes).ok()?;
    roots.note(&path);
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Check if a source file was written after a time, in ns since 1970; `None` if time or file is unknown.
pub(crate) fn is_newer(roots: &SourceRoots, file: &str, recorded_at: Option<i64>) -> Option<bool> {
    let written = std::fs::metadata(roots.find(file)?).ok()?.modified().ok()?;
    let written = written.duration_since(std::time::UNIX_EPOCH).ok()?.as_nanos();
    Some(written > u128::try_from(recorded_at?).ok()?)
}

/// Lines around the one that matters.
const AROUND: u32 = 6;

/// Source lines around one line of a file; without lines if the file cannot be read.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Excerpt<'a> {
    file: &'a str,
    line: u32,
    /// Number of the first of the lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    first: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    lines: Option<Vec<String>>,
    missing: bool,
    /// The file was written after the recording; null if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    changed: Option<Option<bool>>,
}

/// Read the lines around one line of a source file that the run names, if the file is on this machine.
pub(crate) fn excerpt<'a>(opened: &'a OpenRun, file: &'a str, line: u32) -> Excerpt<'a> {
    let file = opened.resolved(file);
    let Some(text) = read(&opened.source_roots, file) else {
        return Excerpt { file, line, first: None, lines: None, missing: true, changed: None };
    };
    let first = line.saturating_sub(AROUND).max(1);
    let around = 2 * AROUND as usize + 1;
    let lines: Vec<String> = text.lines().skip(first as usize - 1).take(around).map(str::to_owned).collect();
    let missing = lines.len() + first as usize <= line as usize;
    let changed = is_newer(&opened.source_roots, file, opened.recorded_at());
    Excerpt { file, line, first: Some(first), lines: Some(lines), missing, changed: Some(changed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_frames() {
        let files = |text| files_in(text).collect::<Vec<_>>();
        assert_eq!(files("a b/train.py(12): step"), ["a b/train.py"]);
        assert_eq!(files("train.py(1): f;torch/x.py(2): g\nc.cu(3): h"), ["train.py", "torch/x.py", "c.cu"]);
        assert_eq!(files("gemm<float>(3)"), [""; 0]);
        assert_eq!(files("/dev/zero(1): f"), [""; 0]);
        assert_eq!(files("id_rsa(1): f"), [""; 0]);
        assert_eq!(files("train.py(x): f"), [""; 0]);
    }

    #[test]
    fn only_source_files_of_plausible_length_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let roots = SourceRoots::new([&folder.path().to_owned()]);
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).expect("written");
            read(&roots, path.to_str().expect("a name"))
        };
        assert_eq!(write("a.py", b"x = 1\xff").as_deref(), Some("x = 1\u{fffd}"));
        assert_eq!(write("secret", b"x"), None);
        assert_eq!(write("long.py", &vec![b'#'; LONGEST as usize + 1]), None);
        assert_eq!(read(&roots, "/dev/zero"), None);
        std::fs::create_dir(folder.path().join("folder.py")).expect("made");
        assert_eq!(roots.take_read().len(), 1, "what was read is known");
        assert_eq!(read(&roots, folder.path().join("folder.py").to_str().expect("a name")), None);
    }
}
