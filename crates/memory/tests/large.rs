//! Time of ten million accesses. Not run by default: it measures. In a release build, alone on the machine:
//!
//! ```sh
//! cargo test --release --locked -p stackline-memory --test it large -- --ignored --nocapture
//! ```

use stackline_memory::replay::Replay;
use stackline_memory::{ObjectUsage, Rules, curve, drgpum, patterns, suggest};
use stackline_model::{
    AccessEvidence, AccessExtent, AccessMode, MemoryCallKind, MemoryDeviceId, MemoryObjectId, MemoryTrace, NewCall,
    NewObject,
};
use std::time::Instant;

/// Training steps: layers allocate activations in forward and free them in backward; each kernel accesses some live
/// objects.
fn steps(accesses: usize, streams: u64) -> MemoryTrace {
    const LAYERS: usize = 200;
    let mut trace = MemoryTrace { saw_end: true, ..MemoryTrace::default() };
    let device = trace.device("cuda:0");
    let streams: Vec<_> = (0..streams).map(|key| trace.stream(device, key)).collect();
    let object = |bytes| NewObject { bytes, device, ..NewObject::default() };
    let call = |stream: usize| NewCall { stream: streams[stream % streams.len()], ..NewCall::default() };
    let weights: Vec<_> = (0..LAYERS).map(|_| trace.allocate(object(1 << 22), call(0))).collect();
    while trace.accesses.len() < accesses {
        let mut activations: Vec<MemoryObjectId> = Vec::new();
        for (layer, weight) in weights.iter().enumerate() {
            let activation = trace.allocate(object((1 << 20) + ((layer as u64 % 7) << 12)), call(layer));
            kernel(&mut trace, call(layer), &[*weight, activations.last().copied().unwrap_or(*weight)], activation);
            activations.push(activation);
        }
        for (layer, weight) in weights.iter().enumerate().rev() {
            let gradient = trace.allocate(object(1 << 20), call(layer));
            kernel(&mut trace, call(layer), &[*weight, activations[layer]], gradient);
            kernel(&mut trace, call(layer), &[gradient, activations[layer]], *weight);
            trace.release(gradient, call(layer));
            trace.release(activations[layer], call(layer));
        }
    }
    for weight in weights {
        trace.release(weight, call(0));
    }
    trace.check().unwrap();
    trace
}

fn kernel(trace: &mut MemoryTrace, call: NewCall, reads: &[MemoryObjectId], write: MemoryObjectId) {
    trace.calls.push(MemoryCallKind::Kernel, call);
    for read in reads {
        trace.accesses.push(*read, AccessMode::Read, AccessEvidence::Instrumented, AccessExtent::Unknown);
    }
    trace.accesses.push(write, AccessMode::Write, AccessEvidence::Instrumented, AccessExtent::Unknown);
    trace.seal_call();
}

fn measure(accesses: usize, streams: u64) {
    let trace = steps(accesses, streams);
    println!(
        "{streams} streams: {} calls, {} objects, {} accesses",
        trace.calls.len(),
        trace.objects.len(),
        trace.accesses.len()
    );
    let begin = Instant::now();
    let usage = ObjectUsage::new(&trace, Rules::default());
    println!("  facts {:?}, {} gaps", begin.elapsed(), usage.gaps.len());
    let found = patterns::find(&usage);
    println!("  + patterns {:?}, {} matches", begin.elapsed(), found.len());
    let counts = drgpum::count(&usage);
    println!("  + artifact's rules {:?}: {counts}", begin.elapsed());
    let curves = curve::curves(&trace);
    println!("  + curve {:?}: peak {}", begin.elapsed(), curves[0].peak().bytes);
    let all = suggest::suggestions(&usage, &found);
    println!("  + suggestions {:?}: {}", begin.elapsed(), all.len());
    let mut replay = Replay::new(&trace, MemoryDeviceId(0), &all);
    let among: Vec<usize> = (0..all.len()).collect();
    let lowered = replay.lower(&among, curves[0].peak().bytes / 1_000);
    println!("  + replay {:?}: {} chosen, {} bytes", begin.elapsed(), lowered.chosen.len(), lowered.after.bytes);
    assert!(lowered.after.bytes <= lowered.before.bytes);
}

#[test]
fn small_trace_is_analyzed() {
    measure(5_000, 1);
    measure(5_000, 4);
}

#[test]
#[ignore = "measures; see above"]
fn ten_million_accesses() {
    measure(10_000_000, 1);
    measure(10_000_000, 4);
}
