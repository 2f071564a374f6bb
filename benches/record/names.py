"""Cost of the names of tensors in each step of an optimizer: the step itself, with and without them, by number of parameters.

    python benches/record/names.py --python PYTHON_WITH_TORCH [--rounds 3] [--recorder FILE]

Runs without recorder, with `--mode trace --memory`, and without its hook are interleaved; shown are
minima over all steps, in µs per parameter. The recorder is `target/release/libstackline_record.so` unless another one is given.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PARAMETERS = (20, 1000)
STEPS = 60


def measure(without_hook: bool) -> None:
    """In the process that is measured: prints the fastest step by number of parameters, in ns."""
    import torch
    from torch import nn
    from torch.optim import optimizer as optimizers

    torch.set_num_threads(1)
    if without_hook:
        optimizers._global_optimizer_post_hooks.clear()
    fastest = {}
    for count in PARAMETERS:
        model = nn.ModuleList(nn.Linear(4, 4) for _ in range(count // 2))
        optimizer = torch.optim.AdamW(model.parameters())
        times = []
        for _ in range(STEPS):
            for parameter in model.parameters():
                parameter.grad = torch.ones_like(parameter)
            before = time.perf_counter_ns()
            optimizer.step()
            times.append(time.perf_counter_ns() - before)
        fastest[count] = min(times)
    print(json.dumps(fastest))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch")
    parser.add_argument("--recorder", default=str(ROOT / "target/release/libstackline_record.so"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", choices=["plain", "without-hook"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure == "without-hook")
        return 0
    best: dict[tuple[str, str], int] = {}
    for _ in range(options.rounds):
        for way in ("no recorder", "recorder without names", "recorder with names"):
            with tempfile.TemporaryDirectory() as folder:
                recorded = {
                    "STACKLINE_RECORD": folder, "STACKLINE_RECORDER": options.recorder, "STACKLINE_MODE": "trace",
                    "STACKLINE_MEMORY": "1", "PYTHONPATH": str(ROOT / "crates/record/bootstrap"), "STACKLINE_SAMPLE_HZ": "0",
                }
                program = [options.python, __file__, "--measure", "without-hook" if way == "recorder without names" else "plain"]
                environment = os.environ | (recorded if way != "no recorder" else {})
                output = subprocess.run(program, env=environment, stdout=subprocess.PIPE, check=True).stdout
            for count, took in json.loads(output).items():
                best[way, count] = min(took, best.get((way, count), took))
    for (way, count), took in sorted(best.items()):
        print(f"{way:24} {count:>5} parameters {took / int(count) / 1000:8.2f} µs each")
    return 0


if __name__ == "__main__":
    sys.exit(main())
