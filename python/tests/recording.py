"""Programs that record themselves, each in a process of its own, and their recordings."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

import stackline

PACKAGE = Path(stackline.__file__).parent

needs_recorder = pytest.mark.skipif(sys.platform != "linux", reason="programs are recorded on Linux only")


def environment(**more: str) -> dict[str, str]:
    """This process' environment, without variables that start a recording."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STACKLINE_") and name != "PYTHONPATH"}
    return kept | more


def run_program(
    folder: Path, program: str, *arguments: str, python: str = sys.executable, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a program in a folder, to its end."""
    path = folder / "program.py"
    path.write_text("import stackline as sl\n" + textwrap.dedent(program))
    command = [python, *arguments, str(path)]
    return subprocess.run(command, cwd=folder, env=env or environment(), text=True, capture_output=True, timeout=120)


def succeeds(folder: Path, program: str, *arguments: str, python: str = sys.executable, **env: str) -> str:
    """Output of a program that ends with success and prints no warning."""
    done = run_program(folder, program, *arguments, python=python, env=environment(**env))
    # PyTorch has things to say of its own.
    quiet = done.stderr == "" if python == sys.executable else "stackline" not in done.stderr
    assert done.returncode == 0 and quiet, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def streams(run: Path) -> list[bytes]:
    """Bytes that each recorded process wrote. Texts are not encoded in them: names can be searched for."""
    return [path.read_bytes() for path in sorted((run / "streams").glob("*.slr"))]


def install(site: Path) -> None:
    """Puts the package that is tested here into another environment's site-packages, as pip did here."""
    for file in importlib.metadata.files("stackline") or []:
        source = Path(str(file.locate()))
        if source.is_file() and ".." not in file.parts and "__pycache__" not in file.parts:
            (site / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, site / file)


def make_torch_python(folder: Path, torch: str) -> str:
    """An environment with this package and the PyTorch of another interpreter's, in which nothing is changed."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([torch, "-c", code], text=True, capture_output=True, check=True).stdout.strip()
    subprocess.run([torch, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    site = Path(subprocess.run([python, "-c", code], text=True, capture_output=True, check=True).stdout.strip())
    (site / "torch.pth").write_text(packages + "\n")
    install(site)
    return str(python)
