"""Programs of several ranks with one problem each, as those of `problems.py`: a rank for each GPU, by torchrun."""

from __future__ import annotations

import os

import torch
from models import DEVICE, GPU, HALF, Transformer, size
from torch import distributed
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors


def small_collectives(mended):
    """Each gradient is averaged over the ranks by a collective of its own (mended: one collective of all). Needs several ranks."""
    if "LOCAL_RANK" not in os.environ:
        raise RuntimeError("one process has no collectives: torchrun --nproc-per-node 2 benches/gpu/gains.py OUT NAME")
    if not distributed.is_initialized():
        if GPU:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        distributed.init_process_group("nccl" if GPU else "gloo")
    model = Transformer(size(512, 32), size(6, 2), size(8, 2), size(8192, 64), size(256, 16)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(64, (size(32, 2), size(256, 16)), device=DEVICE)

    def step(_):
        with torch.autocast(DEVICE.type, HALF):
            loss = model(tokens).float().logsumexp(-1).mean()
        loss.backward()
        gradients = [parameter.grad for parameter in model.parameters()]
        if mended:
            together = _flatten_dense_tensors(gradients)
            distributed.all_reduce(together)
            torch._foreach_copy_(gradients, list(_unflatten_dense_tensors(together, gradients)))
        else:
            for gradient in gradients:
                distributed.all_reduce(gradient)  # finding: SL044
        optimizer.step()
        optimizer.zero_grad()

    return step
