//! Parser of Python pickles with plain data (protocols 2 to 5), without running any code.
//!
//! A pickle is a program for a small stack machine. Instructions for numbers, strings, lists, tuples, dicts and shared
//! references are interpreted. Instructions that name, create or call Python objects (`GLOBAL`, `REDUCE`, `BUILD` and
//! others) are refused by name and offset. The parser does not recurse, so nesting uses no stack. [`Limits`] bounds the
//! size of the result, and memory for a length in the file is allocated only as its bytes arrive.

use super::values::{NodeId, NodeKind, Value, Values};
use rustc_hash::FxHashMap;
use std::io::{ErrorKind, Read};

mod input;
mod opcodes;

use input::Input;

/// Error in a pickle, with its byte offset and reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} (byte {offset})")]
pub struct PickleError {
    /// Byte at which the refused or invalid instruction begins.
    pub offset: u64,
    /// Description of the fault.
    pub reason: String,
}

/// Resource limits of a pickle.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of memory for all values.
    pub memory: u64,
    /// Number of nested open containers.
    pub depth: usize,
}

impl Default for Limits {
    /// Limits of 8 GiB (some 50 million allocator events) and 1000 levels, the limit of Python itself.
    fn default() -> Self {
        Self { memory: 8 << 30, depth: 1000 }
    }
}

/// Read one pickle into a table of values, and return the table with the root value.
///
/// # Errors
/// If the pickle is damaged, has another protocol, exceeds the limits, or contains more than plain data.
pub fn read(reader: impl Read, limits: Limits) -> Result<(Values, Value), PickleError> {
    let mut machine = Machine {
        input: Input::new(reader),
        values: Values::default(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Vec::new(),
        far_memo: FxHashMap::default(),
        text: Vec::new(),
        limits,
        at: 0,
    };
    match machine.run() {
        Ok(value) => Ok((machine.values, value)),
        Err(reason) => Err(PickleError { offset: machine.at, reason }),
    }
}

/// Result of an instruction; the error is the reason as a message.
type Step<T = ()> = Result<T, String>;

/// Stack machine that interprets the instructions of a pickle.
struct Machine<R> {
    input: Input<R>,
    values: Values,
    stack: Vec<Value>,
    /// Stack heights of open marks.
    marks: Vec<usize>,
    /// Memo entries by number.
    memo: Vec<Value>,
    /// Memo entries whose numbers leave gaps.
    far_memo: FxHashMap<u32, Value>,
    /// Buffer for strings.
    text: Vec<u8>,
    limits: Limits,
    /// Offset of the current instruction.
    at: u64,
}

/// Number of instructions between two checks of the memory limit.
const CHECK_EVERY: u32 = 4096;

impl<R: Read> Machine<R> {
    /// Check the protocol, interpret all instructions up to `STOP`, and return the root value.
    fn run(&mut self) -> Step<Value> {
        let first = self.input.byte().map_err(|e| ended(&e))?;
        if first != opcodes::PROTO {
            return Err("the file is not a pickle of protocol 2 to 5: save a pickle of protocol 0 or 1 again with \
                        `pickle.dump(snapshot, file, protocol=4)`"
                .to_owned());
        }
        let protocol = self.byte()?;
        if !(2..=5).contains(&protocol) {
            return Err(format!("the pickle has protocol {protocol}, but only protocols 2 to 5 are supported"));
        }
        let mut until_check = CHECK_EVERY;
        loop {
            self.at = self.input.offset();
            let opcode = self.byte()?;
            if opcode == opcodes::STOP {
                return self.result();
            }
            self.step(opcode)?;
            until_check -= 1;
            if until_check == 0 {
                until_check = CHECK_EVERY;
                self.check_memory()?;
            }
        }
    }

    /// Root value at `STOP`: the only value on the stack; otherwise an error.
    fn result(&mut self) -> Step<Value> {
        match (&self.marks[..], &self.stack[..]) {
            ([], [value]) => Ok(*value),
            ([], []) => Err("the pickle ends without a value".to_owned()),
            _ => Err("the pickle ends in the middle of a value".to_owned()),
        }
    }

    /// Error if values, strings, stack and memo exceed the memory limit.
    fn check_memory(&self) -> Step {
        let taken = self.values.memory()
            + self.input.text_bytes()
            + (8 * (self.stack.len() + self.marks.len() + self.memo.len() + 3 * self.far_memo.len())) as u64;
        if taken > self.limits.memory {
            return Err(format!("the pickle needs more than {} bytes of memory", self.limits.memory));
        }
        Ok(())
    }

    /// Execute one instruction, including the bytes of its operands.
    fn step(&mut self, opcode: u8) -> Step {
        match opcode {
            b'N' => self.push(Value::NONE),
            0x88 => self.push(Value::bool(true)),
            0x89 => self.push(Value::bool(false)),
            b'K' | b'M' | b'J' | 0x8a | 0x8b => self.integer(opcode)?,
            b'G' => {
                let value = f64::from_be_bytes(self.array()?);
                let value = self.values.float(value);
                self.push(value);
            }
            b'X' | 0x8c | 0x8d | b'U' | b'T' | b'C' | b'B' | 0x8e => self.text(opcode)?,
            b']' | b'}' | b')' | b'l' | b'd' | b't' | 0x85 | 0x86 | 0x87 => self.container(opcode)?,
            b'a' | b'e' | b's' | b'u' => self.fill(opcode)?,
            b'(' => {
                if self.marks.len() >= self.limits.depth {
                    return Err(format!(
                        "the pickle has more than {} nested lists, tuples or dicts",
                        self.limits.depth
                    ));
                }
                self.marks.push(self.stack.len());
            }
            b'0' => self.drop_top()?,
            b'1' => {
                let height = self.marks.pop().ok_or("the pickle is damaged: it removes a mark that does not exist")?;
                self.stack.truncate(height);
            }
            b'2' => {
                let top = self.top()?;
                self.push(top);
            }
            b'q' | b'r' | 0x94 => self.memoize(opcode)?,
            b'h' | b'j' => self.load_memo(opcode)?,
            0x95 => drop(self.array::<8>()?),
            opcodes::PROTO => drop(self.byte()?),
            _ => return Err(self.refusal(opcode)),
        }
        Ok(())
    }

    fn push(&mut self, value: Value) {
        self.stack.push(value);
    }

    fn byte(&mut self) -> Step<u8> {
        self.input.byte().map_err(|e| ended(&e))
    }

    fn array<const N: usize>(&mut self) -> Step<[u8; N]> {
        self.input.array().map_err(|e| ended(&e))
    }

    /// Lowest stack position that instructions may pop: the height at the innermost open mark, or 0.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    /// Top value of the stack, without removing it; an error if no value is above the innermost mark.
    fn top(&self) -> Step<Value> {
        if self.stack.len() > self.floor() { Ok(self.stack[self.stack.len() - 1]) } else { Err(underflow()) }
    }

    /// Remove the top value of the stack; an error if no value is above the innermost mark.
    fn drop_top(&mut self) -> Step {
        self.top()?;
        self.stack.pop();
        Ok(())
    }

    /// Read the operand of an integer instruction, and push the integer.
    fn integer(&mut self, opcode: u8) -> Step {
        let value = match opcode {
            b'K' => i128::from(self.byte()?),
            b'M' => i128::from(u16::from_le_bytes(self.array()?)),
            b'J' => i128::from(i32::from_le_bytes(self.array()?)),
            _ => {
                let length = if opcode == 0x8a { u32::from(self.byte()?) } else { u32::from_le_bytes(self.array()?) };
                self.long(length)?
            }
        };
        let value = self.values.int(value);
        self.push(value);
        Ok(())
    }

    /// Read a little-endian two's-complement integer of `length` bytes from a Python pickle.
    fn long(&mut self, length: u32) -> Step<i128> {
        if length > 16 {
            return Err(format!(
                "the pickle contains an integer of {length} bytes, which is larger than any size or address"
            ));
        }
        let mut bytes = [0; 16];
        for byte in &mut bytes[..length as usize] {
            *byte = self.byte()?;
        }
        if length > 0 && bytes[length as usize - 1] & 0x80 != 0 {
            bytes[length as usize..].fill(0xff);
        }
        Ok(i128::from_le_bytes(bytes))
    }

    /// Read the operand of a string or bytes instruction, and push the interned text.
    fn text(&mut self, opcode: u8) -> Step {
        let length = match opcode {
            0x8c | b'U' | b'C' => u64::from(self.byte()?),
            b'X' | b'T' | b'B' => u64::from(u32::from_le_bytes(self.array()?)),
            _ => u64::from_le_bytes(self.array()?),
        };
        if length > self.limits.memory {
            return Err(format!(
                "the pickle contains a string of {length} bytes, above the limit of {} bytes",
                self.limits.memory
            ));
        }
        self.input.bytes(length, &mut self.text).map_err(|e| ended(&e))?;
        let text = String::from_utf8_lossy(&self.text);
        if self.values.strings.is_full(text.len()) {
            return Err("the pickle contains more than 4 GiB of distinct strings".to_owned());
        }
        let id = self.values.strings.intern(&text);
        self.push(if matches!(opcode, b'C' | b'B' | 0x8e) { Value::bytes(id) } else { Value::text(id) });
        Ok(())
    }

    /// Replace the top values of the stack with a list, tuple or dict of them.
    fn container(&mut self, opcode: u8) -> Step {
        let (kind, from) = match opcode {
            b']' => (NodeKind::List, self.stack.len()),
            b'}' => (NodeKind::Dict, self.stack.len()),
            b')' => (NodeKind::Tuple, self.stack.len()),
            0x85..=0x87 => {
                let from = self.stack.len().checked_sub(usize::from(opcode - 0x84));
                (NodeKind::Tuple, from.filter(|from| *from >= self.floor()).ok_or_else(underflow)?)
            }
            _ => {
                let kind = match opcode {
                    b'l' => NodeKind::List,
                    b'd' => NodeKind::Dict,
                    _ => NodeKind::Tuple,
                };
                (kind, self.marks.pop().ok_or("the pickle is damaged: a list, tuple or dict has no start mark")?)
            }
        };
        if kind == NodeKind::Dict && (self.stack.len() - from) % 2 == 1 {
            return Err("the pickle is damaged: a dict key has no value".to_owned());
        }
        let node = self.values.node(kind, &self.stack[from..]).ok_or_else(full)?;
        self.stack.truncate(from);
        self.push(node.into());
        Ok(())
    }

    /// `APPEND`, `APPENDS`, `SETITEM`, `SETITEMS`: move the top values into the container below them.
    fn fill(&mut self, opcode: u8) -> Step {
        let from = match opcode {
            b'a' => self.stack.len().checked_sub(1),
            b's' => self.stack.len().checked_sub(2),
            _ => Some(self.marks.pop().ok_or("the pickle is damaged: items of a list or dict have no start mark")?),
        };
        let lowest = self.floor();
        let from = from.filter(|from| *from > lowest).ok_or_else(underflow)?;
        let kind = if matches!(opcode, b'a' | b'e') { NodeKind::List } else { NodeKind::Dict };
        let target = self.node_of(self.stack[from - 1]).filter(|node| self.values.node_kind(*node) == kind);
        let Some(target) = target else {
            let what = if kind == NodeKind::List {
                "the pickle is damaged: it appends items to a value that is not a list"
            } else {
                "the pickle is damaged: it sets entries of a value that is not a dict"
            };
            return Err(what.to_owned());
        };
        if kind == NodeKind::Dict && (self.stack.len() - from) % 2 == 1 {
            return Err("the pickle is damaged: a dict key has no value".to_owned());
        }
        self.values.extend(target, &self.stack[from..]).ok_or_else(full)?;
        self.stack.truncate(from);
        Ok(())
    }

    /// Node of a list, tuple or dict value; `None` for any other value.
    fn node_of(&self, value: Value) -> Option<NodeId> {
        self.values.as_list(value).or_else(|| self.values.as_dict(value))
    }

    /// `BINPUT`, `LONG_BINPUT`, `MEMOIZE`: store the top value in the memo.
    fn memoize(&mut self, opcode: u8) -> Step {
        let number = match opcode {
            b'q' => u32::from(self.byte()?),
            b'r' => u32::from_le_bytes(self.array()?),
            _ => u32::try_from(self.memo.len() + self.far_memo.len()).map_err(|_| full())?,
        };
        let value = self.top()?;
        match (number as usize).cmp(&self.memo.len()) {
            std::cmp::Ordering::Less => self.memo[number as usize] = value,
            std::cmp::Ordering::Equal => self.memo.push(value),
            std::cmp::Ordering::Greater => drop(self.far_memo.insert(number, value)),
        }
        Ok(())
    }

    /// `BINGET`, `LONG_BINGET`: push the memo entry whose number follows.
    fn load_memo(&mut self, opcode: u8) -> Step {
        let number = if opcode == b'h' { u32::from(self.byte()?) } else { u32::from_le_bytes(self.array()?) };
        let found = self.memo.get(number as usize).or_else(|| self.far_memo.get(&number)).copied();
        let value = found.ok_or_else(|| format!("the pickle refers to memo entry {number}, which is not defined"))?;
        self.push(value);
        Ok(())
    }

    /// Error message for a pickle instruction that is refused or unknown.
    fn refusal(&mut self, opcode: u8) -> String {
        let Some((name, why)) = opcodes::refused(opcode) else {
            return format!("0x{opcode:02x} is not a pickle instruction: the file is damaged or not a pickle");
        };
        let named = match opcode {
            b'c' | b'i' => self.input.lines(2),
            0x93 => {
                let parts = self.stack.iter().rev().take(2).rev().filter_map(|value| self.values.as_text(*value));
                parts.map(|text| self.values.strings.get(text)).collect::<Vec<_>>().join(".")
            }
            _ => String::new(),
        };
        let named: String = named.chars().take(80).collect();
        let named = if named.is_empty() { named } else { format!(" of {named:?}") };
        format!("the pickle instruction {name}{named} was refused and no code was run: {why}")
    }
}

/// Error message for an instruction that takes more values than the stack holds.
fn underflow() -> String {
    "the pickle is damaged: an instruction takes more values than the stack holds".to_owned()
}

/// Error message for too many values in a pickle.
fn full() -> String {
    "the pickle has more than 2^32 values, or more than 2^28 in one list or dict".to_owned()
}

/// Error message for a pickle that cannot be read further: truncated, or an I/O error.
fn ended(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => {
            "the file ends in the middle of the pickle: the file is truncated or still being written"
        }
        _ => return format!("the pickle cannot be read: {error}"),
    }
    .to_owned()
}

#[cfg(test)]
mod tests;
