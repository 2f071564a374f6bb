"""Stackline: where the time of a deep-learning program goes.

>>> import stackline as sl
>>> run = sl.open("trace.json.gz")             # doctest: +SKIP
>>> run.kernels().to_pandas()                  # doctest: +SKIP
>>> run.critical_path().bound_by               # doctest: +SKIP
{'cpu_bound': 99.8, 'gpu_compute_bound': 0.2}

Tables speak the Arrow C stream interface: pandas, polars, duckdb and pyarrow take them directly.
"""

from ._critical_path import CriticalPath, OverlaySummary
from ._ctda_path import CtdaPath
from ._errors import AnalysisError, ReadError, StacklineError
from ._exact_path import ExactPath
from ._native import __version__
from ._run import AnalysisInfo, Problem, ReadReport, Run, TraceInfo, analyses, open
from ._table import Table
from ._what_if import Prediction

__all__ = [
    "AnalysisError",
    "AnalysisInfo",
    "CriticalPath",
    "CtdaPath",
    "ExactPath",
    "OverlaySummary",
    "Prediction",
    "Problem",
    "ReadError",
    "ReadReport",
    "Run",
    "StacklineError",
    "Table",
    "TraceInfo",
    "__version__",
    "analyses",
    "open",
]
