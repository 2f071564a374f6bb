"""Runs: opened traces, recordings, profiles and memory files, with all analyses as methods."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _native
from ._analyses import AnalysisMethods, Steps
from ._critical_path import CriticalPath
from ._ctda_path import CtdaPath
from ._errors import AnalysisError
from ._exact_path import ExactPath
from ._native import CallTree
from ._progress import Progress, reporter
from ._read_report import ReadReport, problem
from ._rules import resolved, with_settings
from ._rules_run import TIMEOUT, find_by_rules
from ._table import Table
from ._what_if import Prediction
from ._window import exact_window, is_whole_trace, step_range

if TYPE_CHECKING:
    from ._memory import Memory

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class TraceInfo:
    """Metadata of one trace (one rank or file)."""

    name: str
    """File name, after the name of its archive if it has one."""
    format: str
    """Input format, such as ``kineto`` or ``chrome``."""
    rank: int
    """Rank as the files name it, otherwise the position of the trace in the input."""
    rank_in_file: int | None
    """Rank that this file names; ``None`` if it names none."""
    world_size: int | None
    """Number of ranks of the job; ``None`` if the file has no such entry."""
    base_ns: int
    """Epoch time in ns to which event times are relative; 0 if the file names none."""
    span_ns: tuple[int, int] | None
    """First start and last end of the events, in ns since the base."""
    events: int
    """Number of events."""
    gpu_ops: int
    """Number of GPU operations (kernels, copies, fills, synchronizations)."""
    tracks: int
    """Number of tracks (threads, streams, counters)."""
    steps: tuple[int, ...]
    """Step numbers in time order."""
    bytes: int
    """Bytes of decompressed text."""
    records: int
    """Number of records in the file, of any phase (``ph``)."""
    metadata: tuple[tuple[str, str], ...]
    """Other top-level entries of the file: key and JSON text. They may contain private data."""


@dataclass(frozen=True)
class AnalysisInfo:
    """One registered analysis."""

    name: str
    """Stable name, for :meth:`Run.table`."""
    about: str
    """Description in one line."""


class Run(AnalysisMethods):
    """An opened input: traces (one per rank or file), a call tree, or memory data, with all analyses as methods.

    Returned by :func:`open`. Immutable. Methods may be called from several threads; long methods release the GIL.
    With several traces, the first column of a table is ``rank``; ``rank=`` selects one trace.
    ``steps`` selects a step by number, or a range ``(first, last)`` with both ends included. With ``None``, the window covers all
    steps after warm-up, as in ``stackline report``; the notes of a table name them. A trace without steps is analyzed as a whole,
    as with ``whole=True``. Tables that reproduce HTA's cover the whole trace unless steps are given.
    Columns whose name ends in ``_ns`` are integers in ns.

    A recording without individual calls or a profile (speedscope, pprof, collapsed stacks ...) has :meth:`call_tree` and no traces. A
    memory file has :meth:`memory` and :meth:`findings`. :attr:`parts` names the kind. Methods that need traces raise
    :class:`AnalysisError`, whose message names the methods that work.
    """

    __slots__ = ("_native", "_paths", "_report", "_traces")

    def __init__(self, native: _native.Run, paths: tuple[str, ...]) -> None:
        self._native = native
        self._paths = paths
        self._report: ReadReport | None = None
        self._traces: tuple[TraceInfo, ...] | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """Kinds of data in the run: ``("traces",)``, or without traces ``("calls",)`` or ``("memory",)``."""
        return tuple(self._native.parts)

    @property
    def traces(self) -> tuple[TraceInfo, ...]:
        """Metadata of each trace, in the order of the inputs."""
        if self._traces is None:
            self._traces = tuple(_trace_info(fields) for fields in self._native.traces())
        return self._traces

    @property
    def ranks(self) -> list[int]:
        """Rank of each trace, in the order of the inputs."""
        return self._native.ranks

    @property
    def read_report(self) -> ReadReport:
        """Diagnostics of reading: repaired, skipped and lost records, with counts and byte offsets. Check it before relying on numbers."""
        if self._report is None:
            self._report = ReadReport(problem(fields) for fields in self._native.problems())
        return self._report

    def events(self, *, arguments: bool = False) -> Table:
        """All events of all traces, in file order: start and duration in ns, name, category, kind, track, enclosing
        event (``parent``) and position in the file (``source_index``). ``arguments`` adds a column ``args:KEY`` for each
        argument of the events. Row numbers (``event``, ``parent`` ...) count within a trace.

        A trace has at most 128 argument columns, those of its most frequent arguments. If it has more, a warning and the
        table's notes name some of the others. :meth:`save` keeps all arguments."""
        table = Table(self._native.events(arguments))
        for note in table.notes:
            warnings.warn(note, stacklevel=2)
        return table

    def gpu_ops(self) -> Table:
        """Kernels, copies, fills and synchronizations on GPUs, each with its launch call, operator, ``nn.Module``,
        Python frame, annotation and step, as far as known. Times in ns."""
        return Table(self._native.gpu_ops())

    def tracks(self) -> Table:
        """Tracks (threads, streams and counters) with their number of events."""
        return Table(self._native.tracks())

    def analyses(self) -> list[AnalysisInfo]:
        """All registered analyses. :meth:`table` and :meth:`tables` accept their names."""
        return analyses()

    def tables(
        self, analysis: str, *, steps: Steps = None, rank: int | None = None, whole: bool = False
    ) -> dict[str, Table]:
        """All tables of one analysis by table name.

        Raises :class:`AnalysisError` for an unknown analysis, rank or step.
        """
        native = self._native.analyze(analysis, step_range(steps), rank, is_whole_trace(steps, whole))
        return {table.name: table for table in map(Table, native)}

    def table(self, name: str, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """One table of an analysis: the table with the name of the analysis, otherwise its first.

        ``run.table("kernel_summary", steps=(10, 12)).to_pandas()``
        """
        tables = self.tables(name, steps=steps, rank=rank, whole=whole)
        return tables[name] if name in tables else next(iter(tables.values()))

    def kernels(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Kernels by operator, name and stream, longest first (``kernel_summary``). Times in µs."""
        return self.table("kernel_summary", steps=steps, rank=rank, whole=whole)

    def timeline(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """GPU time by computation, exposed communication, exposed copies and idle time (``gpu_timeline``)."""
        return self.table("gpu_timeline", steps=steps, rank=rank, whole=whole)

    def collectives(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Collectives with message sizes and bandwidths (``coll_analysis``)."""
        return self.table("coll_analysis", steps=steps, rank=rank, whole=whole)

    @overload
    def critical_path(
        self,
        method: Literal["exact"] = "exact",
        *,
        annotation: str = "",
        instance: int | tuple[int, int] | None = None,
        rank: int | None = None,
        steps: Steps = None,
        whole: bool = False,
    ) -> ExactPath: ...
    @overload
    def critical_path(
        self,
        method: Literal["hta"],
        *,
        annotation: str = "",
        instance: int | tuple[int, int] | None = None,
        rank: int | None = None,
        zero_weight_launch_edges: bool = False,
        data_load_events: str | Sequence[str] = (),
        include_last_profiler_step: bool = False,
    ) -> CriticalPath: ...
    @overload
    def critical_path(
        self,
        method: Literal["ctda"],
        *,
        annotation: str = "",
        instance: int | tuple[int, int] | None = None,
        rank: int | None = None,
        steps: Steps = None,
        phase_rules: PathLike | None = None,
    ) -> CtdaPath: ...
    def critical_path(
        self,
        method: str = "exact",
        *,
        annotation: str = "",
        instance: int | tuple[int, int] | None = None,
        rank: int | None = None,
        zero_weight_launch_edges: bool = False,
        data_load_events: str | Sequence[str] = (),
        include_last_profiler_step: bool = False,
        steps: Steps = None,
        whole: bool = False,
        phase_rules: PathLike | None = None,
    ) -> ExactPath | CriticalPath | CtdaPath:
        """The critical path: the sequence of host and GPU activities and waits that determines the end of the window.

        ``method``: ``"exact"`` returns an :class:`ExactPath`, in which each nanosecond of the window has one cause.
        ``"hta"`` follows the rules of Meta's Holistic Trace Analysis 0.6.1 and returns a :class:`CriticalPath`. ``"ctda"`` follows
        the rules of CTDA-CPA, with dependencies across threads, and returns a :class:`CtdaPath`.
        ``annotation``: analyze the window of events whose name contains this text.
        ``instance``: the number of the event, counted from 0, or a range with both ends included; the first if ``None``.
        ``rank``: required if the run has several ranks.

        For ``"exact"`` and ``"ctda"``: ``steps`` selects steps by number. The default window of ``"exact"`` covers all steps after
        warm-up, with the GPU work that they launched, as for :meth:`findings`.
        For ``"exact"``: ``whole`` selects the whole trace, which is the default of a trace without steps.
        For ``"ctda"``: ``phase_rules`` is a JSON file with rules for phases of training, which precede the built-in rules.

        For ``"hta"``: ``zero_weight_launch_edges`` adds edges of weight 0 from launches to kernels, so that a what-if cannot start a
        kernel before its launch. ``data_load_events``: events whose name contains one of these texts count as data loading.
        ``include_last_profiler_step`` keeps the last of several profiler steps, which HTA drops.

        Raises :class:`AnalysisError` if no window matches; its message names similar annotations or the number of instances.
        """
        if method not in ("exact", "hta", "ctda"):
            raise AnalysisError(f"there is no method {method!r}; this version has 'exact', 'hta' and 'ctda'")
        if method != "hta" and (zero_weight_launch_edges or data_load_events or include_last_profiler_step):
            raise AnalysisError("zero_weight_launch_edges, data_load_events and include_last_profiler_step are for 'hta'")
        if method == "hta" and steps is not None:
            raise AnalysisError("steps is not for 'hta': name steps by annotation=")
        if method != "ctda" and phase_rules is not None:
            raise AnalysisError("phase_rules is for 'ctda'")
        if method != "exact" and whole:
            raise AnalysisError("whole is for 'exact': the other methods cover the whole trace by default")
        if isinstance(instance, int):
            instance = (instance, instance)
        if instance is not None and min(instance) < 0:
            raise AnalysisError(f"instance is {instance}; instances count from 0")
        if method == "exact":
            window = exact_window(annotation, instance, steps, whole)
            return ExactPath(_native.exact_path(self._native, rank, annotation, *window))
        if method == "ctda":
            rules = None if phase_rules is None else os.fspath(phase_rules)
            return CtdaPath(_native.ctda_path(self._native, rank, annotation, instance, step_range(steps), rules))
        patterns = [data_load_events] if isinstance(data_load_events, str) else list(data_load_events)
        native = _native.critical_path(
            self._native, rank, annotation, instance, zero_weight_launch_edges, patterns, include_last_profiler_step
        )
        at = 0 if rank is None else self.ranks.index(rank)
        return CriticalPath(native, _source(self._paths, self.traces[at].name))

    def findings(
        self,
        *,
        rank: int | None = None,
        steps: Steps = None,
        whole: bool = False,
        settings: Mapping[str, float] | None = None,
        min_gain: float = 0.5,
        threads: int = 0,
        rules: Iterable[Callable[..., object] | PathLike] = (),
        rule_timeout: float = TIMEOUT,
    ) -> Table:
        """Performance and memory findings with source location, fix and estimated gain per step, largest gain first.

        ``settings``: thresholds of built-in rules or Python rules, such as ``{"SL001.share": 40}``. ``min_gain``: smallest estimated
        gain of a listed finding, in percent of a step. ``whole``: analyze the whole trace instead of its steps. ``threads``: number
        of threads, 0 for one per core; it never changes the result. :attr:`Table.notes` names rules that were not checked, with
        the reason.

        If the run has memory data, memory findings follow the findings about time. They save ``gain_bytes`` at the peak of their
        device (see :meth:`memory`).

        ``rules``: Python rules (:func:`rule`), as functions or files; :func:`load_rules` loads the rules of installed packages. Their
        findings are ranked with the others. If a rule raises, or takes longer than ``rule_timeout`` seconds, a warning with its
        traceback and a note report it, and the other rules still run.

        Findings of several ranks are merged: ``ranks`` lists the ranks, and ``rank`` is the one with the largest gain, which the row
        describes. ``rank=`` selects one rank; Python rules require it.

        Raises :class:`AnalysisError` if a setting or step does not exist, if the traces are not ranks of one job, or if ``rules``
        are given for several ranks without ``rank``.
        """
        chosen = [f"{name}={value}" for name, value in (settings or {}).items()]
        python_rules = resolved(rules)
        codes = {one.code.upper() for one in python_rules}
        is_python_rule = {text: text.partition(".")[0].strip().upper() in codes for text in chosen}
        python_rules = with_settings(python_rules, [text for text in chosen if is_python_rule[text]])
        chosen = [text for text in chosen if not is_python_rule[text]]
        for note in _native.renaming_notes(chosen):
            warnings.warn(note, DeprecationWarning, stacklevel=2)
        if python_rules and "memory" in self.parts and not self.traces:
            raise AnalysisError(f"{self._joined_paths()}: no trace, which Python rules need. Leave out rules=")
        rule_messages = find_by_rules(self, python_rules, rank=rank, steps=step_range(steps), whole=whole, timeout=rule_timeout)
        return Table(_native.findings(self._native, rank, step_range(steps), whole, chosen, min_gain, threads, rule_messages))

    def call_tree(self, *, rank: int | None = None, steps: Steps = None, whole: bool = False) -> CallTree:
        """Calling context tree: Python frames, modules, spans, operators, runtime calls and the GPU operations that they launched.

        Backward work is shown under its forward operator. Metrics are summed over the steps that :meth:`findings` analyzes, or with
        ``whole`` over the whole trace.

        For a recording without individual calls and for a profile, the tree covers all of their data, with imports folded as in
        ``stackline calls``. ``metric`` names the quantity that ``time`` measures: ``real_time``, for example, or the metric of the profile.
        """
        return _native.call_tree(self._native, rank, step_range(steps), whole)

    def memory(self, *, rank: int | None = None, peaks: int = 2) -> Memory:
        """Memory over time, its peaks and their owners, waste and suggestions.

        The run is a memory file, a recording with ``memory=True``, a trace of ``torch.profiler`` with ``profile_memory=True``, or a run
        directory of one of these. Of several traces, the first with memory data is used, or that of ``rank``. ``peaks``: number of
        named peaks per device, 1 to 1000.

        Pickles are read without executing code. Raises :class:`ReadError` if the run has no memory data.
        """
        from ._memory import Memory, checked_peaks

        return Memory(self._native.memory(rank, checked_peaks(peaks)))

    def what_if(
        self,
        edits: str | Sequence[str],
        *,
        annotation: str = "",
        instance: int | tuple[int, int] | None = None,
        rank: int | None = None,
        steps: Steps = None,
        whole: bool = False,
    ) -> Prediction:
        """Predict the effect of edits, applied together, on a window (see :meth:`critical_path` for its arguments).

        An edit is ``scale SELECTOR FACTOR``, ``set SELECTOR NANOSECONDS``, ``remove SELECTOR``, ``fuse SELECTOR``,
        ``graph SELECTOR``, ``overlap SELECTOR`` or ``more-workers N``. A selector is ``kernel:``, ``operator:``,
        ``module:``, ``annotation:``, ``frame:``, ``collective:``, ``sync:`` or ``wait:`` with a name (``*`` matches any text,
        ``~`` begins a regular expression), ``stream:7``, ``stream:0/7``, ``category:gpu_compute`` or ``events:12,15..18``.

        ``run.what_if(["scale kernel:~flash 0.5", "remove sync:item()"]).gain_ns``

        Raises :class:`AnalysisError` if a selector matches no event or edits contradict each other; its message names similar names.
        """
        texts = [edits] if isinstance(edits, str) else list(edits)
        window = exact_window(annotation, instance, steps, whole)
        return Prediction(_native.what_if(self._native, rank, annotation, *window, texts))

    def sweep(
        self,
        *,
        annotation: str = "",
        instance: int | tuple[int, int] | None = None,
        rank: int | None = None,
        steps: Steps = None,
        whole: bool = False,
        candidates: int = 200,
        threads: int = 0,
    ) -> Table:
        """Likely edits by estimated gain, each predicted separately. ``candidates`` (1 or more) is the largest number of edits;
        those with most time on the critical path are chosen. ``threads`` never changes the result."""
        if candidates < 1:
            raise AnalysisError(f"candidates is {candidates}; give 1 or more")
        window = exact_window(annotation, instance, steps, whole)
        return Table(_native.sweep(self._native, rank, annotation, *window, candidates, threads))

    def save(self, path: PathLike, *, overwrite: bool = False) -> None:
        """Write the traces to a run directory, by convention ``NAME.stackline``: Parquet tables that :func:`open` opens without
        parsing and that DuckDB, Polars and pandas read. For a profile or a recording without individual calls, write the call tree.
        ``overwrite`` replaces an existing run, and no other file or directory.

        Raises ``FileExistsError`` or another ``OSError``; after an error no run directory remains. Raises :class:`AnalysisError` if
        the run has only memory data (:meth:`Memory.save` writes it).
        """
        self._native.save(os.fspath(path), overwrite)

    def _joined_paths(self) -> str:
        return ", ".join(self._paths)

    def __len__(self) -> int:
        """Number of traces."""
        return len(self._native.ranks)

    def __bool__(self) -> bool:
        """True, also for a run without traces."""
        return True

    def __repr__(self) -> str:
        events = sum(trace.events for trace in self.traces)
        head = f"Run of {len(self)} trace{'' if len(self) == 1 else 's'}, {events:,} events"
        lines = [f"  rank {t.rank}: {t.name} ({t.format}, {t.events:,} events, {len(t.steps)} steps)" for t in self.traces]
        if not self.traces:
            head = f"Run of {' and '.join(self.parts) or 'no traces'}: {self._joined_paths()}"
        if len(lines) > 10:
            lines[10:] = [f"  ... {len(lines) - 10} more"]
        if not self.read_report.is_clean:
            lines.append(f"  {len(self.read_report)} kinds of diagnostics: see run.read_report")
        return "\n".join([head, *lines])


def open(  # noqa: A001 - sl.open is the name people expect
    paths: PathLike | Iterable[PathLike],
    *,
    threads: int = 0,
    progress: Progress = None,
) -> Run:
    """Open traces, recordings, profiles or memory files.

    Traces are files (JSON, plain or compressed with gzip, zstd, zip), archives and directories of ranks, or run directories.
    Recordings without individual calls, profiles and memory files contain no traces (:attr:`Run.parts`).

    ``paths``: one path or several. The format of a file is detected by its content, not by its name.
    ``threads``: number of threads, 0 for one per core; it never changes a result.
    ``progress``: ``None`` shows a bar on terminals and in notebooks if reading takes longer than 0.5 s, ``True`` always,
    ``False`` never; a function is called with (bytes read, total bytes).

    Releases the GIL; Ctrl-C cancels it. Raises :class:`ReadError` if the input cannot be read at all. Repaired and skipped records
    are listed in :attr:`Run.read_report`.
    """
    single = isinstance(paths, (str, os.PathLike))
    names = [os.fspath(paths)] if isinstance(paths, (str, os.PathLike)) else [os.fspath(path) for path in paths]
    if not names:
        raise ValueError("no input: give a trace file, a directory of traces or a run directory")
    if threads < 0:
        raise ValueError(f"threads is {threads}; give 0 (one per core) or more")
    update, close = reporter(progress, os.path.basename(names[0].rstrip("/")) if single else f"{len(names)} inputs")
    try:
        native = _native.open(names, threads, update)
    finally:
        close()
    return Run(native, tuple(names))


def analyses() -> list[AnalysisInfo]:
    """All registered analyses."""
    return [AnalysisInfo(name, about) for name, about in _native.analyses_list()]


def _source(paths: tuple[str, ...], trace: str) -> str | None:
    """Path of the file of a trace; ``None`` unless exactly one of the opened files matches."""
    files = [path for path in paths if os.path.isfile(path) and os.path.basename(path) == trace]
    files += [os.path.join(path, trace) for path in paths if os.path.isfile(os.path.join(path, trace))]
    return os.path.abspath(files[0]) if len(files) == 1 else None


def _trace_info(fields: dict[str, Any]) -> TraceInfo:
    return TraceInfo(**{**fields, "steps": tuple(fields["steps"]), "metadata": tuple(map(tuple, fields["metadata"]))})


__all__ = ["AnalysisInfo", "Run", "TraceInfo", "analyses", "open"]
