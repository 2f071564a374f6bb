//! Header lines about the end of a recording: killed processes, time after the last step, calls in progress, last
//! sampled location.

use stackline_model::{Problem, ReadReport};

/// Maximum number of threads with running calls in the header.
const IN_FLIGHT: usize = 8;

/// Header lines about the end of a recording: killed processes, time after the last step, calls in progress, last
/// sampled location; empty without any.
pub(super) fn how_it_ended<'a>(reports: impl Iterator<Item = &'a ReadReport> + Clone) -> String {
    let problems = || reports.clone().flat_map(|report| &report.problems);
    let with_code = |code: &'static str| problems().filter(move |problem| problem.code == code);
    let examples = |code| with_code(code).flat_map(Problem::examples);
    let killed = examples("process_killed").filter(|example| example.contains(" was ended by "));
    let mut text: String = killed.map(|example| format!("Killed: {example}.\n")).collect();
    text.extend(examples("after_last_step").map(|example| format!("Time after the last recorded step: {example}.\n")));
    text.push_str(&in_flight(reports.clone()));
    text.extend(examples("last_seen").map(|example| format!("Last sampled location of the main thread: {example}.\n")));
    stackline_present::terminal::clean_lines(&text)
}

/// Header lines on calls that were in progress when the recording ended.
fn in_flight<'a>(reports: impl Iterator<Item = &'a ReadReport>) -> String {
    let (mut lines, mut count) = (Vec::new(), 0);
    for report in reports {
        let (is_killed, is_cut) = (report.count_of("process_killed") > 0, report.breaks_off().is_some());
        let line = |example: &str| match (is_killed, is_cut) {
            (true, _) => {
                format!("Call in flight at the end of the recording, or up to half a second earlier: {example}.\n")
            }
            (false, true) => format!("Call in flight at the end of the truncated file: {example}.\n"),
            (false, false) => format!("Call in flight at the end of the recording: {example}.\n"),
        };
        for problem in report.problems.iter().filter(|problem| problem.code == "in_flight") {
            lines.extend(problem.examples().map(line));
            count += problem.count;
        }
    }
    lines.truncate(IN_FLIGHT);
    let more = count.saturating_sub(lines.len() as u64);
    let mut text = lines.concat();
    match more {
        0 => {}
        1 => text.push_str("1 more thread had a call in flight at that time.\n"),
        _ => text.push_str(&format!("{more} more threads had calls in flight at that time.\n")),
    }
    text
}
