"""A training program whose numbers one can check by hand: three steps, each 1,900 µs, on one GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

STEPS = 3


def training(folder: Path) -> Path:
    """Writes the trace. A step: `aten::index` (kernel of 10 µs) and `aten::mm` (100 µs) in forward, twelve `aten::add` (2 µs
    each) in the loss, their backward (300 µs and 150 µs) on a thread of its own, an `item()` that waits, an optimizer."""
    events: list[dict[str, Any]] = []
    launches = 0

    def span(cat: str, name: str, ts: float, dur: float, tid: int = 1, **args: Any) -> None:
        events.append({"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args})

    def kernel(name: str, launch: float, ts: float, dur: float, tid: int = 1, **args: Any) -> None:
        nonlocal launches
        launches += 1
        span("cuda_runtime", "cudaLaunchKernel", launch, 2, tid, correlation=launches)
        args |= {"correlation": launches, "stream": 7, "device": 0}
        events.append({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": args})

    for step in range(STEPS):
        at, number = 1000 + 2000 * step, 10 * step
        span("user_annotation", f"ProfilerStep#{step}", at, 1900)
        span("python_function", "train.py(5): train_step", at + 1, 1890)
        span("python_function", "train.py(10): forward", at + 5, 200)
        span("cpu_op", "aten::index", at + 10, 20, **{"Sequence number": number + 1})
        kernel("index_kernel", at + 12, at + 30, 10)
        span("cpu_op", "aten::mm", at + 40, 20, **{"Sequence number": number + 2})
        kernel("gemm", at + 42, at + 60, 100, stall_reasons={"memory_dependency": 60, "selected": 40})
        span("python_function", "train.py(20): loss_fn", at + 210, 200)
        for small in range(12):
            span("cpu_op", "aten::add", at + 215 + 10 * small, 8)
            kernel("small", at + 217 + 10 * small, at + 230 + 10 * small, 2)
        for name, ts, gpu, of in [("IndexBackward0", 420, 300, 1), ("MmBackward0", 450, 150, 2)]:
            ids = {"Sequence number": number + of, "Fwd thread id": 1}
            span("cpu_op", f"autograd::engine::evaluate_function: {name}", at + ts, 20, 2)
            span("cpu_op", name, at + ts + 1, 15, 2, **ids)
            kernel(f"{name}_kernel", at + ts + 3, at + ts + 20 + 300 * (of - 1), gpu, 2)
        span("user_annotation", "Optimizer.step#SGD.step", at + 500, 50)
        span("cpu_op", "aten::_foreach_add_", at + 505, 40)
        kernel("update", at + 510, at + 930, 20)
        span("cpu_op", "aten::item", at + 560, 500)
        span("cuda_runtime", "cudaStreamSynchronize", at + 561, 400, correlation=90_000 + step)
    path = folder / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": events}))
    return path
