//! Check of names of files and functions for words that do not describe their content.

/// Stems of file names that do not name their content, with an example of one that does.
const STEMS: &[(&str, &str)] = &[
    ("alike", "baseline_steps"),
    ("beside", "extra_metrics"),
    ("chapter", "summary"),
    ("derived", "cache"),
    ("facts", "object_usage"),
    ("first", "prefetch"),
    ("gone", "server_offline"),
    ("got", "plt_hook"),
    ("ground", "shared_context"),
    ("hops", "segments"),
    ("interludes", "host_gaps"),
    ("lacks", "requirements"),
    ("losses", "missing_records"),
    ("makeup", "path_breakdown"),
    ("opened", "run"),
    ("others", "external_rules"),
    ("own", "python_rules"),
    ("place", "source_location"),
    ("places", "path_mapping"),
    ("planted", "injected_faults"),
    ("price", "gain"),
    ("problems", "diagnostics"),
    ("rounds", "iterations"),
    ("story", "summary"),
    ("strays", "order_conflicts"),
    ("told", "tensor_names"),
    ("turns", "lock_contention"),
    ("words", "messages"),
];

/// Words to avoid as parts of names, with alternatives.
const PARTS: &[(&str, &str)] = &[
    ("behind", "after, following"),
    ("beside", "concurrent, extra"),
    ("stretch", "range, interval"),
    ("stretches", "ranges, intervals"),
    ("told", "reported, shown"),
];

/// Fault of the name of a file, without its folders and extension; `None` if it is fine.
pub(super) fn file_fault(path: &str) -> Option<String> {
    let file = path.rsplit('/').next().unwrap_or_default();
    let stem = file.split('.').next().unwrap_or_default();
    // The folders of tests and benchmarks give the context.
    let is_source = path.contains("/src/");
    let is_content = STEMS.iter().find(|(name, _)| *name == stem).filter(|_| is_source);
    let fault = is_content.map(|(_, example)| format!("\"{stem}\" does not name a content; such as {example}"));
    fault.or_else(|| name_fault(stem))
}

/// Fault of a name with a word to avoid; `None` if it has none.
pub(super) fn name_fault(name: &str) -> Option<String> {
    let parts = || name.split(['_', '-']);
    let (part, instead) = PARTS.iter().find(|(part, _)| parts().any(|word| word == *part))?;
    Some(format!("\"{part}\" in the name {name}: say {instead}"))
}

#[cfg(test)]
mod tests {
    use super::{STEMS, file_fault, name_fault};

    #[test]
    fn names_of_files() {
        assert!(file_fault("a/src/facts.rs").is_some_and(|fault| fault.contains("object_usage")));
        assert!(file_fault("a/tests/facts.rs").is_none());
        assert!(file_fault("a/tests/calls-beside.test.ts").is_some());
        assert!(file_fault("a/beside/parse.rs").is_none());
    }

    #[test]
    fn words_of_names() {
        assert!(name_fault("all_is_told").is_some_and(|fault| fault.contains("all_is_told")));
        for name in ["untold", "stretched", "parse"] {
            assert!(name_fault(name).is_none(), "{name}");
        }
    }

    #[test]
    fn stems_are_distinct() {
        let mut stems: Vec<&str> = STEMS.iter().map(|(stem, _)| *stem).collect();
        stems.sort_unstable();
        stems.dedup();
        assert_eq!(stems.len(), STEMS.len());
    }
}
