"""The examples of docs/python run, in order, as they stand."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from conftest import REPOSITORY, training_steps

import stackline as sl


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with gzip.open("trace.json.gz", "wt") as file:
        json.dump(training_steps(3), file)
    Path("ranks").mkdir()
    for rank in range(2):
        Path(f"ranks/rank{rank}.json").write_text(json.dumps(training_steps(3, rank=rank)))
    page = REPOSITORY / "docs" / "python" / "README.md"
    text = page.read_text()
    names: dict[str, object] = {}
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    assert len(blocks) > 5
    for block in blocks:
        # Line numbers in a failure are those of the page.
        source = "\n" * text.count("\n", 0, block.start(1)) + block.group(1)
        exec(compile(source, str(page), "exec"), names)
    assert isinstance(names["same"], sl.CriticalPath) and isinstance(names["again"], sl.Run)
