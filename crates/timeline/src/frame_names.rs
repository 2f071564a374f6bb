//! Matching of Python frame names, such as `queue.py(154): Queue.get`, by parts of the name.

use std::borrow::Cow;

pub use stackline_model::names::python_frame as frame;

/// Convert an XProf frame name to Kineto's form: `$queue.py:154 get` becomes `queue.py(154): get`, `$time sleep`
/// becomes a built-in function. Other names stay.
///
/// For methods of built-in types XProf records only the name; `acquire` is taken as the method of a lock.
fn kineto_name(name: &str) -> Cow<'_, str> {
    let Some((place, function)) = name.strip_prefix('$').and_then(|name| name.rsplit_once(' ')) else {
        return name.into();
    };
    match frame(name) {
        Some((file, line, function)) => format!("{file}({line}): {function}").into(),
        None if place == "<unknown>" && function == "acquire" => {
            "<built-in method acquire of _thread.lock object>".into()
        }
        None if place == "<unknown>" || place.contains(':') => name.into(),
        None => format!("<built-in function {function}>").into(),
    }
}

/// Test if a frame name contains all given parts. A part that begins with `): ` is a function name of any class,
/// because recordings include the class. The function must match fully, or as a prefix before `*`.
pub fn matches_parts(name: &str, parts: &[&str]) -> bool {
    let name = &*kineto_name(name);
    let function = name.rsplit_once("): ").map(|(_, whole)| whole.rsplit('.').next().unwrap_or(whole));
    parts.iter().all(|part| match part.strip_prefix("): ") {
        Some(requested) => function.is_some_and(|function| match requested.strip_suffix('*') {
            Some(beginning) => function.starts_with(beginning),
            None => function == requested,
        }),
        // A file: its full name, with or without folders.
        None if part.ends_with(".py(") => {
            name.match_indices(part).any(|(at, _)| name[..at].is_empty() || name[..at].ends_with('/'))
        }
        None => name.contains(part),
    })
}

#[cfg(test)]
mod tests {
    use super::matches_parts;

    #[test]
    fn frame_names_match_by_parts() {
        assert!(matches_parts("wandb/sdk/wandb_run.py(12): log", &["wandb/", "): log"]));
        assert!(!matches_parts("wandb/sdk/wandb_login.py(12): login", &["wandb/", "): log"]));
        assert!(matches_parts("mlflow/tracking/fluent.py(3): log_metric", &["mlflow/", "): log_*"]));
        assert!(!matches_parts("train.py(3): log_metric", &["mlflow/", "): log_*"]));
        assert!(matches_parts("logging/__init__.py(1477): Logger.info", &["logging/__init__.py(", "): info"]));
        assert!(!matches_parts("logging/__init__.py(1477): Logger.infos", &["logging/__init__.py(", "): info"]));
        assert!(
            matches_parts("asyncio/queue.py(3): get", &["queue.py("])
                && matches_parts("queue.py(3): get", &["queue.py("])
        );
        assert!(!matches_parts("task_queue.py(3): get", &["queue.py("]));
        // XProf's own form.
        assert!(
            matches_parts("$queue.py:154 get", &["queue.py(", "): get"])
                && !matches_parts("$queue.py:154 get_nowait", &["queue.py(", "): get"])
        );
        assert!(matches_parts("$time sleep", &["<built-in function sleep>"]));
        assert!(
            matches_parts("$<unknown> acquire", &["built-in method acquire"])
                && !matches_parts("$<unknown> __enter__", &["built-in"])
        );

        assert!(matches_parts("<built-in method write of _io.TextIOWrapper>", &["<built-in method write of _io."]));
    }
}
