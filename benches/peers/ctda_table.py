#!/usr/bin/env python3
"""Size of the graph and time of the analysis, method ctda and HTA 0.6.1: Table 3 of Yang et al. (CTDA-CPA), and the
number of names that the two have in common among the 20 with most time.

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

# Traces in which one thread works, then training with an autograd thread, then a large one.
TRACES = [
    "nvidia-a100-alexnet-cuda-sync",
    "nvidia-a100-simple-add-cuda-sync",
    "nvidia-a100-simple-add-et-pair",
    "nvidia-a100-event-sync",
    "nvidia-a100-event-sync-multi-stream",
    "amd-mi250-toy-train",
    "amd-mi300-normalization",
    "amd-mi300-resnet-ddp-checkpointing",
    "nvidia-a100-ddp-nccl",
    "nvidia-2080ti-linear",
    "schema-2020-bare-array-resnet50",
    "schema-2021-v100-resnet50",
    "amd-mi300-sd3.5-diffusion",
]

TOP = 20


def run_stackline(binary: str, method: str, trace: str, runs: int) -> tuple[dict, float]:
    """The JSON document of a method, and the median of its CPU seconds."""
    command = [binary, "critical-path", "--method", method, "--format", "json", trace]
    measured = [measure(command) for _ in range(runs)]
    return json.loads(measured[-1][2]), statistics.median(cpu for cpu, _, _ in measured)


def peer(trace: str, runs: int) -> tuple[int, int, float] | None:
    """Nodes, edges, and the median of HTA's CPU seconds for loading and analyzing; None where HTA fails."""
    bench = str(Path(__file__).resolve().parent / "hta_bench.py")
    try:
        measured = [last_json(measure([sys.executable, bench, "--peer", trace])[2]) for _ in range(runs)]
    except SystemExit:
        return None
    seconds = statistics.median(m["load_s"] + m["path_s"] for m in measured)
    return measured[0]["graph_nodes"], measured[0]["graph_edges"], seconds


def in_common(ctda: dict, hta: dict) -> str:
    """Number of HTA's first names that are among as many of ctda's. Annotations, which HTA gives no time, do not count."""
    hta_names = [row["name"] for row in hta["top"]][:TOP]
    ctda_names = [row["name"] for row in ctda["hotspots"] if row["category"] != "user_annotation"][: len(hta_names)]
    return f"{len(set(ctda_names) & set(hta_names))} of {len(hta_names)}"


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    ap.add_argument("stackline", help="the release binary")
    ap.add_argument("traces", nargs="*", help="default: training and inference traces of the corpus")
    ap.add_argument("--runs", type=int, default=3)
    args = ap.parse_args()
    traces = args.traces or [str(corpus() / "kineto" / f"{name}.json.gz") for name in TRACES]
    has_peer = importlib.util.find_spec("hta") is not None
    head = "HTA s" if has_peer else "hta s (Stackline)"
    print(f"| trace | events | HTA nodes | HTA edges | {head} | HTA covers | ctda nodes | ctda edges | ctda s | CPCR | names in common |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for trace in traces:
        ctda, ctda_s = run_stackline(args.stackline, "ctda", trace, args.runs)
        hta, hta_s = run_stackline(args.stackline, "hta", trace, args.runs)
        size = (hta["graph_nodes"], sum(hta["edges"].values()), hta_s)
        if has_peer:
            size = peer(trace, args.runs)
        nodes, edges, seconds = (f"{size[0]:,}", f"{size[1]:,}", f"{size[2]:.2f}") if size else ("fails",) * 3
        name = Path(trace).name.removesuffix(".gz").removesuffix(".json")
        covers = hta["weight_us"] * 1e3 / hta["window_ns"]
        print(
            f"| `{name}` | {ctda['rows']:,} | {nodes} | {edges} | {seconds} "
            f"| {covers:.3f} | {ctda['graph_nodes']:,} | {sum(ctda['edges'].values()):,} | {ctda_s:.2f} | {ctda['cpcr']:.3f} "
            f"| {in_common(ctda, hta)} |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
