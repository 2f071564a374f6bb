"""Worker process of ``stackline findings --rules``: runs Python rules and sends one JSON message per line to the program.

The request (JSON) is read from standard input. Messages (crates/findings/src/external_rules.rs) go to standard output. Output
that rules print is redirected to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, TextIO

from . import _rules, _rules_run
from ._errors import AnalysisError, StacklineError
from ._native import __version__
from ._run import open as open_run

PROTOCOL = 2


def main() -> int:
    """Handle one request and return the exit code."""
    request: dict[str, Any] = json.load(sys.stdin)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        # Redirect file descriptor 1 to standard error, also for output of C code.
        os.dup2(2, 1)
        return _answer(request, out)


def _answer(request: dict[str, Any], out: TextIO) -> int:
    def send(message: dict[str, Any]) -> None:
        out.write(json.dumps(message, allow_nan=False) + "\n")
        out.flush()

    send({"type": "hello", "protocol": PROTOCOL, "version": __version__})
    try:
        rules = _loaded(request, send)
    except AnalysisError as error:
        send({"type": "refused", "reason": str(error), "input": False})
        return 1
    send({"type": "loaded"})
    try:
        run = open_run(request["inputs"], threads=request["threads"], progress=False)
    except (StacklineError, OSError, ValueError) as error:
        send({"type": "refused", "reason": str(error), "input": True})
        return 1
    rules = [rule for rule in rules if rule.code not in request["skip"]]
    steps = tuple(request["steps"]) if request["steps"] else None
    _rules_run.run_rules(run, rules, send, rank=request["rank"], steps=steps, timeout=request["timeout"])
    return 0


def _loaded(request: dict[str, Any], send: _rules_run.SendMessage) -> list[_rules.Rule]:
    rules: list[_rules.Rule] = []
    for source in request["rules"]:
        send({"type": "loading", "source": source})
        try:
            with _rules_run.Limit(request["timeout"]):
                made = _rules.load_source(source)
        except AnalysisError:
            raise
        except _rules_run.RuleTimeout as error:
            _, place = _rules_run.describe_traceback(error)
            raise AnalysisError(f"{source} was not loaded within {request['timeout']:g} s and was stopped{place}") from None
        except Exception as error:
            raise AnalysisError(_rules_run.not_loaded(source, error)) from None
        except SystemExit as error:
            raise AnalysisError(f"{source} ends the program (SystemExit: {error}); a file of rules may only define rules") from None
        rules += made
    _rules.check_codes(rules)
    rules = _rules.with_settings(rules, request["settings"])
    for rule in rules:
        send(_rules.rule_message(rule))
    return rules
