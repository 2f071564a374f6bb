//! `view`: the page in the browser.

use crate::args::{Common, ViewArgs};
use crate::failure::wrong_use;
use crate::output::{say, to_output};
use crate::progress::Progress;
use anyhow::Result;
use stackline_engine::{OpenOptions, Watch};
use stackline_query::Opened;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Runs the command until it is told to stop.
pub(crate) fn run(args: &ViewArgs, common: &Common) -> Result<()> {
    if common.steps.is_some() || common.rank.is_some() {
        return Err(wrong_use("the page shows all steps and ranks: choose there, and leave --steps and --rank out"));
    }
    let mut opened = open(&args.inputs.inputs, common)?;
    if let Some(baseline) = &args.baseline {
        opened = opened.compared_with(open(std::slice::from_ref(baseline), common)?);
    }
    if !stackline_serve::is_built() {
        say("this program was built without its page: the address tells how to build it")?;
    }
    let server = stackline_serve::serve(Arc::new(opened), args.port, args.host.clone())?;
    let url = server.url.clone();
    let mut told = Ok(());
    let served = server.run_until_interrupted(|| told = tell(&url, args, common));
    told?;
    Ok(served?)
}

/// Tells the address, and opens it.
fn tell(url: &str, args: &ViewArgs, common: &Common) -> Result<()> {
    to_output(common, |out| writeln!(out, "{url}"))?;
    if !args.no_open && !open_browser(url) {
        say("no browser could be started; open the address above")?;
    }
    say("Ctrl-C ends the server.")
}

/// Opens the inputs of a page.
pub(super) fn open(inputs: &[std::path::PathBuf], common: &Common) -> Result<Opened> {
    let watch = Watch::new();
    let progress = Progress::start(&watch);
    let options = OpenOptions { threads: common.threads, clip_overlaps: common.clip_overlaps, watch };
    let opened = Opened::open(inputs, &options);
    drop(progress);
    Ok(opened?)
}

/// Starts the user's browser, if there is a screen to show it on.
fn open_browser(url: &str) -> bool {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if cfg!(target_os = "linux") && !set("DISPLAY") && !set("WAYLAND_DISPLAY") && !set("BROWSER") {
        return false;
    }
    let quiet = Command::new(program).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    quiet.is_ok()
}
