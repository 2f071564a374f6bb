//! What a program may contain.

use crate::rng::Rng;

/// Features of the programs to make. [`Profile::any`] draws some, [`Profile::plain`] has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Training steps, each in a `ProfilerStep#N`; 0: no annotation, one pass.
    pub steps: u32,
    /// Modules per step.
    pub layers: u32,
    /// GPU times in percent of the usual ones: small values make programs that the host bounds.
    pub gpu_percent: i64,
    /// Backward pass on the autograd thread.
    pub backward: bool,
    /// All-reduces on a stream of their own.
    pub collectives: bool,
    /// DataLoader workers; 0: none.
    pub workers: u32,
    /// A pinning thread between workers and main thread.
    pub pin_memory: bool,
    /// Batches are loaded by the main thread itself, if there are no workers.
    pub inline_loading: bool,
    /// Work on a second stream, with events recorded and waited for.
    pub events: bool,
    /// Synchronising calls, blocking copies.
    pub syncs: bool,
    /// Queries instead of waits.
    pub polls: bool,
    /// Copies both ways on their own stream.
    pub copies: bool,
    /// Graph launches.
    pub graphs: bool,
    /// `cudaMalloc` and `cudaFree` in the way.
    pub allocator: bool,
    /// A second Python thread that shares a lock with the main thread.
    pub locks: bool,
    /// A second Python thread that holds the GIL for long; the main thread then has top-level gaps. Leaves no room for
    /// `backward`, `workers` and `locks`: the trace of those would allow several causes.
    pub gil: bool,
    /// Records of the profiler's own work.
    pub overhead: bool,
    /// Programmatic dependent launch.
    pub dependent_launch: bool,
    /// Operations that a stream holds before launches block.
    pub queue_limit: usize,
    /// All streams share the queue.
    pub queue_shared: bool,
    /// Every step does what the first one does, with its times.
    pub alike: bool,
    /// A Python frame around everything on the main thread.
    pub main_frame: bool,
    /// Draw again until the trace allows no other cause than the true one. Large programs hardly ever get there.
    pub unique: bool,
}

impl Profile {
    /// One thread, one stream, launches, and a synchronisation at the end.
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
            alike: false,
            main_frame: true,
            unique: true,
        }
    }

    /// A long training run, for measurements of speed: some 30 events per layer and step. Its truth is one of several
    /// where things coincide to the nanosecond.
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

    /// A program that the GPU bounds and whose host runs ahead until the launch queue is full, as deep as CUDA's.
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
            alike: coin(50),
            unique: false,
            ..Self::plain()
        }
    }

    /// Draws features; every one comes up often, most of the combinations too.
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
            // What a graph takes of a short queue, its trace does not tell.
            profile.queue_limit = 1024;
        }
        profile
    }
}
