//! Detection of the recorder's own frames, which readers hide.

/// Source files of the recorder: path suffixes with the recorder's functions; an empty list means all functions.
const SOURCES: &[(&str, &[&str])] = &[
    ("/_stackline_bootstrap.py", &[]),
    ("/_stackline_start.py", &[]),
    ("/stackline/_record.py", &[]),
    ("/stackline/_span.py", &[]),
    // Other programs may have a file and folder of these names.
    ("/inject/sitecustomize.py", SITE),
    ("/_bootstrap/sitecustomize.py", SITE),
    ("/bootstrap/sitecustomize.py", SITE),
];
/// Functions of the recorder's `sitecustomize.py`.
const SITE: &[&str] = &["<module>", "_start", "_chain"];

/// File name of code that the recorder embeds as text.
const EMBEDDED: &str = "<stackline>";

/// File names of the recorder's library: as built, and in the Python package.
const LIBRARIES: &[&str] = &["libstackline_record.so", "_stackline_record.so"];

/// Check if a Python function belongs to the recorder.
pub(super) fn is_own_function(file: &str, function: &str) -> bool {
    let is_source = |&(ending, functions): &(&str, &[&str])| {
        file.ends_with(ending) && (functions.is_empty() || functions.contains(&function))
    };
    file == EMBEDDED || SOURCES.iter().any(is_source)
}

/// Check if a library belongs to the recorder itself.
pub(super) fn is_own_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    LIBRARIES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::{is_own_function, is_own_library};

    #[test]
    fn files_of_programs_are_not_recorder_files() {
        for (file, function) in [
            ("/srv/me/run.stackline/inject/_stackline_bootstrap.py", "_Watched.exec_module"),
            ("/srv/me/run.stackline/inject/sitecustomize.py", "_chain"),
            ("<stackline>", "_begin"),
            ("/env/lib/python3.11/site-packages/stackline/_span.py", "span.__call__.<locals>.named"),
        ] {
            assert!(is_own_function(file, function), "{file} {function}");
        }
        for (file, function) in [
            ("/srv/me/inject/sitecustomize.py", "patch_everything"),
            ("/usr/lib/python3/sitecustomize.py", "<module>"),
            ("/srv/me/stackline_bootstrap.py", "start"),
            ("/srv/stackline/train.py", "_start"),
        ] {
            assert!(!is_own_function(file, function), "{file} {function}");
        }
        assert!(is_own_library("/a/libstackline_record.so") && is_own_library("_stackline_record.so"));
        assert!(!is_own_library("/a/libtorch_cpu.so"));
    }
}
