"""Cost of recording per operator: tiny operators, many times, by Python depth and by recorded data.

    python benches/record/per_operator.py --python PYTHON_WITH_TORCH [--rounds 5] [--only NAME…] [--recorder FILE]

Each way of recording is a process of its own, repetitions are interleaved. A table for each program shows ns per operator more
than without the recorder: minimum and 10th percentile over all repeats of a batch. The recorder is
`target/release/libstackline_record.so` unless STACKLINE_RECORDER or the option says otherwise.
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
#: Calls that are timed at once, and how often.
BATCH = 300
REPEATS = 400

CONFIGURATIONS: dict[str, dict[str, str] | None] = {
    "none": None,
    "waiting": {"STACKLINE_STEPS": "1000000000.."},
    "waiting, shapes": {"STACKLINE_STEPS": "1000000000..", "STACKLINE_SHAPES": "1"},
    "operators": {"STACKLINE_DISABLE": "python"},
    "operators, Python": {},
    "operators, shapes": {"STACKLINE_DISABLE": "python", "STACKLINE_SHAPES": "1"},
    "operators, Python, shapes": {"STACKLINE_SHAPES": "1"},
    "operators, Python, native": {"STACKLINE_NATIVE": "1"},
    "operators, Python, trace mode": {"STACKLINE_MODE": "trace", "STACKLINE_TRACE_LIMIT": "64000000"},
    "trace mode, memory": {"STACKLINE_MODE": "trace", "STACKLINE_MEMORY": "1", "STACKLINE_TRACE_LIMIT": "64000000"},
}


def one(value, other):
    """One operator, always from the same line."""
    for _ in range(BATCH):
        value.add_(other)


def three(value, other):
    """An operator with three tensors."""
    for _ in range(BATCH):
        value.addcmul_(other, other)


def nested(value, other):
    """Operators that call operators: `t` calls `transpose`, which calls `as_strided`."""
    for _ in range(BATCH):
        value.t()


def _first(value, other):
    value.add_(other)


def _second(value, other):
    value.mul_(other)


def lines(value, other):
    """Operators from two functions in turn, as programs are: the path changes from call to call."""
    for _ in range(BATCH // 2):
        _first(value, other)
        _second(value, other)


def at_depth(depth, function, *values):
    """Calls `function` below so many Python frames."""
    if depth > 1:
        return at_depth(depth - 1, function, *values)
    before = time.perf_counter_ns()
    function(*values)
    return time.perf_counter_ns() - before


PROGRAMS = [(name, depth) for name in ("one", "three", "nested", "lines") for depth in (3, 30)]


def measure() -> None:
    """In the process that is measured: prints ns of each batch as JSON, by program."""
    import torch

    torch.set_num_threads(1)
    value, other = torch.zeros(1, 1), torch.ones(1, 1)
    times: dict[str, list[int]] = {f"{name} {depth}": [] for name, depth in PROGRAMS}
    with torch.no_grad():
        for _ in range(REPEATS):
            for name, depth in PROGRAMS:
                times[f"{name} {depth}"].append(at_depth(depth, globals()[name], value, other))
    print(json.dumps(times))


def count() -> None:
    """Prints how many operators a batch of each program runs, by PyTorch's own profiler."""
    import torch

    counts = {}
    value, other = torch.zeros(1, 1), torch.ones(1, 1)
    for name, _ in PROGRAMS:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            globals()[name](value, other)
        counts[name] = len(profile.events())
    print(json.dumps(counts))


def run(python: str, what: str, environment: dict[str, str]) -> dict:
    command = [python, str(pathlib.Path(__file__).resolve()), f"--{what}"]
    output = subprocess.run(command, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return json.loads(output.stdout)


def percentile(values: list[int], share: float) -> int:
    return sorted(values)[int(len(values) * share)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch")
    parser.add_argument("--recorder", default=os.environ.get("STACKLINE_RECORDER", str(ROOT / "target/release/libstackline_record.so")))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="ways whose names are these, and none")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--count", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure or options.count:
        measure() if options.measure else count()
        return 0
    configurations = {name: change for name, change in CONFIGURATIONS.items() if not options.only or name == "none" or name in options.only}
    counts = run(options.python, "count", {})
    times: dict[str, dict[str, list[int]]] = {name: {} for name in configurations}
    for repetition in range(options.rounds):
        for name, change in configurations.items():
            with tempfile.TemporaryDirectory() as folder:
                base = {
                    "STACKLINE_RECORD": folder,
                    "STACKLINE_RECORDER": options.recorder,
                    "PYTHONPATH": str(ROOT / "crates/record/bootstrap"),
                    "STACKLINE_SAMPLE_HZ": "0",
                }
                taken = run(options.python, "measure", {} if change is None else base | change)
            print(f"repetition {repetition + 1}: {name}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
            for program, batches in taken.items():
                times[name].setdefault(program, []).extend(batches)
    print("ns per operator over nothing, minimum / 10th percentile (first row: ns per operator without the recorder)\n")
    print("| | " + " | ".join(f"{name}, depth {depth}" for name, depth in PROGRAMS) + " |")
    print("|---|" + "---|" * len(PROGRAMS))
    for name in configurations:
        cells = []
        for program, depth in PROGRAMS:
            key = f"{program} {depth}"
            values = [value / counts[program] for value in (min(times[name][key]), percentile(times[name][key], 0.1))]
            base_values = [value / counts[program] for value in (min(times["none"][key]), percentile(times["none"][key], 0.1))]
            over = values if name == "none" else [value - base for value, base in zip(values, base_values)]
            cells.append(" / ".join(f"{value:.0f}" for value in over))
        print(f"| {name} | " + " | ".join(cells) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
