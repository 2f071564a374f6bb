//! Table of consistency checks ([`crate::checks`]), one row per check, and table of events that fail one.

use crate::checks::{ALL, Check, Outcome};
use crate::{Analysis, Display, TableCommand};
use stackline_model::{EventId, Table, Trace, Unit};
use stackline_timeline::{DefaultWindow, Scope};

/// The registered analysis.
pub(super) const CHECKS: Analysis = Analysis {
    name: "checks",
    about: "Consistency checks: causality violations, unmatched records and missing fields, with counts and events",
    tables: &["checks", "check_events"],
    window: DefaultWindow::Own,
    commands: &[TableCommand::Check],
    display: Display::All,
    run,
};

/// Maximum number of listed events per check.
const LISTED: usize = 100;

/// Run all checks on the whole trace. Returns a table of the checks and one of the first [`LISTED`] failing events of
/// each.
fn run(trace: &Trace, _: &Scope) -> Vec<Table> {
    let outcomes: Vec<(&Check, Outcome)> = ALL.iter().map(|check| (check, (check.run)(trace))).collect();
    let state = |outcome: &Outcome| match (outcome.checked, outcome.breaches.len()) {
        (0, 0) => "not applicable",
        (_, 0) => "passed",
        _ => "failed",
    };
    let failed = |o: &(&Check, Outcome)| (!o.1.breaches.is_empty()).then(|| o.0.consequence.to_owned());
    let checks = Table::new("checks", "Consistency checks of the trace")
        .text("check", outcomes.iter().map(|(check, _)| check.name.to_owned()))
        .text("state", outcomes.iter().map(|(_, outcome)| state(outcome).to_owned()))
        .i64("breaches", Unit::None, outcomes.iter().map(|(_, outcome)| outcome.breaches.len() as i64))
        .i64("checked", Unit::None, outcomes.iter().map(|(_, outcome)| outcome.checked as i64))
        .text("rule", outcomes.iter().map(|(check, _)| check.rule.to_owned()))
        .text("consequence", outcomes.iter().map(failed));
    let listed = |(check, outcome): &(&Check, Outcome)| {
        let name = check.name;
        outcome.breaches.iter().take(LISTED).map(move |(event, why)| (name, *event, why.clone())).collect::<Vec<_>>()
    };
    let rows: Vec<(&str, EventId, String)> = outcomes.iter().flat_map(listed).collect();
    // Relative to the trace's start, as in tables of steps and the critical path of the whole trace.
    let origin = trace.span().map_or(0, |span| span.0);
    let start = |event: EventId| trace.events.start[event.index()].saturating_sub(origin);
    let events = Table::new("check_events", "Events that fail a check")
        .text("check", rows.iter().map(|row| row.0.to_owned()))
        .i64("event", Unit::None, rows.iter().map(|row| i64::from(trace.events.source_index[row.1.index()])))
        .text("name", rows.iter().map(|row| trace.name(row.1).to_owned()))
        .i64("start_ns", Unit::Ns, rows.iter().map(|row| start(row.1)))
        .i64("dur_ns", Unit::Ns, rows.iter().map(|row| trace.events.dur[row.1.index()]))
        .text("what", rows.iter().map(|row| row.2.clone()));
    let cut = outcomes.iter().any(|(_, outcome)| outcome.breaches.len() > LISTED);
    let note = format!(
        "The table shows only the first {LISTED} events that fail each check. Column event: position in the file's \
         event list, counted from 0."
    );
    vec![checks, if cut { events.note(note) } else { events }]
}
