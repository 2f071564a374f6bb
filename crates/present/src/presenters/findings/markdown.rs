//! Findings as Markdown, for a pull request.

use super::{
    Change, Shown, combined_gain, count_text, earlier_gain, gain, memory, missing, on_ranks, place, size, uncovered,
};
use crate::presenters::human::capital;
use crate::presenters::markdown::{code, escaped};
use stackline_findings::{Finding, Reason, SkippedRule, evidence};

/// Format findings as Markdown for a pull request.
pub fn markdown(shown: &Shown<'_>) -> String {
    let found = shown.found;
    let count = shown.listed.len() + shown.more;
    let mut out = format!("### Stackline: {}\n\n", count_text(count, "finding"));
    out.push_str(&format!("{}.", capital(&size(found))));
    for all in combined_gain(found).filter(|_| count > 1).into_iter().chain(memory::combined_gain(found)) {
        out.push(' ');
        out.push_str(&all);
    }
    out.push_str("\n\n");
    if !shown.listed.is_empty() {
        out.push_str("| estimated gain | source location | finding |\n|---|---|---|\n");
        for (finding, change) in shown.listed {
            out.push_str(&row(shown, finding, *change));
        }
        out.push('\n');
    }
    for (finding, _) in shown.listed {
        out.push_str(&details(finding));
    }
    let uncovered = uncovered(found);
    for (at, line) in uncovered.iter().enumerate() {
        match line.strip_prefix("- ") {
            Some(group) => out.push_str(&format!("- {}\n", escaped(group))),
            None => out.push_str(&format!("{}{}\n\n", if at > 0 { "\n" } else { "" }, escaped(line))),
        }
    }
    if !uncovered.is_empty() {
        out.push('\n');
    }
    out.extend(found.notes.iter().map(|note| format!("- Note: {}.\n", escaped(note))));
    out.extend(missing(&found.unchecked).iter().map(|line| format!("- {}\n", escaped(line))));
    for unchecked in
        found.unchecked.iter().filter(|unchecked| matches!(unchecked.reason, Reason::Failed(..) | Reason::Cut(_)))
    {
        let SkippedRule { rule, reason } = unchecked;
        out.push_str(&format!("- {}: {}: {}\n", capital(reason.outcome()), rule.code, escaped(&reason.sentence())));
    }
    for title in shown.gone {
        out.push_str(&format!("- Gone: {}\n", escaped(title)));
    }
    for (finding, by) in shown.suppressed {
        out.push_str(&format!(
            "- Ignored ({}): {} {}\n",
            escaped(&by.to_string()),
            finding.rule.code,
            escaped(&finding.title)
        ));
    }
    out
}

fn row(shown: &Shown<'_>, finding: &Finding, change: Option<Change>) -> String {
    let change = match change {
        Some(Change::New) => "**new** ".to_owned(),
        Some(Change::Changed(gained)) => format!("(before: {}) ", earlier_gain(finding, gained)),
        _ => String::new(),
    };
    let gain = gain(shown.found, finding).unwrap_or_else(|| "-".to_owned());
    let on = on_ranks(shown.found, finding).map_or_else(String::new, |on| format!(" ({on})"));
    let title = escaped(&finding.title);
    let at = finding.change.as_ref().map_or_else(String::new, |at| format!(" (change {})", code(&at.text())));
    format!("| {gain} | {} | {change}{} {title}{on}{at} |\n", code(&place(finding)), finding.rule.code)
}

/// Collapsed section on one finding: reason, advice, evidence and example.
fn details(finding: &Finding) -> String {
    let rule = &finding.rule;
    let example = rule.example.as_ref().map_or_else(String::new, |(before, after)| {
        format!("```python\n# before\n{before}\n# after\n{after}\n```\n\n")
    });
    let sentences: Vec<&str> =
        [&rule.why, &rule.advice].into_iter().map(|text| text.as_str()).filter(|t| !t.is_empty()).collect();
    let more = rule
        .page
        .as_ref()
        .map_or_else(String::new, |_| format!("More: `stackline findings --explain {}`\n\n", rule.code));
    format!(
        "<details><summary>{} {}: {}</summary>\n\n{}\n\nEvidence: {} ({}, confidence {}).\n\n{example}{more}</details>\n\n",
        rule.code,
        rule.name,
        escaped(&finding.title),
        sentences.join(" "),
        escaped(&evidence(finding)),
        finding.support.name(),
        finding.confidence.name(),
    )
}
