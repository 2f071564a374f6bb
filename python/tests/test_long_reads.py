"""Long reads: Ctrl-C ends them, other threads go on, progress is reported."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import stackline as sl

# What a shell starts in the background ignores Ctrl-C, and so does all that it starts.
ANSWERS = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
"""

INTERRUPTED = """
import sys, time
import stackline as sl

def report_progress(done, total):
    # The read is under way: now the parent may interrupt it.
    if not report_progress.once:
        report_progress.once = True
        print("reading", flush=True)
report_progress.once = False

try:
    sl.open(sys.argv[1], progress=report_progress)
except KeyboardInterrupt:
    print("interrupted", time.monotonic(), flush=True)
    sl.open(sys.argv[2])
    print("still works", flush=True)
else:
    print("finished", flush=True)
"""


def test_ctrl_c_ends_a_read(big_trace: Path, small_trace: Path) -> None:
    command = [sys.executable, "-c", ANSWERS + INTERRUPTED, str(big_trace), str(small_trace)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n"
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        word, moment = process.stdout.readline().split()
        assert word == "interrupted"
        # The same clock in both processes. 50 ms by design; the bound leaves room for a machine under load.
        assert float(moment) - sent < 1.0
        assert process.stdout.readline() == "still works\n"
        assert process.wait(timeout=10) == 0


INTERRUPTED_SAVE = """
import sys, threading
import stackline as sl

run = sl.open(sys.argv[1], progress=False)
print("saving", flush=True)
try:
    run.save(sys.argv[2])
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_a_save_and_leaves_nothing(big_trace: Path, tmp_path: Path) -> None:
    target = tmp_path / "big.stackline"
    command = [sys.executable, "-c", ANSWERS + INTERRUPTED_SAVE, str(big_trace), str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "saving\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert process.wait(timeout=20) == 0
    assert list(tmp_path.iterdir()) == []


INTERRUPTED_WORK = """
import sys
import stackline as sl

run = sl.open(sys.argv[1], progress=False)
try:
    print("working", flush=True)
    CALL
except KeyboardInterrupt:
    print("interrupted", flush=True)
    print("still works", sl.open(sys.argv[2]).critical_path(steps=1).window_ns, flush=True)
else:
    print("finished", flush=True)
"""


@pytest.mark.parametrize(
    "call",
    [
        'run.critical_path("exact")',
        'run.critical_path("ctda")',
        'run.critical_path("hta")',
        'run.what_if("scale kernel:gemm 0.5")',
        "run.sweep(threads=1)",
    ],
)
def test_ctrl_c_ends_a_critical_path(big_trace: Path, small_trace: Path, call: str) -> None:
    command = [sys.executable, "-c", ANSWERS + INTERRUPTED_WORK.replace("CALL", call), str(big_trace), str(small_trace)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "working\n"
        # Signals are looked at every 50 ms, and over 900,000 events all of this takes longer.
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert process.stdout.readline() == "still works 900000\n"
        assert process.wait(timeout=60) == 0


def test_an_exception_in_the_progress_function_ends_the_read(big_trace: Path) -> None:
    class Enough(Exception):
        pass

    def report_progress(done: int, total: int) -> None:
        raise Enough

    with pytest.raises(Enough):
        sl.open(big_trace, progress=report_progress)


def test_other_threads_run_while_a_trace_is_read(big_trace: Path) -> None:
    done = threading.Event()
    beats: list[float] = []

    def beat() -> None:
        while not done.is_set():
            beats.append(time.monotonic())
            time.sleep(0.005)

    thread = threading.Thread(target=beat)
    thread.start()
    started = time.monotonic()
    run = sl.open(big_trace, progress=False)
    took = time.monotonic() - started
    done.set()
    thread.join()
    assert run.traces[0].events == 900_000
    during = [b for b in beats if started <= b <= started + took]
    # With the GIL held there would be none between start and end. Gaps: half the read, or a busy machine's half second.
    gaps = [b - a for a, b in zip([started, *during], [*during, started + took], strict=True)]
    assert len(during) > 10 and max(gaps) < max(0.5, took / 2)


def test_runs_are_thread_safe(small_trace: Path) -> None:
    run = sl.open(small_trace)
    expected = run.table("coverage").to_pydict()
    results: list[dict[str, list[object]]] = []
    threads = [threading.Thread(target=lambda: results.append(run.table("coverage").to_pydict())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 8


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_results_are_independent_of_the_thread_count(two_ranks: Path, threads: int) -> None:
    one, many = sl.open(two_ranks), sl.open(two_ranks, threads=threads)
    for analysis in sl.analyses():
        expected, got = one.tables(analysis.name), many.tables(analysis.name)
        assert {n: t.to_pydict() for n, t in expected.items()} == {n: t.to_pydict() for n, t in got.items()}


def test_progress_counts_bytes_up_to_the_total(big_trace: Path) -> None:
    calls: list[tuple[int, int]] = []
    sl.open(big_trace, progress=lambda done, total: calls.append((done, total)))
    size = big_trace.stat().st_size
    assert calls[-1] == (size, size)
    assert calls == sorted(calls) and len(set(calls)) > 2


def test_no_progress_bar_without_a_terminal(small_trace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sl.open(small_trace)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("with_tqdm", [True, False])
def test_progress_bar_if_requested(
    big_trace: Path, monkeypatch: pytest.MonkeyPatch, with_tqdm: bool
) -> None:
    if not with_tqdm:
        monkeypatch.setitem(sys.modules, "tqdm", None)
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    sl.open(big_trace, progress=True)
    assert "big.json" in screen.getvalue() and "%" in screen.getvalue()
