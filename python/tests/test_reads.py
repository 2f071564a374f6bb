"""Number of times that commands open their inputs. Each is read once; every further time only its first bytes, to detect its format."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

#: Of inotify: a file was opened; read; closed. Without the latter two, one open after another would be one event.
OPENED, READ, CLOSED = 0x20, 0x1, 0x10

#: Commands with what follows the input, and how often each opens a trace, a profile, and a file of memory. `None`: it refuses them.
COMMANDS: dict[str, tuple[list[str], int | None, int | None, int | None]] = {
    "report": ([], 1, 2, 2),
    "findings": ([], 1, None, 2),
    "critical-path": ([], 1, None, None),
    "kernels": ([], 1, None, None),
    "steps": ([], 1, None, None),
    "check": ([], 1, None, None),
    "doctor": ([], 1, 2, 3),
    "calls": ([], None, 1, None),
    "memory": ([], None, None, 1),
    "import": (["-o", "run.stackline"], 1, 2, 2),
    "export": (["--to", "perfetto", "-o", "out.pftrace"], 1, None, 2),
    "diff": (["INPUT"], 4, None, 4),
}


def opens(path: Path, command: list[str], folder: Path) -> tuple[int, int]:
    """The exit code of a command, and how often it opened the file."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert watch >= 0 and libc.inotify_add_watch(watch, os.fsencode(path), OPENED | READ | CLOSED) >= 0, os.strerror(ctypes.get_errno())
    code = subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode
    counted: Counter[int] = Counter()
    try:
        data = os.read(watch, 1 << 20)
    except BlockingIOError:
        data = b""
    finally:
        os.close(watch)
    while data:
        _, mask, _, length = struct.unpack_from("iIII", data)
        counted[mask & OPENED] += 1
        data = data[16 + length :]
    return code, counted[OPENED]


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
@pytest.mark.parametrize("command", COMMANDS)
def test_each_input_is_read_once(command: str, cli: Path, small_trace: Path, corpus: Path, tmp_path: Path) -> None:
    profile = tmp_path / "stacks.txt"
    profile.write_text("main;step;forward 10\nmain;step;backward 12\n" * 40)
    inputs = [small_trace, profile, corpus / "memory" / "snapshot-no-history.pickle"]
    rest, *most = COMMANDS[command]
    for input_, expected in zip(inputs, most, strict=True):
        if expected is None:
            continue
        words = [str(cli), command, str(input_), *[str(input_) if word == "INPUT" else word for word in rest]]
        if command == "import":
            words.append("--force")
        code, count = opens(input_, words, tmp_path)
        assert code == 0, (words, code)
        assert count == expected, f"{command} opened {input_.name} {count} times"
