//! Findings of recordings without single calls, and of profiles.

use super::own::OwnRules;
use super::suppress::Suppressions;
use crate::args::Common;
use crate::commands::calls::read_report_of;
use crate::commands::doctor_calls;
use crate::failure::{one_alone, wrong_use};
use crate::session::Session;
use anyhow::{Error, Result};
use stackline_analyze::calls::fold_imports;
use stackline_analyze::findings::{Finding, Findings, Options, files_of_calls, find_in_calls};
use stackline_model::TraceSet;
use std::path::PathBuf;

/// What is found in the calls of an input, if it holds sums of calls and nothing else, which is the error that opening its traces ended
/// with; that error, if it does not.
pub(super) fn instead<'a>(
    error: Error,
    (inputs, common): (&[PathBuf], &'a Common),
    (options, own): (&Options, Option<OwnRules>),
    suppressions: &Suppressions,
    keep: &dyn Fn(&Finding) -> bool,
) -> Result<(Session<'a>, Findings)> {
    let Some((run, streams)) = doctor_calls::instead_of(&error) else { return Err(error) };
    // Standard input was read to its end.
    if run.as_os_str() == "-" {
        return Err(error);
    }
    one_alone(inputs, &run)?;
    let tree = fold_imports(doctor_calls::open((&run, &streams))?);
    suppressions.note_files(files_of_calls(&tree));
    let others = own.map(OwnRules::finish).transpose()?.unwrap_or_default();
    let found = find_in_calls(&tree, common.rank, options, &others, keep);
    let found = found.map_err(|reason| wrong_use(format!("{}: {reason}", run.display())))?;
    let mut session = Session::empty(common);
    session.set = TraceSet { traces: vec![read_report_of(&run, &tree)] };
    Ok((session, found))
}
