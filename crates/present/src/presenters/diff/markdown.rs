//! A comparison as Markdown, for a pull request.

use super::{BELOW, Shown, change_text, headline, measure, name, sides, signed, times};
use crate::presenters::markdown::{code, escaped};
use stackline_diff::{Change, ChangeTable, Measure, Method, Per, Verdict};

/// Format a comparison of runs as Markdown.
pub fn markdown(shown: &Shown<'_>) -> String {
    let [before, after] = sides(shown);
    let counts = match shown.diff.per {
        _ if shown.diff.has_different_bases => "the steps of the runs are not comparable: ",
        Per::Call => "the runs have different numbers of calls: ",
        Per::Step | Per::Run => "",
    };
    // Without any spread the headline says so.
    let is_untested = shown.diff.method == Method::Steps;
    let tested = if is_untested { "not tested for significance (only one run per side): " } else { "" };
    let mut out = format!("### Stackline: {counts}{tested}{}\n\n", escaped(&headline(shown)));
    for warning in shown.diff.missing_records.iter().chain(&shown.diff.warnings) {
        out.push_str(&format!("**Warning:** {}\n\n", escaped(warning)));
    }
    for held in shown.held {
        out.push_str(&format!("**Failed:** {}\n\n", escaped(held)));
    }
    out.push_str(&format!("A: {}, B: {}\n\n", code(&before), code(&after)));
    let sure = (1000.0 * (1.0 - shown.diff.options.level)).round() / 10.0;
    let per = if shown.diff.per == Per::Step { "per step" } else { "total" };
    if !shown.changes(ChangeTable::Steps).is_empty() {
        out.push_str(&format!("| {per} | A | B | change ({sure} % interval) | verdict |\n|---|--:|--:|--:|---|\n"));
    }
    let ranks = shown.has_ranks();
    for change in shown.changes(ChangeTable::Steps) {
        let rank = if ranks { format!("rank {}: ", change.rank) } else { String::new() };
        let [before, after] = times(change);
        let times = format!("{before} | {after} | {}", change_text(change));
        out.push_str(&format!(
            "| {rank}{} | {times} | {} |\n",
            measure(change.measure, shown.diff.per),
            verdict(shown, change)
        ));
    }
    for table in BELOW {
        below(&mut out, shown, table);
    }
    if !shown.diff.notes.is_empty() {
        out.push('\n');
        out.extend(shown.diff.notes.iter().map(|note| format!("- {}\n", escaped(note))));
    }
    out
}

/// Word for the verdict on a change, in bold for a tested one.
fn verdict(shown: &Shown<'_>, change: &Change) -> String {
    let name = shown.verdict(change);
    if matches!(change.verdict, Verdict::Slower | Verdict::Faster) { format!("**{name}**") } else { name.to_owned() }
}

/// Append a collapsed section with the largest changes of one table.
fn below(out: &mut String, shown: &Shown<'_>, table: ChangeTable) {
    let (largest, count) = shown.largest(table);
    let recounts = shown.changed_calls_sentence(table);
    if largest.is_empty() && recounts.is_none() {
        return;
    }
    let title = shown.title(table);
    out.push_str(&format!("\n<details><summary>{title}: {} changed</summary>\n\n", count.tested + count.alone));
    if !largest.is_empty() {
        out.push_str("| change | on | name | A → B | calls | verdict |\n|--:|---|---|---|---|---|\n");
    }
    for change in largest {
        let on = if change.measure == Measure::Gpu { "GPU" } else { "CPU" };
        out.push_str(&format!(
            "| {} | {on} | {} | {} | {} | {} |\n",
            signed(shown.change_ns(table, change)),
            code(&name(table, change)),
            shown.row_times(table, change),
            shown.counts(table, change),
            verdict(shown, change),
        ));
    }
    if let Some(recounts) = recounts {
        let gap = if out.ends_with("|\n") { "\n" } else { "" };
        out.push_str(&format!("{gap}{}\n", escaped(&recounts)));
    }
    out.push_str("\n</details>\n");
}
