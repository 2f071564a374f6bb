//! Arguments of `view` and `report`, which open or write the web page.

use super::Inputs;
use clap::Args;
use std::path::PathBuf;

pub(crate) const VIEW_EXAMPLE: &str = "Examples:
  stackline view trace.json.gz
  stackline view train.stackline --port 8123 --no-open
  stackline view after.json.gz --baseline before.json.gz
  stackline view ranks/ --host lab.example

The address contains a random token, and the server accepts only local connections. From another machine, forward the
port (ssh -L 8123:127.0.0.1:8123 HOST) and open the printed address. Ctrl-C stops the server.";

pub(crate) const REPORT_EXAMPLE: &str = "Examples:
  stackline report trace.json.gz --fail-on 'idle>30%'
  stackline report trace.json.gz --html report.html
  stackline report trace.json.gz --for-agent
  stackline report after.json.gz --baseline before.json.gz --html report.html";

/// Access to source text.
#[derive(Args, Debug)]
pub(crate) struct SourceArgs {
    /// Also show source text of files below this directory; may be repeated. By default only files in the input
    /// directories are read, because a trace may name any file of this machine. The target of a symbolic link must also
    /// be in one of these directories.
    #[arg(long, value_name = "DIR")]
    pub(crate) source_root: Vec<PathBuf>,
    /// Do not show source text, neither for the input nor for --baseline.
    #[arg(long, conflicts_with = "source_root")]
    pub(crate) no_source: bool,
}

/// Arguments of `view`.
#[derive(Args, Debug)]
pub(crate) struct ViewArgs {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// Compare with this run or trace, recorded before a change.
    #[arg(long, value_name = "TRACE")]
    pub(crate) baseline: Option<PathBuf>,
    /// Port to listen on, on the loopback interface only; 0 selects a free port [default: 0].
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
    /// Print the address without opening a browser.
    #[arg(long)]
    pub(crate) no_open: bool,
    /// Also accept requests with this host name in their Host header, for access through a proxy (jupyter-server-proxy,
    /// an editor); may be repeated.
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
    /// Exit with code 4 if a share of GPU time meets this condition on any rank, such as 'idle>30%' or 'busy<90'; may
    /// be repeated.
    #[arg(long, value_name = "CONDITION", conflicts_with = "html")]
    pub(crate) fail_on: Vec<String>,
    /// Print at most 4,096 bytes of text for a language model: window, steps, critical path, findings with source
    /// locations, kernels with shapes.
    #[arg(long, conflicts_with_all = ["html", "fail_on"])]
    pub(crate) for_agent: bool,
    /// Write the web page with its data to one file, which opens without a server or network.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Compare with this run or trace, recorded before a change; the HTML file includes the comparison.
    #[arg(long, value_name = "TRACE", requires = "html")]
    pub(crate) baseline: Option<PathBuf>,
    /// Maximum size of the HTML file, in MB. If the data do not fit, the least important details are omitted.
    #[arg(long, value_name = "MB", default_value_t = 10, requires = "html")]
    pub(crate) max_size: u32,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
}
