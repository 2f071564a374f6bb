"""Measure the cost of each problem of `problems.py` on this machine, and take traces of it to check `stackline findings`.

    python benches/gpu/gains.py OUT [NAME…]
    torchrun --nproc-per-node 2 benches/gpu/gains.py OUT "a collective for each gradient"

Writes `OUT/gains.json` (seconds of a step with the problem and without, medians over interleaved runs, with their spread)
and of each problem three traces of torch.profiler: `plain` (its defaults), `full` (shapes and stacks) and `mended`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import sys
import time
import traceback
from pathlib import Path

import torch
from problems import DEVICE, GPU, PROBLEMS
from torch import distributed
from torch.profiler import ProfilerActivity, profile, schedule

ROUNDS = 5
BLOCK_SECONDS = 0.1
TRACED_STEPS = 4
#: A problem that takes longer is left out, and said.
LIMIT_SECONDS = 40


def wait() -> None:
    if GPU:
        torch.cuda.synchronize()


def seconds(step, number: int, steps: int) -> tuple[float, int]:
    wait()
    before = time.perf_counter()
    for n in range(number, number + steps):
        step(n)
    wait()
    return (time.perf_counter() - before) / steps, number + steps


def agreed(number: int) -> int:
    """The number of rank 0: all ranks run as many steps."""
    if not distributed.is_initialized():
        return number
    shared = torch.tensor(number, device=DEVICE)
    distributed.broadcast(shared, 0)
    return int(shared)


def trace(step, number: int, path: Path, full: bool) -> None:
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if GPU else [])
    planned = schedule(wait=0, warmup=2, active=TRACED_STEPS, repeat=1)

    def keep(done: profile) -> None:
        done.export_chrome_trace(str(path))

    with profile(activities=activities, schedule=planned, on_trace_ready=keep, record_shapes=full, with_stack=full) as profiler:
        for n in range(number, number + TRACED_STEPS + 2):
            step(n)
            profiler.step()


def measure(name: str, out: Path) -> dict[str, object]:
    torch.manual_seed(0)
    steps = {False: PROBLEMS[name](False), True: PROBLEMS[name](True)}
    at, blocks, times = {False: 0, True: 0}, {}, {False: [], True: []}
    for mended, step in steps.items():
        _, at[mended] = seconds(step, 0, 3)
        one, at[mended] = seconds(step, at[mended], 2)
        blocks[mended] = agreed(max(2, min(300, int(BLOCK_SECONDS / one))))
    for _ in range(ROUNDS):
        for mended, step in steps.items():
            one, at[mended] = seconds(step, at[mended], blocks[mended])
            times[mended].append(one)
    slug = re.sub(r"\W+", "-", name.lower()).strip("-")
    # On from where the measurement ended: what a problem does to steps that were not seen yet must be in the traces, too.
    for kind, mended in (("plain", False), ("full", False), ("mended", True)):
        trace(steps[mended], at[mended], out / f"{slug}.{kind}.json", full=kind != "plain")
        at[mended] += TRACED_STEPS + 2
    gains = [before - after for before, after in zip(times[False], times[True])]
    return {
        "slug": slug,
        "step_ms": 1e3 * statistics.median(times[False]),
        "mended_ms": 1e3 * statistics.median(times[True]),
        "gain_ms": 1e3 * statistics.median(gains),
        "gain_ms_of_rounds": [1e3 * gain for gain in gains],
    }


def overdue(*_) -> None:
    raise TimeoutError(f"took longer than {LIMIT_SECONDS} s")


def main() -> None:
    out, names = Path(sys.argv[1]), sys.argv[2:] or list(PROBLEMS)
    if (rank := int(os.environ.get("RANK", 0))) > 0:
        # What is compared is rank 0.
        out = out / f"rank{rank}"
    out.mkdir(parents=True, exist_ok=True)
    results = {"device": torch.cuda.get_device_name() if GPU else DEVICE.type, "torch": torch.__version__, "problems": {}}
    signal.signal(signal.SIGALRM, overdue)
    for name in names:
        began = time.perf_counter()
        signal.alarm(LIMIT_SECONDS)
        try:
            results["problems"][name] = measure(name, out)
            signal.alarm(0)
            print(f"{name}: {json.dumps(results['problems'][name])}, {time.perf_counter() - began:.1f} s", flush=True)
        except Exception as error:
            signal.alarm(0)
            results["problems"][name] = {"failed": f"{type(error).__name__}: {error}"}
            print(f"{name}: failed\n{traceback.format_exc()}", flush=True)
        (out / "gains.json").write_text(json.dumps(results, indent=1))
        if GPU:
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
