//! TraceLens' `ops_summary`: GPU time by name of the launching operator.

use crate::op_groups;
use crate::op_groups::GroupKey;
use crate::{Analysis, Display, TableCommand};
use stackline_model::{Table, Trace, Unit};
use stackline_timeline::gpu_view::{Definition, GpuView, Launchers};
use stackline_timeline::{DefaultWindow, Scope};

/// The registered analysis.
pub(super) const OPS_SUMMARY: Analysis = Analysis {
    name: "ops_summary",
    about: "GPU time by launching operator",
    tables: &["ops_summary", "ops_summary_by_module"],
    window: DefaultWindow::Steps,
    commands: &[TableCommand::Operators],
    display: Display::All,
    run: |trace, scope| tables(trace, scope, Definition::Exact),
};

/// GPU time by operator, and a second table by operator and `nn.Module` if the trace records modules.
pub fn tables(trace: &Trace, scope: &Scope, definition: Definition) -> Vec<Table> {
    let view = GpuView::new(trace, scope, definition);
    let launchers = Launchers::find(&view);
    let title = "GPU time by launching operator";
    let mut tables = vec![table(&view, &launchers, "ops_summary", title, false)];
    if launchers.list.iter().any(|l| l.module.is_some()) {
        let title = "GPU time by launching operator and module";
        tables.push(table(&view, &launchers, "ops_summary_by_module", title, true));
    }
    tables
}

/// Create a table of GPU time by launching operator; with `by_module`, by operator and class of the `nn.Module`.
fn table(view: &GpuView<'_>, launchers: &Launchers, name: &str, title: &str, by_module: bool) -> Table {
    let trace = view.trace;
    let groups = op_groups::group(launchers, |l| GroupKey {
        name: trace.events.name[l.event.index()],
        module: if by_module { op_groups::module_type(trace, l.module) } else { None },
        category: None,
        recompute: (!by_module && launchers.any_recompute).then_some(l.recompute),
    });
    let table = Table::new(name, title).text("name", groups.iter().map(|g| Some(g.name(trace))));
    let table = op_groups::add_key_columns(table, trace, &groups, by_module, launchers.any_recompute);
    let table = table
        .text("categories", groups.iter().map(|g| Some(g.categories().join(", "))))
        .i64("count", Unit::None, groups.iter().map(|g| g.members.len() as i64))
        .f64("direct_us", Unit::Us, groups.iter().map(|g| g.direct_us))
        .f64("subtree_us", Unit::Us, groups.iter().map(|g| g.subtree_us));
    op_groups::add_share_columns(table, &groups).note(view.coverage_note())
}
