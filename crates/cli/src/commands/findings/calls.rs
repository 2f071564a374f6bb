//! Findings for inputs that contain only a call tree: profiles, and recordings without individual calls.

use super::python_rules::PythonRules;
use super::suppress::Suppressions;
use crate::args::Common;
use crate::commands::calls::read_report_of;
use crate::failure::wrong_use;
use crate::session::{Session, reading};
use anyhow::Result;
use stackline_calls::fold_imports;
use stackline_engine::Run;
use stackline_findings::{Finding, Findings, Options, files_of_calls, find_in_calls};

/// Search a call tree without individual calls (a profile, or a recording of totals) for findings.
pub(super) fn find_in_call_tree<'a>(
    run: &Run,
    common: &'a Common,
    (options, own): (&Options, Option<PythonRules>),
    suppressions: &Suppressions,
    keep: &dyn Fn(&Finding) -> bool,
) -> Result<(Session<'a>, Findings)> {
    let path = &run.inputs()[0];
    let tree = fold_imports(reading(run, Run::profile)?);
    suppressions.note_files(files_of_calls(&tree));
    let others = own.map(PythonRules::finish).transpose()?.unwrap_or_default();
    let found = find_in_calls(&tree, common.rank, options, &others, keep);
    let found = found.map_err(|reason| wrong_use(format!("{}: {reason}", path.display())))?;
    Ok((Session::from_reports(vec![read_report_of(path, &tree)], common), found))
}
