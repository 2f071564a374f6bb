//! Mapping of file names in traces to source files.

use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Map from file names in a trace to full paths, for names that are not full paths.
#[derive(Debug, Default)]
pub(crate) struct PathMapping(BTreeMap<String, String>);

/// Lookup of files on this machine, to resolve relative names.
pub(crate) struct LocalFiles<'h> {
    /// The folder that relative names count from.
    pub(crate) folder: &'h str,
    /// Check if a path is a file on this machine.
    pub(crate) is_file: &'h dyn Fn(&str) -> bool,
    /// The run is a recording, whose tree contains absolute paths.
    pub(crate) is_recording: bool,
}

impl PathMapping {
    /// Map relative file names of a run to full paths that the run also names, where unambiguous.
    pub(crate) fn new(files: &BTreeSet<String>, here: &LocalFiles<'_>) -> Self {
        let (whole, relative): (Vec<&str>, Vec<&str>) =
            files.iter().map(String::as_str).partition(|file| Path::new(file).is_absolute());
        let mut by_end: FxHashMap<&str, Vec<&str>> = FxHashMap::default();
        for file in whole {
            by_end.entry(last(file)).or_default().push(file);
        }
        let place = |file: &str| {
            let end = format!("/{file}");
            let known: Vec<&str> =
                by_end.get(last(file))?.iter().copied().filter(|known| known.ends_with(&end)).collect();
            let own = format!("{}/{file}", here.folder.trim_end_matches('/'));
            if let Some(own) = known.iter().find(|known| **known == own) {
                return Some((*own).to_owned());
            }
            // A trace may name a file that only ends like another one; a recording's tree knows all of its own.
            let is_itself = !here.is_recording && (here.is_file)(file);
            if let ([only], false) = (&known[..], is_itself) { Some((*only).to_owned()) } else { None }
        };
        Self(relative.into_iter().filter_map(|file| Some((file.to_owned(), place(file)?))).collect())
    }

    /// Full path of a source file by its name in the trace; the name itself if it is already a path, or not mapped
    /// unambiguously.
    pub(crate) fn of_name<'f>(&'f self, file: &'f str) -> &'f str {
        self.0.get(file).map_or(file, String::as_str)
    }
}

/// Last component of a path.
fn last(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(names: &[&str], is_recording: bool, present: &[&str]) -> Vec<String> {
        let files: BTreeSet<String> = names.iter().map(|&name| name.to_owned()).collect();
        let here = LocalFiles { folder: "/code", is_file: &|file| present.contains(&file), is_recording };
        let places = PathMapping::new(&files, &here);
        names.iter().map(|name| places.of_name(name).to_owned()).collect()
    }

    #[test]
    fn bare_file_names_resolve_by_suffix() {
        assert_eq!(places(&["a.py", "/x/a.py", "/x/ba.py"], true, &[])[0], "/x/a.py");
        assert_eq!(places(&["a.py", "/x/ba.py"], true, &[])[0], "a.py", "another file");
        assert_eq!(places(&["a.py", "/x/a.py", "/y/a.py"], true, &[])[0], "a.py", "either could be meant");
        assert_eq!(places(&["a.py", "/code/a.py", "/y/a.py"], true, &[])[0], "/code/a.py", "where it was started");
    }

    #[test]
    fn local_files_resolve_to_recorded_files() {
        assert_eq!(places(&["a.py", "/x/a.py"], true, &["a.py"])[0], "/x/a.py");
        assert_eq!(places(&["a.py", "/code/a.py"], false, &["a.py"])[0], "/code/a.py");
        assert_eq!(places(&["a.py", "/x/a.py"], false, &["a.py"])[0], "a.py", "a trace of the profiler names both");
    }
}
