//! Frames of the recorder itself, hidden from all readers.

/// Source files of the recorder: endings of their paths, and the functions that count; all if there are none.
const SOURCES: &[(&str, &[&str])] = &[
    ("/_stackline_bootstrap.py", &[]),
    ("/_stackline_start.py", &[]),
    ("/stackline/_record.py", &[]),
    ("/stackline/_span.py", &[]),
    // Other programs have a file of this name, maybe in a folder of the same name.
    ("/inject/sitecustomize.py", SITE),
    ("/_bootstrap/sitecustomize.py", SITE),
    ("/bootstrap/sitecustomize.py", SITE),
];
/// Functions of our `sitecustomize.py`.
const SITE: &[&str] = &["<module>", "_start", "_chain"];

/// The file of code that the recorder holds as text.
const EMBEDDED: &str = "<stackline>";

/// File names of the recorder's library: as it is built, and as the Python package has it.
const LIBRARIES: &[&str] = &["libstackline_record.so", "_stackline_record.so"];

/// Whether a Python function is the recorder's.
pub(super) fn is_own_function(file: &str, function: &str) -> bool {
    let is_source = |&(ending, functions): &(&str, &[&str])| {
        file.ends_with(ending) && (functions.is_empty() || functions.contains(&function))
    };
    file == EMBEDDED || SOURCES.iter().any(is_source)
}

/// Whether a library is the recorder's.
pub(super) fn is_own_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    LIBRARIES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::{is_own_function, is_own_library};

    #[test]
    fn files_of_programs_are_not_ours() {
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
