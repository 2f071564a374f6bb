//! TraceLens' `ops_summary_by_category`: GPU time by operator category.

use crate::op_groups;
use crate::op_groups::GroupKey;
use crate::{Analysis, Display, TableCommand};
use stackline_model::{StrId, Table, Trace, Unit};
use stackline_timeline::gpu_view::{Definition, GpuView, Launchers};
use stackline_timeline::{DefaultWindow, Scope};

/// The registered analysis.
pub(super) const OPS_SUMMARY_BY_CATEGORY: Analysis = Analysis {
    name: "ops_summary_by_category",
    about: "GPU time by operator category: GEMM, convolution, attention, ...",
    tables: &["ops_summary_by_category", "ops_summary_by_category_and_module"],
    window: DefaultWindow::Steps,
    commands: &[TableCommand::Operators],
    display: Display::All,
    run: |trace, scope| tables(trace, scope, Definition::Exact),
};

/// GPU time by operator category, and a second table by category and `nn.Module` if the trace records modules.
pub fn tables(trace: &Trace, scope: &Scope, definition: Definition) -> Vec<Table> {
    let view = GpuView::new(trace, scope, definition);
    let launchers = Launchers::find(&view);
    let title = "GPU time by operator category";
    let mut tables = vec![table(&view, &launchers, "ops_summary_by_category", title, false)];
    if launchers.list.iter().any(|l| l.module.is_some()) {
        let title = "GPU time by operator category and module";
        tables.push(table(&view, &launchers, "ops_summary_by_category_and_module", title, true));
    }
    tables
}

/// Create a table of GPU time by operator category; with `by_module`, by category and class of the `nn.Module`.
fn table(view: &GpuView<'_>, launchers: &Launchers, name: &str, title: &str, by_module: bool) -> Table {
    let trace = view.trace;
    let groups = op_groups::group(launchers, |l| GroupKey {
        name: StrId::NONE,
        module: if by_module { op_groups::module_type(trace, l.module) } else { None },
        category: Some(l.category),
        recompute: (!by_module && launchers.any_recompute).then_some(l.recompute),
    });
    let table = Table::new(name, title).text("category", groups.iter().map(|g| g.by.category.map(str::to_owned)));
    let table = op_groups::add_key_columns(table, trace, &groups, by_module, launchers.any_recompute);
    let table = table.i64("count", Unit::None, groups.iter().map(|g| g.members.len() as i64)).f64(
        "direct_us",
        Unit::Us,
        groups.iter().map(|g| g.direct_us),
    );
    op_groups::add_share_columns(table, &groups).note(view.coverage_note())
}
