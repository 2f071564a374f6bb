//! Decision if the threads of the recorded program shared Python's GIL.

use stackline_model::Trace;

/// Top-level key of a trace with the state of the GIL: `true`, `false`, 1 or 0, as number or text. Written by
/// `prof.add_metadata_json("python_gil_enabled", "false")`.
const GIL_KEY: &str = "python_gil_enabled";

/// Top-level key with `sys.version`, in which free-threaded builds are named.
const VERSION_KEY: &str = "python_version";

/// True if the threads of the program shared Python's GIL, which is assumed unless the trace states otherwise.
pub(super) fn has_gil(trace: &Trace) -> bool {
    let entry = |key: &str| trace.meta.entry(key).map(|v| v.trim().trim_matches('"').to_ascii_lowercase());
    match entry(GIL_KEY).as_deref() {
        Some("false" | "0") => false,
        Some("true" | "1") => true,
        _ => !entry(VERSION_KEY).is_some_and(|version| version.contains("free-threading build")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gil_key_takes_precedence_over_version() {
        let free = "\"3.14.0 free-threading build (main)\"";
        let cases: [(&[(&str, &str)], bool); 6] = [
            (&[], true),
            (&[(GIL_KEY, "false")], false),
            (&[(GIL_KEY, "\"0\"")], false),
            (&[(GIL_KEY, "perhaps")], true),
            (&[(VERSION_KEY, free)], false),
            (&[(VERSION_KEY, free), (GIL_KEY, "1")], true),
        ];
        for (entries, lock) in cases {
            let mut trace = Trace::default();
            trace.meta.entries = entries.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            assert_eq!(has_gil(&trace), lock, "{entries:?}");
        }
    }
}
