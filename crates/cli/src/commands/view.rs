//! Command `view`: a local server with the web page.

use crate::args::{Common, SourceArgs, ViewArgs};
use crate::failure::wrong_use;
use crate::output::{print_message, to_output};
use crate::progress::ProgressDisplay;
use anyhow::Result;
use stackline_engine::{OpenOptions, Progress};
use stackline_query::OpenRun;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use tempfile::NamedTempFile;

/// Run `stackline view`: serve the interactive page until Ctrl-C.
pub(crate) fn run(args: &ViewArgs, common: &Common) -> Result<()> {
    if common.steps.is_some() || common.rank.is_some() {
        return Err(wrong_use(
            "leave --steps and --rank out: the page contains all steps and ranks, and you can select them there",
        ));
    }
    let opened = open(&args.inputs.inputs, args.baseline.as_ref(), &args.source, common)?;
    if !stackline_serve::is_built() {
        print_message("this program was built without its web page; the address below explains how to build it")?;
    }
    let server = stackline_serve::serve(Arc::new(opened), args.port, args.host.clone())?;
    let url = server.url.clone();
    // The page that leads to the address stays as long as the server.
    let mut started = Ok(None);
    let served = server.run_until_interrupted(|| started = announce(&url, args, common));
    started?;
    Ok(served?)
}

/// Print the page's address and open the browser. Returns the temporary file that redirects the browser; `None` if no
/// browser was opened.
fn announce(url: &str, args: &ViewArgs, common: &Common) -> Result<Option<NamedTempFile>> {
    to_output(common, |out| writeln!(out, "{url}"))?;
    let way = if args.no_open { None } else { redirect(url).ok().filter(|way| open_browser(way.path())) };
    if way.is_none() && !args.no_open {
        print_message("no browser could be started; open the address above")?;
    }
    print_message("Press Ctrl-C to stop the server.")?;
    Ok(way)
}

/// Create a temporary HTML file that redirects to the server's address, which contains the access token. Only the owner
/// can read the file, while everyone can read the command line of a browser.
fn redirect(url: &str) -> io::Result<NamedTempFile> {
    let mut page = tempfile::Builder::new().prefix("stackline-").suffix(".html").tempfile()?;
    writeln!(
        page,
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0;url={url}\">\
         <title>Stackline</title><p><a href=\"{url}\">Open Stackline</a></p>"
    )?;
    page.flush()?;
    Ok(page)
}

/// Open the inputs of the web page, with an optional baseline run to compare with.
pub(super) fn open(
    inputs: &[PathBuf],
    baseline: Option<&PathBuf>,
    source: &SourceArgs,
    common: &Common,
) -> Result<OpenRun> {
    if let Some(other) = source.source_root.iter().find(|root| !root.is_dir()) {
        return Err(wrong_use(format!("--source-root {}: no such directory", other.display())));
    }
    let opened = open_inputs(inputs, common)?;
    let opened = match baseline {
        Some(baseline) => opened.compared_with(open_inputs(std::slice::from_ref(baseline), common)?),
        None => opened,
    };
    // Of both runs.
    let opened = opened.with_source_roots(&source.source_root);
    Ok(if source.no_source { opened.without_source() } else { opened })
}

fn open_inputs(inputs: &[PathBuf], common: &Common) -> Result<OpenRun> {
    let watch = Progress::new();
    let progress = ProgressDisplay::start(&watch);
    let options = OpenOptions { watch, ..crate::session::open_options(common) };
    let opened = OpenRun::open(inputs, &options);
    drop(progress);
    Ok(opened?)
}

/// Start the user's browser with a local HTML file. Returns false without a display, or if no browser can be started.
fn open_browser(page: &Path) -> bool {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if cfg!(target_os = "linux") && !set("DISPLAY") && !set("WAYLAND_DISPLAY") && !set("BROWSER") {
        return false;
    }
    let quiet =
        Command::new(program).arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    quiet.is_ok()
}
