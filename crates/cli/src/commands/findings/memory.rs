//! Findings of inputs with only memory data.

use crate::args::Common;
use crate::commands::memory::described;
use crate::failure::wrong_use;
use crate::session::{Session, reading};
use anyhow::Result;
use stackline_engine::Run;
use stackline_findings::{Finding, Findings, Options};

/// Search a file that has only memory data for findings.
pub(super) fn find_in_memory<'a>(
    run: &Run,
    common: &'a Common,
    (options, has_own): (&Options, bool),
    keep: &dyn Fn(&Finding) -> bool,
) -> Result<(Session<'a>, Findings)> {
    if has_own {
        return Err(wrong_use(format!(
            "Python rules analyze execution traces, and {} contains only memory data; leave out --rules",
            run.name()
        )));
    }
    if common.steps.is_some() {
        return Err(wrong_use("--steps and --rank do not apply to a memory trace, which has no steps or ranks"));
    }
    let trace = reading(run, |run| run.memory(None))?;
    let found = stackline_engine::findings_of_memory(&trace, options, keep);
    Ok((Session::from_reports(vec![described(&trace)], common), found))
}
