//! Prints the records of a stream, one per line.
//!
//! `cargo run -p stackline-recording --example dump_recording -- FILE`

#![allow(clippy::print_stdout, reason = "a command-line tool")]

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: dump_recording FILE")?;
    let file = std::fs::read(path)?;
    let mut reader = stackline_recording::Reader::new(&file)?;
    for record in reader.by_ref() {
        println!("{record:?}");
    }
    for damage in reader.damages() {
        println!("damaged: {} bytes from byte {} on", damage.bytes, damage.at);
    }
    Ok(())
}
