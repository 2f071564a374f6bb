//! Command-line arguments of `stackline what-if`: edits whose effect on the critical path is predicted.

use super::{Inputs, Range, parse_annotation, parse_instances};
use clap::{ArgAction, Args};
use stackline_critical_path::exact::what_if::Edit;

pub(super) const EXAMPLE: &str = "Selectors: kernel:NAME, operator:NAME, module:NAME, annotation:NAME, frame:NAME,
collective:NAME, sync:NAME, wait:NAME (* matches any text; ~REGEX is a regular expression),
stream:7 or stream:0/7 (device and stream), category:NAME (cause of critical-path time, such as gpu_compute),
events:12,15..18 (positions in the trace's list of events).

Examples:
  stackline what-if trace.json.gz --sweep
  stackline what-if trace.json.gz --scale 'kernel:~flash' 0.5 --remove 'sync:item()'
  stackline what-if trace.json.gz --steps 11 --fuse 'module:Block' --graph 'annotation:Optimizer*'
  stackline what-if trace.json.gz --overlap 'collective:AllReduce' --more-workers 2 --format json
  stackline what-if trace.json.gz --whole --scale 'kernel:~flash' 0.5";

/// Command-line arguments of `stackline what-if`: edits to predict, and the window.
#[derive(Args, Debug)]
pub(crate) struct WhatIfArgs {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// Predict the effect if the activities that SELECTOR matches took FACTOR times as long. Modules and annotations
    /// include the GPU work that they launch.
    #[arg(long, num_args = 2, value_names = ["SELECTOR", "FACTOR"], action = ArgAction::Append, allow_negative_numbers = true)]
    pub(crate) scale: Vec<String>,
    /// Predict the effect if each kernel or span that SELECTOR matches took NS nanoseconds.
    #[arg(long, num_args = 2, value_names = ["SELECTOR", "NS"], action = ArgAction::Append, allow_negative_numbers = true)]
    pub(crate) set: Vec<String>,
    /// Predict the effect of removing the activities that SELECTOR matches: kernels with their launches,
    /// synchronizations with their waits, spans with their waits and the GPU work that they launch.
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) remove: Vec<String>,
    /// Predict the effect of fusing kernels. In each span that SELECTOR matches, all computation kernels that it
    /// launches on the stream of its first kernel become one.
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) fuse: Vec<String>,
    /// Predict the effect of replacing all host work of each span that SELECTOR matches by one CUDA graph launch.
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) graph: Vec<String>,
    /// Predict the effect if the collectives that SELECTOR matches overlapped with other GPU work, that is, if that work
    /// did not wait for the collectives.
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) overlap: Vec<String>,
    /// Predict the effect of this many additional data loader workers: 1 to 1024.
    #[arg(long, value_name = "N", value_parser = parse_workers, allow_negative_numbers = true)]
    pub(crate) more_workers: Option<u32>,
    /// Predict the effect of edits (what-if changes) given as text, such as 'scale kernel:*gemm* 0.5'. Accepts the
    /// field `edits` of `findings --format json`, or a JSON array of such texts. @FILE reads the edits from a file, @-
    /// from standard input.
    #[arg(long, value_name = "TEXT|@FILE")]
    pub(crate) edit: Vec<String>,
    /// For the event names with the most time on the critical path, simulate changes one by one, and rank the changes
    /// by estimated gain. Ctrl-C stops early and prints the results so far.
    #[arg(long)]
    pub(crate) sweep: bool,
    /// Maximum number of changes that --sweep simulates.
    #[arg(long, value_name = "N", value_parser = parse_candidates, default_value_t = 200, requires = "sweep")]
    #[arg(allow_negative_numbers = true)]
    pub(crate) candidates: usize,
    /// Predict the time of the event whose name contains this text, instead of the steps.
    #[arg(long, value_name = "TEXT", value_parser = parse_annotation)]
    pub(crate) annotation: Option<String>,
    /// Numbers of the events to analyze among those that match --annotation: N, or A..B with both ends included.
    /// Events are numbered from 0 in the order of the file [default: 0].
    #[arg(long, value_name = "N|A..B", value_parser = parse_instances, allow_hyphen_values = true)]
    pub(crate) instance: Option<Range>,
}

/// Parse a number of additional data loader workers, 1 to 1024.
fn parse_workers(text: &str) -> Result<u32, String> {
    let number: i128 = text
        .trim()
        .parse()
        .map_err(|_| format!("{text:?} is not a whole number; write the number of additional workers, 1 to 1024"))?;
    let workers = u32::try_from(number).map_err(|_| "the number of additional workers must be 1 to 1024".to_owned())?;
    Edit::more_workers(workers)
        .map(|_| workers)
        .map_err(|_| "the number of additional workers must be 1 to 1024".to_owned())
}

/// Parse the number of edits that `--sweep` simulates, 1 or more.
fn parse_candidates(text: &str) -> Result<usize, String> {
    let number =
        text.trim().parse().map_err(|_| format!("{text:?} is not a number of changes to simulate; write 1 or more"))?;
    if number == 0 { Err("--sweep must simulate at least 1 change; write 1 or more".to_owned()) } else { Ok(number) }
}
