"""Peak memory of `stackline memory` for a large snapshot of GPU memory: `python benches/memory/large_snapshot.py SNAPSHOT`.

Repeats the history of a real snapshot, as a longer training would, until its pickle has so many bytes: frames are shared, and events
that shared a list of frames in one repetition still do, as PyTorch writes them. Prints the peak memory of each command, also as a
multiple of the file's size.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pickle
import subprocess
import tempfile
import time
from pathlib import Path

Event = dict[str, object]


def copy_events(trace: list[Event]) -> list[Event]:
    """The events of one more repetition: lists of frames are new, except where one list served several events."""
    lists: dict[int, list[object]] = {}

    def copied(event: Event) -> Event:
        if "frames" not in event:
            return dict(event)
        return {**event, "frames": lists.setdefault(id(event["frames"]), list(event["frames"]))}

    return [copied(event) for event in trace]


def write(source: Path, into: Path, least: int) -> None:
    """Writes the large snapshot."""
    snapshot = pickle.loads(source.read_bytes())
    rounds = max(1, round(least / source.stat().st_size))
    traces = snapshot["device_traces"]
    snapshot["device_traces"] = [[event for _ in range(rounds) for event in copy_events(trace)] for trace in traces]
    with into.open("wb") as file:
        pickle.dump(snapshot, file, protocol=4)
    print(f"{into.stat().st_size:,} bytes, {rounds * sum(map(len, traces)):,} events\n", flush=True)


def measure(command: list[str]) -> tuple[float, int, int]:
    """Seconds, bytes of memory at most, and the exit status."""
    before = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    return time.perf_counter() - before, usage.ru_maxrss * 1024, os.waitstatus_to_exitcode(status)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("snapshot", type=Path)
    parser.add_argument("--stackline", default="stackline")
    parser.add_argument("--bytes", type=int, default=1_600_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        large = Path(folder) / "large.pickle"
        # In a process of its own: what it takes would count as that of all that this one starts.
        writer = multiprocessing.Process(target=write, args=(options.snapshot, large, options.bytes))
        writer.start()
        writer.join()
        if writer.exitcode != 0:
            raise SystemExit(f"{options.snapshot} could not be repeated")
        size = large.stat().st_size
        print("| command | s | most memory, MB | times the file's size |")
        print("|---|---|---|---|")
        for command in (["memory"], ["report"], ["findings"], ["diff", str(large)]):
            seconds, most, status = measure([options.stackline, *command, str(large)])
            failure = "" if status == 0 else f" (exit status {status})"
            print(f"| {command[0]}{failure} | {seconds:.1f} | {most / 1e6:.0f} | {most / size:.2f} |", flush=True)


if __name__ == "__main__":
    main()
