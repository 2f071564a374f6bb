//! How recorded processes ended, for the heads of reports.

use stackline_model::{Problem, ReadReport};

/// Threads whose running call the head tells.
const IN_FLIGHT: usize = 8;

/// That processes were killed, by which signal, and what they were doing: nothing of it is in any table.
pub(super) fn how_it_ended<'a>(reports: impl Iterator<Item = &'a ReadReport> + Clone) -> String {
    let problems = || reports.clone().flat_map(|report| &report.problems);
    let of = |code: &'static str| problems().filter(move |problem| problem.code == code);
    let examples = |code| of(code).flat_map(Problem::examples);
    let killed = examples("process_killed").filter(|example| example.contains(" was ended by "));
    let mut text: String = killed.map(|example| format!("Killed: {example}.\n")).collect();
    text.extend(examples("after_last_step").map(|example| format!("After the last recorded step: {example}.\n")));
    text.extend(
        examples("in_flight")
            .take(IN_FLIGHT)
            .map(|example| format!("In flight when it ended, or up to half a second before: {example}.\n")),
    );
    let more = of("in_flight").map(|problem| problem.count).sum::<u64>().saturating_sub(IN_FLIGHT as u64);
    if more > 0 {
        text.push_str(&format!("In flight then: calls of {more} more threads.\n"));
    }
    text.extend(examples("last_seen").map(|example| format!("Where its main thread was seen last: {example}.\n")));
    stackline_present::terminal::clean_lines(&text)
}
