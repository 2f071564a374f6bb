"""Stackline: performance analysis of deep-learning programs.

>>> import stackline as sl
>>> run = sl.open("trace.json.gz")             # doctest: +SKIP
>>> run.kernels().to_pandas()                  # doctest: +SKIP
>>> run.critical_path().bound_by               # doctest: +SKIP
{'cpu_bound': 99.8, 'gpu_compute_bound': 0.2}

Record a part of the running program:

>>> with sl.record("run.stackline"):           # doctest: +SKIP
...     train()

Tables implement the Arrow C stream interface, so pandas, polars, duckdb and pyarrow read them directly.
"""

from typing import Any

from ._critical_path import CriticalPath, OverlaySummary
from ._ctda_path import CtdaPath
from ._diff import diff
from ._errors import AnalysisError, ReadError, RecordError, StacklineError
from ._exact_path import ExactPath
from ._memory import Memory, open_memory
from ._native import CallNode, CallNodes, CallPart, CallTotals, CallTree, __version__, bfs
from ._page import Page, view
from ._read_report import Problem, ReadReport
from ._record import Recording, record
from ._rules import Finding, flag_issue, load_rules, rule
from ._run import AnalysisInfo, Run, TraceInfo, analyses, open
from ._span import span
from ._table import Table
from ._what_if import Prediction

__all__ = [
    "AnalysisError",
    "AnalysisInfo",
    "CallNode",
    "CallNodes",
    "CallPart",
    "CallTotals",
    "CallTree",
    "CriticalPath",
    "CtdaPath",
    "ExactPath",
    "Finding",
    "Memory",
    "OverlaySummary",
    "Page",
    "Prediction",
    "Problem",
    "ReadError",
    "ReadReport",
    "RecordError",
    "Recording",
    "Run",
    "StacklineError",
    "Table",
    "TraceInfo",
    "__version__",
    "analyses",
    "bfs",
    "diff",
    "flag_issue",
    "load_ipython_extension",
    "load_rules",
    "open",
    "open_memory",
    "record",
    "rule",
    "span",
    "view",
]


def load_ipython_extension(shell: Any) -> None:
    """Register the magic ``%%stackline``, which records a cell (``%load_ext stackline``; ``%%stackline --help``)."""
    from ._notebook import register

    register(shell)
