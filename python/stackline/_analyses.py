"""One method per registered analysis. Written by generate_methods.py: do not edit."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ._table import Table

Steps = int | tuple[int, int] | None


class AnalysisMethods(ABC):
    """The registered analyses as methods of :class:`stackline.Run`; each takes ``steps``, ``rank`` and ``whole`` as
    :meth:`stackline.Run.table` does and returns the analysis' main table."""

    __slots__ = ()

    @abstractmethod
    def table(self, name: str, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """One table: of the analysis with that name, the table with the same name or else its first."""

    def gpu_time(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """GPU time by kind of work and cause of idle time; kernels by name."""
        return self.table("gpu_time", steps=steps, rank=rank, whole=whole)

    def gpu_lines(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """GPU time by source line."""
        return self.table("gpu_lines", steps=steps, rank=rank, whole=whole)

    def steps(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Time and GPU busy time of each step, and the spread between steps."""
        return self.table("steps", steps=steps, rank=rank, whole=whole)

    def operators(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Operators with self and total host time, kernel time, launches and shapes; flat and as a call tree."""
        return self.table("operators", steps=steps, rank=rank, whole=whole)

    def coll_analysis(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Collectives by group, type and message size, with algorithm and bus bandwidth."""
        return self.table("coll_analysis", steps=steps, rank=rank, whole=whole)

    def hta_comm_comp_overlap(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Share of communication time that overlaps with computation."""
        return self.table("hta_comm_comp_overlap", steps=steps, rank=rank, whole=whole)

    def coverage(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Share of GPU time with a known launch, operator, Python frame, module, annotation and step."""
        return self.table("coverage", steps=steps, rank=rank, whole=whole)

    def gpu_timeline(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """GPU time by computation, exposed communication, exposed copies and idle time."""
        return self.table("gpu_timeline", steps=steps, rank=rank, whole=whole)

    def kernel_summary(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Kernels by operator, name and stream, with counts and durations."""
        return self.table("kernel_summary", steps=steps, rank=rank, whole=whole)

    def ops_summary_by_category(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """GPU time by operator category: GEMM, convolution, attention, ...."""
        return self.table("ops_summary_by_category", steps=steps, rank=rank, whole=whole)

    def ops_summary(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """GPU time by launching operator."""
        return self.table("ops_summary", steps=steps, rank=rank, whole=whole)

    def ops_unique_args(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """GPU time by operator and its arguments: shapes, types, strides, values."""
        return self.table("ops_unique_args", steps=steps, rank=rank, whole=whole)

    def spans(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Inclusive and self time of spans by name and host thread."""
        return self.table("spans", steps=steps, rank=rank, whole=whole)

    def fused_operators(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Original operators of each fused kernel, with the evidence for them (compiled program or kernel name)."""
        return self.table("fused_operators", steps=steps, rank=rank, whole=whole)

    def short_kernels(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Kernels shorter than 10 µs by operator and arguments, and a histogram of their durations."""
        return self.table("short_kernels", steps=steps, rank=rank, whole=whole)

    def hta_temporal_breakdown(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """GPU time in computation, in other work and idle, in whole µs as HTA counts it (table gpu_time has ns)."""
        return self.table("hta_temporal_breakdown", steps=steps, rank=rank, whole=whole)

    def hta_idle_time(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Idle time of GPU streams by cause: host wait, kernel wait, other."""
        return self.table("hta_idle_time", steps=steps, rank=rank, whole=whole)

    def hta_kernel_breakdown(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """GPU time by kernel kind and by kernel, as HTA counts it (column time_ns is not rounded)."""
        return self.table("hta_kernel_breakdown", steps=steps, rank=rank, whole=whole)

    def hta_launch_stats(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Launch calls and launch delays, with counts of short kernels, slow launch calls and long launch delays."""
        return self.table("hta_launch_stats", steps=steps, rank=rank, whole=whole)

    def hta_queue_length(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Operations waiting on each GPU stream over time, and time with a full queue."""
        return self.table("hta_queue_length", steps=steps, rank=rank, whole=whole)

    def hta_memory_bandwidth(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Bytes, time and bandwidth of copies and fills, and bandwidth over time."""
        return self.table("hta_memory_bandwidth", steps=steps, rank=rank, whole=whole)

    def hta_annotations(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Time by user annotation on GPU and CPU, and GPU operations by annotation."""
        return self.table("hta_annotations", steps=steps, rank=rank, whole=whole)

    def hta_counters(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Hardware counters of each kernel, with the operators that launched it."""
        return self.table("hta_counters", steps=steps, rank=rank, whole=whole)

    def counters(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Values of counters over time: clocks, utilization, memory, hardware counters."""
        return self.table("counters", steps=steps, rank=rank, whole=whole)

    def samples(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Samples of a sampling profiler: time, thread, call path, value."""
        return self.table("samples", steps=steps, rank=rank, whole=whole)

    def logical_parents(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Logical parents: events that cause an event without enclosing it (launch calls, forward operators, senders
        of work to other threads), with evidence."""
        return self.table("logical_parents", steps=steps, rank=rank, whole=whole)

    def devices(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Devices with memory size, clock, memory bandwidth and peak rates by number format."""
        return self.table("devices", steps=steps, rank=rank, whole=whole)

    def clocks(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Bounds on the clock offset between host and devices."""
        return self.table("clocks", steps=steps, rank=rank, whole=whole)

    def checks(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """Consistency checks: causality violations, unmatched records and missing fields, with counts and events."""
        return self.table("checks", steps=steps, rank=rank, whole=whole)
