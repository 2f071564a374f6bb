//! Options after a statement of memory text: `KEY=VALUE`, flags, and the stream (`@7`).

use super::super::lex::Token;
use super::super::{FLAGS, TextError};
use super::Reader;
use crate::diagnostics;
use stackline_model::{
    AccessEvidence, Frame, MemoryDeviceId, MemoryObjectKind, MemoryStackId, NewCall, NewObject, StrId,
};

/// Options of a statement, for its call and its object.
pub(super) struct Options {
    pub(super) call: NewCall,
    pub(super) object: NewObject,
    pub(super) evidence: AccessEvidence,
    /// Device of the object.
    pub(super) device: MemoryDeviceId,
    pub(super) has_stream: bool,
    has_time: bool,
}

impl Reader {
    /// Parse all options up to the end of the statement; without a time option, the number of calls is the time.
    pub(super) fn options(&mut self) -> Result<Options, TextError> {
        let (device, stream) = (self.device(), self.stream(0));
        let start_ns = i64::try_from(self.trace.calls.len()).unwrap_or(i64::MAX);
        let call = NewCall { start_ns, stream, ..NewCall::default() };
        let object = NewObject { device, ..NewObject::default() };
        let evidence = AccessEvidence::Instrumented;
        let mut options = Options { call, object, evidence, device, has_stream: false, has_time: false };
        loop {
            if self.take(&Token::Mark('@')) {
                let key = self.number("expected a stream number")?;
                options.call.stream = self.stream(key);
                options.has_stream = true;
                continue;
            }
            let Token::Word(key) = self.peek().clone() else {
                if options.has_time {
                    self.count_decreasing_time(&options.call);
                }
                return Ok(options);
            };
            self.at += 1;
            match FLAGS.iter().find(|(name, _)| *name == key) {
                Some((_, flag)) => options.call.flags |= flag,
                None => self.option(&key, &mut options)?,
            }
        }
    }

    /// Parse the value of one option after its key, and store the value in `options`.
    fn option(&mut self, key: &str, options: &mut Options) -> Result<(), TextError> {
        if !self.take(&Token::Mark('=')) {
            return self.error(1, format!("`{key}` is not an option; see docs/formats/memory-text.md for all options"));
        }
        let object = &mut options.object;
        match key {
            "t" => (options.call.start_ns, options.has_time) = (self.number("expected a time in ns")?, true),
            "dur" => options.call.duration_ns = self.number("expected a duration in ns")?,
            "address" => object.address = self.number("expected an address")?,
            "requested" => object.requested = self.number("expected the number of requested bytes")?,
            "at" => options.call.stack = self.frame(options)?,
            "via" => options.evidence = self.evidence()?,
            "on" => {
                let name = self.word("expected the name of a device")?;
                options.device = self.device_named(&name);
            }
            "call" => {
                let name = self.word("expected the name of the memory call")?;
                options.call.name = self.trace.strings.intern(&name);
            }
            "kind" => {
                let name = self.word("expected the kind of the memory object")?;
                match MemoryObjectKind::from_name(&name) {
                    Some(kind) => object.kind = kind,
                    None => {
                        return self
                            .error(1, format!("`{name}` is not a kind of memory object; use parameter, gradient, activation or another kind listed in docs/formats/memory-text.md"));
                    }
                }
            }
            _ => self.text_option(key, options)?,
        }
        Ok(())
    }

    /// Count a call that starts before an earlier call of its stream.
    fn count_decreasing_time(&mut self, call: &NewCall) {
        let latest = self.latest_ns.entry(call.stream).or_insert(call.start_ns);
        if call.start_ns < *latest {
            let example = format!("{} ns", latest.saturating_sub(call.start_ns));
            diagnostics::MEMORY_CLOCK_BACK.count(&mut self.trace.report, None, &example);
        }
        *latest = call.start_ns.max(*latest);
    }

    /// Parse the name of the evidence of accesses, such as `operator-level`.
    pub(super) fn evidence(&mut self) -> Result<AccessEvidence, TextError> {
        let name = self
            .word("expected how the memory accesses are known: instrumented, operator-level, may-access or opaque")?;
        match AccessEvidence::ALL.into_iter().find(|known| known.name() == name) {
            Some(evidence) => Ok(evidence),
            None => self
                .error(1, format!("`{name}` does not say how the memory accesses are known; use instrumented, operator-level, may-access or opaque")),
        }
    }

    /// Parse an option of the object whose value is a text, such as `name` or `pool`.
    fn text_option(&mut self, key: &str, options: &mut Options) -> Result<(), TextError> {
        let object = &mut options.object;
        let place: &mut StrId = match key {
            "name" => &mut object.name,
            "pool" => &mut object.pool,
            "dtype" => &mut object.dtype,
            "shape" => &mut object.shape,
            "module" => &mut object.module,
            "operator" => &mut object.operator,
            _ => return self.error(2, format!("unknown option `{key}`")),
        };
        let value = self.word("expected the value of the option")?;
        *place = self.trace.strings.intern(&value);
        Ok(())
    }

    /// Parse `FILE:LINE:FUNCTION` of an `at` option, and append the frame to the call path of the options.
    fn frame(&mut self, options: &Options) -> Result<MemoryStackId, TextError> {
        let file = self.word("expected a file name")?;
        self.mark(':')?;
        let line = self.number("expected a line number")?;
        self.mark(':')?;
        let function = self.word("expected a function name")?;
        let (file, function) = (self.trace.strings.intern(&file), self.trace.strings.intern(&function));
        let frame = Frame::of_line(function, file, line, &self.trace.strings);
        Ok(self.trace.stacks.intern(options.call.stack, frame))
    }
}
