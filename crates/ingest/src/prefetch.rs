//! Decompression on a separate thread, concurrent with parsing.

use crossbeam_channel::{Receiver, Sender, bounded};
use std::io::{self, Read};

const BLOCK: usize = 1 << 20;
const BLOCKS_AHEAD: usize = 4;

/// Run `consume` on this thread, while another thread reads the stream ahead.
pub(crate) fn with_prefetch<T>(stream: impl Read + Send, consume: impl FnOnce(&mut dyn Read) -> T) -> T {
    std::thread::scope(|scope| {
        let (sender, receiver) = bounded(BLOCKS_AHEAD);
        let (recycle, recycled) = bounded(BLOCKS_AHEAD + 2);
        scope.spawn(move || produce(stream, &sender, &recycled));
        let mut blocks = Blocks { receiver, recycle, block: Vec::new(), at: 0 };
        // Dropping `blocks` after `consume` closes the channel, so the producer ends even if not all data was read.
        let result = consume(&mut blocks);
        drop(blocks);
        result
    })
}

/// Run `consume` on another thread, while this thread reads the stream, which cannot be sent to another thread.
pub(crate) fn with_local<T: Send>(stream: impl Read, consume: impl FnOnce(Blocks) -> T + Send) -> T {
    std::thread::scope(|scope| {
        let (sender, receiver) = bounded(BLOCKS_AHEAD);
        let (recycle, recycled) = bounded(BLOCKS_AHEAD + 2);
        let consumer = scope.spawn(move || consume(Blocks { receiver, recycle, block: Vec::new(), at: 0 }));
        produce(stream, &sender, &recycled);
        drop(sender);
        consumer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Read a stream to its end, or to an error, and send it in blocks of 1 MiB; return early if the receiver is dropped.
fn produce(mut stream: impl Read, sender: &Sender<io::Result<Vec<u8>>>, recycled: &Receiver<Vec<u8>>) {
    loop {
        let mut block = recycled.try_recv().unwrap_or_default();
        block.clear();
        block.reserve(BLOCK);
        let result = stream.by_ref().take(BLOCK as u64).read_to_end(&mut block);
        let failed = result.is_err();
        if !block.is_empty() && sender.send(Ok(block)).is_err() {
            return;
        }
        match result {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => {
                let _ = sender.send(Err(error));
            }
        }
        if failed {
            return;
        }
    }
}

/// Byte stream of the blocks that another thread reads ahead.
pub(crate) struct Blocks {
    receiver: Receiver<io::Result<Vec<u8>>>,
    recycle: Sender<Vec<u8>>,
    block: Vec<u8>,
    at: usize,
}

impl Read for Blocks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.block.len() {
            match self.receiver.recv() {
                Ok(next) => {
                    let used = std::mem::replace(&mut self.block, next?);
                    let _ = self.recycle.try_send(used);
                    self.at = 0;
                }
                Err(_) => return Ok(0),
            }
        }
        let count = buffer.len().min(self.block.len() - self.at);
        buffer[..count].copy_from_slice(&self.block[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_and_errors_are_forwarded() {
        let data: Vec<u8> = (0..3_500_000u32).map(|i| (i % 251) as u8).collect();
        let mut out = Vec::new();
        with_prefetch(&data[..], |s| s.read_to_end(&mut out)).unwrap();
        assert_eq!(out, data);

        struct Failing(usize);
        impl Read for Failing {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let count = self.0.min(buffer.len());
                self.0 -= count;
                if count == 0 { Err(io::Error::other("broken")) } else { Ok(count) }
            }
        }
        let mut out = Vec::new();
        let error = with_prefetch(Failing(1_500_000), |s| s.read_to_end(&mut out)).unwrap_err();
        assert_eq!((out.len(), error.to_string()), (1_500_000, "broken".to_owned()));
    }

    #[test]
    fn a_consumer_may_stop_early() {
        let mut first = [0u8; 10];
        with_prefetch(io::repeat(7), |s| s.read_exact(&mut first)).unwrap();
        assert_eq!(first, [7; 10]);
        with_local(io::repeat(8), |mut s| s.read_exact(&mut first)).unwrap();
        assert_eq!(first, [8; 10]);
    }
}
