"""Time and memory of commands for a job of thousands of ranks: `python benches/ranks/many_ranks.py`.

Makes as many small traces as there are ranks, one rank of a data-parallel training each (`stackline-synth demo`), and prints the
resources of each command. Issue 27 asks for `report` and `collectives` of 4,096 ranks in 1.5 GB.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def make(options: argparse.Namespace, folder: Path) -> None:
    def one(rank: int) -> None:
        target = str(folder / f"rank{rank}.json.gz")
        job = ["--rank", str(rank), "--world", str(options.ranks)]
        subprocess.run([options.synth, "demo", target, "--steps", "2", "--layers", "2", *job], check=True)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, range(options.ranks)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stackline", default="stackline")
    parser.add_argument("--synth", default="stackline-synth")
    parser.add_argument("--ranks", type=int, default=4096)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        make(options, Path(name))
        print("| command | s | CPU, s | most memory, MB |")
        print("|---|---|---|---|")
        for command in (["report"], ["collectives"], ["report", "--format", "json"]):
            before = time.perf_counter()
            silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            process = subprocess.Popen([options.stackline, *command, name], **silent)
            _, status, usage = os.wait4(process.pid, 0)
            failure = f" (exit status {os.waitstatus_to_exitcode(status)})" if status else ""
            seconds, cpu = time.perf_counter() - before, usage.ru_utime + usage.ru_stime
            print(f"| {' '.join(command)}{failure} | {seconds:.1f} | {cpu:.1f} | {usage.ru_maxrss * 1024 / 1e6:.0f} |", flush=True)


if __name__ == "__main__":
    main()
