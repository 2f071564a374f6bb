"""Rules of one's own from the command line: the program starts an interpreter for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from rules_trace import training

HEAD = "import stackline as sl\n"
GOOD = HEAD + (
    "@sl.rule(code='MY001', name='mine', advice='Mend it.')\n"
    "def mine(call_tree):\n"
    "    '''It is mine.'''\n"
    "    print('printed')\n"
    "    for n in call_tree.search('**/aten::item'):\n"
    "        sl.flag_issue(n, 'flagged', gain=1_000_000)\n"
)


class Program:
    """Runs `stackline findings` over the trace."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self.binary, self.folder, self.trace = binary, folder, training(folder)

    def __call__(self, *arguments: str, code: int = 0, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
        command = [str(self.binary), "findings", str(self.trace), "--python", python, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def explain(self, what: str, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        command = [str(self.binary), "findings", "--explain", what, *arguments, "--python", sys.executable]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def json(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self(*arguments, "--format", "json", code=code).stdout)
        return document

    def write(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return name


@pytest.fixture
def findings(cli: Path, tmp_path: Path) -> Program:
    return Program(cli, tmp_path)


def rows(document: dict[str, Any], table: str = "findings") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document["tables"][table]["rows"]
    return found


def test_findings_of_rules_are_in_all_outputs(findings: Program) -> None:
    rules = ["--rules", findings.write("my_rules.py", GOOD)]
    done = findings(*rules)
    assert "train.py:5 in train_step  estimated gain 1000 µs/step" in done.stdout and "MY001 mine: flagged" in done.stdout
    shown = " ".join(done.stdout.split())
    assert "Fix: Mend it." in shown and "CPU time per step 500.0 µs; calls 3 (exact, confidence medium; the Python rule states this gain" in shown
    assert "printed" not in done.stdout and "printed" in done.stderr
    first = rows(findings.json(*rules))[0]
    assert (first["code"], first["gain_ns"], first["method"], first["area"]) == ("MY001", 1_000_000, "rule", "own")
    assert "MY001,mine,own,flagged (aten::item),train.py,5" in findings(*rules, "--format", "csv").stdout
    assert "MY001 flagged" in findings(*rules, "--as", "markdown").stdout
    sarif = json.loads(findings(*rules, "--as", "sarif").stdout)["runs"][0]
    described = sarif["tool"]["driver"]["rules"][-1]
    assert (described["id"], described["shortDescription"]["text"]) == ("MY001", "It is mine.")
    assert (sarif["results"][0]["ruleId"], sarif["results"][0]["ruleIndex"]) == ("MY001", len(sarif["tool"]["driver"]["rules"]) - 1)
    cases = {case.get("name"): case for case in ElementTree.fromstring(findings(*rules, "--as", "junit").stdout).iter("testcase")}
    assert cases["MY001 mine"].find("failure") is not None


def test_python_rules_have_all_attributes_of_findings(findings: Program) -> None:
    rules = ["--rules", findings.write("my_rules.py", GOOD)]
    (findings.folder / "before.json").write_text(findings(*rules, "--format", "json").stdout)
    changes = rows(findings.json(*rules, "--baseline", "before.json"))
    assert {row["change"] for row in changes} == {"same"} and "MY001" in {row["code"] for row in changes}
    findings(*rules, "--fail-on", "gain>5%", code=4)
    assert [row["code"] for row in findings.json(*rules, "--ignore", findings.write("ignore", "mine\n"))["ignored"]] == ["MY001"]
    done = findings(*rules, "--ignore", findings.write("ignore", "MY002\n"), code=2)
    assert "unknown finding code \"MY002\"" in done.stderr and "MY001" in done.stderr
    findings.write("train.py", "\n\n\n\ndef train_step():  # stackline: ignore[MY001]\n")
    assert findings.json(*rules)["ignored"][0]["by"] == "comment at train.py:5"
    assert "MY001" not in {row["code"] for row in rows(findings.json("--top", "0"))}


def test_gains_by_what_if_are_replayed(findings: Program) -> None:
    text = HEAD + (
        "@sl.rule(code='MY001')\ndef f(run, call_tree, rank, steps):\n    assert rank is None and steps == (1, 2)\n"
        "    sl.flag_issue(None, 'x', gain=run.what_if('scale kernel:Index* 0.1', steps=steps))\n"
    )
    found = rows(findings.json("--rules", findings.write("r.py", text), "--steps", "1..2"))
    [row] = [row for row in found if row["code"] == "MY001"]
    assert row["method"] == "replay" and row["edits"] == "scale kernel:Index* 0.1" and row["gain_ns"] > 0


FAILING = HEAD + (
    "import os, time\n"
    "@sl.rule(code='MY001')\ndef raises(call_tree):\n    sl.flag_issue(None, 'before')\n    1 / 0\n"
    "@sl.rule(code='MY002')\ndef loops():\n    while True: pass\n"
    "@sl.rule(code='MY003')\ndef stuck():\n    time.sleep(1000)\n"
    "@sl.rule(code='MY004')\ndef dies():\n    os._exit(7)\n"
    "@sl.rule(code='MY005', needs='collectives')\ndef lacks(): ...\n"
    "@sl.rule(code='MY006')\ndef works():\n    sl.flag_issue(None, 'fine')\n"
    "@sl.rule(code='MY007')\ndef yields():\n    yield sl.Finding('nowhere', line=-3)\n"
)


def test_other_rules_run_after_failed_rules(findings: Program) -> None:
    rules = ["--rules", findings.write("bad_rules.py", FAILING), "--rule-timeout", "2"]
    document = findings.json(*rules)
    assert [row["title"] for row in rows(document) if row["code"].startswith("MY")] == ["before", "fine"]
    unchecked = {row["code"]: row for row in rows(document, "not_checked")}
    assert unchecked["MY001"]["missing"] == "the rule raised ZeroDivisionError: division by zero (bad_rules.py:6)"
    assert unchecked["MY001"]["traceback"].startswith("Traceback") and "line 6, in raises" in unchecked["MY001"]["traceback"]
    assert unchecked["MY002"]["missing"].startswith("the rule did not end within 2 s and was stopped (bad_rules.py:9)")
    assert unchecked["MY003"]["missing"].count("did not end within 2 s") == 1
    assert unchecked["MY004"]["missing"].startswith("the rule ended the Python interpreter that ran it") and "7" in unchecked["MY004"]["missing"]
    assert unchecked["MY005"]["missing"] == "the trace has no collectives"
    assert unchecked["MY007"]["missing"].endswith("lines count from 1 (bad_rules.py:21)"), unchecked["MY007"]
    shown = findings(*rules)
    assert "Not checked: MY001: the rule raised ZeroDivisionError" in shown.stdout and "  1 / 0" in shown.stdout
    assert "MY006 works: fine" in shown.stdout
    sarif = findings(*rules, "--as", "sarif")
    [invocation] = json.loads(sarif.stdout)["runs"][0]["invocations"]
    notifications = invocation["toolExecutionNotifications"]
    assert [one["associatedRule"]["id"] for one in notifications] == ["MY001", "MY002", "MY003", "MY004", "MY007"]
    assert invocation["executionSuccessful"] is False
    assert "rule MY001: the rule raised ZeroDivisionError" in sarif.stderr
    junit = ElementTree.fromstring(findings(*rules, "--as", "junit").stdout)
    cases = {case.get("name"): case for case in junit.iter("testcase")}
    error, before = cases["MY001 raises: failed"].find("error"), cases["MY001 raises"].find("failure")
    assert error is not None and "Traceback" in (error.text or "") and cases["MY006 works"].find("error") is None
    assert before is not None and before.get("message") == "before", "what it had found"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.py": "x = 1\ndef f(:\n"}, "a.py:2: syntax error"),
        ({"a.py": "x = 1\n"}, "a.py: no rules in it"),
        ({"a.py": "import nothing_of_this_name\n"}, "a.py:1: ModuleNotFoundError: No module named 'nothing_of_this_name'\nTraceback"),
        ({"a.py": "\n\nimport c_of_mine\n", "c_of_mine.py": "nothing_such\n"}, "a.py:3: NameError: name 'nothing_such'"),
        ({"a.py": "x = 1\nint('a')\n"}, "line 2, in <module>"),
        ({"a.py": "import sys\nsys.exit(0)\n"}, "a.py ends the program"),
        ({"a.py": "while True: pass\n"}, "a.py was not loaded within 2 s"),
        ({"a.py": GOOD, "b.py": GOOD}, "two rules have the code MY001: a.py:2 and b.py:2"),
        ({"a.py": GOOD.replace("MY001", "SL001")}, "code SL001 is reserved for built-in rules"),
        ({"a.py": GOOD.replace("'MY001'", "'MY001', needs='x'")}, "needs 'x', which is not a known requirement"),
    ],
)
def test_invalid_rule_files_are_refused(findings: Program, files: dict[str, str], message: str) -> None:
    rules = [argument for name, text in files.items() for argument in ("--rules", findings.write(name, text)) if name != "c_of_mine.py"]
    assert message in findings(*rules, "--rule-timeout", "2", code=2).stderr


THRESHOLDS = HEAD + (
    "@sl.rule(code='MY001', name='mine', needs='gpu_work', advice='Mend it.', thresholds={'most': 1000, 'least': 0})\n"
    "def mine(call_tree, most, least=5):\n"
    "    '''It is mine.\n\n    And more of it.\n    '''\n"
    "    sl.flag_issue(None, f'{most} and {least}')\n"
)


def test_thresholds_of_python_rules_are_set(findings: Program) -> None:
    rules = ["--rules", findings.write("my_rules.py", THRESHOLDS)]

    def rule_output(*arguments: str) -> str:
        [row] = [row for row in rows(findings.json(*rules, *arguments)) if row["code"] == "MY001"]
        return str(row["title"])

    assert rule_output() == "1000 and 0"
    assert rule_output("--set", "my001.most=2.5", "--set", "SL001.share=50") == "2.5 and 0"
    for wrong, reason in [
        ("MY001.none=1", "no threshold 'none'; there are most, least"),
        ("MY001.most=x", "'x' is not a number"),
        ("MY009.most=1", "there is no rule MY009"),
        ("MY001", "is not a setting"),
    ]:
        assert reason in findings(*rules, "--set", wrong, code=2).stderr
    assert "--rules" in findings("--set", "MY001.most=1", code=2).stderr
    page = findings.explain("my001", *rules)
    for part in ["MY001 mine", "And more of it.", "Mend it.", "not checked if the trace has", "--set MY001.most=1000", "my_rules.py:2"]:
        assert part in page.stdout, page.stdout
    assert "(load Python rules with --rules)" in findings.explain("ZZ901", code=2).stderr
    assert "there is no rule" in findings.explain("ZZ901", *rules, code=2).stderr


def test_a_file_given_twice_is_loaded_once(findings: Program) -> None:
    name = findings.write("my_rules.py", GOOD)
    done = findings("--rules", name, "--rules", f"./{name}", "--format", "json")
    assert f"--rules ./{name}: given twice, but loaded only once" in done.stderr
    assert [row["code"] for row in rows(json.loads(done.stdout))].count("MY001") == 1


def test_small_gains_are_counted_by_rule(findings: Program) -> None:
    little = HEAD + (
        "@sl.rule(code='MY001')\ndef little():\n    sl.flag_issue(None, 'little', gain=1)\n    sl.flag_issue(None, 'less', gain=2)\n"
        "@sl.rule(code='MY002')\ndef much():\n    sl.flag_issue(None, 'longer', gain=1e18)\n    sl.flag_issue(None, 'negative', gain=-5)\n"
    )
    rules = ["--rules", findings.write("my_rules.py", little)]
    shown = " ".join(findings(*rules).stdout.split())
    assert "Omitted: 2 findings of rule MY001, whose gain is below --min-gain (--min-gain 0 shows all)." in shown
    document = findings.json(*rules)
    assert {row["title"] for row in document["not_listed"] if row["code"] == "MY001"} == {"little", "less"}
    notes = " ".join(document["notes"])
    assert "MY002: the rule states 1 gain longer than a step, which is reduced to the length of a step" in notes
    assert "MY002: the rule states 1 negative gain, which is replaced by 0" in notes
    [longer] = [row for row in rows(document) if row["title"] == "longer"]
    assert longer["gain_percent"] == 100.0
    junit = ElementTree.fromstring(findings(*rules, "--as", "junit").stdout)
    cases = {case.get("name"): case for case in junit.iter("testcase")}
    out, failure = cases["MY001 little"].find("system-out"), cases["MY001 little"].find("failure")
    assert out is not None and failure is None
    assert (out.text or "").startswith("The gains of 2 findings are below --min-gain, so this") and "less" in (out.text or "")
    assert {row["title"] for row in rows(findings.json(*rules, "--min-gain", "0")) if row["code"] == "MY001"} == {"little", "less"}


def test_findings_beyond_the_limit_are_omitted(findings: Program) -> None:
    many = HEAD + "@sl.rule(code='MY001')\ndef many():\n    for i in range(2576):\n        sl.flag_issue(None, f'n{i}')\n"
    rules = ["--rules", findings.write("my_rules.py", many)]
    message = "Checked in part: MY001: the rule found 2,576 issues, of which the first 1,000 count"
    assert message in " ".join(findings(*rules).stdout.split())


def test_usage_errors(findings: Program) -> None:
    rules = findings.write("my_rules.py", GOOD)
    assert "missing.py: rule file not found" in findings("--rules", "missing.py", code=2).stderr
    assert "cannot start ./no-python to run Python rules: not found" in findings("--rules", rules, code=2, python="./no-python").stderr
    for bad in ["0", "-1", "x", "nan"]:
        assert "is not a time" in findings("--rules", rules, "--rule-timeout", bad, code=2).stderr
    findings.trace = Path("-")
    assert "standard input can be read only once" in findings("--rules", rules, code=2).stderr


def test_an_interpreter_without_the_package(findings: Program) -> None:
    bare = findings.folder / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "$@"\n')
    bare.chmod(0o755)
    # A folder of that name is not the package.
    (findings.folder / "stackline").mkdir()
    done = findings("--rules", findings.write("my_rules.py", GOOD), code=2, python=str(bare))
    assert "has no package stackline of this version" in done.stderr and "--python or STACKLINE_PYTHON" in done.stderr


def test_the_interpreter_by_variable_and_rules_of_packages(findings: Program, tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    info = packages / "packaged_rules-1.0.dist-info"
    info.mkdir(parents=True)
    (packages / "packaged_rules.py").write_text(GOOD)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: packaged-rules\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[stackline.rules]\nall = packaged_rules\n")
    paths = os.pathsep.join([str(packages), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "STACKLINE_PYTHON": sys.executable, "PYTHONPATH": paths}
    command = [str(findings.binary), "findings", str(findings.trace), "--rules", "entry-points"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and "MY001 mine: flagged" in done.stdout, done.stderr


def test_conditions_are_not_evaluated_after_a_failed_rule(findings: Program) -> None:
    rules = ["--rules", findings.write("bad.py", HEAD + "@sl.rule(code='MY001')\ndef bad(call_tree):\n    raise KeyError('x')\n")]
    assert "--fail-on cannot be judged: MY001" in findings(*rules, "--fail-on", "gain>99%", code=1).stderr
    findings(*rules)


def test_rules_run_on_one_rank(findings: Program) -> None:
    ranks = findings.folder / "ranks"
    ranks.mkdir()
    trace = json.loads(findings.trace.read_text())
    for rank in (0, 1):
        trace["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 2}
        (ranks / f"rank{rank}.json").write_text(json.dumps(trace))
    rules = ["--rules", findings.write("mine.py", GOOD)]
    findings.trace = ranks
    message = findings(*rules, code=2).stderr
    assert "select one with --rank" in message and "Traceback" not in message
    assert "MY001" in findings(*rules, "--rank", "1").stdout
