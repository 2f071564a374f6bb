//! Progress bar on standard error, only for terminals and long work.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use stackline_engine::Progress;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Progress bar with the bytes read, shown until this value is dropped.
pub(crate) struct ProgressDisplay {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Work shorter than this shows nothing.
const PATIENCE: Duration = Duration::from_millis(400);
/// Interval between updates of the display.
const TICK: Duration = Duration::from_millis(100);

impl ProgressDisplay {
    /// Start a progress bar that shows the state of `watch`, if standard error is a terminal.
    pub(crate) fn start(watch: &Progress) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        if !std::io::stderr().is_terminal() {
            return Self { stop, thread: None };
        }
        let (watch, flag) = (watch.clone(), Arc::clone(&stop));
        let thread = std::thread::spawn(move || show(&watch, &flag));
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A bar that failed is no reason to fail.
            let _ = thread.join();
        }
    }
}

/// Draw the progress bar until `stop` is set; nothing for work shorter than 400 ms.
fn show(watch: &Progress, stop: &AtomicBool) {
    std::thread::park_timeout(PATIENCE);
    if stop.load(Ordering::Relaxed) {
        return;
    }
    let bar = ProgressBar::with_draw_target(Some(watch.total()), ProgressDrawTarget::stderr());
    let template = "reading {bar:30} {bytes} of {total_bytes} {bytes_per_sec}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    while !stop.load(Ordering::Relaxed) {
        bar.set_length(watch.total());
        bar.set_position(watch.bytes());
        std::thread::park_timeout(TICK);
    }
    bar.finish_and_clear();
}
