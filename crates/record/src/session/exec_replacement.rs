//! Replacement of this program by another one (`exec`). No code of this program runs after that, but two things
//! outlive it: pending signals of the thread that calls `exec`, for which the other program has no handler, and the
//! stream, which must record why it ends. If the other program fails to start, the recording continues.

use super::{LONGEST_EXIT, Phase, Session};
use dlmonitor::clock;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

impl Session {
    /// Prepare a replacement of this program: stop requests for samples, and write the remaining data. The caller may
    /// hold Python's lock, so this waits for a limited time and takes no lock of Python. If it returns `true`,
    /// [`Self::exec_failed`] must follow a failure.
    pub(crate) fn prepare_exec(&self) -> bool {
        // A forked child without operators leaves no stream: most run another program.
        if self.pid != std::process::id() || !self.started.is_completed() {
            return false;
        }
        {
            let mut replacing = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
            if *replacing == 0 && !self.begin_replacing() {
                return false;
            }
            *replacing += 1;
        }
        let phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have begun the end meanwhile.
        let is_written = |phase: &Phase| matches!(phase, Phase::Running | Phase::Replaced | Phase::Ended);
        drop(self.written.wait_timeout_while(phase, LONGEST_EXIT, |phase| !is_written(phase)));
        crate::samples::consume_pending_signals();
        true
    }

    /// Continue the recording after the other program failed to start, once no other thread waits for a replacement. No
    /// effect if the recording ends or has ended meanwhile.
    pub(crate) fn exec_failed(&self) {
        let mut replacing = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        *replacing = replacing.saturating_sub(1);
        if *replacing > 0 {
            return;
        }
        {
            let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
            if !matches!(*phase, Phase::Replacing | Phase::Replaced) {
                return;
            }
            *phase = Phase::Running;
        }
        if self.has_writer.load(Ordering::Acquire) {
            // Immediately: a program that crashes next has not ended normally.
            self.retract_end();
            self.wake.notify_all();
        } else {
            self.update(false);
        }
        crate::samples::resume_all();
    }

    /// Pause samples, and write the remaining data or wake the writer for that; `false` if the recording has ended.
    fn begin_replacing(&self) -> bool {
        {
            let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
            if *phase != Phase::Running {
                return false;
            }
            *phase = Phase::Replacing;
        }
        // Before the write, which takes the last samples.
        crate::samples::pause_all();
        if self.has_writer.load(Ordering::Acquire) {
            self.wake.notify_all();
        } else {
            self.write_replaced();
        }
        true
    }

    /// Write the remaining data and a provisional end of the stream, which the next write removes.
    pub(super) fn write_replaced(&self) {
        clock::measure();
        self.update(true);
        if let Some(stream) = self.stream.lock().unwrap_or_else(PoisonError::into_inner).as_mut()
            && let Err(error) = stream.end_provisionally(clock::monotonic_ns())
        {
            self.report_replacing(&error.to_string());
        }
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if *phase == Phase::Replacing {
            *phase = Phase::Replaced;
            self.written.notify_all();
        } else {
            // The waiting thread has continued meanwhile, or the end has begun.
            drop(phase);
            self.retract_end();
        }
    }

    /// Undo the provisional end of the stream, which was written before an `exec` that failed, unless another thread
    /// holds the stream: that thread undoes the end after its own write. Never waits, because the caller may hold
    /// Python's lock.
    fn retract_end(&self) {
        if let Ok(mut stream) = self.stream.try_lock()
            && let Some(stream) = stream.as_mut()
        {
            stream.retract_end();
        }
    }

    /// Wait for the end of this process, or until the recording continues.
    pub(super) fn wait_for_other_program(&self) {
        let phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.wake.wait_while(phase, |phase| *phase == Phase::Replaced));
    }
}

#[cfg(test)]
mod tests {
    use crate::options::Options;
    use crate::session::{Phase, Session};
    use stackline_recording::{Reader, Record, Role};
    use std::sync::atomic::Ordering;

    /// The error has its own message, printed once, and later errors have theirs.
    #[test]
    fn messages_before_exec_are_no_recording_complaints() {
        let options = Options::from(|name| (name == "STACKLINE_RECORD").then(|| "nowhere".to_owned())).unwrap();
        let session = Session::new(options, Role::Main, Vec::new());
        session.report_replacing("disk full");
        let flags =
            [&session.has_reported_failure, &session.has_reported_replacing].map(|flags| flags.load(Ordering::Relaxed));
        assert_eq!(flags, [false, true]);
    }

    #[test]
    fn provisional_ends_are_retracted_when_the_program_continues() {
        let run = tempfile::tempdir().unwrap();
        let path = run.path().display().to_string();
        let options = Options::from(|name| (name == "STACKLINE_RECORD").then(|| path.clone())).unwrap();
        let session = Session::new(options, Role::Main, Vec::new());
        session.started.call_once(|| session.make_stream().unwrap());
        session.has_writer.store(true, Ordering::Release);
        let file = run.path().join(format!("streams/{}-0.slr", std::process::id()));
        let is_replaced =
            || Reader::new(&std::fs::read(&file).unwrap()).unwrap().any(|record| record == Record::Replaced);
        // The write took so long that no thread is waiting any more.
        session.write_replaced();
        assert!(!is_replaced());
        *session.phase.lock().unwrap() = Phase::Replacing;
        session.write_replaced();
        assert!(is_replaced());
        session.exec_failed();
        assert!(!is_replaced());
    }
}
