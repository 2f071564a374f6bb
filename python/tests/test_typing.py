"""The annotations: complete, right for users, and the same as those of the extension module."""

from __future__ import annotations

import ast
import importlib.resources
import subprocess
import sys
from pathlib import Path

import pytest

import stackline as sl
from stackline import _native


def test_mypy_accepts_the_documented_usage(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    sample = Path(__file__).with_name("typing_sample.py")
    cache = ["--cache-dir", str(tmp_path)]
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", *cache, str(sample)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_package_is_marked_as_typed() -> None:
    assert importlib.resources.files("stackline").joinpath("py.typed").is_file()


def test_the_stub_matches_the_module() -> None:
    stub = ast.parse(importlib.resources.files("stackline").joinpath("_native.pyi").read_text())
    names: set[str] = set()
    for node in stub.body:
        if isinstance(node, ast.ClassDef):
            names.add(node.name)
            members = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
            real = {name for name in vars(getattr(_native, node.name)) if not name.startswith("__") or "arrow" in name}
            assert {name for name in members if not name.startswith("__") or "arrow" in name} == real, node.name
        elif isinstance(node, ast.FunctionDef):
            names.add(node.name)
    assert names == {name for name in dir(_native) if not name.startswith("_")}


def test_everything_public_is_documented() -> None:
    for name in sl.__all__:
        thing = getattr(sl, name)
        if name == "__version__":
            continue
        assert thing.__doc__, name
        for member, value in vars(thing).items() if isinstance(thing, type) else ():
            if not member.startswith("_") and (callable(value) or isinstance(value, property)):
                assert value.__doc__, f"{name}.{member}"
