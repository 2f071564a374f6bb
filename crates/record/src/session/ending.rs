//! End of a recording: by the program, by `os._exit`, or in a forked child without operators.

use super::{LONGEST_EXIT, Phase, Session};
use dlmonitor::clock;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

impl Session {
    /// End the recording of this process, if there is one: write the remaining data, and free its memory.
    pub(crate) fn end() {
        if let Some(held) = Self::hold() {
            held.finish();
            held.replace();
        }
        Self::free_replaced();
    }

    /// Stop samples and callbacks, and write the remaining data; no effect if the end has begun before.
    fn finish(&self) {
        if !self.begin_ending(Phase::Ending) {
            return;
        }
        dlmonitor::finalize();
        crate::samples::stop(&self.process);
        if self.started.is_completed() { self.write_last(None) } else { self.write_child_without_operators(None) }
    }

    /// Write the remaining data before the program ends by `os._exit(code)`. The caller may hold Python's lock, and
    /// other threads any other lock, so it takes no lock of theirs and waits for a limited time only. This also applies
    /// to a second thread that calls it, and while another thread ends the recording: the return from here kills all
    /// threads.
    pub(crate) fn exit(&self, code: i32) {
        // A child that was forked by other means has no writer.
        if self.pid != std::process::id() {
            return;
        }
        if !self.started.is_completed() && self.begin_ending(Phase::Exiting(code)) {
            return self.write_child_without_operators(Some(code));
        }
        if self.begin_ending(Phase::Exiting(code)) && !self.has_writer.load(Ordering::Acquire) {
            return self.write_last(Some(code));
        }
        let phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.written.wait_timeout_while(phase, LONGEST_EXIT, |phase| *phase != Phase::Ended));
    }

    /// Write the stream of a forked child that ends without an operator: the process and its exit code.
    fn write_child_without_operators(&self, exit: Option<i32>) {
        let mut made = Ok(());
        self.started.call_once(|| made = self.make_stream());
        if let Err(reason) = made {
            self.report_failure(&reason, "the program continues without recording");
        }
        self.close_stream(exit);
    }

    /// Change to the phase `next`, with which the recording ends; `false` if the end has begun before. Another thread
    /// may be waiting for a replacement of this program, which may fail.
    fn begin_ending(&self, next: Phase) -> bool {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        let running = matches!(*phase, Phase::Running | Phase::Replacing | Phase::Replaced);
        if running {
            *phase = next;
            self.wake.notify_all();
        }
        running
    }

    /// Write the remaining data and the end of the process, and notify waiting threads.
    pub(super) fn write_last(&self, exit: Option<i32>) {
        clock::measure();
        self.update(true);
        self.close_stream(exit);
    }

    /// Write the end of the process with its exit code, close the stream, and notify waiting threads.
    fn close_stream(&self, exit: Option<i32>) {
        if let Some(mut stream) = self.stream.lock().unwrap_or_else(PoisonError::into_inner).take()
            && let Err(error) = stream.end(clock::monotonic_ns(), exit)
        {
            self.report_failure(&error.to_string(), "the end of the recording is missing");
        }
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = Phase::Ended;
        self.written.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use crate::options::Options;
    use crate::session::{LONGEST_EXIT, Phase, Session};
    use stackline_recording::Role;
    use std::time::Instant;

    /// A session that has begun, without stream and writer.
    fn session() -> &'static Session {
        let options = Options::from(|name| (name == "STACKLINE_RECORD").then(|| "nowhere".to_owned())).unwrap();
        let session = Session::new(options, Role::Main, Vec::new());
        session.started.call_once(|| ());
        session
    }

    fn phase(session: &Session) -> Phase {
        *session.phase.lock().unwrap()
    }

    #[test]
    fn os_exit_waits_for_the_thread_that_ends_the_recording() {
        for begun in [Phase::Ending, Phase::Exiting(1)] {
            let session = session();
            assert!(session.begin_ending(begun));
            let since = Instant::now();
            // The end does not come: the program is not blocked forever.
            session.exit(2);
            assert!(since.elapsed() >= LONGEST_EXIT, "{begun:?}: {:?}", since.elapsed());
            assert!(!session.begin_ending(Phase::Exiting(3)));
        }
    }

    /// `begins` ends the recording while a thread is about to replace this program by another one, which fails to
    /// start.
    fn end_before_failed_exec(begins: impl FnOnce(&Session)) {
        let session = session();
        assert!(session.prepare_exec());
        assert_eq!(phase(session), Phase::Replaced);
        begins(session);
        assert_eq!(phase(session), Phase::Ended);
        session.exec_failed();
        assert_eq!(phase(session), Phase::Ended);
    }

    #[test]
    fn ends_do_not_wait_for_a_replacing_program() {
        end_before_failed_exec(Session::finish);
        end_before_failed_exec(|session| session.exit(7));
        // Once no thread waits, the recording continues.
        let session = session();
        assert!(session.prepare_exec() && session.prepare_exec());
        session.exec_failed();
        assert_eq!(phase(session), Phase::Replaced);
        session.exec_failed();
        assert_eq!(phase(session), Phase::Running);
    }

    #[test]
    fn last_writer_ends_the_session() {
        let session = session();
        session.exit(1);
        assert_eq!(phase(session), Phase::Ended);
        // No thread is waiting any more.
        session.exit(2);
        session.finish();
    }
}
