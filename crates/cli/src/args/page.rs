//! Arguments of what opens the page.

use super::Inputs;
use clap::Args;
use std::path::PathBuf;

pub(crate) const VIEW_EXAMPLE: &str = "Examples:
  stackline view trace.json.gz
  stackline view train.stackline --port 8123 --no-open
  stackline view after.json.gz --baseline before.json.gz
  stackline view ranks/ --host lab.example

The address holds a random token, and the server answers this machine alone. On another machine: forward the port
(ssh -L 8123:127.0.0.1:8123 HOST), then open the printed address. Ctrl-C ends it.";

pub(crate) const REPORT_EXAMPLE: &str = "Examples:
  stackline report trace.json.gz --fail-on 'idle>30%'
  stackline report trace.json.gz --html report.html
  stackline report trace.json.gz --for-agent
  stackline report after.json.gz --baseline before.json.gz --html report.html";

/// Which source text may be read.
#[derive(Args, Debug)]
pub(crate) struct SourceArgs {
    /// Read source text below this directory, links resolved; may be repeated. Without it, only below inputs that are
    /// directories: a trace may name any file.
    #[arg(long, value_name = "DIR")]
    pub(crate) source_root: Vec<PathBuf>,
    /// Read no source text, nor that of --baseline.
    #[arg(long, conflicts_with = "source_root")]
    pub(crate) no_source: bool,
}

/// Arguments of `view`.
#[derive(Args, Debug)]
pub(crate) struct ViewArgs {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// Compare with this run or trace, from before a change.
    #[arg(long, value_name = "TRACE")]
    pub(crate) baseline: Option<PathBuf>,
    /// Port to listen on, on this machine alone; 0 takes a free one.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
    /// Print the address, and open no browser.
    #[arg(long)]
    pub(crate) no_open: bool,
    /// Name that a proxy in front asks by (jupyter-server-proxy, an editor); may be repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
}

/// Arguments of `report`.
#[derive(Args, Debug)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// Exit with code 4 if this holds for any rank: a share of the GPU's window, such as 'idle>30%' or 'busy<90'; may
    /// be repeated.
    #[arg(long, value_name = "CONDITION", conflicts_with = "html")]
    pub(crate) fail_on: Vec<String>,
    /// At most 4,096 bytes of text for a language model: window, steps, critical path, findings with their places, kernels with
    /// their shapes.
    #[arg(long, conflicts_with_all = ["html", "fail_on"])]
    pub(crate) for_agent: bool,
    /// Write the page with what it shows into one file that opens anywhere, without a server or a network.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Compare with this run or trace, from before a change: the file holds the comparison, too.
    #[arg(long, value_name = "TRACE", requires = "html")]
    pub(crate) baseline: Option<PathBuf>,
    /// How large that file may become, in MB: what matters least is left out first.
    #[arg(long, value_name = "MB", default_value_t = 10, requires = "html")]
    pub(crate) max_size: u32,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
}
