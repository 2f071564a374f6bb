//! Records of a block that were read by another thread: undecoded, with texts numbered by that thread.

use super::super::builder::Builder;
use super::super::event::EventReader;
use super::super::record::RecordHead;
use super::blocks::Block;
use crate::diagnostics::Code;
use crate::scan::Cursor;
use crossbeam_channel::{Receiver, Sender};
use stackline_model::{AttrType, Key, StrId};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Limit on the text that a worker keeps in order to number equal texts equally, in bytes.
const MAX_TEXT: usize = 16 << 20;

/// Block that a worker is to read, with the channel for its records.
pub(super) struct Job {
    pub(super) block: Block,
    /// Used batch, whose memory is used again.
    pub(super) batch: Batch,
    /// Numbers of the worker's texts start anew with each epoch.
    pub(super) epoch: u32,
    pub(super) done: Sender<Batch>,
}

/// Record of a batch, with the number of its attributes and diagnostics.
struct Record {
    head: RecordHead,
    /// Position in the block.
    at: u32,
    fields: u32,
    problems: u32,
}

/// Records that a worker read from the start of a block, up to damage or to the end of the list.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) block: Block,
    pub(super) worker: usize,
    pub(super) epoch: u32,
    /// True if the worker's texts are numbered from 0 again, beginning with this batch.
    is_fresh: bool,
    /// End of the read text in the block.
    pub(super) end: usize,
    /// Commas after the last record.
    commas: u32,
    records: Vec<Record>,
    fields: Vec<(StrId, AttrType)>,
    values: Vec<u64>,
    problems: Vec<(Code, u64)>,
    /// Texts that are new to the worker, in the order of their first use, and their ends.
    texts: String,
    ends: Vec<usize>,
}

impl Batch {
    /// Remove all records and texts, and keep the memory.
    fn clear(&mut self) {
        self.records.clear();
        self.fields.clear();
        self.values.clear();
        self.problems.clear();
        self.texts.clear();
        self.ends.clear();
    }

    /// Add the records to a trace, whose records so far are those before the block. `ids` are the numbers in the trace
    /// of the worker's texts so far.
    pub(super) fn add_to(&self, builder: &mut Builder, ids: &mut Vec<StrId>) {
        if self.is_fresh {
            ids.clear();
        }
        let mut from = 0;
        // A trace numbers its texts by first use, as the worker does.
        for &end in &self.ends {
            ids.push(builder.trace.strings.intern(&self.texts[from..end]));
            from = end;
        }
        let (mut fields, mut values) = (&self.fields[..], &self.values[..]);
        let mut problems = &self.problems[..];
        for record in &self.records {
            let (own_fields, own_values, own_problems);
            (own_fields, fields) = fields.split_at(record.fields as usize);
            (own_values, values) = values.split_at(record.fields as usize);
            (own_problems, problems) = problems.split_at(record.problems as usize);
            builder.raw.head = renumbered(record.head, ids);
            builder.raw.fields.clear();
            builder.raw.fields.extend(own_fields.iter().map(|&(key, kind)| (id(ids, key), kind)));
            builder.raw.values.clear();
            builder.raw.values.extend(own_fields.iter().zip(own_values).map(|(&(_, kind), &raw)| match kind {
                AttrType::Str | AttrType::Json => u64::from(id(ids, StrId(raw as u32)).0),
                _ => raw,
            }));
            builder.pending.clear();
            builder.pending.extend_from_slice(own_problems);
            builder.commit(self.block.offset() + u64::from(record.at));
        }
        builder.commas = self.commas;
    }
}

/// Number in the trace of a worker's text; [`StrId::NONE`] for an unknown text.
fn id(ids: &[StrId], own: StrId) -> StrId {
    ids.get(own.index()).copied().unwrap_or(StrId::NONE)
}

/// Head of a record with the trace's text numbers in place of the worker's.
fn renumbered(head: RecordHead, ids: &[StrId]) -> RecordHead {
    let key = |key: Key| if let Key::Str(text) = key { Key::Str(id(ids, text)) } else { key };
    RecordHead {
        name: id(ids, head.name),
        category: id(ids, head.category),
        pid: key(head.pid),
        tid: key(head.tid),
        id: key(head.id),
        stack: key(head.stack),
        ..head
    }
}

/// Worker thread: read the blocks of a channel until it is closed. `waiting` counts blocks that are not read yet.
pub(super) fn run_worker(worker: usize, jobs: &Receiver<Job>, waiting: &AtomicUsize) {
    let mut reader = Reader::new(0);
    for Job { block, mut batch, epoch, done } in jobs {
        if reader.epoch != epoch || reader.text_bytes > MAX_TEXT {
            reader = Reader::new(epoch);
        }
        batch.is_fresh = reader.sent == 0;
        (batch.block, batch.worker, batch.epoch) = (block, worker, epoch);
        reader.read(&mut batch);
        waiting.fetch_sub(1, Ordering::Relaxed);
        // After an error, the receiver no longer waits for the batch.
        let _ = done.send(batch);
    }
}

/// Reader of blocks in a worker thread, with its own string numbers.
struct Reader {
    /// Used for its texts and its scratch record only.
    builder: Builder,
    epoch: u32,
    /// Number of texts in earlier batches.
    sent: usize,
    text_bytes: usize,
}

impl Reader {
    fn new(epoch: u32) -> Self {
        Self { builder: Builder::new(""), epoch, sent: 0, text_bytes: 0 }
    }

    /// Read the records of the batch's block into the batch, up to damage or the end of the list.
    fn read(&mut self, batch: &mut Batch) {
        batch.clear();
        let bytes = batch.block.bytes();
        let base = batch.block.offset();
        let mut cursor = Cursor::new(bytes);
        // Blocks begin after a comma, as the list does in effect.
        let mut commas = 1;
        // The last text of a record that was read whole.
        let mut known = self.builder.trace.strings.len();
        let end = loop {
            let at = match cursor.peek() {
                Err(_) => break cursor.at,
                Ok(b',') if commas == 0 => {
                    commas = 1;
                    cursor.at += 1;
                    continue;
                }
                Ok(b'{') if commas == 1 => cursor.at,
                Ok(_) => break cursor.at,
            };
            if (EventReader { builder: &mut self.builder, base }).read(&mut cursor).is_err() {
                break at;
            }
            commas = 0;
            let Builder { raw, pending, trace, .. } = &mut self.builder;
            known = trace.strings.len();
            batch.records.push(Record {
                head: raw.head,
                at: at as u32,
                fields: raw.fields.len() as u32,
                problems: pending.len() as u32,
            });
            batch.fields.extend_from_slice(&raw.fields);
            batch.values.extend_from_slice(&raw.values);
            batch.problems.append(pending);
        };
        (batch.end, batch.commas) = (end, commas);
        for text in self.sent..known {
            batch.texts.push_str(self.builder.trace.strings.get(StrId::new(text)));
            batch.ends.push(batch.texts.len());
        }
        self.text_bytes += batch.texts.len();
        self.sent = known;
    }
}
