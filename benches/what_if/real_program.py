"""Predictions of `stackline what-if`, compared with the gains of the same changes in a real program.

A small model is trained on the CPU with PyTorch. It has a DataLoader whose transform waits (as for a disk), with one worker
for longer than a step takes; a teacher that gives the targets without gradients; and a function that logs far too much.
The program is profiled; `stackline what-if` predicts from the traces the gains of three changes: more workers where there is
one, the others where there are enough. Then the changes are made, and the program is measured, with and without
profiler, in turns, so that other work on the machine affects all variants equally.

    python benches/what_if/real_program.py --stackline target/release/stackline

prints a table in Markdown. Needs torch with `torch.profiler` (1.12 or later).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, Dataset

WIDTH = 256
BATCH = 64
#: Steps that are not measured: workers start, allocators fill up.
WARM_UP = 4
STEPS = 16
#: What a worker waits for each sample. 64 of them take longer than the rest of a step, or more workers would gain nothing.
SAMPLE_SECONDS = 0.003


@dataclass(frozen=True)
class Variant:
    """Parameters that the changes set."""

    workers: int = 1
    teacher_layers: int = 24
    logs: bool = True


#: Where data is waited for, and where it is not.
STARVED, FED = Variant(workers=1), Variant(workers=3)

#: Name, the edit as `stackline what-if` takes it, the program before, and with the change made.
CHANGES = [
    ("DataLoader workers 1 → 3", ["--more-workers", "2"], STARVED, FED),
    ("teacher half as deep", ["--scale", "module:Teacher", "0.5"], FED, replace(FED, teacher_layers=12)),
    ("logging removed", ["--remove", "frame:*log_everything*"], FED, replace(FED, logs=False)),
]


class Waiting(Dataset):
    """Samples that take a while to come."""

    def __len__(self) -> int:
        return BATCH * (WARM_UP + STEPS + 8)

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(SAMPLE_SECONDS)
        return torch.full((WIDTH,), index / 1000.0)


class Teacher(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(layers)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class Student(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(WIDTH, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


def log_everything(model: nn.Module, loss: torch.Tensor) -> int:
    """Write weights as text that is never read."""
    lines = [repr(loss.item())]
    for name, parameter in model.named_parameters():
        lines.append(name + repr(parameter.detach().flatten()[:8000].tolist()))
    return len("\n".join(lines))


def train(variant: Variant, trace: Path | None) -> float:
    """Trains for some steps; seconds per step."""
    torch.manual_seed(0)
    student, teacher = Student(), Teacher(variant.teacher_layers)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.01)
    batches = iter(DataLoader(Waiting(), batch_size=BATCH, num_workers=variant.workers))

    def step() -> None:
        batch = next(batches)
        with torch.no_grad():
            target = teacher(batch)
        loss = nn.functional.mse_loss(student(batch), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if variant.logs:
            log_everything(student, loss)

    def steps(after: callable) -> float:
        for _ in range(WARM_UP):
            step()
            after()
        begin = time.perf_counter()
        for _ in range(STEPS):
            step()
            after()
        return (time.perf_counter() - begin) / STEPS

    if trace is None:
        return steps(lambda: None)
    with profile(activities=[ProfilerActivity.CPU], with_stack=True, schedule=lambda _: torch.profiler.ProfilerAction.RECORD) as p:
        seconds = steps(p.step)
    p.export_chrome_trace(str(trace))
    return seconds


def predict(binary: str, trace: Path, edit: list[str]) -> tuple[float, float, float]:
    """Gain and its bounds in percent of the measured steps."""
    steps = f"{WARM_UP}..{WARM_UP + STEPS - 1}"
    command = [binary, "what-if", str(trace), "--steps", steps, *edit, "--format", "json"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return tuple(100 * found[key] / found["before_ns"] for key in ("gain_ns", "gain_low_ns", "gain_high_ns"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stackline", default="stackline", help="the program to ask")
    parser.add_argument("--repeat", type=int, default=7, help="how often each variant is measured")
    parser.add_argument("--keep", type=Path, help="keep the traces in this directory")
    options = parser.parse_args()
    torch.set_num_threads(1)
    variants = list(dict.fromkeys(v for _, _, before, after in CHANGES for v in (before, after)))
    with tempfile.TemporaryDirectory() as folder:
        traces = options.keep or Path(folder)
        plain: dict[Variant, list[float]] = {v: [] for v in variants}
        profiled: dict[Variant, list[float]] = {v: [] for v in variants}
        predictions: list[list[tuple[float, float, float]]] = [[] for _ in CHANGES]
        for _ in range(options.repeat):
            for number, variant in enumerate(variants):
                plain[variant].append(train(variant, None))
                trace = traces / f"variant-{number}.json"
                profiled[variant].append(train(variant, trace))
                for found, (_, edit, before, _) in zip(predictions, CHANGES):
                    if before == variant:
                        found.append(predict(options.stackline, trace, edit))

    def gain(times: dict[Variant, list[float]], before: Variant, after: Variant) -> str:
        each = [100 * (1 - t / b) for t, b in zip(times[after], times[before])]
        return f"{statistics.median(each):.1f} ({min(each):.1f} to {max(each):.1f})"

    def column(found: list[tuple[float, float, float]], part: int) -> float:
        return statistics.median(f[part] for f in found)

    for name, variant in (("One worker", STARVED), ("Three workers", FED)):
        ms = [f"{1000 * statistics.median(times[variant]):.1f} ms" for times in (plain, profiled)]
        print(f"{name}: one step {ms[0]}, {ms[1]} with profiler (median of {options.repeat}). torch {torch.__version__}.\n")
    print("| change | edit | predicted gain, % | bounds, % | measured with profiler, % | measured without, % |")
    print("|---|---|---|---|---|---|")
    for found, (name, edit, *both) in zip(predictions, CHANGES):
        bounds = f"{column(found, 1):.1f} to {column(found, 2):.1f}"
        row = [name, f"`{' '.join(edit)}`", f"{column(found, 0):.1f}", bounds, gain(profiled, *both), gain(plain, *both)]
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
