"""Opened runs and what can be asked of them."""

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
from ._rules_run import TIMEOUT, own_findings
from ._table import Table
from ._what_if import Prediction
from ._window import all_of_it, exact_window, step_range

if TYPE_CHECKING:
    from ._memory import Memory

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class TraceInfo:
    """What is known of one trace (one rank or file) as a whole."""

    name: str
    """File name, with the archive's in front where there is one."""
    format: str
    """Format it was read from, such as ``kineto`` or ``chrome``."""
    rank: int
    """Its rank: as the files say it, or its position where they do not."""
    rank_in_file: int | None
    """The rank that the file itself names."""
    world_size: int | None
    """Number of ranks of the job, if the file says it."""
    base_ns: int
    """Epoch time in ns that event times count from; 0 if the file names none."""
    span_ns: tuple[int, int] | None
    """First start and last end of the events, in ns since the base."""
    events: int
    """Number of events."""
    gpu_ops: int
    """Number of operations on accelerators (kernels, copies, memory sets, synchronisations)."""
    tracks: int
    """Number of tracks (threads, streams, counters)."""
    steps: tuple[int, ...]
    """Step numbers in time order."""
    bytes: int
    """Bytes of (decompressed) text read."""
    records: int
    """Records met in the file, of any phase."""
    metadata: tuple[tuple[str, str], ...]
    """Other top-level entries of the file: key and JSON text. May hold what is private."""


@dataclass(frozen=True)
class AnalysisInfo:
    """One registered analysis."""

    name: str
    """Stable name, for :meth:`Run.table`."""
    about: str
    """One line that says what it shows."""


class Run(AnalysisMethods):
    """One or many opened traces (one per rank or file), or calls or memory alone, and what can be asked of them.

    Made by :func:`open`. Immutable; methods may be called from several threads, and long ones release the GIL.
    Where there are several traces, tables have a column ``rank`` in front; ``rank=`` picks one trace.
    ``steps`` picks a step by number, or a range ``(first, last)`` with both ends included. ``None`` means, where a trace has
    steps, all but first ones that warm up (as in ``stackline report``; a table's notes say which), ``whole=True`` all of the
    trace. Tables that reproduce HTA's are of the whole trace unless steps are chosen.
    Times are integers in ns wherever a column name ends in ``_ns``.

    A recording without single calls and a profile (speedscope, pprof, collapsed stacks ...) have :meth:`call_tree` and no traces, a
    file of memory has :meth:`memory` and :meth:`findings`: :attr:`parts` says which it is. Methods that need traces raise
    :class:`AnalysisError` there, which names those that work.
    """

    __slots__ = ("_native", "_paths", "_report", "_traces")

    def __init__(self, native: _native.Run, paths: tuple[str, ...]) -> None:
        self._native = native
        self._paths = paths
        self._report: ReadReport | None = None
        self._traces: tuple[TraceInfo, ...] | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """``("traces",)``, or what stands in their place: ``("calls",)``, ``("memory",)``."""
        return tuple(self._native.parts)

    @property
    def traces(self) -> tuple[TraceInfo, ...]:
        """What is known of each trace, in the order opened."""
        if self._traces is None:
            self._traces = tuple(_trace_info(fields) for fields in self._native.traces())
        return self._traces

    @property
    def ranks(self) -> list[int]:
        """Rank of each trace, in the order opened."""
        return self._native.ranks

    @property
    def read_report(self) -> ReadReport:
        """What reading had to repair, skip or lose, how often and where. Look at it before trusting numbers."""
        if self._report is None:
            self._report = ReadReport(problem(fields) for fields in self._native.problems())
        return self._report

    def events(self, *, arguments: bool = False) -> Table:
        """Every event of every trace, in file order: start and duration in ns, name, category, kind, track, enclosing
        event (``parent``), and where it stands in the file (``source_index``). ``arguments`` adds a column
        ``args:KEY`` for everything else that the file says of events. Row handles (``event``, ``parent`` ...) count
        within a trace.

        A trace has at most 128 such columns, those of its most frequent arguments; if it has more, a warning and the
        table's notes name some of the rest. :meth:`save` keeps all of them."""
        table = Table(self._native.events(arguments))
        for note in table.notes:
            warnings.warn(note, stacklevel=2)
        return table

    def gpu_ops(self) -> Table:
        """Kernels, copies, memory sets and synchronisations on accelerators, each with the launching call, operator,
        ``nn.Module``, Python frame, annotation and step, as far as they are known. Times in ns."""
        return Table(self._native.gpu_ops())

    def tracks(self) -> Table:
        """Where events happened: threads, streams and counters, with their numbers of events."""
        return Table(self._native.tracks())

    def analyses(self) -> list[AnalysisInfo]:
        """Every registered analysis; each name is good for :meth:`table` and :meth:`tables`."""
        return analyses()

    def tables(
        self, analysis: str, *, steps: Steps = None, rank: int | None = None, whole: bool = False
    ) -> dict[str, Table]:
        """All tables of one analysis, by table name.

        Raises :class:`AnalysisError` for an unknown analysis, rank or step.
        """
        native = self._native.analyze(analysis, step_range(steps), rank, all_of_it(steps, whole))
        return {table.name: table for table in map(Table, native)}

    def table(self, name: str, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """One table: of the analysis with that name, the table with the same name or else its first.

        ``run.table("kernel_summary", steps=(10, 12)).to_pandas()``
        """
        tables = self.tables(name, steps=steps, rank=rank, whole=whole)
        return tables[name] if name in tables else next(iter(tables.values()))

    def kernels(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Kernels by operator, name and stream, largest first: ``kernel_summary``. Times in µs."""
        return self.table("kernel_summary", steps=steps, rank=rank, whole=whole)

    def timeline(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """How the GPUs' time divides into computation, communication, copies and idleness: ``gpu_timeline``."""
        return self.table("gpu_timeline", steps=steps, rank=rank, whole=whole)

    def collectives(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Collective operations with message sizes and bandwidths: ``coll_analysis``."""
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
        """The critical path: the chain of host and GPU work that decides how long the window takes.

        ``method``: ``"exact"``, in which every nanosecond of the window has one cause, gives an :class:`ExactPath`;
        ``"hta"``, the rules of Meta's Holistic Trace Analysis 0.6.1, a :class:`CriticalPath`; ``"ctda"``, those of
        CTDA-CPA, which follow the work from thread to thread, a :class:`CtdaPath`.
        ``annotation``: analyse the window of events whose name contains this text.
        ``instance``: which of those events, counted from 0, or a range with both ends included; the first if ``None``.
        ``rank``: needed if there are several.
        ``zero_weight_launch_edges``: edges of weight 0 from launches to kernels, so that a what-if cannot let a kernel
        start before its launch. ``data_load_events``: texts; events whose name contains one count as data loading.
        ``include_last_profiler_step``: HTA drops the last of several profiler steps, this keeps it.
        These three are for ``"hta"`` only. Not for ``"hta"``: ``steps`` picks steps by number. By default ``"exact"`` looks at all
        steps with the GPU work that they launched, but for first ones that warm up, as :meth:`findings` does; ``whole`` at all of the
        trace, as it does where there are no steps. For ``"ctda"`` only:
        ``phase_rules``, a JSON file with rules for phases of training that come before the built-in ones.

        Raises :class:`AnalysisError`, with the nearest annotations or the number of instances, if there is no window.
        """
        if method not in ("exact", "hta", "ctda"):
            raise AnalysisError(f"there is no method {method!r}; this version has 'exact', 'hta' and 'ctda'")
        if method != "hta" and (zero_weight_launch_edges or data_load_events or include_last_profiler_step):
            raise AnalysisError("zero_weight_launch_edges, data_load_events and include_last_profiler_step are for 'hta'")
        if method == "hta" and steps is not None:
            raise AnalysisError("with 'hta' name steps by annotation=")
        if method != "ctda" and phase_rules is not None:
            raise AnalysisError("phase_rules is for 'ctda'")
        if method != "exact" and whole:
            raise AnalysisError("whole is for 'exact': the others look at all of the trace without it")
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
        """What to change, where, and what it would gain per step: a row per finding, most gain first.

        ``settings`` change when a rule fires, such as ``{"SL001.share": 40}``, or thresholds of your own rules; ``min_gain`` leaves out what gains less than this
        much of a step, in percent. ``whole`` looks at all of the trace, not at its steps. ``threads`` never changes the result. What could not be looked for, and why, is in
        :attr:`Table.notes`.

        Where the run tells of memory, what is held for nothing stands behind what takes time: it gains ``gain_bytes`` at the peak
        of its device, and no time (:meth:`memory` says more).

        ``rules`` are rules of your own (:func:`rule`): functions, or files of them; :func:`load_rules` loads those of packages.
        What they find is ranked with the rest. One that raises, or takes longer than ``rule_timeout`` seconds, is told by a
        warning with its traceback and in the notes; the others still look.

        Of several ranks the findings are merged: ``ranks`` has them, ``rank`` is the one that gains most, which the row tells of.
        Say which with ``rank`` to look at one; rules of your own need that.

        Raises :class:`AnalysisError` if there is no such setting or step, if the traces are not ranks of one job, or if there are
        several ranks, ``rules``, and ``rank`` names none.
        """
        chosen = [f"{name}={value}" for name, value in (settings or {}).items()]
        own = resolved(rules)
        codes = {one.code.upper() for one in own}
        is_own = {text: text.partition(".")[0].strip().upper() in codes for text in chosen}
        own = with_settings(own, [text for text in chosen if is_own[text]])
        chosen = [text for text in chosen if not is_own[text]]
        if own and "memory" in self.parts and not self.traces:
            raise AnalysisError(f"rules of your own look at what ran, and {self._of()} holds no trace; leave out rules=")
        said = own_findings(self, own, rank=rank, steps=step_range(steps), whole=whole, timeout=rule_timeout)
        return Table(_native.findings(self._native, rank, step_range(steps), whole, chosen, min_gain, threads, said))

    def call_tree(self, *, rank: int | None = None, steps: Steps = None, whole: bool = False) -> CallTree:
        """Who called what, and what that took: Python frames, modules, spans, operators, runtime calls and the GPU operations that
        they launched, with what ran backward below the operator that it differentiates. Of the steps that :meth:`findings`
        looks at, put together; with ``whole`` of all of the trace.

        Of a recording without single calls and of a profile, all that it holds, imports folded as ``stackline calls`` does. ``metric``
        says what ``time`` is there: ``real_time``, for example, or the name of what a profile counts.
        """
        return _native.call_tree(self._native, rank, step_range(steps), whole)

    def memory(self, *, rank: int | None = None, peaks: int = 2) -> Memory:
        """Memory over time, its peaks and their owners, waste and suggestions: of a file of memory, a recording with
        ``memory=True``, a trace of ``torch.profiler`` with ``profile_memory=True``, or a run directory that keeps one of these. Of
        several the first that tells of memory, or that of ``rank``. ``peaks``: so many peaks of each device get a name.

        Raises :class:`ReadError` if nothing in it tells of memory.
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
        """What edits, made together, would do to a window (see :meth:`critical_path` for its arguments).

        An edit is ``scale SELECTOR FACTOR``, ``set SELECTOR NANOSECONDS``, ``remove SELECTOR``, ``fuse SELECTOR``,
        ``graph SELECTOR``, ``overlap SELECTOR`` or ``more-workers N``. A selector is ``kernel:``, ``operator:``,
        ``module:``, ``annotation:``, ``frame:``, ``collective:``, ``sync:`` or ``wait:`` with a name (``*`` stands for
        any text, ``~`` begins a regular expression), ``stream:7``, ``stream:0/7``, ``category:gpu_compute`` or ``events:12,15..18``.

        ``run.what_if(["scale kernel:~flash 0.5", "remove sync:item()"]).gain_ns``

        Raises :class:`AnalysisError`, with the nearest names, if a selector finds nothing or edits contradict each other.
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
        """What to fix first: likely edits, each tried alone, by what they gain. Those with most time on the critical path
        are tried, ``candidates`` (1 or more) at most. ``threads`` never changes the result."""
        if candidates < 1:
            raise AnalysisError("a sweep tries at least 1 edit: candidates is 1 or more")
        window = exact_window(annotation, instance, steps, whole)
        return Table(_native.sweep(self._native, rank, annotation, *window, candidates, threads))

    def save(self, path: PathLike, *, overwrite: bool = False) -> None:
        """Writes the traces to a run directory (by habit ``NAME.stackline``): Parquet tables that :func:`open` opens
        without parsing and that DuckDB, Polars and pandas read. ``overwrite`` replaces a run, never anything else.

        Raises ``FileExistsError`` or another ``OSError``; what did not end well leaves no run. :class:`AnalysisError` if there are no
        traces (:meth:`Memory.save` keeps memory).
        """
        self._native.save(os.fspath(path), overwrite)

    def _of(self) -> str:
        return ", ".join(self._paths)

    def __len__(self) -> int:
        """Number of traces."""
        return len(self._native.ranks)

    def __bool__(self) -> bool:
        """True, also of a run without traces."""
        return True

    def __repr__(self) -> str:
        events = sum(trace.events for trace in self.traces)
        head = f"Run of {len(self)} trace{'' if len(self) == 1 else 's'}, {events:,} events"
        lines = [f"  rank {t.rank}: {t.name} ({t.format}, {t.events:,} events, {len(t.steps)} steps)" for t in self.traces]
        if not self.traces:
            head = f"Run of {' and '.join(self.parts) or 'no traces'}: {self._of()}"
        if len(lines) > 10:
            lines[10:] = [f"  ... {len(lines) - 10} more"]
        if not self.read_report.is_clean:
            lines.append(f"  {len(self.read_report)} kinds of problems while reading: see run.read_report")
        return "\n".join([head, *lines])


def open(  # noqa: A001 - sl.open is the name people expect
    paths: PathLike | Iterable[PathLike],
    *,
    threads: int = 0,
    progress: Progress = None,
) -> Run:
    """Opens traces: files (JSON, plain or compressed with gzip, zstd, zip), archives and directories of ranks, run directories; and
    recordings without single calls, profiles and files of memory, which hold no traces (:attr:`Run.parts`).

    ``paths``: one path or several. What a file is, is found out by its content, not its name.
    ``threads``: threads to use, 0 for as many as there are cores; never changes a result.
    ``progress``: ``None`` shows a bar on terminals and in notebooks if it takes longer than half a second, ``True``
    always, ``False`` never; or a function of (bytes done, bytes in all).

    Releases the GIL; Ctrl-C ends it. Raises :class:`ReadError` if nothing can be read; whatever less had to be repaired
    or skipped stands in :attr:`Run.read_report`.
    """
    single = isinstance(paths, (str, os.PathLike))
    names = [os.fspath(paths)] if isinstance(paths, (str, os.PathLike)) else [os.fspath(path) for path in paths]
    if not names:
        raise ValueError("no input: give a trace file, a directory of traces or a run directory")
    if threads < 0:
        raise ValueError(f"threads is {threads}; give 0 (as many as there are cores) or more")
    update, close = reporter(progress, os.path.basename(names[0].rstrip("/")) if single else f"{len(names)} inputs")
    try:
        native = _native.open(names, threads, update)
    finally:
        close()
    return Run(native, tuple(names))


def analyses() -> list[AnalysisInfo]:
    """Every registered analysis, without opening anything."""
    return [AnalysisInfo(name, about) for name, about in _native.analyses_list()]


def _source(paths: tuple[str, ...], trace: str) -> str | None:
    """The file that a trace came from, if exactly one of the opened files can be it."""
    files = [path for path in paths if os.path.isfile(path) and os.path.basename(path) == trace]
    files += [os.path.join(path, trace) for path in paths if os.path.isfile(os.path.join(path, trace))]
    return os.path.abspath(files[0]) if len(files) == 1 else None


def _trace_info(fields: dict[str, Any]) -> TraceInfo:
    return TraceInfo(**{**fields, "steps": tuple(fields["steps"]), "metadata": tuple(map(tuple, fields["metadata"]))})


__all__ = ["AnalysisInfo", "Run", "TraceInfo", "analyses", "open"]
