"""Custom autograd functions, hooks of tensors, modules and graphs, checkpointing, gradients of gradients."""

import torch
from harness import digest, main
from torch import nn
from torch.utils.checkpoint import checkpoint


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, limit):
        ctx.save_for_backward(x)
        ctx.limit = limit
        return x.clamp(-limit, limit)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (x.abs() < ctx.limit), None


def program():
    seen = []
    block = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 8))
    block[1].register_forward_hook(lambda module, inputs, output: output * 1.5)
    block.register_full_backward_hook(lambda module, gradients, outputs: seen.append(digest(*outputs)))
    x = torch.randn(4, 8, requires_grad=True)
    for _ in range(5):
        y = checkpoint(block, x, use_reentrant=False)
        y = checkpoint(lambda value: Clipped.apply(value, 0.7).sin(), y, use_reentrant=True)
        y.register_hook(lambda gradient: gradient * 2)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            loss = (y * y.exp()).sum()
        loss.backward()
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    with torch.autograd.detect_anomaly(check_nan=False):
        (x.norm() * 2).backward()
    print("seen", digest(seen), "gradients", digest(x.grad, second), digest(*(p.grad for p in block.parameters())))


main(program)
