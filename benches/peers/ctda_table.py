#!/usr/bin/env python3
"""Size of the graph and time of the analysis, method ctda beside HTA 0.6.1: the table of the CTDA-CPA paper (its Table 3).

    VENV/bin/python benches/peers/ctda_table.py target/release/stackline [TRACE…] [--runs 3]

VENV has the peer: `pip install traceinsight==0.6.1 pandas==2.2.3 numpy==2.2.6`. Times are CPU seconds of whole processes,
reading included; for HTA without the start of the interpreter and its imports. Without VENV's package HTA's columns come
from Stackline's method hta, whose graph has the same nodes and edges; the time column then is Stackline's, and marked.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from hta_bench import corpus, last_json, measure  # noqa: E402

TRACES = [
    "nvidia-a100-alexnet-cuda-sync",
    "amd-mi250-toy-train",
    "amd-mi300-resnet-ddp-checkpointing",
    "nvidia-a100-ddp-nccl",
    "nvidia-2080ti-linear",
    "schema-2021-v100-resnet50",
    "amd-mi300-sd3.5-diffusion",
]


def ours(binary: str, method: str, trace: str, runs: int) -> tuple[dict, float]:
    """The JSON document of a method, and the median of its CPU seconds."""
    command = [binary, "critical-path", "--method", method, "--format", "json", trace]
    measured = [measure(command) for _ in range(runs)]
    return json.loads(measured[-1][2]), statistics.median(cpu for cpu, _, _ in measured)


def peer(trace: str, runs: int) -> float:
    """The median of HTA's CPU seconds for loading and analysing."""
    bench = str(Path(__file__).resolve().parent / "hta_bench.py")
    measured = [last_json(measure([sys.executable, bench, "--peer", trace])[2]) for _ in range(runs)]
    return statistics.median(m["load_s"] + m["path_s"] for m in measured)


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    ap.add_argument("stackline", help="the release binary")
    ap.add_argument("traces", nargs="*", help="default: training and inference traces of the corpus")
    ap.add_argument("--runs", type=int, default=3)
    args = ap.parse_args()
    traces = args.traces or [str(corpus() / "kineto" / f"{name}.json.gz") for name in TRACES]
    has_peer = importlib.util.find_spec("hta") is not None
    head = "HTA s" if has_peer else "hta s (Stackline)"
    print(f"| trace | events | HTA nodes | HTA edges | {head} | HTA covers | ctda nodes | ctda edges | ctda s | CPCR |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for trace in traces:
        ctda, ctda_s = ours(args.stackline, "ctda", trace, args.runs)
        hta, hta_s = ours(args.stackline, "hta", trace, args.runs)
        hta_s = peer(trace, args.runs) if has_peer else hta_s
        name = Path(trace).name.removesuffix(".gz").removesuffix(".json")
        covers = hta["weight_us"] * 1e3 / hta["window_ns"]
        print(
            f"| `{name}` | {ctda['rows']:,} | {hta['graph_nodes']:,} | {sum(hta['edges'].values()):,} | {hta_s:.2f} "
            f"| {covers:.3f} | {ctda['graph_nodes']:,} | {sum(ctda['edges'].values()):,} | {ctda_s:.2f} | {ctda['cpcr']:.3f} |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
