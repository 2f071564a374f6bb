//! Simulation of the steps of a host thread.

use std::ops::Range;

use super::gpu::Launched;
use super::record::{Category, Cause, Segment, SpanRecord, State, SyncKind, SyncRecord};
use super::{Run, Waiting};
use crate::simulator::program::{Kind, Name, Role, Span, Target};

impl Run<'_> {
    /// Open a span on a thread at its current time.
    pub(super) fn open(&mut self, host: usize, span: Span) {
        let id = self.spans.len() as u32;
        let state = &mut self.hosts[host];
        state.loading += u32::from(span.is_loader());
        let parent = state.open.last().copied();
        let (start, Span { kind, name, sequence, inputs }) = (state.clock, span);
        state.open.push(id);
        self.spans.push(SpanRecord { thread: host, kind, name, sequence, inputs, parent, start, end: start });
    }

    /// Close the innermost open span of a thread. After a top-level Python frame, threads that wait for its GIL
    /// continue.
    pub(super) fn close(&mut self, host: usize) {
        let state = &mut self.hosts[host];
        let Some(id) = state.open.pop() else { return };
        let span = &mut self.spans[id as usize];
        span.end = state.clock;
        let loader = Span::new(span.kind, span.name.clone()).is_loader();
        state.loading -= u32::from(loader);
        if span.kind == Kind::Python && self.hosts[host].open.is_empty() {
            self.give_up_gil(host);
        }
    }

    /// Category of a thread's exclusive time, by its innermost open span.
    fn category(&self, host: usize) -> Category {
        let state = &self.hosts[host];
        let innermost = state.open.last().map(|&id| self.spans[id as usize].kind);
        match innermost {
            Some(Kind::Runtime | Kind::Driver) => Category::HostRuntime,
            Some(Kind::Overhead) => Category::Profiler,
            _ if state.loading > 0 => Category::HostDataLoading,
            Some(Kind::Operator) => Category::HostOperator,
            Some(Kind::Python | Kind::Annotation) => Category::HostPython,
            None => match state.role {
                Role::Main | Role::Helper => Category::HostPython,
                Role::Autograd => Category::HostOperator,
                Role::Pin | Role::Worker(_) => Category::HostDataLoading,
            },
        }
    }

    /// Add a segment from the current time of a thread to `end`, which becomes its current time.
    fn segment(&mut self, host: usize, end: i64, state: State) {
        let thread = &mut self.hosts[host];
        let (start, span) = (thread.clock, thread.open.last().copied());
        thread.clock = end;
        if end > start {
            thread.segments.push(Segment { start, end, state, span });
        }
    }

    /// Advance the time of a thread by `ns` of exclusive time.
    pub(super) fn own(&mut self, host: usize, ns: i64) {
        let state = State::Own(self.category(host));
        let end = self.hosts[host].clock + ns;
        self.segment(host, end, state);
    }

    /// Add a wait of a thread for a GPU operation that ends at `at`; the thread continues at `end`.
    fn wait_op(&mut self, host: usize, (at, op): (i64, usize), end: i64) {
        self.segment(host, end, State::Waited { cause: Cause::Op { op, at }, category: Category::SyncReturn });
    }

    /// Open the span of a runtime or driver call; returns its index.
    fn open_call(&mut self, host: usize, driver: bool, name: Name) -> u32 {
        let kind = if driver { Kind::Driver } else { Kind::Runtime };
        self.open(host, Span::new(kind, name));
        (self.spans.len() - 1) as u32
    }

    /// Simulate a runtime or driver call that takes `own` ns; returns the index of its span.
    pub(super) fn call(&mut self, host: usize, driver: bool, name: Name, own: i64) -> u32 {
        let call = self.open_call(host, driver, name);
        self.own(host, own);
        self.close(host);
        call
    }

    /// Simulate a launch call and its GPU operations. The call waits if the launch queue is full.
    pub(super) fn launch(&mut self, host: usize, (driver, name): (bool, Name), own: i64, ops: Range<usize>, ret: i64) {
        let call = self.open_call(host, driver, name);
        let start = self.hosts[host].clock;
        let room = self.gpu.blocking_operation(
            self.program.ops[ops.start].stream,
            (self.program.queue_limit, self.program.queue_shared),
        );
        match room.filter(|&(end, _)| end > start) {
            Some(room) => {
                self.awaited.push((call, vec![room.1]));
                self.wait_op(host, room, room.0 + ret);
            }
            None => self.own(host, own),
        }
        let launched = Launched { thread: host, call, start, end: Some(self.hosts[host].clock) };
        self.close(host);
        let (mut before, mut level, mut now) = (None, 0, None);
        for op in ops.filter(|&op| !self.program.ops[op].removed).collect::<Vec<_>>() {
            if self.program.ops[op].level != level {
                level = self.program.ops[op].level;
                before = now;
            }
            let end = self.schedule(op, launched, before);
            if now.is_some_and(|(latest, _)| latest == end) {
                self.note_tie();
            }
            now = now.filter(|&(latest, _)| latest > end).or(Some((end, op)));
        }
    }

    /// Simulate a call that launches a GPU operation and waits for its end.
    pub(super) fn blocking(&mut self, host: usize, name: Name, op: usize, ret: i64) {
        let call = self.open_call(host, false, name);
        let start = self.hosts[host].clock;
        let end = self.schedule(op, Launched { thread: host, call, start, end: None }, None);
        // Until the copy starts, the call works (its launch binds) or waits (the stream binds): the path shows which.
        let copy = self.gpu.activities.last().map_or(start, |copy| copy.start);
        self.own(host, copy - start);
        self.awaited.push((call, vec![op]));
        self.wait_op(host, (end, op), end + ret);
        self.close(host);
    }

    /// Simulate `cudaStreamWaitEvent`: later work of `stream` waits for `record`.
    pub(super) fn wait_event(&mut self, host: usize, stream: usize, record: usize, own: i64) {
        let call = self.call(host, false, "cudaStreamWaitEvent".into(), own);
        self.gpu.wait(stream, record);
        self.syncs.push(SyncRecord { call, kind: SyncKind::StreamWait(stream, record) });
    }

    /// GPU operation that ends last among those of a target, with its end.
    fn done(&self, target: Target) -> Option<(i64, usize)> {
        match target {
            Target::Device | Target::Free => self.gpu.device_done(),
            Target::Stream(stream) => self.gpu.stream_done(stream),
            Target::Record(record) => self.gpu.record_done(record),
        }
    }

    /// Add the `cuda_sync` record of a synchronizing call; `cudaFree` has none.
    fn note_sync(&mut self, call: u32, target: Target) {
        let kind = match target {
            Target::Device => SyncKind::Context,
            Target::Stream(stream) => SyncKind::Stream(stream),
            Target::Record(record) => SyncKind::Event(record),
            Target::Free => return,
        };
        self.syncs.push(SyncRecord { call, kind });
    }

    /// Simulate a synchronizing call: the thread waits until all work of `target` is done.
    pub(super) fn sync(&mut self, host: usize, name: Name, target: Target, own: i64, ret: i64) {
        let call = self.open_call(host, false, name);
        let start = self.hosts[host].clock;
        self.awaited.push((call, self.gpu.awaited(target)));
        match self.done(target) {
            Some(done) if done.0 > start => self.wait_op(host, done, done.0 + ret),
            done => {
                if done.is_some_and(|(end, _)| end == start) {
                    self.note_tie();
                }
                self.own(host, own);
            }
        }
        self.close(host);
        self.note_sync(call, target);
    }

    /// Simulate repeated queries until all work of `target` is done; one query if it already is.
    pub(super) fn poll(&mut self, host: usize, name: &Name, target: Target, own: i64, gap: i64) {
        let start = self.hosts[host].clock;
        let Some(done) = self.done(target).filter(|&(end, _)| end > start) else {
            let call = self.call(host, false, name.clone(), own);
            self.note_query(call, target);
            return;
        };
        // At most a few dozen queries, for any duration.
        let gap = gap.max((done.0 - start) / 24);
        let mut clock = start;
        let (mut last, mut tries) = (start, 0);
        loop {
            let id = self.spans.len() as u32;
            let kind = Kind::Runtime;
            let (parent, end) = (self.hosts[host].open.last().copied(), clock + own + tries * 7 % 101);
            let (name, sequence, inputs) = (name.clone(), None, None);
            self.spans.push(SpanRecord { thread: host, kind, name, sequence, inputs, parent, start: clock, end });
            self.note_query(id, target);
            tries += 1;
            if clock >= done.0 {
                self.awaited.push((id, self.gpu.awaited(target)));
                self.wait_op(host, done, end);
                if clock == done.0 {
                    self.note_tie();
                }
                break;
            }
            last = clock;
            clock = end + gap + tries * 13 % 307;
        }
        if matches!(target, Target::Stream(_)) {
            self.polls.push((last, clock));
        }
    }

    /// Add the `cuda_sync` record of an event query; a stream query has none.
    fn note_query(&mut self, call: u32, target: Target) {
        if matches!(target, Target::Record(_)) {
            self.note_sync(call, target);
        }
    }

    /// Put a token into a queue. A thread that waits for it continues.
    pub(super) fn put(&mut self, host: usize, queue: usize) {
        let at = self.hosts[host].clock;
        let waits = |waiting: Option<Waiting>| matches!(waiting, Some(Waiting::Token { queue: q, .. }) if q == queue);
        let Some(waiter) = (0..self.hosts.len()).find(|&i| waits(self.hosts[i].waiting)) else {
            self.queues[queue].push_back(at);
            return;
        };
        if let Some(Waiting::Token { lag, .. }) = self.hosts[waiter].waiting.take() {
            self.resume(waiter, (host, at), lag);
        }
    }

    /// Let a waiting thread continue `lag` after it was released by `thread` at time `at`.
    fn resume(&mut self, waiter: usize, (thread, at): (usize, i64), lag: i64) {
        if self.hosts[waiter].clock == at {
            self.note_tie();
        }
        let cause = Cause::Thread { thread, at };
        self.segment(waiter, at + lag, State::Waited { cause, category: Category::ThreadHandover });
    }

    /// Take a token from a queue in `own` ns; without a token, the thread waits.
    pub(super) fn get(&mut self, host: usize, queue: usize, own: i64, lag: i64) {
        if self.queues[queue].pop_front().is_some() {
            self.own(host, own);
        } else {
            self.hosts[host].waiting = Some(Waiting::Token { queue, lag });
        }
    }

    /// Request the next DataLoader item from the worker that has to load it, if there are more items.
    pub(super) fn put_index(&mut self, host: usize) {
        let Some(loader) = &self.program.loader else { return };
        if self.next_item < loader.items.len() {
            let queue = self.program.queues.len() + self.next_item % loader.workers;
            self.next_item += 1;
            self.put(host, queue);
        }
    }

    /// Simulate a gap between top-level spans: a wait if another thread holds the GIL, otherwise `own` ns.
    pub(super) fn gap(&mut self, host: usize, own: i64, lag: i64) {
        match self.gil_holder(host) {
            Some(holder) => self.hosts[host].waiting = Some(Waiting::Gil { holder, lag }),
            None => self.own(host, own),
        }
    }

    /// Thread of the same process that holds the GIL: another one inside a top-level Python frame.
    fn gil_holder(&self, host: usize) -> Option<usize> {
        let holds = |&i: &usize| {
            let other = &self.hosts[i];
            let bottom = other.open.first().map(|&id| self.spans[id as usize].kind);
            i != host && !matches!(other.role, Role::Worker(_)) && bottom == Some(Kind::Python)
        };
        (0..self.hosts.len()).find(holds)
    }

    /// Let all threads continue that wait for the GIL of thread `host`.
    fn give_up_gil(&mut self, host: usize) {
        let at = self.hosts[host].clock;
        for waiter in 0..self.hosts.len() {
            if let Some(Waiting::Gil { holder, lag }) = self.hosts[waiter].waiting
                && holder == host
            {
                self.hosts[waiter].waiting = None;
                self.resume(waiter, (host, at), lag);
            }
        }
    }
}
