//! Replay of the fuzz targets' seeds, whole and mutated, without coverage guidance (`./dev fuzz` has that).

#[path = "../../../../fuzz/checks/chrome.rs"]
mod chrome;
#[path = "../../../../fuzz/checks/document.rs"]
mod document;
#[path = "../../../../fuzz/checks/drgpum.rs"]
mod drgpum;
#[path = "../../../../fuzz/checks/memory.rs"]
mod memory;
#[path = "../../../../fuzz/checks/nsys.rs"]
mod nsys;
#[path = "../../../../fuzz/checks/numbers.rs"]
mod numbers;
#[path = "../../../../fuzz/checks/packed.rs"]
mod packed;
#[path = "../../../../fuzz/checks/profiles.rs"]
mod profiles;
#[path = "../../../../fuzz/checks/recording.rs"]
mod recording;
#[path = "../../../../fuzz/checks/rocprofv3.rs"]
mod rocprofv3;
mod seeds;
#[path = "../../../../fuzz/checks/xplane.rs"]
mod xplane;

use stackline_testkit::mutate::mutate;

/// Mutated inputs per target.
const MUTATED: usize = 20_000;

/// Run a target's check over its seeds and their mutations; a failure names the input by its number.
fn replay(target: &str, check: fn(&[u8])) {
    replay_some(target, check, MUTATED);
}

fn replay_some(target: &str, check: fn(&[u8]), mutated: usize) {
    let seeds: Vec<Vec<u8>> =
        seeds::seeds().expect("seeds").into_iter().filter(|(of, _)| *of == target).map(|(_, bytes)| bytes).collect();
    assert!(seeds.len() >= 2, "{} seeds of {target}", seeds.len());
    seeds.iter().for_each(|seed| check(seed));
    for number in 0..mutated {
        let input = mutate(&seeds, number as u64);
        if let Err(panic) = std::panic::catch_unwind(|| check(&input)) {
            eprintln!("mutated input {number} of {target}: {}", input.escape_ascii());
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn seeds_of_chrome() {
    replay("chrome", chrome::check);
}

#[test]
fn seeds_of_document() {
    replay("document", document::check);
}

#[test]
fn seeds_of_drgpum() {
    // Each is a folder on the disk.
    replay_some("drgpum", drgpum::check, MUTATED / 10);
}

#[test]
fn seeds_of_memory() {
    replay("memory", memory::check);
}

#[test]
fn seeds_of_numbers() {
    replay("numbers", numbers::check);
}

#[test]
fn seeds_of_nsys() {
    // Each is a file on the disk.
    replay_some("nsys", nsys::check, MUTATED / 10);
}

#[test]
fn seeds_of_packed() {
    replay("packed", packed::check);
}

#[test]
fn seeds_of_profiles() {
    replay("profiles", profiles::check);
}

#[test]
fn seeds_of_recording() {
    replay("recording", recording::check);
}

#[test]
fn seeds_of_rocprofv3() {
    replay("rocprofv3", rocprofv3::check);
}

#[test]
fn seeds_of_xplane() {
    replay("xplane", xplane::check);
}
