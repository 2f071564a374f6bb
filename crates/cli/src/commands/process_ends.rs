//! Header lines about recorded processes that were killed, and the calls in progress at that time.

use stackline_model::{Problem, ReadReport};

/// Maximum number of threads with running calls in the header.
const IN_FLIGHT: usize = 8;

/// Warning about recorded processes that were killed, with the signal and the call in progress.
pub(super) fn how_it_ended<'a>(reports: impl Iterator<Item = &'a ReadReport> + Clone) -> String {
    let problems = || reports.clone().flat_map(|report| &report.problems);
    let with_code = |code: &'static str| problems().filter(move |problem| problem.code == code);
    let examples = |code| with_code(code).flat_map(Problem::examples);
    let killed = examples("process_killed").filter(|example| example.contains(" was ended by "));
    let mut text: String = killed.map(|example| format!("Killed: {example}.\n")).collect();
    text.extend(examples("after_last_step").map(|example| format!("After the last recorded step: {example}.\n")));
    text.push_str(&in_flight(reports.clone()));
    text.extend(examples("last_seen").map(|example| format!("Last sampled location of the main thread: {example}.\n")));
    stackline_present::terminal::clean_lines(&text)
}

/// Calls that were running at the end of the recording.
fn in_flight<'a>(reports: impl Iterator<Item = &'a ReadReport>) -> String {
    let (mut lines, mut count) = (Vec::new(), 0);
    for report in reports {
        let when = match () {
            () if report.count_of("process_killed") > 0 => {
                "at the end of the recording, or up to half a second earlier"
            }
            () if report.breaks_off().is_some() => "at the end of the truncated file",
            () => "at the end of the recording",
        };
        for problem in report.problems.iter().filter(|problem| problem.code == "in_flight") {
            lines.extend(problem.examples().map(|example| format!("Call in flight {when}: {example}.\n")));
            count += problem.count;
        }
    }
    lines.truncate(IN_FLIGHT);
    let more = count.saturating_sub(lines.len() as u64);
    let mut text = lines.concat();
    if more > 0 {
        text.push_str(&format!("Also in flight at that time: calls of {more} more threads.\n"));
    }
    text
}
