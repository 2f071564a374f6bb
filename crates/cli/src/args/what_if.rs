//! Arguments of `what-if`.

use super::{Inputs, Range, parse_annotation, parse_instances};
use clap::{ArgAction, Args};
use stackline_critical_path::exact::what_if::Edit;

pub(super) const EXAMPLE: &str = "Selectors: kernel:NAME, operator:NAME, module:NAME, annotation:NAME, frame:NAME,
collective:NAME, sync:NAME, wait:NAME (* stands for any text; ~REGEX is a regular expression),
stream:7 or stream:0/7 (device and stream), category:gpu_compute and so on,
events:12,15..18 (position in the trace's list of events).

Examples:
  stackline what-if trace.json.gz --sweep
  stackline what-if trace.json.gz --scale 'kernel:~flash' 0.5 --remove 'sync:item()'
  stackline what-if trace.json.gz --steps 11 --fuse 'module:Block' --graph 'annotation:Optimizer*'
  stackline what-if trace.json.gz --overlap 'collective:AllReduce' --more-workers 2 --format json
  stackline what-if trace.json.gz --whole --scale 'kernel:~flash' 0.5";

/// Arguments of `what-if`.
#[derive(Args, Debug)]
pub(crate) struct WhatIfArgs {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// These take FACTOR times as long; modules and annotations with the GPU work that they launch.
    #[arg(long, num_args = 2, value_names = ["SELECTOR", "FACTOR"], action = ArgAction::Append, allow_negative_numbers = true)]
    pub(crate) scale: Vec<String>,
    /// Each of these kernels or spans takes this many ns.
    #[arg(long, num_args = 2, value_names = ["SELECTOR", "NS"], action = ArgAction::Append, allow_negative_numbers = true)]
    pub(crate) set: Vec<String>,
    /// These are gone: kernels with their launches, synchronizations with their waits, spans with the GPU work that they
    /// launch and the waits in them.
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) remove: Vec<String>,
    /// The kernels that one such span launches on its first stream become one.
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) fuse: Vec<String>,
    /// One graph launch takes the place of all host work of such a span.
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) graph: Vec<String>,
    /// No GPU work waits for these collectives any more.
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) overlap: Vec<String>,
    /// So many more workers load data: 1 to 1024.
    #[arg(long, value_name = "N", value_parser = parse_workers, allow_negative_numbers = true)]
    pub(crate) more_workers: Option<u32>,
    /// These edits, as `findings --format json` has them; @FILE reads them from a file, @- from standard input.
    #[arg(long, value_name = "TEXT|@FILE")]
    pub(crate) edit: Vec<String>,
    /// Try what has most time on the critical path, one by one, and rank it by gain. Ctrl-C prints what there is.
    #[arg(long)]
    pub(crate) sweep: bool,
    /// How many edits to try at most.
    #[arg(long, value_name = "N", value_parser = parse_candidates, default_value_t = 200, requires = "sweep")]
    #[arg(allow_negative_numbers = true)]
    pub(crate) candidates: usize,
    /// The window: the event whose name contains this text instead of the steps.
    #[arg(long, value_name = "TEXT", value_parser = parse_annotation)]
    pub(crate) annotation: Option<String>,
    /// Which of these events, from 0 in the order of the source: N, or A..B with both ends included [default: 0].
    #[arg(long, value_name = "N|A..B", value_parser = parse_instances, allow_hyphen_values = true)]
    pub(crate) instance: Option<Range>,
}

/// Parses a number of workers; how many are too many the edit itself knows.
fn parse_workers(text: &str) -> Result<u32, String> {
    let number: i128 = text.trim().parse().map_err(|_| format!("{text:?} is not a number of workers"))?;
    let workers = u32::try_from(number).map_err(|_| "more workers are 1 to 1024".to_owned())?;
    Edit::more_workers(workers).map(|_| workers).map_err(|_| "more workers are 1 to 1024".to_owned())
}

/// Parses a number of edits to try.
fn parse_candidates(text: &str) -> Result<usize, String> {
    let number =
        text.trim().parse().map_err(|_| format!("{text:?} is not a count; write a whole number, 1 or more"))?;
    if number == 0 { Err("a sweep tries at least 1 edit".to_owned()) } else { Ok(number) }
}
