"""Cost of recording other than time per operator: at the start, at the end, and in memory over many steps.

    python benches/record/limits.py --python PYTHON_WITH_TORCH [--rounds 10] [--steps 10000]

Start: wall time of a program that does nothing, and of one that imports PyTorch, with the recorder less without it;
runs are interleaved, minimum and median. Final write: from the last line of the tiny GPT until its process has ended,
less the same without the recorder. Memory: resident set after the last step less that after the hundredth.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GPT = ROOT / "python/examples/train_gpt.py"

#: Runs the program, and says what the resident set is after its hundredth and its last step, and when that was.
FOLLOW = """
import os, runpy, sys, time
import torch
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
steps, early, step = 0, 0.0, torch.optim.AdamW.step
def counted(self, *arguments, **named):
    global steps, early
    result = step(self, *arguments, **named)
    steps += 1
    if steps == 100:
        early = resident()
    return result
torch.optim.AdamW.step = counted
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
print("RESIDENT", early, resident(), steps, flush=True)
print("LAST", time.monotonic(), flush=True)
"""


def environment(run: str, recorder: str) -> dict[str, str]:
    """Environment that makes a Python record itself, with default sampling."""
    return {"STACKLINE_RECORD": run, "STACKLINE_RECORDER": recorder, "PYTHONPATH": str(ROOT / "crates/record/bootstrap")}


def wall(command: list[str], extra: dict[str, str]) -> float:
    began = time.monotonic()
    subprocess.run(command, env=os.environ | extra, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - began


def start(options: argparse.Namespace) -> None:
    for name, program in (("a program that does nothing", "pass"), ("one that imports torch", "import torch")):
        times: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(options.rounds):
            for watched in (False, True):
                with tempfile.TemporaryDirectory() as run:
                    extra = environment(run, options.recorder) if watched else {}
                    times[watched].append(1e3 * wall([options.python, "-c", program], extra))
        least = min(times[True]) - min(times[False])
        median = statistics.median(times[True]) - statistics.median(times[False])
        print(f"start and end of {name}: {least:.1f} ms more (minimum), {median:.1f} ms more (median of {options.rounds})")


def follow(options: argparse.Namespace, extra: dict[str, str]) -> tuple[float, float, float]:
    """Seconds from the last line to the end, and the resident set early and late, in MB."""
    command = [options.python, "-c", FOLLOW, str(GPT), "--steps", str(options.steps)]
    output = subprocess.run(command, env=os.environ | extra, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    ended = time.monotonic()
    output_values = {words[0]: words[1:] for words in map(str.split, output.stdout.splitlines()) if words}
    return ended - float(output_values["LAST"][0]), float(output_values["RESIDENT"][0]), float(output_values["RESIDENT"][1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch")
    parser.add_argument("--recorder", default=os.environ.get("STACKLINE_RECORDER", str(ROOT / "target/release/libstackline_record.so")))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=10000)
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}")
    start(options)
    bare = follow(options, {})
    for name, more in (("operators, Python, samples", {}), ("and native frames", {"STACKLINE_NATIVE": "1"})):
        with tempfile.TemporaryDirectory() as run:
            took, early, late = follow(options, environment(run, options.recorder) | more)
        print(f"{name}: last write {1e3 * (took - bare[0]):.0f} ms; memory grew by {late - early:.1f} MB over {options.steps} steps, by {bare[2] - bare[1]:.1f} MB without")
    print(f"load {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
