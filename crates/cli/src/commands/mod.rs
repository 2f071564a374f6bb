//! Commands of the `stackline` program, one module per command.

mod calls;
mod check;
mod critical_path;
mod diff;
mod doctor;
mod doctor_advice;
mod doctor_calls;
mod doctor_memory;
mod export;
mod export_calls;
mod export_memory;
mod fail_on;
mod findings;
mod generate;
mod import;
mod limit;
mod memory;
mod overhead;
mod overlay;
mod process_ends;
#[cfg(target_os = "linux")]
mod record;
mod report;
mod report_for_agent;
mod report_tables;
pub(crate) mod table_names;
mod tables;
mod view;
mod what_if;

use crate::args::{Cli, Command};
use crate::failure::{CONDITION_HELD, DONE};
use anyhow::Result;
use stackline_analyze::TableCommand;

/// Run the command that the arguments select, and return the exit code.
pub(crate) fn run(cli: &Cli) -> Result<u8> {
    let common = &cli.common;
    let name = cli.command.name();
    match &cli.command {
        Command::Report(args) => {
            let held = report::run(args, common)?;
            return Ok(if held { CONDITION_HELD } else { DONE });
        }
        Command::Findings(args) => {
            let held = findings::run(args, common)?;
            return Ok(if held { CONDITION_HELD } else { DONE });
        }
        Command::Diff(args) => {
            let held = diff::run(args, common)?;
            return Ok(if held { CONDITION_HELD } else { DONE });
        }
        Command::View(args) => view::run(args, common)?,
        Command::CriticalPath(args) => critical_path::run(args, common)?,
        Command::WhatIf(args) => what_if::run(args, common)?,
        #[cfg(target_os = "linux")]
        Command::Record(args) => return record::run(args, common),
        #[cfg(not(target_os = "linux"))]
        Command::Record(_) => return Err(crate::failure::wrong_use("`stackline record` works only on Linux")),
        Command::Calls(args) => calls::run(args, common).map(drop)?,
        Command::Memory(args) => {
            let held = memory::run(args, common)?;
            return Ok(if held { CONDITION_HELD } else { DONE });
        }
        Command::Import(args) => import::run(args, common)?,
        Command::Steps(args) => tables::run(name, TableCommand::Steps, args, common)?,
        Command::Kernels(args) => tables::run(name, TableCommand::Kernels, args, common)?,
        Command::Operators(args) => tables::run(name, TableCommand::Operators, args, common)?,
        Command::Collectives(args) => tables::run(name, TableCommand::Collectives, args, common)?,
        Command::Timeline(args) => tables::run(name, TableCommand::Timeline, args, common)?,
        Command::Export(args) => export::run(args, common)?,
        Command::Check(args) => check::run(args, common)?,
        Command::Doctor(args) => doctor::run(args, common)?,
        Command::Completions { shell } => generate::completions(*shell, common)?,
        Command::Man => generate::man(common)?,
    }
    Ok(DONE)
}
