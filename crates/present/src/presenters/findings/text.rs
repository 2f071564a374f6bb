//! Findings for a terminal: the place first.

use super::{Change, Shown, before, gain, memory, missing, on_ranks, place, size, together};
use crate::presenters::human::{capital, signed_duration as signed};
use crate::presenters::terminal::{Style, clean};
use stackline_analyze::findings::{Finding, HOPE, REPLAY, Reason, STATED, Unchecked, evidence};

/// Findings as text for people.
pub fn text(shown: &Shown<'_>, style: &Style) -> String {
    let found = shown.found;
    let count = shown.listed.len() + shown.more;
    let mut out = match count {
        0 => format!("Nothing found that would gain much; {}.\n", size(found)),
        1 => format!("1 finding; {}.\n", size(found)),
        n => format!("{n} findings; {}.\n", size(found)),
    };
    if let Some(all) = together(found).filter(|_| count > 1) {
        out.push_str(&all);
        out.push('\n');
    }
    memory::together(found).iter().for_each(|line| out.push_str(&format!("{line}\n")));
    for (number, (finding, change)) in (1..).zip(shown.listed) {
        out.push('\n');
        one(&mut out, shown, (number, finding, *change), style);
    }
    out.push_str(&rest(shown, style));
    out
}

fn bold(text: &str, style: &Style) -> String {
    if style.color { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
}

fn dim(text: &str, style: &Style) -> String {
    if style.color { format!("\x1b[2m{text}\x1b[0m") } else { text.to_owned() }
}

fn one(
    out: &mut String,
    shown: &Shown<'_>,
    (number, finding, change): (usize, &Finding, Option<Change>),
    style: &Style,
) {
    let gains = gain(shown.found, finding).map_or_else(String::new, |gain| format!("  gains {gain}"));
    out.push_str(&format!("{number:>2}. {}{}\n", bold(&clean(&place(finding)), style), gains));
    let mut line = |text: &str| out.push_str(&wrapped(&clean(text), style));
    let code = format!("{} {}", finding.rule.code, finding.rule.name);
    let change = match change {
        Some(Change::New) => " (new)".to_owned(),
        Some(Change::Changed(gained)) => format!(" (gained {} before)", before(finding, gained)),
        _ => String::new(),
    };
    line(&format!("{code}{change}: {}", finding.title));
    if let Some(on) = on_ranks(shown.found, finding) {
        line(&capital(&on));
    }
    if !finding.rule.advice.is_empty() {
        line(&format!("Do: {}", finding.rule.advice));
    }
    let evidence = evidence(finding);
    let on_top = finding.on_top_ns.filter(|&ns| finding.gain.is_some_and(|gain| ns * 10 < gain.ns * 9));
    let on_top = on_top.map(|ns| format!("; {} of it once those above are mended", signed(ns.max(0))));
    let is_replayed = [REPLAY, HOPE, ""].contains(&finding.method);
    let method = match finding.method {
        _ if is_replayed => String::new(),
        STATED => "; gain as its rule states it".to_owned(),
        model => format!("; gain estimated: {model}"),
    };
    let sure = format!("{}, confidence {}", finding.support.name(), finding.confidence.name());
    out.push_str(&dim(
        &wrapped(&clean(&format!("{evidence} ({sure}{}{method})", on_top.unwrap_or_default())), style),
        style,
    ));
}

/// Lines of at most the terminal's width, indented.
fn wrapped(text: &str, style: &Style) -> String {
    const INDENT: &str = "    ";
    let width = style.width.clamp(40, 100) - INDENT.len();
    let (mut out, mut line) = (String::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            out.push_str(&format!("{INDENT}{line}\n"));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    out + &format!("{INDENT}{line}\n")
}

/// So many codes are listed behind one another.
const MOST_CODES: usize = 6;

/// Rules that could not look, by what they miss; those that failed each with where.
fn not_checked(unchecked: &[Unchecked]) -> Vec<String> {
    let mut lines = missing(unchecked, MOST_CODES);
    for Unchecked { rule, reason } in unchecked {
        if let Reason::Failed(why, traceback) = reason {
            lines.push(format!("Not checked: {}: {why}", rule.code));
            lines.extend(traceback.iter().flat_map(|text| text.lines()).map(|line| format!("  {line}")));
        }
    }
    lines
}

/// What is not in the list, and why.
fn rest(shown: &Shown<'_>, style: &Style) -> String {
    let found = shown.found;
    let mut lines = Vec::new();
    let with_page = shown.listed.iter().find(|(finding, _)| finding.rule.page.is_some());
    if let Some((finding, _)) = with_page {
        lines.push(format!("More of each: stackline findings --explain {}", finding.rule.code));
    }
    if shown.more > 0 {
        lines.push(format!("{} more: --top 0 shows all.", shown.more));
    }
    if found.small > 0 {
        lines.push(format!("{} that would gain too little are left out (--min-gain).", found.small));
    }
    lines.extend(shown.gone.iter().map(|title| format!("Gone: {title}")));
    lines.extend(
        shown.suppressed.iter().map(|(finding, by)| {
            format!("Ignored: {} {} at {} ({by})", finding.rule.code, finding.title, place(finding))
        }),
    );
    lines.extend(not_checked(&found.unchecked));
    lines.extend(found.notes.iter().map(|note| format!("Note: {note}.")));
    if lines.is_empty() {
        return String::new();
    }
    let lines: String = lines.iter().map(|line| format!("{}\n", clean(line))).collect();
    dim(&format!("\n{lines}"), style)
}
