//! Backward pass of the demo on the autograd thread, with one all-reduce per bucket of gradients.

use super::Config;
use super::event::{Args, BF16, Flow, Input, tensor};
use super::net::{BATCH, HEADS, LENGTH, Saved, TOKENS, VOCABULARY, WIDTH};
use super::sim::{AUTOGRAD, COMPUTE, MAIN, NCCL, Recorded, Sim};

/// Elements per gradient bucket (25 MiB of bfloat16, the default of data-parallel training).
const BUCKET: i64 = 25 * (1 << 20) / 2;

/// A node of the autograd graph.
#[derive(Debug, Clone, Copy)]
pub(super) enum Node {
    Embedding,
    LayerNorm,
    Linear { from: i64, to: i64 },
    Attention,
    Gelu,
    Add,
    LogSoftmax,
    NllLoss,
}

impl Node {
    /// Number of elements in the output of the forward operator to which this autograd node belongs.
    pub(super) fn output_elements(self) -> i64 {
        match self {
            Self::Linear { to, .. } => TOKENS * to,
            Self::Gelu => TOKENS * WIDTH * 4,
            Self::LogSoftmax => TOKENS * VOCABULARY,
            Self::NllLoss => 1,
            Self::Embedding | Self::LayerNorm | Self::Attention | Self::Add => TOKENS * WIDTH,
        }
    }

    /// Name of the autograd node, as in PyTorch.
    fn name(self) -> &'static str {
        match self {
            Self::Embedding => "EmbeddingBackward0",
            Self::LayerNorm => "NativeLayerNormBackward0",
            Self::Linear { .. } => "AddmmBackward0",
            Self::Attention => "ScaledDotProductFlashAttentionBackward0",
            Self::Gelu => "GeluBackward0",
            Self::Add => "AddBackward0",
            Self::LogSoftmax => "LogSoftmaxBackward0",
            Self::NllLoss => "NllLossBackward0",
        }
    }

    /// Simulate the operators and kernels of the autograd node.
    fn work(self, sim: &mut Sim) {
        let wide = tensor(&[BATCH, LENGTH, WIDTH]);
        match self {
            Self::Linear { from, to } => {
                sim.op("aten::mm", &[tensor(&[TOKENS, to]), tensor(&[to, from])], |sim| sim.gemm(TOKENS, from, to));
                sim.op("aten::t", &[tensor(&[TOKENS, to])], |sim| sim.spend(600));
                sim.op("aten::mm", &[tensor(&[to, TOKENS]), tensor(&[TOKENS, from])], |sim| sim.gemm(to, from, TOKENS));
                sim.op("aten::sum", &[tensor(&[TOKENS, to]), Input::Scalar("[0]".to_owned())], |sim| {
                    sim.memory_kernel("void at::native::reduce_kernel<128, 4, at::native::ReduceOp<c10::BFloat16, at::native::func_wrapper_t<c10::BFloat16> > >()", TOKENS * to * 2, 512);
                });
            }
            Self::Embedding => one(sim, "aten::embedding_dense_backward", wide, |sim| {
                sim.memset(VOCABULARY * WIDTH * 2);
                sim.memory_kernel("void at::native::(anonymous namespace)::embedding_backward_feature_kernel<c10::BFloat16, float, long>(long const*)", TOKENS * WIDTH * 12, 1024);
            }),
            Self::LayerNorm => one(sim, "aten::native_layer_norm_backward", wide, |sim| {
                sim.memory_kernel("void at::native::(anonymous namespace)::layer_norm_grad_input_kernel_vectorized<c10::BFloat16, float>(c10::BFloat16 const*)", TOKENS * WIDTH * 8, 128);
                sim.memory_kernel("void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<c10::BFloat16, float>(long, long)", TOKENS * WIDTH * 4, 256);
            }),
            Self::Attention => one(sim, "aten::_scaled_dot_product_flash_attention_backward", wide, |sim| {
                let name = "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64, 128, 128, 8> >(pytorch_flash::Flash_bwd_params)";
                sim.attention(name, BATCH, HEADS, LENGTH, WIDTH / HEADS, 3);
            }),
            Self::Gelu => one(sim, "aten::gelu_backward", tensor(&[BATCH, LENGTH, 4 * WIDTH]), |sim| {
                sim.elementwise(
                    "at::native::GeluBackwardCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)",
                    TOKENS * WIDTH * 24,
                );
            }),
            Self::Add => sim.spend(900),
            Self::LogSoftmax => one(sim, "aten::_log_softmax_backward_data", tensor(&[TOKENS, VOCABULARY]), |sim| {
                sim.memory_kernel("void at::native::(anonymous namespace)::cunn_SoftMaxBackward<8, c10::BFloat16, float, c10::BFloat16>(c10::BFloat16*)", TOKENS * VOCABULARY * 6, 1024);
            }),
            Self::NllLoss => one(sim, "aten::nll_loss_backward", tensor(&[TOKENS, VOCABULARY]), |sim| {
                sim.elementwise("at::native::FillFunctor<c10::BFloat16>", TOKENS * VOCABULARY * 2);
                sim.memory_kernel("void at::native::(anonymous namespace)::nll_loss_backward_reduce_cuda_kernel_2d<c10::BFloat16, long>(c10::BFloat16*)", TOKENS * 64, 32);
            }),
        }
    }
}

/// Simulate an operator with one input.
fn one(sim: &mut Sim, name: &str, input: Input, body: impl FnOnce(&mut Sim)) {
    sim.op(name, &[input], |sim| body(sim));
}

/// Simulate the backward pass: run the nodes of the tape on the autograd thread, while the main thread waits in
/// `loss.backward()`.
pub(super) fn run(sim: &mut Sim, config: &Config, tape: Vec<Saved>) {
    sim.frame("torch/_tensor.py(570): backward", |sim| {
        sim.frame("torch/autograd/graph.py(815): _engine_run_backward", |sim| {
            sim.now[AUTOGRAD] = sim.now[MAIN] + 21_000;
            sim.thread = AUTOGRAD;
            walk(sim, config, tape);
            sim.thread = MAIN;
            sim.now[MAIN] = sim.now[AUTOGRAD] + 14_000;
        });
    });
}

/// Simulate the nodes of the tape in reverse order, with an all-reduce for each gradient bucket.
fn walk(sim: &mut Sim, config: &Config, tape: Vec<Saved>) {
    let (mut filled, mut reductions) = (0, Vec::new());
    for saved in tape.into_iter().rev() {
        let name = saved.node.name();
        let args = || Args::default().num("Sequence number", saved.sequence).num("Fwd thread id", 1);
        sim.op_with(&format!("autograd::engine::evaluate_function: {name}"), args(), &[], |sim| {
            let inner = sim.op_with(name, args(), &[], |sim| saved.node.work(sim));
            sim.ops[inner].flow = Some(Flow::End(saved.flow));
            sim.release(saved.block);
        });
        if saved.parameters > 0 {
            accumulate(sim, saved.parameters);
            filled += saved.parameters;
        }
        if filled >= BUCKET {
            reductions.push(reduce(sim, config, std::mem::take(&mut filled)));
        }
    }
    if filled > 0 {
        reductions.push(reduce(sim, config, filled));
    }
    for done in reductions {
        sim.wait(COMPUTE, done);
    }
}

/// Simulate the accumulation of a gradient of `elements` values.
fn accumulate(sim: &mut Sim, elements: i64) {
    sim.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", &[], |sim| {
        sim.op("torch::autograd::AccumulateGrad", &[tensor(&[elements])], |sim| {
            sim.op("aten::mul", &[tensor(&[elements])], |sim| {
                sim.elementwise(
                    "at::native::AUnaryFunctor<c10::BFloat16, at::native::MulFunctor<float> >",
                    elements * 4,
                );
            });
        });
    });
}

/// Simulate the all-reduce of a gradient bucket of `elements` values on the NCCL stream; returns the event at its end.
fn reduce(sim: &mut Sim, config: &Config, elements: i64) -> Recorded {
    let ranks: Vec<i64> = (0..i64::from(config.world)).collect();
    let mut done = None;
    let shape = [Input::Tensor(vec![elements], BF16)];
    sim.op("c10d::allreduce_", &shape, |sim| {
        let args = collective(elements, &ranks).num("Rank", config.rank).num("Global rank start", 0);
        sim.op_with("record_param_comms", args.num("Global rank stride", 1), &shape, |sim| {
            sim.annotation("nccl:all_reduce", |sim| {
                let ready = sim.record(COMPUTE);
                sim.wait(NCCL, ready);
                sim.query("cudaStreamGetCaptureInfo_v2", 409);
                sim.all_reduce(elements, config.world, collective(elements, &ranks));
                done = Some(sim.record(NCCL));
            });
        });
    });
    done.unwrap_or_else(|| sim.record(NCCL))
}

/// Arguments by which Kineto describes an all-reduce.
fn collective(elements: i64, ranks: &[i64]) -> Args {
    Args::default()
        .text("Collective name", "allreduce")
        .num("In msg nelems", elements)
        .num("Out msg nelems", elements)
        .num("Group size", ranks.len())
        .text("dtype", "BFloat16")
        .text("In split size", "[]")
        .text("Out split size", "[]")
        .text("Process Group Name", "0")
        .text("Process Group Description", "default_pg")
        .text("Process Group Ranks", &super::event::numbers(ranks))
}
