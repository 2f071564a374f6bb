//! `import`: traces to a run directory.

use crate::args::{Common, ImportArgs};
use crate::failure::wrong_use;
use crate::output::{may_become_run, save_run, say};
use crate::session::Session;
use anyhow::Result;
use stackline_present::human;
use stackline_query::Content;

/// Runs the command.
pub(crate) fn run(args: &ImportArgs, common: &Common) -> Result<()> {
    let Some(run) = &common.output else {
        return Err(wrong_use("import needs a place for the run: add -o NAME.stackline"));
    };
    if common.steps.is_some() {
        return Err(wrong_use("import takes traces whole: --steps is for the commands that look at them"));
    }
    may_become_run(run, args.force)?;
    let session = Session::open(&args.inputs.inputs, common)?;
    // Worked out before the run gets its name: what is kept there must be of this run and no other.
    let whole =
        common.rank.is_none().then(|| Content::compute(&session.set, &session.infos, &session.run_options(), true));
    let report = whole.transpose()?;
    save_run(&session.set, run, args.force)?;
    if let Some(report) = report {
        report.keep(run);
    }
    let events: usize = session.infos.iter().map(|i| i.events).sum();
    say(&format!(
        "{}: {} events of {} {}. Next: stackline report {}",
        run.display(),
        human::count(events),
        session.infos.len(),
        if session.infos.len() == 1 { "trace" } else { "traces" },
        run.display()
    ))?;
    session.say_read_report()
}
