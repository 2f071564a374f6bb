"""Check that a recorded program on a GPU runs as without recorder, and measure the cost.

    python benches/gpu/recorder.py check|costs STACKLINE OUT [KIND…]

`check`: each kind of `train.py` runs alone and under `stackline record` with several options: exit status and output (a
checksum of all parameters) must be equal, and the recording must open and hold operators. Ends with 1 if anything differs.
`costs`: the steps of two kinds are timed alone, recorded, with an empty callback, and under torch.profiler, in turn.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TRAIN, RECORD_BENCHES = str(HERE / "train.py"), HERE.parent / "record"
KINDS = ["small", "graph", "compile", "workers", "profiled", "memory", "threads", "distributed", "large"]
OPTIONS = {
    "default": [],
    "native": ["--native"],
    "all": ["--mode", "trace", "--memory", "--shapes", "--native", "--wall-hz", "99"],
}
LIMIT_SECONDS = 120
ROUNDS = 1


def process(command: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": "1"} | more
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, start_new_session=True, **pipes) as running:
        try:
            out, err = running.communicate(timeout=LIMIT_SECONDS)
            return subprocess.CompletedProcess(command, running.returncode, out, err)
        except subprocess.TimeoutExpired:
            # What it started, too: the recorded program would run on.
            os.killpg(running.pid, signal.SIGKILL)
            out, err = running.communicate()
            return subprocess.CompletedProcess(command, 124, out, f"{err}\ntook longer than {LIMIT_SECONDS} s")


def checked(stackline: str, kind: str, out: Path) -> list[str]:
    program = [sys.executable, "-X", "faulthandler", TRAIN, kind, "--steps", "12"]
    # Ports and caches of compilers are of one run at a time.
    alone = process(program)
    rows = []
    for name, options in OPTIONS.items():
        recording = out / f"{kind}-{name}.stackline"
        shutil.rmtree(recording, ignore_errors=True)
        recorded = process([stackline, "record", *options, "-o", str(recording), "--", *program])
        same = (alone.returncode, alone.stdout) == (recorded.returncode, recorded.stdout)
        report = process([stackline, "calls", str(recording), "--format", "json"])
        operators = '"operator' in report.stdout
        verdict = "pass" if same and alone.returncode == 0 and report.returncode == 0 and operators else "FAIL"
        rows.append(f"| {kind} | {name} | {verdict} | {alone.returncode}, {recorded.returncode} | {'equal' if same else 'different'} |")
        if verdict == "FAIL":
            (out / f"{kind}-{name}.txt").write_text("\n----\n".join(
                [alone.stdout, alone.stderr, recorded.stdout, recorded.stderr, report.stderr, report.stdout[:2000]]
            ))
    return rows


def costs(stackline: str, kind: str, steps: int, out: Path) -> list[str]:
    recording = out / "cost.stackline"

    def record(*options: str) -> list[str]:
        return [stackline, "record", *options, "-o", str(recording), "--", sys.executable]

    tools = {
        "none": [sys.executable],
        "empty callback": [sys.executable, str(RECORD_BENCHES / "empty_callback.py")],
        "stackline record": record(),
        "stackline record --native": record("--native"),
        "torch.profiler, GPU and CPU": [sys.executable, str(RECORD_BENCHES / "under_torch_profiler.py"), "gpu"],
    }
    if kind == "large":
        tools = {name: tools[name] for name in ("none", "stackline record")}
    took: dict[str, list[float]] = {name: [] for name in tools}
    for _ in range(ROUNDS):
        for name, tool in tools.items():
            times = out / "times.json"
            times.unlink(missing_ok=True)
            shutil.rmtree(recording, ignore_errors=True)
            process([*tool, TRAIN, kind, "--steps", str(steps), "--times", str(times)], STACKLINE_OVERHEAD_STEPS="0")
            if times.exists():
                took[name] += json.loads(times.read_text())["step_seconds"][10:]
    rows = []
    for name, seconds in took.items():
        ordered = sorted(seconds)
        if ordered:
            p10, base = ordered[len(ordered) // 10], sorted(took["none"])[len(took["none"]) // 10]
            rows.append(f"| {kind} | {name} | {1e3 * p10:.3f} | {1e3 * ordered[len(ordered) // 2]:.3f} | {p10 / base:.3f} |")
        else:
            rows.append(f"| {kind} | {name} | failed | | |")
    return rows


def check(stackline: str, out: Path, kinds: list[str]) -> int:
    print("| program | options | verdict | exit status unrecorded, recorded | output |\n|---|---|---|---|---|")
    rows: list[str] = []
    with concurrent.futures.ThreadPoolExecutor(len(KINDS) if (os.cpu_count() or 1) > 8 else 1) as pool:
        for found in concurrent.futures.as_completed(pool.submit(checked, stackline, kind, out) for kind in kinds):
            print("\n".join(found.result()), flush=True)
            rows += found.result()
    return 1 if any("FAIL" in row for row in rows) else 0


def main() -> int:
    mode, stackline, out = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    out.mkdir(parents=True, exist_ok=True)
    if mode == "check":
        return check(stackline, out, sys.argv[4:] or KINDS)
    print("| program | tool | step ms, p10 | median | factor |\n|---|---|---|---|---|", flush=True)
    for kind, steps in (("small", 150), ("large", 40)):
        print("\n".join(costs(stackline, kind, steps, out)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
