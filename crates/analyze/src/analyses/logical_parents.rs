//! Table of events with their logical parents: causes that do not enclose them. Logical parents are the launch call of
//! a GPU operation, the forward operator of a backward operator, and the sender of work to another thread.

use crate::{Analysis, Display, TableCommand};
use stackline_model::{EventId, ParentEvidence, Table, Trace, Unit};
use stackline_timeline::{DefaultWindow, Scope};

/// The registered analysis.
pub(super) const ANALYSIS: Analysis = Analysis {
    name: "logical_parents",
    about: "Logical parents: events that cause an event without enclosing it (launch calls, forward operators, \
        senders of work to other threads), with evidence",
    tables: &["logical_parents"],
    window: DefaultWindow::Steps,
    commands: &[TableCommand::Timeline],
    display: Display::OnRequest,
    run,
};

/// Event, parent and evidence.
type Row = (EventId, EventId, ParentEvidence);

/// Create table `logical_parents` of the events in the window; with a note instead of rows if there are none.
fn run(trace: &Trace, scope: &Scope) -> Vec<Table> {
    let (host, work) = (scope.host_work(trace), scope.gpu_work(trace));
    let is_in_window = |event: EventId| match trace.gpu.of_event(event) {
        Some(operation) => work.has(operation),
        None => host.has(event),
    };
    let all: Vec<Row> = trace.logical_parents().collect();
    let rows: Vec<Row> = all.iter().copied().filter(|&(event, ..)| is_in_window(event)).collect();
    let table = table(trace, &rows);
    vec![match (all.is_empty(), rows.is_empty()) {
        (true, _) => table.note(
            "The trace has no logical parents: it links no event to a launch call, a forward operator or a sender of \
             work on another thread.",
        ),
        (false, true) => table.note(
            "The window has no logical parents: the trace links no event of the window to a launch call, a forward \
             operator or a sender of work on another thread. --whole covers the whole trace.",
        ),
        (false, false) => table,
    }]
}

/// Create table `logical_parents`: one row per pair of event and logical parent.
fn table(trace: &Trace, rows: &[Row]) -> Table {
    let children = || rows.iter().map(|&(event, ..)| event);
    let parents = || rows.iter().map(|&(_, parent, _)| parent);
    let track = |event: EventId| trace.events.track[event.index()];
    let name = |event: EventId| Some(trace.name(event).to_owned());
    let kind = |event: EventId| Some(trace.kind(event).name().to_owned());
    let process = |event: EventId| Some(trace.process_name(track(event)));
    let thread = |event: EventId| Some(trace.track_name(track(event)));
    let title =
        "Events with a logical parent: the launch call, forward operator or sender of work that caused the event";
    Table::new("logical_parents", title)
        .text("name", children().map(name))
        .text("parent", parents().map(name))
        .text("evidence", rows.iter().map(|(.., evidence)| Some(evidence.name().to_owned())))
        .text("kind", children().map(kind))
        .text("parent_kind", parents().map(kind))
        .text("process", children().map(process))
        .text("thread", children().map(thread))
        .text("parent_process", parents().map(process))
        .text("parent_thread", parents().map(thread))
        .i64("start_ns", Unit::Ns, children().map(|event| trace.events.start[event.index()]))
        .i64("parent_start_ns", Unit::Ns, parents().map(|event| trace.events.start[event.index()]))
        .i64("event", Unit::None, children().map(|event| i64::from(event.0)))
        .i64("parent_event", Unit::None, parents().map(|event| i64::from(event.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_testkit::mini;
    use stackline_testkit::tables::texts;

    #[test]
    fn launches_and_forward_operators_are_parents() {
        let json = mini::trace(
            "1/1     cpu_op               aten::mul         0..20     Sequence number=3  Fwd thread id=0
             1/1     cuda_runtime         cudaLaunchKernel  5..10     correlation=1
             gpu0/7  kernel               product           30..40    correlation=1
             1/2     cpu_op               MulBackward0      100..120  Sequence number=3  Fwd thread id=1
             1/1     user_annotation      train             0..200    External id=9
             gpu0/7  gpu_user_annotation  train             30..40    External id=9",
        );
        let trace = stackline_ingest::read_bytes("t", json.as_bytes(), &Default::default()).unwrap();
        let table = &run(&trace, &Scope::default())[0];
        assert_eq!(texts(table, "name"), ["product", "MulBackward0", "train"]);
        assert_eq!(texts(table, "parent"), ["cudaLaunchKernel", "aten::mul", "train"]);
        assert_eq!(texts(table, "evidence"), ["correlation", "sequence_number", "explicit_id"]);
        assert_eq!(texts(table, "parent_kind"), ["runtime", "operator", "annotation"]);
    }

    #[test]
    fn single_thread_trace_has_a_note_on_nesting() {
        let json = mini::trace("1/1 cpu_op aten::mul 0..20\n1/1 cpu_op aten::add 5..10");
        let trace = stackline_ingest::read_bytes("t", json.as_bytes(), &Default::default()).unwrap();
        let table = &run(&trace, &Scope::default())[0];
        assert_eq!((table.rows(), table.notes.len()), (0, 1));
    }
}
