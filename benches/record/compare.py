"""Cost of recording, compared with other tools: runs all in turn, several times, and prints a table.

    python benches/record/compare.py --python PYTHON_WITH_TORCH [--small] [--steps 300] [--rounds 3] [--only NAME…]

`--small` takes programs of small operators (`programs/`), which report the CPU time of each step; "empty callback" is the
time in which PyTorch itself reports operators, a lower bound for any profiler that sees each of them.

Each run is a process of its own; repetitions are interleaved, so that a busy moment of the machine affects all alike. Times of
steps are the minimum and the 10th percentile over all repetitions, in ms; the factor is that of the 10th percentile over the
run without any tool. Memory is the growth of the largest resident set over it. py-spy, Scalene and memray are left out
where they are not installed for that Python.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import resource
import shlex
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
#: Programs of small operators: of 1 µs in the mean, and of 3 µs.
SMALL = (
    "lstm.py", "lstm.py --backward", "decoder.py",
    "lstm.py --width 256", "lstm.py --width 256 --backward", "decoder.py --width 256",
)  # fmt: skip
#: A tool that takes longer than this for one run does not finish.
LIMIT_S = 600


@dataclasses.dataclass
class Tool:
    """Command line of the program under a tool."""

    name: str
    before: list[str] = dataclasses.field(default_factory=list)
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    #: A command that must exist beside the Python, if the tool is one.
    needs: str | None = None


@dataclasses.dataclass
class Measured:
    """Measurements of the runs under one tool."""

    steps_ms: list[float] = dataclasses.field(default_factory=list)
    wall_s: list[float] = dataclasses.field(default_factory=list)
    peak_mb: list[float] = dataclasses.field(default_factory=list)
    failed: str | None = None


def tools(python: str, scratch: pathlib.Path) -> list[Tool]:
    """All tools, the bare run first."""
    recorder = os.environ.get("STACKLINE_RECORDER", str(ROOT / "target/release/libstackline_record.so"))
    bootstrap = str(ROOT / "crates/record/bootstrap")

    def stackline_tool(name: str, **options: str) -> Tool:
        run = str(scratch / name.replace(" ", "-"))
        base = {"STACKLINE_RECORD": run, "STACKLINE_RECORDER": recorder, "PYTHONPATH": bootstrap}
        # Steps that are not recorded, to measure the overhead, would be the fastest ones here.
        base["STACKLINE_OVERHEAD_STEPS"] = "0"
        if "default" not in name:
            base["STACKLINE_SAMPLE_HZ"] = "0"
        return Tool(f"stackline {name}", environment=base | options)

    python_folder = pathlib.Path(python).parent
    profiler = [python, str(HERE / "under_torch_profiler.py")]
    memray = ["-m", "memray", "run", "--quiet", "--force", "-o", str(scratch / "memray.bin")]
    return [
        Tool("none"),
        Tool("empty callback", [python, str(HERE / "empty_callback.py")]),
        stackline_tool("default"),
        stackline_tool("default and --native", STACKLINE_NATIVE="1"),
        stackline_tool("operators", STACKLINE_DISABLE="python"),
        stackline_tool("operators and Python"),
        stackline_tool("and native frames", STACKLINE_NATIVE="1"),
        stackline_tool("and memory", STACKLINE_MEMORY="1"),
        stackline_tool("samples at 99 Hz", STACKLINE_DISABLE="python,pytorch", STACKLINE_SAMPLE_HZ="99"),
        Tool("torch.profiler", profiler + ["plain"]),
        Tool("torch.profiler with_stack", profiler + ["with_stack"]),
        Tool("torch.profiler record_shapes", profiler + ["record_shapes"]),
        Tool("cProfile", [python, "-m", "cProfile", "-o", str(scratch / "cprofile")]),
        Tool("py-spy 100 Hz", [str(python_folder / "py-spy"), "record", "-o", str(scratch / "pyspy"), "-f", "raw", "--", python], needs="py-spy"),
        Tool("Scalene cpu-only", [python, "-m", "scalene", "--cpu", "--cli", "--outfile", os.devnull], needs="scalene"),
        Tool("memray", [python, *memray], needs="memray"),
    ]


def run(tool: Tool, python: str, program: list[str], scratch: pathlib.Path, measured: Measured) -> None:
    """Run the program once under a tool and store its measurements."""
    times = scratch / "times.json"
    times.unlink(missing_ok=True)
    command = [*(tool.before or [python]), *program, "--times", str(times)]
    started = time.monotonic()
    process = subprocess.Popen(command, env=os.environ | tool.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    peak = wait(process)
    if not times.exists():
        measured.failed = "did not finish" if process.returncode == -9 else f"failed with {process.returncode}"
        return
    measured.wall_s.append(time.monotonic() - started)
    measured.peak_mb.append(peak)
    # The first steps warm up caches and allocators.
    measured.steps_ms += [1e3 * step for step in json.loads(times.read_text())["step_seconds"][10:]]


def wait(process: subprocess.Popen[bytes]) -> float:
    """Waits for the process, kills it after the limit, and returns its largest resident set in MB."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return usage.ru_maxrss * 1024 / 1e6
        if time.monotonic() > deadline:
            process.kill()
        time.sleep(0.05)


def percentile(values: list[float], share: float) -> float:
    """The value that `share` of them do not exceed."""
    return sorted(values)[int(len(values) * share)]


def table(title: str, results: dict[str, Measured]) -> None:
    """Prints the results as Markdown."""
    base = results["none"]
    print(f"\n{title}, load {os.getloadavg()[0]:.1f}\n")
    print("| tool | min ms/step | p10 ms/step | factor | process s | memory MB over none |")
    print("|---|---|---|---|---|---|")
    for name, measured in results.items():
        if not measured.steps_ms:
            print(f"| {name} | {measured.failed or 'not installed'} | | | | |")
            continue
        p10 = percentile(measured.steps_ms, 0.1)
        factor = p10 / percentile(base.steps_ms, 0.1)
        growth = min(measured.peak_mb) - min(base.peak_mb)
        print(f"| {name} | {min(measured.steps_ms):.3f} | {p10:.3f} | {factor:.3f} | {min(measured.wall_s):.1f} | {growth:.0f} |")


def compare(
    chosen: list[Tool], options: argparse.Namespace, program: list[str], scratch: pathlib.Path
) -> dict[str, Measured]:
    """Runs the program under each tool in turn, once per repetition."""
    results = {tool.name: Measured() for tool in chosen}
    for repetition in range(options.rounds):
        for tool in chosen:
            installed = tool.needs is None or (pathlib.Path(options.python).parent / tool.needs).exists()
            if installed and results[tool.name].failed is None:
                print(f"repetition {repetition + 1}: {tool.name}", file=sys.stderr)
                run(tool, options.python, program, scratch, results[tool.name])
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch")
    parser.add_argument("--program", action="append", help="with its arguments; may be given several times")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="tools whose names contain one of these, and none")
    parser.add_argument("--small", action="store_true", help="the programs with small operators: LSTM and decoder with a KV cache")
    options = parser.parse_args()
    programs = list(options.program or [])
    if options.small:
        programs += [str(HERE / "programs" / name) for name in SMALL]
    programs = programs or [str(ROOT / "python/examples/train_gpt.py")]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        chosen = [
            tool
            for tool in tools(options.python, scratch)
            if not options.only or tool.name == "none" or any(part in tool.name for part in options.only)
        ]
        for text in programs:
            program = [*shlex.split(text), "--steps", str(options.steps)]
            table(f"{pathlib.Path(program[0]).name} {' '.join(program[1:])}", compare(chosen, options, program, scratch))
    return 0


if __name__ == "__main__":
    sys.exit(main())
