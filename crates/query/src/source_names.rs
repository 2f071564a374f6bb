//! Names of source files: in the texts of a run, and by their suffix.

use std::path::Path;

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
}
