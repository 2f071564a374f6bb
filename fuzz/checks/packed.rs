//! Archives: damaged zip, tar, gzip and zstd streams end with a sound trace or a reason, never a panic.

use crate::invariants;
use flate2::{Compression, write::GzEncoder};
use stackline_ingest::{ReadOptions, read_bytes};
use std::io::Write;

/// A tar header with the right checksum, so that mutation reaches the content.
fn tar_member(name: &[u8], content: &[u8]) -> Vec<u8> {
    let mut header = [0u8; 512];
    let length = name.len().min(100);
    header[..length].copy_from_slice(&name[..length]);
    header[100..107].copy_from_slice(b"0000644");
    header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
    header[148..156].copy_from_slice(b"        ");
    header[156] = b'0';
    header[257..263].copy_from_slice(b"ustar\0");
    let sum: u32 = header.iter().map(|&b| u32::from(b)).sum();
    header[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
    let mut out = header.to_vec();
    out.extend_from_slice(content);
    out.resize(out.len().next_multiple_of(512), 0);
    out
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let _ = encoder.write_all(content);
    encoder.finish().unwrap_or_default()
}

/// Panics where it does not hold.
pub(crate) fn check(data: &[u8]) {
    let Some((&form, content)) = data.split_first() else { return };
    let packed = match form % 5 {
        0 => content.to_vec(),
        1 => gzip(content),
        2 => tar_member(b"rank0.json", content),
        3 => [tar_member(b"rank0.json", content), tar_member(b"rank1.json.gz", &gzip(content))].concat(),
        _ => {
            let mut cut = gzip(content);
            cut.truncate(cut.len() - usize::from(form / 5).min(cut.len()));
            cut
        }
    };
    let options = ReadOptions { threads: 1, ..ReadOptions::default() };
    if let Ok(trace) = read_bytes("fuzz", &packed, &options)
        && let Err(broken) = invariants::check(&trace)
    {
        panic!("{broken}");
    }
}
