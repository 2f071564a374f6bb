//! A comparison as Markdown, for a pull request.

use super::{BELOW, Shown, headline, measure, name, share, sides, signed, times};
use crate::presenters::markdown::{code, escaped};
use stackline_analyze::diff::{Change, ChangeTable, Measure, Verdict};

/// A comparison as Markdown.
pub fn markdown(shown: &Shown<'_>) -> String {
    let [before, after] = sides(shown);
    let mut out = format!("### Stackline: {}\n\n", escaped(&headline(shown)));
    for held in shown.held {
        out.push_str(&format!("**Failed:** {}\n\n", escaped(held)));
    }
    out.push_str(&format!("A: {}, B: {}\n\n", code(&before), code(&after)));
    for warning in &shown.diff.warnings {
        out.push_str(&format!("**Warning:** {}\n\n", escaped(warning)));
    }
    let sure = (1000.0 * (1.0 - shown.diff.options.level)).round() / 10.0;
    out.push_str(&format!("| per step | A | B | change ({sure} % interval) | verdict |\n|---|--:|--:|--:|---|\n"));
    let ranks = shown.has_ranks();
    for change in shown.changes(ChangeTable::Steps) {
        let rank = if ranks { format!("rank {}: ", change.rank) } else { String::new() };
        let [before, after] = times(change);
        let times = format!("{before} | {after} | {}", share(change));
        out.push_str(&format!("| {rank}{} | {times} | {} |\n", measure(change.measure), verdict(change)));
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

fn verdict(change: &Change) -> String {
    let name = change.verdict.name();
    if matches!(change.verdict, Verdict::Slower | Verdict::Faster) { format!("**{name}**") } else { name.to_owned() }
}

fn below(out: &mut String, shown: &Shown<'_>, table: ChangeTable) {
    let (largest, count) = shown.largest(table);
    let recounts = shown.recounts(table);
    if largest.is_empty() && recounts.is_none() {
        return;
    }
    let title = shown.title(table);
    out.push_str(&format!("\n<details><summary>{title}: {} changed</summary>\n\n", count.tested + count.alone));
    if !largest.is_empty() {
        out.push_str("| change | on | what | A → B | calls | verdict |\n|--:|---|---|---|---|---|\n");
    }
    for change in largest {
        let on = if change.measure == Measure::Gpu { "GPU" } else { "CPU" };
        let times = times(change).join(" → ");
        let only = matches!(change.verdict, Verdict::OnlyBefore | Verdict::OnlyAfter);
        let share = share(change);
        let times = if only || share.is_empty() { times } else { format!("{times}, {share}") };
        out.push_str(&format!(
            "| {} | {on} | {} | {times} | {} | {} |\n",
            signed(change.change_ns()),
            code(&name(table, change)),
            shown.counts(table, change),
            verdict(change),
        ));
    }
    if let Some(recounts) = recounts {
        let gap = if out.ends_with("|\n") { "\n" } else { "" };
        out.push_str(&format!("{gap}{}\n", escaped(&recounts)));
    }
    out.push_str("\n</details>\n");
}
