//! Program of the demo: training loop, forward pass, optimizer.

use super::Config;
use super::backward::{self, Node};
use super::event::{Args, BF16, Flow, Input, numbers, tensor};
use super::sim::{COMPUTE, COPY, MAIN, Sim};

/// Sequences per rank and step.
pub(super) const BATCH: i64 = 4;
/// Tokens per sequence.
pub(super) const LENGTH: i64 = 256;
/// Tokens per rank and step.
pub(super) const TOKENS: i64 = BATCH * LENGTH;
/// Width of the residual stream.
pub(super) const WIDTH: i64 = 1_024;
/// Attention heads.
pub(super) const HEADS: i64 = 16;
/// Size of the vocabulary.
pub(super) const VOCABULARY: i64 = 16_000;

/// Entry of the tape: a forward operator, with the data that its backward node needs.
#[derive(Debug)]
pub(super) struct Saved {
    pub(super) node: Node,
    pub(super) sequence: u64,
    pub(super) flow: u64,
    /// Activation that backward frees.
    pub(super) block: (u64, i64),
    /// Elements of the parameters whose gradient is complete after this node, or 0.
    pub(super) parameters: i64,
}

/// Simulate `config.steps` training steps and a final device synchronization.
pub(super) fn train(sim: &mut Sim, config: &Config) {
    sim.frame("train.py(1): <module>", |sim| {
        sim.frame("train.py(131): main", |sim| {
            for step in 0..config.steps {
                sim.annotation(&format!("ProfilerStep#{}", config.first_step + step), |sim| {
                    one_step(sim, config, step);
                });
                sim.frame("torch/profiler/profiler.py(744): step", |sim| sim.spend(30_000));
            }
            sim.frame("torch/cuda/__init__.py(1023): synchronize", |sim| sim.synchronize(None));
        });
    });
}

/// Simulate one training step: batch, forward and backward pass, optimizer.
fn one_step(sim: &mut Sim, config: &Config, step: u32) {
    let mut tape = Vec::new();
    load_batch(sim, step);
    sim.frame("train.py(88): train_step", |sim| {
        forward(sim, config, &mut tape);
        if config.host_sync {
            sim.frame("train.py(97): log_loss", read_loss);
        }
        backward::run(sim, config, tape);
        optimizer(sim, config);
    });
}

/// Simulate a wait for the data loader (long in every fourth step) and the copy of the batch on the copy stream.
fn load_batch(sim: &mut Sim, step: u32) {
    let wait = if step % 4 == 2 { 2_600_000 } else { 180_000 };
    sim.frame("torch/utils/data/dataloader.py(701): __next__", |sim| {
        sim.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", |sim| sim.spend(wait));
    });
    sim.frame("train.py(81): to_device", |sim| {
        let shape = Input::Tensor(vec![BATCH, LENGTH], "long int");
        for _ in ["tokens", "labels"] {
            sim.op("aten::to", std::slice::from_ref(&shape), |sim| {
                sim.op("aten::_to_copy", std::slice::from_ref(&shape), |sim| {
                    sim.op("aten::empty_strided", &[], |sim| sim.spend(600));
                    let both = [shape.clone(), shape.clone(), Input::Scalar("True".to_owned())];
                    sim.op("aten::copy_", &both, |sim| sim.copy_in(TOKENS * 8));
                });
            });
        }
        let arrived = sim.record(COPY);
        sim.wait(COMPUTE, arrived);
    });
}

/// Simulate `loss.item()`: the host waits for the GPU; then the GPU is idle until the host has printed a line.
fn read_loss(sim: &mut Sim) {
    sim.frame("<built-in method item of Tensor object>", |sim| {
        let loss = [Input::Tensor(Vec::new(), "float")];
        sim.op("aten::item", &loss, |sim| {
            sim.op("aten::_local_scalar_dense", &loss, |sim| {
                sim.copy_out(4);
                sim.synchronize(Some(COMPUTE));
            });
        });
    });
    sim.frame("<built-in function print>", |sim| sim.spend(700_000));
}

/// Simulate the forward pass of the model; its operators are added to the tape.
fn forward(sim: &mut Sim, config: &Config, tape: &mut Vec<Saved>) {
    sim.module("DistributedDataParallel_0", |sim| {
        sim.frame("torch/nn/parallel/distributed.py(1633): forward", |sim| {
            sim.op("DistributedDataParallel.forward", &[], |sim| {
                sim.module("Transformer_0", |sim| {
                    sim.frame("model.py(112): forward", |sim| {
                        embedding(sim, tape);
                        for layer in 0..config.layers {
                            sim.module(&format!("Block_{layer}"), |sim| block(sim, layer, tape));
                        }
                        layer_norm(sim, 2 * config.layers, tape);
                        linear(sim, 4 * config.layers, WIDTH, VOCABULARY, tape);
                    });
                });
            });
        });
    });
    sim.module("CrossEntropyLoss_0", |sim| loss(sim, tape));
}

/// Simulate an operator that autograd records: allocate its output, run `body`, add the operator to the tape.
fn differentiable(
    sim: &mut Sim,
    tape: &mut Vec<Saved>,
    (name, node, parameters): (&str, Node, i64),
    inputs: &[Input],
    body: impl FnOnce(&mut Sim),
) {
    let (sequence, flow, mut block) = (sim.next_sequence(), sim.next_flow(), (0, 0));
    let extra = Args::default().num("Sequence number", sequence).num("Fwd thread id", 0);
    let bytes = node.output_elements() * 2;
    let index = sim.op_with(name, extra, inputs, |sim| {
        sim.op("aten::empty", &[Input::Scalar(numbers(&[bytes / 2]))], |sim| block = sim.allocate(bytes));
        body(sim);
    });
    sim.ops[index].flow = Some(Flow::Start(flow));
    tape.push(Saved { node, sequence, flow, block, parameters });
}

fn embedding(sim: &mut Sim, tape: &mut Vec<Saved>) {
    sim.module("Embedding_0", |sim| {
        sim.frame("torch/nn/modules/sparse.py(190): forward", |sim| {
            let inputs = [tensor(&[VOCABULARY, WIDTH]), Input::Tensor(vec![BATCH, LENGTH], "long int")];
            let what = ("aten::embedding", Node::Embedding, VOCABULARY * WIDTH);
            differentiable(sim, tape, what, &inputs, |sim| {
                let name = "void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long, unsigned int, 2, 2, -2, true>()";
                sim.op("aten::index_select", &inputs, |sim| sim.memory_kernel(name, TOKENS * WIDTH * 4, 128));
            });
        });
    });
}

/// Simulate the forward pass of one transformer block.
fn block(sim: &mut Sim, layer: u32, tape: &mut Vec<Saved>) {
    sim.frame("model.py(71): forward", |sim| {
        layer_norm(sim, 2 * layer, tape);
        sim.module(&format!("Attention_{layer}"), |sim| {
            sim.frame("model.py(38): forward", |sim| {
                linear(sim, 4 * layer, WIDTH, 3 * WIDTH, tape);
                attention(sim, tape);
                linear(sim, 4 * layer + 1, WIDTH, WIDTH, tape);
            });
        });
        residual(sim, tape);
        layer_norm(sim, 2 * layer + 1, tape);
        linear(sim, 4 * layer + 2, WIDTH, 4 * WIDTH, tape);
        sim.module(&format!("GELU_{layer}"), |sim| {
            let shape = [tensor(&[BATCH, LENGTH, 4 * WIDTH]), Input::Scalar("none".to_owned())];
            differentiable(sim, tape, ("aten::gelu", Node::Gelu, 0), &shape, |sim| {
                sim.elementwise(
                    "at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)",
                    TOKENS * WIDTH * 16,
                );
            });
        });
        linear(sim, 4 * layer + 3, 4 * WIDTH, WIDTH, tape);
        residual(sim, tape);
    });
}

fn layer_norm(sim: &mut Sim, index: u32, tape: &mut Vec<Saved>) {
    sim.module(&format!("LayerNorm_{index}"), |sim| {
        sim.frame("torch/nn/modules/normalization.py(217): forward", |sim| {
            let inputs =
                [tensor(&[BATCH, LENGTH, WIDTH]), Input::Scalar(numbers(&[WIDTH])), tensor(&[WIDTH]), tensor(&[WIDTH])];
            sim.op("aten::layer_norm", &inputs, |sim| {
                differentiable(sim, tape, ("aten::native_layer_norm", Node::LayerNorm, 2 * WIDTH), &inputs, |sim| {
                    let name = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float, c10::BFloat16 const*)";
                    sim.memory_kernel(name, TOKENS * WIDTH * 4, 128);
                });
            });
        });
    });
}

fn linear(sim: &mut Sim, index: u32, from: i64, to: i64, tape: &mut Vec<Saved>) {
    sim.module(&format!("Linear_{index}"), |sim| {
        sim.frame("torch/nn/modules/linear.py(125): forward", |sim| {
            let inputs = [tensor(&[BATCH, LENGTH, from]), tensor(&[to, from]), tensor(&[to])];
            sim.frame("<built-in function linear>", |sim| {
                sim.op("aten::linear", &inputs, |sim| {
                    sim.op("aten::t", &[tensor(&[to, from])], |sim| {
                        sim.op("aten::transpose", &[tensor(&[to, from])], |sim| sim.spend(500));
                    });
                    let gemm = [tensor(&[to]), tensor(&[TOKENS, from]), tensor(&[from, to])];
                    let what = ("aten::addmm", Node::Linear { from, to }, from * to + to);
                    differentiable(sim, tape, what, &gemm, |sim| {
                        sim.query("cudaStreamIsCapturing", 317);
                        sim.gemm(TOKENS, to, from);
                    });
                });
            });
        });
    });
}

fn attention(sim: &mut Sim, tape: &mut Vec<Saved>) {
    sim.frame("<built-in function scaled_dot_product_attention>", |sim| {
        let shape = tensor(&[BATCH, HEADS, LENGTH, WIDTH / HEADS]);
        let inputs = [shape.clone(), shape.clone(), shape, Input::Absent, Input::Scalar("True".to_owned())];
        sim.op("aten::scaled_dot_product_attention", &inputs, |sim| {
            let what = ("aten::_scaled_dot_product_flash_attention", Node::Attention, 0);
            differentiable(sim, tape, what, &inputs, |sim| {
                sim.op("aten::_flash_attention_forward", &inputs, |sim| {
                    let name = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t> >(pytorch_flash::Flash_fwd_params)";
                    sim.attention(name, BATCH, HEADS, LENGTH, WIDTH / HEADS, 1);
                });
            });
        });
    });
}

fn residual(sim: &mut Sim, tape: &mut Vec<Saved>) {
    let shape = tensor(&[BATCH, LENGTH, WIDTH]);
    let inputs = [shape.clone(), shape, Input::Scalar("1".to_owned())];
    differentiable(sim, tape, ("aten::add", Node::Add, 0), &inputs, |sim| {
        sim.elementwise("at::native::CUDAFunctor_add<c10::BFloat16>", TOKENS * WIDTH * 6);
    });
}

fn loss(sim: &mut Sim, tape: &mut Vec<Saved>) {
    let logits = tensor(&[TOKENS, VOCABULARY]);
    let labels = Input::Tensor(vec![TOKENS], "long int");
    sim.op("aten::cross_entropy_loss", &[logits.clone(), labels.clone()], |sim| {
        differentiable(sim, tape, ("aten::log_softmax", Node::LogSoftmax, 0), std::slice::from_ref(&logits), |sim| {
            let name = "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, float>(float*, c10::BFloat16 const*, int)";
            sim.memory_kernel(name, TOKENS * VOCABULARY * 6, 1024);
        });
        differentiable(sim, tape, ("aten::nll_loss_forward", Node::NllLoss, 0), &[logits, labels], |sim| {
            let name = "void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<c10::BFloat16, float, long>(c10::BFloat16*)";
            sim.memory_kernel(name, TOKENS * 64, 32);
        });
    });
}

/// Simulate a fused AdamW step: a few multi-tensor kernels per chunk of parameters, then the host time of `zero_grad`.
fn optimizer(sim: &mut Sim, config: &Config) {
    let elements = parameters(config);
    sim.frame("torch/optim/optimizer.py(469): wrapper", |sim| {
        sim.annotation("Optimizer.step#AdamW.step", |sim| {
            sim.frame("torch/optim/adamw.py(226): step", |sim| {
                let chunks = i64::from(config.layers) / 2 + 2;
                for name in ["add_", "mul_", "lerp_", "mul_", "addcmul_", "sqrt", "div_", "addcdiv_"] {
                    let lists = [Input::Tensor(vec![elements / chunks], BF16), Input::Scalar("0.9".to_owned())];
                    sim.op(&format!("aten::_foreach_{name}"), &lists, |sim| {
                        let kernel = format!(
                            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::TensorListMetadata<2>, {name}>(at::native::TensorListMetadata<2>)"
                        );
                        (0..chunks).for_each(|_| sim.memory_kernel(&kernel, elements / chunks * 4, 512));
                    });
                }
            });
        });
    });
    sim.annotation("Optimizer.zero_grad#AdamW.zero_grad", |sim| sim.spend(40_000));
    debug_assert_eq!(sim.thread, MAIN);
}

/// Number of parameters of the model.
fn parameters(config: &Config) -> i64 {
    i64::from(config.layers) * 12 * WIDTH * WIDTH + VOCABULARY * WIDTH * 2
}
