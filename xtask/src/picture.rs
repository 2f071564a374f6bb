//! Draw `docs/img/report.svg`: the output of `stackline report` for the demo trace, as a picture of a terminal.
//!
//! The picture is made from real output, so it cannot promise more than the tool shows. `picture --check` fails if it
//! is out of date.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::files;

/// Columns of the pictured terminal.
const COLUMNS: usize = 100;
/// Most lines shown; the rest is cut with a note.
const LINES: usize = 46;
/// Size of one character cell, in pixels.
const CELL: (f64, f64) = (7.8, 17.0);
/// Path of the picture below the repository's root.
const PATH: &str = "docs/img/report.svg";

/// Draw the picture, or with `check` compare it with the committed one.
pub(crate) fn run(check: bool) -> Result<()> {
    let programs = files::programs();
    let folder = files::target().join("demo");
    std::fs::create_dir_all(&folder)?;
    output(Command::new(programs.join("stackline-synth")).args(["demo", "demo.json.gz"]).current_dir(&folder))?;
    let report = output(
        Command::new(programs.join("stackline"))
            .args(["report", "demo.json.gz"])
            .current_dir(&folder)
            .env("COLUMNS", COLUMNS.to_string()),
    )?;
    let picture = draw("stackline report demo.json.gz", &report);
    let path = files::root().join(PATH);
    if check {
        let old = std::fs::read_to_string(&path).unwrap_or_default();
        ensure!(old == picture, "{PATH} is out of date; make it anew with: cargo run -p xtask -- picture");
        println!("picture: {PATH} is up to date");
        return Ok(());
    }
    std::fs::create_dir_all(path.parent().unwrap_or_else(|| Path::new(".")))?;
    std::fs::write(&path, picture).with_context(|| path.display().to_string())?;
    println!("picture: wrote {PATH}");
    Ok(())
}

/// Run a command; returns its standard output, or an error if it fails.
fn output(command: &mut Command) -> Result<String> {
    let out = command.output().with_context(|| format!("cannot run {command:?}; ./dev run builds it"))?;
    if !out.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(String::from_utf8(out.stdout)?)
}

/// Draw a command and its output as an SVG picture of a terminal.
fn draw(command: &str, text: &str) -> String {
    let mut lines: Vec<String> = vec![format!("$ {command}"), String::new()];
    lines.extend(text.lines().flat_map(wrap));
    if lines.len() > LINES {
        lines.truncate(LINES);
        lines.push("…".to_owned());
    }
    let (width, height) = (CELL.0 * COLUMNS as f64 + 32.0, CELL.1 * lines.len() as f64 + 56.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\n\
         <title>{}</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#14181d\"/>\n\
         <circle cx=\"18\" cy=\"17\" r=\"5\" fill=\"#e06c75\"/><circle cx=\"36\" cy=\"17\" r=\"5\" fill=\"#e5c07b\"/>\
         <circle cx=\"54\" cy=\"17\" r=\"5\" fill=\"#98c379\"/>\n\
         <g font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"13\" fill=\"#d7dce2\" xml:space=\"preserve\">\n",
        escape(command)
    );
    for (row, line) in lines.iter().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let indent = line.chars().take_while(|c| *c == ' ').count();
        let shown = line.trim();
        // A fixed length per line keeps columns straight in any font.
        let length = CELL.0 * shown.chars().count() as f64;
        let color = if row == 0 { " fill=\"#98c379\"" } else { "" };
        let (x, y) = (16.0 + CELL.0 * indent as f64, 48.0 + CELL.1 * row as f64);
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y:.0}\" textLength=\"{length:.1}\" lengthAdjust=\"spacingAndGlyphs\"{color}>{}</text>",
            paint_bars(shown)
        );
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// Split a long line into rows of the picture, the later ones indented, as a terminal would show them.
fn wrap(line: &str) -> Vec<String> {
    let mut rows = vec![String::new()];
    for word in line.split_inclusive(' ') {
        let last = rows.len() - 1;
        if rows[last].chars().count() + word.trim_end().chars().count() > COLUMNS && !rows[last].trim().is_empty() {
            rows.push(format!("  {word}"));
        } else {
            rows[last].push_str(word);
        }
    }
    rows
}

/// Escape a text for SVG, with its bars (block characters) in color.
fn paint_bars(text: &str) -> String {
    let bar = |c: char| ('\u{2588}'..='\u{258f}').contains(&c);
    let mut out = String::new();
    for part in text.split_inclusive(' ') {
        match part.starts_with(bar) {
            true => {
                let _ = write!(out, "<tspan fill=\"#61afef\">{part}</tspan>");
            }
            false => out.push_str(&escape(part)),
        }
    }
    out
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    #[test]
    fn escapes_and_cuts() {
        let svg = super::draw("x", &"a < b\n".repeat(100));
        assert_eq!(svg.matches("a &lt; b").count(), super::LINES - 2);
        assert!(svg.contains('…'));
    }
}
