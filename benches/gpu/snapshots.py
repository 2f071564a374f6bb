"""Snapshots of PyTorch's CUDA allocator, as users take them, each with PyTorch's own statistics of the same moment.

    python benches/gpu/snapshots.py OUT

writes `OUT/NAME.pickle` and `OUT/NAME.json` (`torch.cuda.memory_stats` and the sizes of the objects that the program holds).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from models import Transformer
from torch import nn

MEMORY = torch.cuda.memory


def model_and_step(checkpoint: bool = False, vocabulary: int = 8192):
    model = Transformer(512, 6, 8, vocabulary, 256).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(64, (16, 257), device="cuda")

    def forward(tokens):
        if not checkpoint:
            return model(tokens)
        x = model.tokens(tokens) + model.positions(torch.arange(tokens.shape[1], device="cuda"))
        for block in model.blocks:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
        return model.head(x)

    def step():
        loss = F.cross_entropy(forward(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return model, optimizer, step


def kept(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    states = [value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value) and value.is_cuda]
    parameters = list(model.parameters())
    return {
        "parameters": sum(p.numel() * p.element_size() for p in parameters),
        "gradients": sum(p.grad.numel() * p.grad.element_size() for p in parameters if p.grad is not None),
        "optimizer_states": sum(s.numel() * s.element_size() for s in states),
    }


def train_step(checkpoint: bool):
    def program():
        model, optimizer, step = model_and_step(checkpoint)
        for _ in range(3):
            step()
        return kept(model, optimizer)

    return program


def out_of_memory():
    held, known = [], {}
    torch.cuda.set_per_process_memory_fraction(2e9 / torch.cuda.get_device_properties(0).total_memory)
    try:
        for n in range(1000):
            held.append(torch.empty(30_000_000 + n, dtype=torch.uint8, device="cuda"))
            if n % 3:
                held.append(torch.empty(1_000_000, dtype=torch.uint8, device="cuda"))
            if n % 4 == 3:
                del held[n % len(held)]
    except torch.cuda.OutOfMemoryError as error:
        known = {"message": str(error), "held": sum(t.numel() for t in held)}
    torch.cuda.set_per_process_memory_fraction(1.0)
    return known


def fragments():
    held = [torch.empty(12_000_000, dtype=torch.uint8, device="cuda") for _ in range(60)]
    held = held[::2]
    large = torch.empty(200_000_000, dtype=torch.uint8, device="cuda")
    return {"held": sum(t.numel() for t in held) + large.numel()}


def graph_pool():
    model = Transformer(256, 4, 4, 1024, 64).cuda().eval()
    tokens = torch.randint(64, (4, 32), device="cuda")
    torch.cuda.make_graphed_callables(model, (tokens,))
    return {"parameters": sum(p.numel() * p.element_size() for p in model.parameters())}


def growing_cache():
    keys = torch.rand(8, 16, 1, 128, device="cuda")
    for _ in range(200):
        keys = torch.cat([keys, torch.rand(8, 16, 1, 128, device="cuda")], 2)
    return {"held": keys.numel() * 4}


def leak():
    losses, (model, optimizer, step) = [], model_and_step()
    for _ in range(4):
        step()
        losses.append(model(torch.randint(64, (4, 64), device="cuda")).mean())
    return kept(model, optimizer)


def compiled():
    model, optimizer, step = model_and_step()
    step = torch.compile(step)
    for _ in range(3):
        step()
    return kept(model, optimizer)


PROGRAMS = {
    "train-step": train_step(False), "train-step-checkpointing": train_step(True), "out-of-memory": out_of_memory, "fragments": fragments,
    "graph-pool": graph_pool, "growing-cache": growing_cache, "leak": leak, "compiled": compiled,
}  # fmt: skip


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for name, program in PROGRAMS.items():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        MEMORY._record_memory_history(max_entries=200_000)
        try:
            known = program()
        except Exception as error:
            known = {"failed": f"{type(error).__name__}: {error}"}
        stats = torch.cuda.memory_stats()
        MEMORY._dump_snapshot(str(out / f"{name}.pickle"))
        MEMORY._record_memory_history(enabled=None)
        (out / f"{name}.json").write_text(json.dumps({"known": known, "stats": stats}, indent=1))
        print(name, known, flush=True)


if __name__ == "__main__":
    main()
