//! Demo: a simulated training program, written as Kineto writes its traces.
//!
//! One rank of a data-parallel transformer. Each step loads a batch (a pinned copy on a separate stream), runs the
//! forward pass under `nn.Module` frames, and reads the loss with `.item()` before the backward pass. The host then
//! waits for the GPU, and the GPU runs out of work: this is the problem that the demo contains. The step continues
//! with the backward pass on the autograd thread, with one all-reduce per bucket on the NCCL stream, and with the
//! optimizer.
//!
//! Times come from a small causal simulation (`sim.rs`): host threads have clocks, calls cost time, and a stream runs
//! its work in order, after its launch and after the events that it waits for.

mod backward;
mod event;
mod kernels;
mod kineto;
mod net;
mod sim;

/// Options of the demo.
#[derive(Debug, Clone)]
pub struct Config {
    /// Seed of all times and ids.
    pub seed: u64,
    /// Number of profiled steps; each becomes a `ProfilerStep#N`.
    pub steps: u32,
    /// Number of the first step.
    pub first_step: u32,
    /// Number of transformer blocks; the number of events per step is proportional to it.
    pub layers: u32,
    /// Rank in `distributedInfo`.
    pub rank: u32,
    /// Number of ranks of the job.
    pub world: u32,
    /// Read the loss between forward and backward, so that host and GPU wait for each other in each step.
    pub host_sync: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { seed: 1, steps: 4, first_step: 10, layers: 6, rank: 0, world: 8, host_sync: true }
    }
}

/// Simulate the demo training program and return its trace as JSON text.
#[must_use]
pub fn generate(config: &Config) -> String {
    let mut sim = sim::Sim::new(config.seed.wrapping_add(u64::from(config.rank) << 32));
    net::train(&mut sim, config);
    kineto::write(&sim, config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeMap;

    fn slices(config: &Config) -> Vec<Value> {
        let json: Value = serde_json::from_str(&generate(config)).unwrap();
        json["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X").cloned().collect()
    }

    /// Exact nanoseconds from the decimal text that the writer prints.
    fn ns(value: &Value) -> i64 {
        (value.as_f64().unwrap() * 1000.0).round() as i64
    }

    #[test]
    fn traces_are_determined_by_the_seed() {
        let config = Config { steps: 2, layers: 2, ..Config::default() };
        assert_eq!(generate(&config), generate(&config));
        assert_ne!(generate(&config), generate(&Config { seed: 2, ..config.clone() }));
        assert_ne!(generate(&config), generate(&Config { rank: 1, ..config }));
    }

    #[test]
    fn work_starts_after_its_launch_and_streams_run_in_order() {
        let all = slices(&Config::default());
        let calls: BTreeMap<i64, i64> = all
            .iter()
            .filter(|e| e["cat"] == "cuda_runtime")
            .map(|e| (e["args"]["correlation"].as_i64().unwrap(), ns(&e["ts"])))
            .collect();
        let mut streams: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
        for e in all.iter().filter(|e| ["kernel", "gpu_memcpy", "gpu_memset"].contains(&e["cat"].as_str().unwrap())) {
            let start = ns(&e["ts"]);
            assert!(calls[&e["args"]["correlation"].as_i64().unwrap()] < start);
            streams.entry(e["tid"].as_i64().unwrap()).or_default().push((start, start + ns(&e["dur"])));
        }
        assert_eq!(streams.len(), 3);
        for (stream, mut spans) in streams {
            spans.sort_unstable();
            assert!(spans.windows(2).all(|w| w[0].1 <= w[1].0 + 1), "stream {stream}");
        }
    }

    #[test]
    fn reading_the_loss_leaves_the_gpu_idle() {
        let busy = |host_sync| {
            let all = slices(&Config { host_sync, ..Config::default() });
            let compute: Vec<_> = all.iter().filter(|e| e["cat"] == "kernel" && e["tid"] == 7).collect();
            let (first, last) =
                (ns(&compute[0]["ts"]), compute.iter().map(|e| ns(&e["ts"]) + ns(&e["dur"])).max().unwrap());
            compute.iter().map(|e| ns(&e["dur"])).sum::<i64>() as f64 / (last - first) as f64
        };
        assert!(busy(false) > busy(true) + 0.05, "{} against {}", busy(false), busy(true));
    }
}
