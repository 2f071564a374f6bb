"""Execution of Python rules on a run, each with a time limit. A failed rule does not affect the others."""

from __future__ import annotations

import ctypes
import json
import os
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _native, _rules
from ._rules import Finding, Rule

if TYPE_CHECKING:
    from ._run import Run

SendMessage = Callable[[dict[str, Any]], None]
TIMEOUT = 30.0
"""Default time limit of a rule in seconds."""


MOST = 1000
"""Largest number of findings that are kept per rule."""


class RuleTimeout(BaseException):
    """Raised in a rule at its time limit. A ``BaseException``, so that a rule which catches ``Exception`` is stopped, too."""


class Limit:
    """Time limit of a ``with`` block. A second thread raises :class:`RuleTimeout` in the block, repeatedly until it ends.

    Native code that never returns to Python is not stopped.
    """

    _AGAIN = 0.5

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._target = threading.get_ident()

    def __enter__(self) -> None:
        threading.Thread(target=self._watch, name="stackline-limit", daemon=True).start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # RuleTimeout can arrive here, too: the watching thread must be stopped in any case.
        late: RuleTimeout | None = None
        while True:
            try:
                with self._lock:
                    self._over.set()
                    _raise_in(self._target, None)
                break
            except RuleTimeout as timeout:
                late = timeout
        if late is not None and kind is None:
            raise late

    def _watch(self) -> None:
        patience = self._seconds
        while not self._over.wait(patience):
            with self._lock:
                if not self._over.is_set():
                    _raise_in(self._target, RuleTimeout)
            patience = self._AGAIN


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    raised: Any = ctypes.py_object(error) if error is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)


def run_rules(
    run: Run,
    rules: Iterable[Rule],
    send: SendMessage,
    *,
    rank: int | None,
    steps: tuple[int, int] | None,
    whole: bool = False,
    timeout: float,
) -> None:
    """Run rules in order and pass their findings to ``send`` as protocol messages."""
    trees: list[_native.CallTree] = []

    def tree() -> _native.CallTree:
        if not trees:
            trees.append(_native.call_tree(run._native, rank, steps, whole))
        return trees[0]

    needed = list(rules)
    if rank is None and len(run.ranks) > 1:
        # Python rules run on one rank. The program reports an error when it opens the second rank.
        for rule in needed:
            send({"type": "begin", "code": rule.code})
            send({"type": "end", "code": rule.code})
        return
    all_needs = sorted({need for rule in needed for need in rule.needs})
    missing = set(_native.missing_needs(run._native, rank, all_needs)) if all_needs else set()
    for rule in needed:
        lacks = [need for need in rule.needs if need in missing]
        if "call_tree" in rule.requested_parameters and not lacks:
            tree()  # Build the tree outside the time limit of the rule.
        send({"type": "begin", "code": rule.code})
        if lacks:
            send({"type": "missing", "code": rule.code, "need": lacks[0]})
        else:
            given: dict[str, object] = {"run": run, "rank": rank, "steps": steps, "flag_issue": _rules.flag_issue}
            if "call_tree" in rule.requested_parameters:
                given["call_tree"] = tree()
            _run_rule(rule, given, send, timeout)
        send({"type": "end", "code": rule.code})


def find_by_rules(
    run: Run, rules: list[Rule], *, rank: int | None, steps: tuple[int, int] | None, whole: bool, timeout: float
) -> list[str]:
    """Run Python rules and return their protocol messages. Emits a warning for each rule that fails."""
    if not rules:
        return []
    messages = [_rules.rule_message(rule) for rule in rules]
    run_rules(run, rules, messages.append, rank=rank, steps=steps, whole=whole, timeout=timeout)
    for message in messages:
        if message["type"] in ("failed", "cut"):
            text = f"rule {message['code']}: {message['reason']}\n{message.get('traceback') or ''}"
            warnings.warn(text, RuntimeWarning, stacklevel=3)
    return [json.dumps(message, allow_nan=False) for message in messages]


def _run_rule(rule: Rule, given: dict[str, object], send: SendMessage, timeout: float) -> None:
    found: list[Finding] = []
    failed: dict[str, Any] | None = None
    try:
        with Limit(timeout):
            _rules.run_rule(rule, given, found.append)
    except RuleTimeout as error:
        text, place = describe_traceback(error)
        reason = f"the rule did not end within {timeout:g} s and was stopped{place} (--rule-timeout)"
        failed = {"type": "failed", "code": rule.code, "reason": reason, "traceback": text}
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: B036 - after any exception of a rule, SystemExit included, the others run
        failed = failure(rule, error)
    if len(found) > MOST:
        reason = f"the rule found {len(found):,} issues, of which the first {MOST:,} count; report fewer"
        failed = failed or {"type": "cut", "code": rule.code, "reason": reason}
    try:
        for finding in found[:MOST]:
            send(_rules.to_message(rule.code, finding))
    except Exception as error:
        failed = failed or failure(rule, error)
    if failed is not None:
        send(failed)


def failure(rule: Rule, error: BaseException) -> dict[str, Any]:
    """Protocol message about a rule that raised an exception."""
    text, place = describe_traceback(error)
    # Findings are checked after the rule has ended, when no frame of it is on the stack.
    place = place or f" ({rule.source})"
    message_text = " ".join(str(error).split())
    reason = f"the rule raised {type(error).__name__}{f': {message_text}' if message_text else ''}{place}"
    return {"type": "failed", "code": rule.code, "reason": reason, "traceback": text}


def not_loaded(source: str, error: BaseException) -> str:
    """Message about a file of rules that cannot be loaded: its line and the error, then the traceback."""
    text, _ = describe_traceback(error)
    frames = traceback.extract_tb(error.__traceback__)
    own_frames = [frame for frame in frames if os.path.abspath(frame.filename) == os.path.abspath(source)]
    # An import of the file may fail: report the line of the import.
    line = f":{own_frames[-1].lineno}" if own_frames else ""
    message_text = " ".join(str(error).split())
    return f"{source}{line}: {type(error).__name__}{f': {message_text}' if message_text else ''}\n{text}"


def describe_traceback(error: BaseException) -> tuple[str, str]:
    """Traceback without frames of this package, and the innermost source location in the rule's code: `` (my_rules.py:12)``."""
    stackline_files = (__file__, _rules.__file__, "<frozen runpy>")
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in stackline_files and trace.tb_next is not None:
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace))
    user_frames = [frame for frame in traceback.extract_tb(trace) if frame.filename not in stackline_files]
    place = f" ({user_frames[-1].filename}:{user_frames[-1].lineno})" if user_frames else ""
    return text, place
