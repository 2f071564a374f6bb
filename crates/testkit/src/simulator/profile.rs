//! Features that simulated programs may have, such as steps, layers, streams and workers.

use crate::rng::Rng;

/// Features of simulated programs. [`Profile::any`] draws some, [`Profile::plain`] has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Training steps, each in a `ProfilerStep#N`; 0: no annotation, one pass.
    pub steps: u32,
    /// Modules per step.
    pub layers: u32,
    /// GPU times in percent of the usual ones; small values make host-bound programs.
    pub gpu_percent: i64,
    /// Backward pass on the autograd thread.
    pub backward: bool,
    /// All-reduces on a separate stream.
    pub collectives: bool,
    /// Number of DataLoader workers; 0: none.
    pub workers: u32,
    /// A pinning thread between workers and main thread.
    pub pin_memory: bool,
    /// The main thread loads batches itself if there are no workers.
    pub inline_loading: bool,
    /// Work on a second stream, with events recorded and waited for.
    pub events: bool,
    /// Synchronizing calls and blocking copies.
    pub syncs: bool,
    /// Queries instead of blocking waits.
    pub polls: bool,
    /// Copies in both directions on separate streams.
    pub copies: bool,
    /// Graph launches.
    pub graphs: bool,
    /// `cudaMalloc` and `cudaFree` between other calls.
    pub allocator: bool,
    /// A second Python thread that shares a lock with the main thread.
    pub locks: bool,
    /// A second Python thread that holds the GIL for long; the main thread then has top-level gaps. Excludes
    /// `backward`, `workers` and `locks`, because their traces would be ambiguous.
    pub gil: bool,
    /// Records of the profiler's overhead.
    pub overhead: bool,
    /// Programmatic dependent launch.
    pub dependent_launch: bool,
    /// Number of pending operations per stream before launches block.
    pub queue_limit: usize,
    /// All streams share the queue.
    pub queue_shared: bool,
    /// All steps repeat the first one, with its times.
    pub has_equal_steps: bool,
    /// A Python frame around all work of the main thread.
    pub main_frame: bool,
    /// Draw again until the trace is unambiguous. Large programs hardly ever are.
    pub unique: bool,
}

impl Profile {
    /// Features of the simplest program: one thread, one stream, launches, and a synchronization at the end.
    #[must_use]
    pub fn plain() -> Self {
        Self {
            steps: 0,
            layers: 3,
            gpu_percent: 100,
            backward: false,
            collectives: false,
            workers: 0,
            pin_memory: false,
            inline_loading: false,
            events: false,
            syncs: false,
            polls: false,
            copies: false,
            graphs: false,
            allocator: false,
            locks: false,
            gil: false,
            overhead: false,
            dependent_launch: false,
            queue_limit: 1024,
            queue_shared: false,
            has_equal_steps: false,
            main_frame: true,
            unique: true,
        }
    }

    /// A long training run for benchmarks, with about 30 events per layer and step. Its ground truth is one of
    /// several if times coincide to the nanosecond.
    #[must_use]
    pub fn large(steps: u32, layers: u32) -> Self {
        Self {
            steps,
            layers,
            backward: true,
            collectives: true,
            events: true,
            syncs: true,
            copies: true,
            graphs: true,
            allocator: true,
            overhead: true,
            gpu_percent: 30,
            unique: false,
            ..Self::plain()
        }
    }

    /// A GPU-bound program whose host runs ahead until the launch queue is full, with CUDA's queue length.
    #[must_use]
    pub fn full_queue(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x00fa_11ed_0e0e);
        let layers = 100 + rng.below(100) as u32;
        let gpu_percent = *rng.pick(&[60, 100, 200]).unwrap_or(&100);
        let mut coin = |percent: usize| rng.below(100) < percent;
        Self {
            steps: 4,
            layers,
            gpu_percent,
            events: coin(50),
            copies: coin(50),
            backward: coin(50),
            queue_limit: 1022,
            queue_shared: coin(50),
            has_equal_steps: coin(50),
            unique: false,
            ..Self::plain()
        }
    }

    /// Draw features; each one is frequent, and so are most combinations.
    #[must_use]
    pub fn any(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x005e_ed0f_f0a7);
        let mut coin = |percent: usize| rng.below(100) < percent;
        let gil = coin(12);
        let mut profile = Self {
            backward: !gil && coin(55),
            collectives: coin(35),
            pin_memory: coin(50),
            events: coin(60),
            syncs: coin(60),
            polls: coin(25),
            copies: coin(50),
            graphs: coin(30),
            allocator: coin(25),
            locks: !gil && coin(20),
            gil,
            overhead: coin(30),
            dependent_launch: coin(20),
            queue_limit: if coin(15) { 8 } else { 1024 },
            main_frame: !gil,
            ..Self::plain()
        };
        profile.workers = if !gil && coin(40) { 1 + rng.below(3) as u32 } else { 0 };
        profile.steps = rng.below(4) as u32;
        profile.layers = 1 + rng.below(4) as u32;
        profile.inline_loading = profile.workers == 0 && rng.below(100) < 30;
        profile.gpu_percent = *rng.pick(&[10, 30, 100, 300]).unwrap_or(&100);
        if profile.graphs {
            // The trace does not show how much of a short queue a graph uses.
            profile.queue_limit = 1024;
        }
        profile
    }
}
