#!/usr/bin/env python3
"""CPU seconds and peak memory of HTA 0.6.1 and of Stackline for the same job: load a trace, find the critical path of all of it.

    VENV/bin/python benches/peers/hta_bench.py target/release/stackline [TRACE] [--runs 5]

VENV has the peer: `pip install traceinsight==0.6.1 pandas==2.2.3 numpy==2.2.6`. Both run as processes of their own, in
turn, so that a busy machine hurts both alike. CPU seconds are user + system of the process and its children; for HTA
both with and without the start of the interpreter and its imports, since HTA is often used from a running notebook.
The last lines are medians and their ratio; the exit code is 1 if the two disagree on the weight or length of the path.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

DEFAULT = "kineto/amd-mi300-sd3.5-diffusion.json.gz"


def corpus() -> Path:
    root = Path(__file__).resolve().parents[2]
    return Path(os.environ.get("STACKLINE_CORPUS", root / ".." / "shared" / "corpus"))


def peer(trace: str) -> None:
    """The job of the child process: HTA's load and path; prints its own numbers as JSON."""
    import logging
    import time
    import warnings

    logging.disable(logging.CRITICAL)
    warnings.filterwarnings("ignore")
    from hta.trace_analysis import TraceAnalysis

    imported = time.process_time()
    ta = TraceAnalysis(trace_files={0: trace}, trace_dir=os.path.dirname(trace))
    loaded = time.process_time()
    graph, ok = ta.critical_path_analysis(rank=0, annotation="", instance_id=None)
    done = time.process_time()
    weight = sum(graph.edges[u, v]["weight"] for u, v in zip(graph.critical_path_nodes, graph.critical_path_nodes[1:]))
    json.dump({"ok": bool(ok), "import_s": imported, "load_s": loaded - imported, "path_s": done - loaded,
               "nodes": len(graph.critical_path_nodes), "weight_us": float(weight),
               "graph_nodes": graph.number_of_nodes(), "graph_edges": graph.number_of_edges()}, sys.stdout)


def measure(command: list[str]) -> tuple[float, float, str]:
    """CPU seconds, peak resident MB and standard output of a command."""
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        # wait4 gives the usage of exactly this child (and what it waited for), not the sum over all runs.
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            sys.exit(f"{' '.join(command[:3])} … ended with code {child.returncode}")
        out.seek(0)
        # Linux gives kilobytes, macOS bytes.
        scale = 1 if sys.platform == "darwin" else 1024
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * scale / 1e6, out.read()


def last_json(text: str) -> dict:
    start = text.find("{")
    return json.loads(text[start:])


def main() -> int:
    if len(sys.argv) == 3 and sys.argv[1] == "--peer":
        peer(sys.argv[2])
        return 0
    ap = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    ap.add_argument("stackline", help="the release binary")
    ap.add_argument("trace", nargs="?", default=None, help=f"default: {DEFAULT} of the corpus")
    ap.add_argument("--runs", type=int, default=5)
    ap.add_argument("--json", help="also write the numbers to this file")
    args = ap.parse_args()
    trace = os.path.abspath(args.trace or corpus() / DEFAULT)
    if not os.path.exists(trace):
        sys.exit(f"{trace} does not exist: give a trace, or set STACKLINE_CORPUS")
    stackline_command = [os.path.abspath(args.stackline), "critical-path", "--method", "hta", "--format", "json", trace]
    peer_cmd = [sys.executable, os.path.abspath(__file__), "--peer", trace]

    stackline_runs, hta_runs, inner = [], [], []
    for run in range(args.runs):
        cpu, rss, text = measure(peer_cmd)
        hta = last_json(text)
        hta_runs.append((cpu, rss))
        inner.append(hta["load_s"] + hta["path_s"])
        cpu, rss, text = measure(stackline_command)
        mine = last_json(text)
        stackline_runs.append((cpu, rss))
        print(f"run {run + 1}: HTA {hta_runs[-1][0]:.2f} s ({inner[-1]:.2f} s without imports), {hta_runs[-1][1]:.0f} MB; "
              f"Stackline {cpu:.3f} s, {rss:.0f} MB")
    mine = find(mine, ("path_nodes", "weight_us"))
    same = mine.get("path_nodes") == hta["nodes"] and abs(mine.get("weight_us", -1) - hta["weight_us"]) < 0.5
    print(f"path: HTA {hta['nodes']} nodes, {hta['weight_us']:.0f} us; Stackline {mine.get('path_nodes')} nodes, "
          f"{mine.get('weight_us')} us: {'equal' if same else 'DIFFERENT'}")
    med = statistics.median
    hta_cpu, our_cpu, hta_in = med(c for c, _ in hta_runs), med(c for c, _ in stackline_runs), med(inner)
    hta_rss, our_rss = med(r for _, r in hta_runs), med(r for _, r in stackline_runs)
    print(f"median CPU: HTA {hta_cpu:.2f} s ({hta_in:.2f} s without imports), Stackline {our_cpu:.3f} s")
    print(f"median peak memory: HTA {hta_rss:.0f} MB, Stackline {our_rss:.0f} MB")
    print(f"ratio: {hta_cpu / our_cpu:.1f} times less CPU ({hta_in / our_cpu:.1f} without HTA's imports), "
          f"{hta_rss / our_rss:.1f} times less memory")
    if args.json:
        Path(args.json).write_text(json.dumps({
            "trace": os.path.basename(trace), "runs": args.runs, "same_path": same,
            "hta": {"cpu_s": hta_cpu, "cpu_s_without_imports": hta_in, "peak_mb": hta_rss},
            "stackline": {"cpu_s": our_cpu, "peak_mb": our_rss}}, indent=1) + "\n")
    return 0 if same else 1


def find(value, keys: tuple[str, ...]) -> dict:
    """The first object, at any depth, that has all the keys; empty if there is none."""
    if isinstance(value, dict):
        if all(k in value for k in keys):
            return value
        value = list(value.values())
    if isinstance(value, list):
        for v in value:
            if found := find(v, keys):
                return found
    return {}


if __name__ == "__main__":
    sys.exit(main())
