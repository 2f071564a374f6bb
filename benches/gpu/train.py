"""A training program whose output is the same in each run, to the bit, and which reports the times of its steps.

    python benches/gpu/train.py KIND [--steps N] [--times FILE]

Kinds of bounds: `small` (many small kernels: the host launches), `large` (matrix products: the GPU computes).
Kinds of features: `graph` (a CUDA graph is replayed), `compile` (torch.compile), `workers` (batches by two workers),
`profiled` (under torch.profiler with the GPU's activity), `memory` (out of memory, caught), `threads` (two threads on two
streams), `distributed` (one rank, NCCL).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import threading
import time
from pathlib import Path

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
import torch.nn.functional as F
from torch import nn

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")


def wait() -> None:
    if GPU:
        torch.cuda.synchronize()


class Rows(torch.utils.data.Dataset):
    def __init__(self, count: int):
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int):
        return torch.arange(256, dtype=torch.float32).sin() * (index % 7), index % 10


def network(width: int, layers: int) -> nn.Module:
    inner = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.LayerNorm(width), nn.GELU())]
    return nn.Sequential(*inner, nn.Linear(width, 10)).to(DEVICE)


def trainer(width: int, layers: int, batch: int, kind: str = "small"):
    model = network(width, layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=GPU and kind == "graph")
    run = torch.compile(model) if kind == "compile" else model
    if kind == "distributed":
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29544", "RANK": "0", "WORLD_SIZE": "1"}
        torch.distributed.init_process_group("nccl" if GPU else "gloo")
        run = nn.parallel.DistributedDataParallel(model)
    features, labels = torch.rand(batch, width, device=DEVICE), torch.randint(10, (batch,), device=DEVICE)

    def step(features=features, labels=labels):
        loss = F.cross_entropy(run(features), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=kind != "graph")
        return loss

    step.model = model
    return step


def graphed(step):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def replay():
        graph.replay()

    replay.model = step.model
    return replay


def runs_out() -> None:
    try:
        torch.empty(1 << 50, device=DEVICE)
    except RuntimeError as error:
        print("caught:", type(error).__name__)


def timed(step, steps: int, batches=None) -> list[float]:
    seconds = []
    for number, batch in enumerate(batches or range(steps)):
        before = time.perf_counter()
        step(*(part.to(DEVICE) for part in batch)) if batches else step()
        wait()
        seconds.append(time.perf_counter() - before)
        if number + 1 == steps:
            break
    return seconds


def run(kind: str, steps: int) -> tuple[list[float], nn.Module]:
    sizes = (4096, 6, 4096) if kind == "large" and GPU else (256, 24, 64)
    step = trainer(*sizes, kind)
    if kind == "graph" and GPU:
        return timed(graphed(step), steps), step.model
    if kind == "workers":
        return timed(step, steps, torch.utils.data.DataLoader(Rows(64 * steps), batch_size=64, num_workers=2)), step.model
    if kind == "profiled":
        activities = [torch.profiler.ProfilerActivity.CPU] + ([torch.profiler.ProfilerActivity.CUDA] if GPU else [])
        timed(step, 3)
        with torch.profiler.profile(activities=activities) as profiler:
            seconds = timed(step, steps)
        print("operators:", len(profiler.events()) > 0)
        return seconds, step.model
    if kind == "memory":
        runs_out()
    if kind == "threads":
        other = trainer(256, 4, 32)
        thread = threading.Thread(target=lambda: timed(other, steps), name="second trainer")
        thread.start()
        seconds = timed(step, steps)
        thread.join()
        return seconds, step.model
    return timed(step, steps), step.model


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--times", type=Path)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    seconds, model = run(options.kind, options.steps)
    bits = hashlib.sha256(b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters()))
    print(options.kind, bits.hexdigest())
    if options.times:
        options.times.write_text(json.dumps({"step_seconds": seconds}))
    if options.kind == "distributed":
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
