//! Tests of inferred steps of several ranks: all commands take the same ones, or none.

use crate::common;

use common::{add_iteration, stdout, write};
use serde_json::Value;
use stackline_testkit::mini::MiniTrace;
use std::path::Path;

/// Repeats of ten launches of a rank, a millisecond each; no steps are marked.
fn write_rank(folder: &Path, rank: i64, repeats: i64) -> String {
    let mut trace = MiniTrace::new(&format!(r#"file distributedInfo={{"rank": {rank}, "world_size": 2}}"#));
    for at in 0..repeats {
        add_iteration(&mut trace, at, 1000 * at);
    }
    write(folder, &format!("rank{rank}.json"), trace.json())
}

/// The note on ranks without common steps, without line breaks.
fn note(shown: &str) -> Option<String> {
    let text = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, rest) = text.split_once("steps could not be inferred, ")?;
    let end = "run `stackline steps`";
    Some(rest[..rest.find(end)? + end.len()].to_owned())
}

/// Windows and notes of the critical paths in a report's document.
fn windows(document: &str) -> Vec<(String, bool)> {
    let document: Value = serde_json::from_str(document).unwrap();
    let path = |path: &Value| {
        let exact = &path["exact"];
        let notes = exact["window_notes"].as_array().unwrap();
        let has_note = notes.iter().any(|note| note.as_str().unwrap().starts_with("steps could not be inferred, "));
        (exact["window"].as_str().unwrap().to_owned(), has_note)
    };
    document["critical_path"].as_array().unwrap().iter().map(path).collect()
}

#[test]
fn commands_share_inferred_steps_of_all_ranks_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let first = write_rank(folder.path(), 0, 8);
    let report = |inputs: &[&str]| stdout(&[&["report", "--format", "json"], inputs].concat());
    let equal = write_rank(folder.path(), 1, 8);
    assert!(stdout(&["critical-path", &first, &equal]).contains("Critical path of the inferred steps"));
    assert_eq!(
        windows(&report(&[&first, &equal])),
        [("the inferred steps".to_owned(), false), ("the inferred steps".to_owned(), false)]
    );
    let other = write_rank(folder.path(), 1, 16);
    let [path, found, shown] =
        ["critical-path", "findings", "report"].map(|command| stdout(&[command, &first, &other]));
    assert!(path.contains("Critical path of the whole trace"), "{path}");
    let of_path = note(&path).unwrap_or_else(|| panic!("{path}"));
    assert_eq!(note(&found).as_ref(), Some(&of_path), "{found}");
    assert_eq!(note(&shown).as_ref(), Some(&of_path), "{shown}");
    assert!(of_path.contains(" on rank 0, ") && of_path.contains(" on rank 1)"), "{of_path}");
    assert_eq!(
        windows(&report(&[&first, &other])),
        [("the whole trace".to_owned(), true), ("the whole trace".to_owned(), true)]
    );
    // A rank alone has its own steps in all commands.
    let one = stdout(&["critical-path", &first, &other, "--rank", "1"]);
    assert!(one.contains("Critical path of the inferred steps") && note(&one).is_none(), "{one}");
    assert_eq!(windows(&report(&[&first])), [("the inferred steps".to_owned(), false)]);
}
