"""The program ``stackline`` that the wheel installs, and ``python -m stackline``, which is the same."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from recording import needs_recorder

# Where pip puts what wheels bring as scripts.
PROGRAM = os.path.join(sysconfig.get_path("scripts"), "stackline")
BOTH = pytest.mark.parametrize("command", [[PROGRAM], [sys.executable, "-m", "stackline"]], ids=["stackline", "python -m"])


def run(command: list[str], *arguments: str | Path, cwd: Path) -> str:
    """Standard output of the program, which knows of no recorder but the package's own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STACKLINE_")}
    whole = [*command, *map(str, arguments)]
    return subprocess.run(whole, cwd=cwd, env=environment, check=True, capture_output=True, text=True).stdout


@BOTH
def test_program_has_the_version_of_the_package(command: list[str], tmp_path: Path) -> None:
    assert run(command, "--version", cwd=tmp_path).split() == ["stackline", importlib.metadata.version("stackline")]


@BOTH
def test_exit_codes_are_passed_on(command: list[str], tmp_path: Path) -> None:
    missing = subprocess.run([*command, "report", "missing.json"], cwd=tmp_path, capture_output=True, check=False)
    assert missing.returncode == 3 and b"missing.json" in missing.stderr


@needs_recorder
@BOTH
def test_programs_are_recorded_and_analyzed(command: list[str], tmp_path: Path) -> None:
    busy = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: sum(range(1000))"
    run(command, "record", "-o", "run.stackline", "--", sys.executable, "-c", busy, cwd=tmp_path)
    report = json.loads(run(command, "report", "run.stackline", "--format", "json", cwd=tmp_path))
    assert report["schema"].startswith("stackline/") and report["tables"]
    assert "CPU time" in run(command, "calls", "run.stackline", cwd=tmp_path)
    page = tmp_path / "page.html"
    run(command, "report", "run.stackline", "--html", page, cwd=tmp_path)
    assert page.stat().st_size > 10_000
