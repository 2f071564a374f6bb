"""The wheel in a virtual environment that holds nothing else, as after ``pip install stackline``."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
import venv
from pathlib import Path

import pytest
from recording import needs_recorder

BUSY = "import time\ndef busy(): return sum(range(1000))\nend = time.process_time() + 0.5\nwhile time.process_time() < end: busy()\n"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The installed program, in an environment without pip and without any other package."""
    wheel = os.environ.get("STACKLINE_WHEEL")
    if not wheel:
        pytest.skip("STACKLINE_WHEEL does not name the wheel (./dev test builds it)")
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False)
    install = ["install", "--quiet", "--disable-pip-version-check", "--no-index", wheel]
    subprocess.run([sys.executable, "-m", "pip", "--python", folder / "bin/python", *install], check=True)
    return folder / "bin/stackline"


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment without the variables of this repository, and without a home that holds packages."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("STACKLINE_", "PYTHON"))}
    return {**kept, "HOME": str(tmp_path)}


@needs_recorder
def test_a_first_session_works(program: Path, bare: dict[str, str], tmp_path: Path) -> None:
    """Record, report, findings and the page, in the order in which the output suggests them."""

    def run(*arguments: str | Path) -> str:
        whole = [program, *arguments]
        return subprocess.run(whole, cwd=tmp_path, env=bare, check=True, capture_output=True, text=True).stdout

    (tmp_path / "busy.py").write_text(BUSY)
    run("record", "-o", "run.stackline", "--", program.parent / "python", "busy.py")
    assert "busy" in run("report", "run.stackline")
    findings = json.loads(run("findings", "run.stackline", "--format", "json"))
    assert findings["schema"].startswith("stackline/")
    server = subprocess.Popen(
        [program, "view", "run.stackline", "--no-open"], cwd=tmp_path, env=bare, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        address = re.match(r"http://127\.0\.0\.1:\d+/\S*", server.stdout.readline())
        assert address
        with urllib.request.urlopen(address[0], timeout=20) as page:
            assert b"<html" in page.read()
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=20)
