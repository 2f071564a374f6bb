//! `export`: memory traces in their text form.

use crate::args::{Common, ExportArgs};
use crate::failure::wrong_use;
use crate::output::{say, to_output};
use crate::session::{not_an_input, open_options};
use anyhow::Result;
use stackline_ingest::memory::text;
use stackline_present::human;

/// Writes the text form of the memory trace of one input.
pub(super) fn run(args: &ExportArgs, common: &Common) -> Result<()> {
    if common.steps.is_some() || common.rank.is_some() {
        return Err(wrong_use("a memory trace has neither steps nor ranks to choose from"));
    }
    if args.redact {
        return Err(wrong_use("--redact is for traces: the text form is names, places and sizes"));
    }
    let [input] = &args.inputs.inputs[..] else {
        return Err(wrong_use("this export writes one memory trace: give one input"));
    };
    if let Some(target) = &common.output {
        not_an_input(target, std::slice::from_ref(input))?;
    }
    let trace = stackline_engine::open_memory(input, &open_options(common))?;
    let (written, left_out) = text::write_counted(&trace);
    to_output(common, |out| out.write_all(written.as_bytes()))?;
    if left_out > 0 {
        let count = usize::try_from(left_out).unwrap_or(usize::MAX);
        say(&format!(
            "{} left out: accesses to what is not alive, bytes that an object does not have, waits for what is no event.",
            human::count(count)
        ))?;
    }
    Ok(())
}
