//! Command `check`: reports causality violations, unmatched events and missing fields of a trace.

use crate::args::{Common, Format, Inputs};
use crate::output::Answer;
use crate::session::Session;
use crate::view::{rows, select, text};
use anyhow::Result;
use stackline_analyze::TableCommand;
use stackline_analyze::analyses::analyses_for;
use stackline_model::Table;

/// Run `stackline check`: check traces for inconsistent events and print the results.
pub(crate) fn run(inputs: &Inputs, common: &Common) -> Result<()> {
    let session = Session::open(&inputs.inputs, common)?;
    let tables = session.select_tables(session.run(analyses_for(TableCommand::Check))?)?;
    let people = common.format == Format::Table && common.tables.is_empty();
    let shown = people.then(|| tables.iter().map(for_people).collect());
    let head = if people { summary(&tables) } else { String::new() };
    Answer { command: "check", session: &session, extra: Vec::new(), tables, head, shown }.write(common)
}

/// Number of passed and failed checks, in one line.
fn summary(tables: &[Table]) -> String {
    let Some(checks) = tables.iter().find(|t| t.name == "checks") else { return String::new() };
    let count = |state: &str| (0..checks.rows()).filter(|&row| text(checks, "state", row) == Some(state)).count();
    format!(
        "Checks of the trace: {} failed, {} passed, {} do not apply.\n",
        count("failed"),
        count("passed"),
        count("not applicable")
    )
}

/// Reduce a table of `stackline check` to rows and columns for people, with a note (rule, consequence) for each failed
/// check. Other tables are unchanged.
fn for_people(table: &Table) -> Table {
    match table.name.as_str() {
        "checks" => {}
        "check_events" => return select(table, &["rank", "check", "event", "name", "start_ns", "what"]),
        _ => return table.clone(),
    }
    let columns = ["rank", "check", "state", "breaches", "checked"];
    let applies: Vec<usize> =
        (0..table.rows()).filter(|&row| text(table, "state", row) != Some("not applicable")).collect();
    let mut shown = select(&rows(table, &applies), &columns);
    for row in 0..table.rows() {
        if let (Some(check), Some(rule), Some(consequence)) =
            (text(table, "check", row), text(table, "rule", row), text(table, "consequence", row))
        {
            let note = format!("{check} failed. Rule: {rule}. Consequence: {consequence}.");
            if !shown.notes.contains(&note) {
                shown.notes.push(note);
            }
        }
    }
    shown
}
