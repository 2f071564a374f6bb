"""Python rules: user-defined checks that produce findings, and their registration and loading."""

from __future__ import annotations

import contextvars
import dataclasses
import importlib.metadata
import importlib.util
import inspect
import math
import os
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from . import _native
from ._errors import AnalysisError
from ._native import CallNode
from ._what_if import Prediction

Function = TypeVar("Function", bound=Callable[..., object])
Gain = int | float | tuple[float, float, float] | Prediction | None
PathLike = str | os.PathLike[str]

ENTRY_POINTS = "stackline.rules"
"""Group of the entry points of packages that provide rules."""

_EVENTS = 10_000
"""Largest number of events that a finding lists. Its evidence has the full count."""
_NAME = 48
"""Displayed characters of a node's name. Names of kernels can have thousands of characters."""
_ATTRIBUTE = "__stackline_rule__"
DEFAULT_ALIKE = 1.0
"""Default of ``alike`` in percent: a flagged caller is dropped if its time exceeds that of a flagged callee by no more."""
_PARAMETERS = ("call_tree", "run", "flag_issue", "rank", "steps")


@dataclass(frozen=True)
class Rule:
    """A registered rule: a function with its code, needs and thresholds, made by :func:`rule`."""

    code: str
    name: str
    about: str
    advice: str
    needs: tuple[str, ...]
    function: Callable[..., object]
    requested_parameters: tuple[str, ...]
    source: str
    doc: str = ""
    thresholds: Mapping[str, float] = field(default_factory=dict)
    alike: float = DEFAULT_ALIKE


@dataclass
class Finding:
    """A finding of a rule, made by :func:`flag_issue`, or constructed and then yielded or returned by the rule.

    ``node`` gives the source location; ``file``, ``line``, ``function``, ``module`` and ``operator`` override it. The other fields
    are those of :func:`flag_issue`.
    """

    message: str
    node: CallNode | None = None
    gain: Gain = None
    evidence: Mapping[str, float | tuple[float, str]] = field(default_factory=dict)
    confidence: str = "medium"
    support: str = "exact"
    file: str | None = None
    line: int | None = None
    function: str | None = None
    module: str | None = None
    operator: str | None = None


def rule(
    *,
    code: str,
    name: str | None = None,
    needs: str | Sequence[str] = (),
    advice: str = "",
    about: str | None = None,
    thresholds: Mapping[str, float] | None = None,
    alike: float = DEFAULT_ALIKE,
) -> Callable[[Function], Function]:
    """Register a function as a rule for ``stackline findings --rules FILE`` and :meth:`Run.findings`.

    The function receives arguments by the names of its parameters, in any order: ``call_tree`` (:class:`CallTree`), ``run``
    (:class:`Run`), ``flag_issue`` (:func:`flag_issue`), ``rank`` and ``steps`` (the selection of the user, ``None`` without one).
    It calls :func:`flag_issue`, or yields or returns :class:`Finding` objects.

    ``code``: a stable, unique code, such as ``MY001``; codes such as ``SL001`` are reserved for built-in rules. ``name``: a readable
    name; by default that of the function. ``needs``: data that the trace must have (``gpu_work``, ``python_frames``, ``steps`` …: see
    docs/findings/python-rules.md); without them the rule is listed as not checked. ``advice``: the fix. ``about``: a description in
    one line; by default the first line of the docstring.

    ``thresholds``: numbers that ``--set MY001.name=5`` changes, such as ``{"name": 3}``; the parameter of that name receives the value.
    ``alike``: in percent. If a caller and a callee are flagged with the same message, and the caller's time exceeds the callee's by no
    more than this, only the callee is reported; 0 reports both.
    """
    needed = (needs,) if isinstance(needs, str) else tuple(needs)
    _check_code(code)
    _check_needs(code, needed)
    numbers = _checked_thresholds(code, thresholds or {})
    if not (_is_number(alike) and 0 <= alike < 100):
        raise AnalysisError(f"{code}: alike is {alike!r}; give percent, 0 to 100")

    def register(function: Function) -> Function:
        if not inspect.isfunction(inspect.unwrap(function)):
            raise AnalysisError(f"{code}: @stackline.rule is for functions only")
        title = name or function.__name__.strip("_").replace("_", "-")
        text = (inspect.getdoc(function) or "").strip()
        doc = text.split("\n")[0]
        place = inspect.unwrap(function).__code__
        source = f"{place.co_filename}:{place.co_firstlineno}"
        requested_parameters = _parameters_of(code, function, numbers)
        made = Rule(code, title, about or doc or title, advice, needed, function, requested_parameters, source, text, numbers, alike)
        setattr(function, _ATTRIBUTE, made)
        loading = _loading.get()
        if loading is not None:
            loading.append(made)
        return function

    return register


_loading: contextvars.ContextVar[list[Rule] | None] = contextvars.ContextVar("stackline_loading", default=None)


def _check_code(code: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_-]+", code):
        raise AnalysisError(f"{code!r} is not a valid rule code; write letters and digits, such as MY001")
    if re.fullmatch(r"SL\d+", code, re.IGNORECASE):
        raise AnalysisError(f"code {code} is reserved for built-in rules; choose another code, such as MY001")


def _check_needs(code: str, needed: Iterable[str]) -> None:
    known = [name for name, _ in _native.needs()]
    for need in needed:
        if need not in known:
            raise AnalysisError(f"{code} needs {need!r}, which is not a known requirement; choose from {', '.join(known)}")


def _checked_thresholds(code: str, thresholds: Mapping[str, float]) -> dict[str, float]:
    for name, value in thresholds.items():
        if not str(name).isidentifier() or name in _PARAMETERS:
            raise AnalysisError(f"{code}: {name!r} is not a valid threshold name; write letters and digits, but none of {', '.join(_PARAMETERS)}")
        if not _is_number(value):
            raise AnalysisError(f"{code}: the threshold {name} is {value!r}; give a number")
    return dict(thresholds)


def _parameters_of(code: str, function: Callable[..., object], thresholds: Mapping[str, float]) -> tuple[str, ...]:
    parameters = inspect.signature(function).parameters.values()
    given = (*_PARAMETERS, *thresholds)
    requested_parameters = [
        p.name for p in parameters if p.kind is not p.VAR_KEYWORD and (p.default is p.empty or p.name in thresholds)
    ]
    for parameter in requested_parameters:
        if parameter not in given:
            raise AnalysisError(f"{code}: unknown parameter {parameter!r}; a rule can have {', '.join(given)}")
    return tuple(requested_parameters)


_flagged: contextvars.ContextVar[list[Finding] | None] = contextvars.ContextVar("stackline_flagged", default=None)


def flag_issue(
    node: CallNode | None,
    message: str,
    *,
    gain: Gain = None,
    evidence: Mapping[str, float | tuple[float, str]] | None = None,
    confidence: str = "medium",
    support: str = "exact",
) -> Finding:
    """Report a finding from a rule, at the source location of ``node`` (``None``: the whole program).

    ``message``: the problem; the name of the node is appended. ``gain``: estimated gain in ns per step, as one number, as ``(lower
    bound, estimate, upper bound)``, or as a prediction of :meth:`Run.what_if`, whose edits are replayed together with those of other
    findings. Findings without a gain are listed last. ``evidence``: numbers to show, with or without a unit:
    ``{"registers": 24, "stalled": (61.0, "%")}``. ``confidence``: the likelihood that the change helps, ``"high"``, ``"medium"`` or
    ``"low"``. ``support``: the evidence in the trace, ``"exact"``, ``"partial"`` or ``"inferred"``.
    """
    flagged = _flagged.get()
    if flagged is None:
        raise AnalysisError("flag_issue is for rules: call it in a function with @stackline.rule")
    finding = Finding(message, node, gain, dict(evidence or {}), confidence, support)
    _check(finding)  # Raise in the line of the rule that made the invalid finding.
    flagged.append(finding)
    return finding


def rule_message(made: Rule) -> dict[str, Any]:
    """Description of a rule as a protocol message."""
    attributes = {"code": made.code, "name": made.name, "about": made.about, "advice": made.advice, "source": made.source}
    return {"type": "rule", **attributes, "doc": made.doc, "needs": made.needs, "thresholds": made.thresholds}


def with_settings(rules: Sequence[Rule], settings: Iterable[str]) -> list[Rule]:
    """Apply threshold settings such as ``MY001.name=5`` to rules.

    Raises :class:`AnalysisError` if the rule or threshold does not exist, or the value is not a number.
    """
    by_code = {one.code.upper(): one for one in rules}
    for text in settings:
        name, _, value = text.partition("=")
        code, _, threshold = name.strip().partition(".")
        one = by_code.get(code.upper())
        if one is None:
            known = ", ".join(known.code for known in rules)
            raise AnalysisError(f"--set {text}: there is no rule {code}; the Python rules are {known}")
        if threshold not in one.thresholds:
            there_are = f"there are {', '.join(one.thresholds)}" if one.thresholds else "the rule declares none"
            raise AnalysisError(f"--set {text}: {one.code} has no threshold {threshold!r}; {there_are}")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise AnalysisError(f"--set {text}: {value!r} is not a number")
        by_code[code.upper()] = dataclasses.replace(one, thresholds={**one.thresholds, threshold: number})
    return [by_code[one.code.upper()] for one in rules]


def run_rule(made: Rule, given: Mapping[str, object], report: Callable[[Finding], None]) -> None:
    """Run a rule and pass each of its findings to ``report`` once, in order."""
    flagged: list[Finding] = []
    token = _flagged.set(flagged)
    try:
        values = {**made.thresholds, **given}
        result = made.function(**{name: values[name] for name in made.requested_parameters})
        known = {id(finding) for finding in flagged}
        for finding in _findings(result):
            if id(finding) not in known:
                known.add(id(finding))
                flagged.append(finding)
    except BaseException:
        # Findings before the error are kept. Callers are not compared here, because the time limit is still active.
        for finding in flagged:
            report(finding)
        raise
    finally:
        _flagged.reset(token)
    for finding in _innermost(flagged, made.alike):
        report(finding)


# With more findings than this, callers are not compared with callees: far fewer findings are kept.
_MOST_COMPARED = 10_000


def _innermost(found: list[Finding], alike: float) -> list[Finding]:
    """Drop callers with the same message and about the same time as a flagged callee."""
    if len(found) > _MOST_COMPARED:
        return found
    flagged: dict[tuple[str, CallNode], Finding] = {(one.message, one.node): one for one in found if one.node is not None}
    if alike <= 0 or len(flagged) < 2:
        return found
    outer: set[tuple[str, CallNode]] = set()
    for message, node in flagged:
        caller = node.parent
        # Inclusive times of callers are at least those of their callees.
        while caller is not None and _has_similar_time(node, caller, 1 + alike / 100):
            if (message, caller) in outer:
                break  # The callers above were visited from this one.
            if (message, caller) in flagged:
                outer.add((message, caller))
            caller = caller.parent
    return [one for one in found if one.node is None or (one.message, one.node) not in outer]


def _has_similar_time(node: CallNode, caller: CallNode, most: float) -> bool:
    """True if a caller's times are within the factor ``most`` of the node's, ignoring zero times (kernels have no CPU time)."""
    pairs = ((node.gpu_time, caller.gpu_time), (node.cpu_time, caller.cpu_time))
    return any(own for own, _ in pairs) and all(its <= most * own for own, its in pairs if own)


def _findings(result: object) -> Iterator[Finding]:
    if result is None:
        return
    if isinstance(result, Finding):
        yield result
        return
    if not isinstance(result, Iterable):
        raise TypeError(f"a rule yields or returns stackline.Finding objects, not {type(result).__name__}")
    for finding in result:
        if not isinstance(finding, Finding):
            raise TypeError(f"a rule yields or returns stackline.Finding objects, not {type(finding).__name__}")
        yield finding


def to_message(code: str, finding: Finding) -> dict[str, Any]:
    """Convert a finding to a protocol message (see crates/findings/src/external_rules.rs)."""
    _check(finding)
    node = finding.node
    place = node.place if node is not None else (None, None, None, None, None)
    own = (finding.file, finding.line, finding.function, finding.module, finding.operator)
    if finding.file is not None:
        place = (None, None, None, *place[3:])
    file, line, function, module, operator = (mine if mine is not None else its for mine, its in zip(own, place, strict=True))
    gain, edits = _gain(finding.gain)
    evidence: dict[str, float | tuple[float, str]] = {}
    if node is not None:
        what, time = ("GPU time", node.gpu_time) if node.gpu_time else ("CPU time", node.cpu_time)
        per = " per step" if node.steps else ""
        evidence = {f"{what}{per}": (time / max(node.steps, 1) / 1e3, "µs"), "calls": node.calls}
    evidence.update(finding.evidence)
    return {
        "type": "found",
        "code": code,
        "title": _title(finding),
        "file": file,
        "line": line,
        "function": function,
        "module": module,
        "operator": operator,
        "events": node.events[:_EVENTS] if node is not None else [],
        "facts": [_fact(name, value) for name, value in evidence.items()],
        "support": finding.support,
        "confidence": finding.confidence,
        "gain": gain,
        "edits": edits,
    }


_LONGEST = 2**61
_SUPPORT, _CONFIDENCE, _UNITS = _native.finding_words()


def _check(finding: Finding) -> None:
    """Raise :class:`AnalysisError` if a field is invalid."""
    if not str(finding.message).strip():
        raise AnalysisError("a finding needs a description of the problem: its message is empty")
    if finding.node is not None and not isinstance(finding.node, CallNode):
        raise AnalysisError(f"node is {finding.node!r}; give a node of the call tree, or None")
    for name in ("file", "function", "module", "operator"):
        if not isinstance(getattr(finding, name), (str, type(None))):
            raise AnalysisError(f"{name} is {getattr(finding, name)!r}; give a text")
    if finding.line is not None and not (isinstance(finding.line, int) and 1 <= finding.line < 2**32):
        raise AnalysisError(f"line is {finding.line!r}; lines count from 1")
    for what, word, known in (("support", finding.support, _SUPPORT), ("confidence", finding.confidence, _CONFIDENCE)):
        if word not in known:
            raise AnalysisError(f"there is no {what} {word!r}; there are {', '.join(known)}")
    _gain(finding.gain)
    for name, value in finding.evidence.items():
        _fact(name, value)


def _title(finding: Finding) -> str:
    """Message with the name of the node, because several nodes can share one source location."""
    message, name = " ".join(str(finding.message).split()), finding.node.name if finding.node is not None else ""
    if not name or name in message:
        return message
    short = name if len(name) <= _NAME else f"{name[:_NAME].rstrip()}…"
    return f"{message} ({short})"


def _gain(gain: Gain) -> tuple[tuple[int, int, int] | None, list[str]]:
    if gain is None:
        return None, []
    if isinstance(gain, Prediction):
        return None, [text for text, _ in gain.edits]
    bounds = gain if isinstance(gain, tuple) else (gain, gain, gain)
    if len(bounds) != 3 or not all(_is_number(value) for value in bounds):
        raise AnalysisError(f"gain is {gain!r}; give ns per step, a tuple (least, likely, most), or the result of run.what_if")
    # Longer gains than a step are cut to the step by the program, which adds a note.
    least, likely, most = (max(-_LONGEST, min(_LONGEST, round(value))) for value in bounds)
    if not least <= likely <= most:
        raise AnalysisError(f"gain is {gain!r}; the least comes first, the most last")
    return (least, likely, most), []


def _fact(name: str, value: float | tuple[float, str]) -> dict[str, Any]:
    number, unit = value if isinstance(value, tuple) else (value, "")
    if unit not in _UNITS:
        raise AnalysisError(f"evidence {name!r} has the unit {unit!r}; units are {', '.join(filter(None, _UNITS))}, or none")
    if not _is_number(number):
        raise AnalysisError(f"evidence {name!r} is {value!r}; give a number, or a number and its unit")
    return {"name": str(name), "value": float(number), "unit": unit}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def load_rules(*sources: PathLike) -> list[Callable[..., object]]:
    """Load the rules of Python files, or without arguments those of installed packages.

    Packages provide rules by entry points of the group ``stackline.rules``; each is a rule, or a module or list of rules.

    Raises :class:`AnalysisError` if a file cannot be compiled or has no rules, and the exceptions that the file raises.
    """
    if not sources:
        return [made.function for made in _entry_points()]
    return [made.function for source in sources for made in load_file(os.fspath(source))]


def _entry_points() -> Iterator[Rule]:
    for point in sorted(importlib.metadata.entry_points(group=ENTRY_POINTS), key=lambda point: (point.name, point.value)):
        try:
            loaded = point.load()
        except Exception as error:
            raise AnalysisError(f"the entry point {point.name} = {point.value} cannot be loaded: {error}") from error
        values = vars(loaded).values() if isinstance(loaded, types.ModuleType) else loaded
        rules = _registered(values if isinstance(values, Iterable) else [values])
        if not rules:
            raise AnalysisError(f"the entry point {point.name} = {point.value} has no rules: functions with @stackline.rule")
        yield from rules


def load_source(source: str) -> list[Rule]:
    """Load the rules of a file, or for ``entry-points`` those of installed packages."""
    return list(_entry_points()) if source == "entry-points" else load_file(source)


def load_file(path: str) -> list[Rule]:
    """Execute a file and return its rules in the order of their registration."""
    if not os.path.isfile(path):
        raise AnalysisError(f"{path}: no such file of rules")
    stem = re.sub(r"\W", "_", os.path.splitext(os.path.basename(path))[0])
    module_name = f"_stackline_rules_{stem}_{abs(hash(os.path.abspath(path))):x}"
    spec = importlib.util.spec_from_loader(module_name, loader=None, origin=path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = path
    folder = os.path.dirname(os.path.abspath(path))
    if folder not in sys.path:
        sys.path.insert(0, folder)  # As for a script: imports may refer to modules in the same folder.
    made: list[Rule] = []
    token = _loading.set(made)
    try:
        sys.modules[module_name] = module
        exec(_compiled(path), module.__dict__)
    finally:
        _loading.reset(token)
    known = {one.code for one in made}
    made += [one for one in _registered(module.__dict__.values()) if one.code not in known]
    if not made:
        raise AnalysisError(f"{path}: no rules in it; write @stackline.rule(code=\"MY001\") before a function")
    return made


def _compiled(path: str) -> types.CodeType:
    try:
        with open(path, "rb") as file:
            return compile(file.read(), path, "exec")
    except SyntaxError as error:
        raise AnalysisError(f"{path}:{error.lineno or 1}: syntax error: {error.msg}") from error
    except (ValueError, OSError) as error:
        raise AnalysisError(f"{path}: cannot be read: {error}") from error


def _registered(values: Iterable[object]) -> list[Rule]:
    made = [getattr(value, _ATTRIBUTE, None) for value in values]
    return [one for one in made if isinstance(one, Rule)]


def resolved(rules: Iterable[Callable[..., object] | PathLike]) -> list[Rule]:
    """Convert functions and files to rules. Raises :class:`AnalysisError` if two rules have the same code."""
    made: list[Rule] = []
    for given in rules:
        if isinstance(given, (str, os.PathLike)):
            made += load_file(os.fspath(given))
        elif one := _registered([given]):
            made += one
        else:
            raise AnalysisError(f"{given!r} is no rule; give functions with @stackline.rule, or files with such functions")
    check_codes(made)
    return made


def check_codes(rules: Iterable[Rule]) -> None:
    """Raise :class:`AnalysisError` if two rules have the same code."""
    known: dict[str, Rule] = {}
    for one in rules:
        other = known.setdefault(one.code.upper(), one)
        if other is not one:
            raise AnalysisError(f"two rules have the code {one.code}: {other.source} and {one.source}")


__all__ = ["Finding", "flag_issue", "load_rules", "rule"]
