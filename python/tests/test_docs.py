"""The examples of docs/python run, in order, unchanged."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from conftest import REPOSITORY, training_steps
from rules_trace import training

import stackline as sl


def examples(page: Path, at_least: int) -> dict[str, object]:
    """Runs the examples of a page in order; returns their variables."""
    text = page.read_text()
    names: dict[str, object] = {}
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    assert len(blocks) >= at_least
    for block in blocks:
        # Line numbers in a failure are those of the page.
        source = "\n" * text.count("\n", 0, block.start(1)) + block.group(1)
        exec(compile(source, str(page), "exec"), names)
    return names


def test_documented_rules_have_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with gzip.open("trace.json.gz", "wt") as file:
        file.write(training(tmp_path).read_text())
    names = examples(REPOSITORY / "docs" / "findings" / "python-rules.md", 4)
    run = names["run"]
    assert isinstance(run, sl.Run)
    rules = [value for value in names.values() if hasattr(value, "__stackline_rule__")]
    table = run.findings(rules=rules)  # type: ignore[arg-type]
    # MY002 finds that nothing waits for the product: no gain, so it is left out.
    assert {"MY001", "DC001", "DC002", "DC003", "DC004", "DC005"} == {code for code in table["code"] if code[:2] in ("MY", "DC")}
    assert not [note for note in table.notes if "raised" in note]
    assert "Backward abnormality" in capsys.readouterr().out


def test_documented_rules_run_without_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trace = json.loads(training(tmp_path).read_text())
    trace["traceEvents"] = [event for event in trace["traceEvents"] if not event["name"].startswith(("ProfilerStep#", "Optimizer.step"))]
    with gzip.open("trace.json.gz", "wt") as file:
        json.dump(trace, file)
    names = examples(REPOSITORY / "docs" / "findings" / "python-rules.md", 4)
    run = names["run"]
    assert isinstance(run, sl.Run) and run.call_tree().steps == 0
    rules = [value for value in names.values() if hasattr(value, "__stackline_rule__")]
    table = run.findings(rules=rules)  # type: ignore[arg-type]
    assert "MY001" in set(table["code"])
    assert not [note for note in table.notes if "raised" in note]


def test_documented_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with gzip.open("trace.json.gz", "wt") as file:
        json.dump(training_steps(3), file)
    Path("ranks").mkdir()
    for rank in range(2):
        Path(f"ranks/rank{rank}.json").write_text(json.dumps(training_steps(3, rank=rank)))
    names = examples(REPOSITORY / "docs" / "python" / "README.md", 6)
    assert isinstance(names["same"], sl.CriticalPath) and isinstance(names["again"], sl.Run)
