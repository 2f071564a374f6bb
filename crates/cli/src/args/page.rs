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
}
