"""Tensors whose memory is known: `memory.py small`, very many of them at once: `many`, and one that is too
large: `failing`. A training step: `memory.py
train`, and with `profile` the memory counts of PyTorch's own profiler (a line each: how many allocations and bytes,
how many frees and bytes)."""

import json
import sys
import tempfile

import torch
from torch import nn


def small():
    first = torch.zeros(1000)  # 4000 bytes, filled
    second = torch.ones(1000)
    total = first + second
    total.add_(1)
    grid = total.view(10, 100)
    weights = torch.ones(100, 5)
    product = grid @ weights
    del first
    unused = torch.empty(3000)
    pair = torch.cat([total, second])
    torch._foreach_mul_([second, product], 2.0)
    columns = torch.arange(100)
    picked = grid[:, columns]  # a list whose first place is empty
    return product.sum().item() + pair[0].item() + len(unused) + picked[0][0].item()


def many():
    return torch.cat([torch.ones(1) for _ in range(5000)]).sum().item()


def failing():
    kept = torch.ones(1000)
    try:
        torch.empty(1 << 50, dtype=torch.uint8)
    except RuntimeError as error:
        assert "can't allocate memory" in str(error), error
    return kept.add_(1).sum().item()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.norm = nn.LayerNorm(32)
        self.out = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, x):
        mixed, _ = self.attention(x, x, x, need_weights=False)
        return self.out(self.norm(x + mixed))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.second = nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x):
        return torch.relu(self.second(self.first(x)) + x)


def step(model, optimizer, inputs):
    optimizer.zero_grad()
    loss = model(inputs).square().mean()
    loss.backward()
    optimizer.step()


def measured(*arguments):
    step(*arguments)


def train(with_profiler):
    torch.manual_seed(0)
    for model, inputs in ((Block(), torch.rand(4, 16, 32)), (Residual(), torch.rand(2, 8, 16, 16))):
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            step(model, optimizer, inputs)
        if not with_profiler:
            measured(model, optimizer, inputs)
            continue
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
            measured(model, optimizer, inputs)
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            profiler.export_chrome_trace(file.name)
            events = json.load(open(file.name))["traceEvents"]
        sizes = [event["args"]["Bytes"] for event in events if event["name"] == "[memory]"]
        for found in ([size for size in sizes if size > 0], [-size for size in sizes if size < 0]):
            print(len(found), sum(found))


if sys.argv[1] == "small":
    small()
elif sys.argv[1] == "many":
    many()
elif sys.argv[1] == "failing":
    failing()
else:
    torch.set_num_threads(1)
    train(sys.argv[2:] == ["profile"])
