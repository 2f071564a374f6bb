#!/usr/bin/env python3
"""Runs the tables of HTA 0.6.1 on traces and stores its numbers as small JSON fixtures.

The peer is the PyPI package `traceinsight` 0.6.1, with pandas 2.2.3 and numpy 2.2.6:

    python -m venv VENV
    VENV/bin/pip install traceinsight==0.6.1 pandas==2.2.3 numpy==2.2.6
    VENV/bin/python benches/peers/hta_tables.py ../shared/corpus/kineto -o fixtures/hta

One fixture per trace, `fixtures/hta/<trace>.json`. An analysis that HTA cannot do on a trace is
stored as `{"error": "<exception>: <first line>"}`, so that the fixture also says where HTA fails.

Measures to keep fixtures small:
* long names (over 96 bytes) become their first 64 characters, `#`, and the FNV-1a 64 hash of the whole
  name (the Rust test builds the same key);
* a series is kept as its length, its last points as a checksum and up to 32 sampled points, and HTA's own
  summary (`describe`) of it. Last points are those of every distinct time, the only part that does not
  depend on the order in which an unstable sort puts events of one time.
HTA sorts with pandas' default, an unstable sort, so where several rows have one time its answer depends on
the numpy version and the CPU. Every table is therefore computed twice: by HTA as it is, and by HTA with the
same sorts made stable. Where the two differ, the fixture has both, the second as `<table>@stable`: that one
is the same on every machine, and ours is compared with it.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import subprocess
import sys
import time
from pathlib import Path

SAMPLES = 32


def fnv1a64(data: bytes) -> int:
    h = 0xCBF29CE484222325
    for b in data:
        h = ((h ^ b) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def key(name: str) -> str:
    """The short form of a name: see the module text."""
    raw = name.encode("utf-8", "surrogatepass")
    return name if len(raw) <= 96 else f"{name[:64]}#{fnv1a64(raw):016x}"


def num(x):
    """A JSON number (or None) with every digit kept; whole numbers become integers."""
    if x is None or isinstance(x, (str, bool)):
        return x
    f = float(x)
    if math.isnan(f) or math.isinf(f):
        return None
    return int(f) if f == int(f) and abs(f) < 2**53 else f


def rows(df, columns=None, names=("name",)):
    """A data frame as {"columns": [...], "rows": [[...]]}."""
    columns = list(columns or df.columns)
    out = []
    for rec in df[columns].itertuples(index=False, name=None):
        out.append([key(str(v)) if c in names else (v if isinstance(v, str) else num(v)) for c, v in zip(columns, rec)])
    return {"columns": [str(c) for c in columns], "rows": out}


def sample(seq):
    """Up to SAMPLES elements, evenly spaced, always with the first and the last; as [index, element]."""
    n = len(seq)
    if n <= SAMPLES:
        return [[i, v] for i, v in enumerate(seq)]
    picks = sorted({(i * (n - 1)) // (SAMPLES - 1) for i in range(SAMPLES)})
    return [[i, seq[i]] for i in picks]


def checksum(values) -> str:
    """FNV-1a over the decimal text of integers, joined with commas."""
    return f"{fnv1a64(','.join(str(int(v)) for v in values).encode()):016x}"


def describe(df, by):
    out = []
    for label, r in df.iterrows():
        label = label if isinstance(label, tuple) else (label,)
        stats = r.droplevel(0) if r.index.nlevels > 1 else r
        out.append({**{k: (v if isinstance(v, str) else num(v)) for k, v in zip(by, label)},
                    **{k: num(v) for k, v in stats.items()}})
    return out


# --- one function per table; each takes the TraceAnalysis object ------------------------------------------


def temporal(ta):
    return rows(ta.get_temporal_breakdown(visualize=False))


def overlap(ta):
    return rows(ta.get_comm_comp_overlap(visualize=False))


def idle(ta):
    a, b = ta.get_idle_time_breakdown(
        ranks=[0], visualize=False, visualize_pctg=False, show_idle_interval_stats=True, consecutive_kernel_delay=30)
    b = b.reset_index()
    return {"breakdown": rows(a), "intervals": rows(b)}


def kernels(ta, n=10, memory=True):
    t, k = ta.get_gpu_kernel_breakdown(visualize=False, num_kernels=n, include_memory_kernels=memory)
    return {"types": rows(t), "kernels": rows(k)}


def kernels_all(ta):
    t, k = ta.get_gpu_kernel_breakdown(visualize=False, num_kernels=10**9)
    total = k["sum (us)"].sum()
    # The rows of the 60 longest kernels, and the number and the sum of all of them.
    k = k.sort_values(["sum (us)", "kernel_type", "name"], ascending=[False, True, True], kind="stable")
    return {"types": rows(t), "count": len(k), "total_us": num(total), "kernels": rows(k.head(60))}


def launches(ta, memory=True):
    df = ta.get_cuda_kernel_launch_stats(ranks=[0], include_memory_events=memory, visualize=False)[0]
    short = df[(df.cpu_duration <= 50) & (df.gpu_duration < df.cpu_duration)]
    cols = ["correlation", "cpu_duration", "gpu_duration", "launch_delay"]
    recs = [[num(v) for v in r] for r in df[cols].itertuples(index=False, name=None)]
    # Sorted: the row order of HTA is the file order of the launches, which several GPU rows share.
    recs.sort()
    return {
        "columns": cols,
        "count": len(df),
        "short_kernels": len(short),
        "runtime_outliers": int((df.cpu_duration > 50).sum()),
        "launch_delay_outliers": int((df.launch_delay > 100).sum()),
        "sums": [num(df[c].sum()) for c in cols[1:]],
        "checksum": checksum(v for r in recs for v in r),
        "samples": sample(recs),
    }


def queue(ta):
    series = ta.get_queue_length_time_series([0])
    if 0 not in series:
        return None
    df = series[0]
    per_stream = []
    for stream, s in df.groupby("stream"):
        last = s.groupby("ts", sort=True)["queue_length"].last()
        pts = [[num(t), num(v)] for t, v in last.items()]
        per_stream.append({
            "stream": num(stream), "points": len(s), "times": len(pts), "tied_points": len(s) - len(pts),
            "checksum": checksum(v for p in pts for v in p), "samples": sample(pts),
            "max_of_last": num(last.max()), "min_of_last": num(last.min())})
    out = {"series": per_stream, "summary": describe(ta.get_queue_length_summary([0]), ["rank", "stream"])}
    full = {}
    for limit in (2, 5, 1024):
        try:
            full[str(limit)] = rows(ta.get_time_spent_blocked_on_full_queue(ta.get_queue_length_time_series([0]), limit))
        except Exception as e:  # noqa: BLE001
            full[str(limit)] = {"error": error(e)}
    out["full_queue"] = full
    return out


def bandwidth(ta):
    series = ta.get_memory_bw_time_series([0])
    if 0 not in series:
        return None
    df = series[0]
    per_name = []
    for name, s in df.groupby("name"):
        last = s.groupby("ts", sort=True)["memory_bw_gbps"].last()
        pts = [[num(t), num(v)] for t, v in last.items()]
        v = s.memory_bw_gbps
        per_name.append({
            "name": name, "points": len(s), "times": len(pts),
            # Points that should be zero but are not, because HTA sums floating-point numbers up and down.
            "residues_above_zero": int(((v > 0) & (v < 1e-6)).sum()),
            "checksum_times": checksum(p[0] for p in pts), "samples": sample(pts),
            "sum_of_last": num(sum(p[1] for p in pts))})
    summary = ta.get_memory_bw_summary([0])
    return {"series": per_name, "summary": describe(summary, ["rank", "name"])}


def annotations(ta, gpu):
    df = ta.get_gpu_user_annotation_breakdown(use_gpu_annotation=gpu, visualize=False)
    if df is None:
        return None
    few = ta.get_gpu_user_annotation_breakdown(use_gpu_annotation=gpu, visualize=False, num_kernels=3)
    df = df.sort_values(["sum (us)", "name"], ascending=[False, True], kind="stable")
    return {"count": len(df), "total_us": num(df["sum (us)"].sum()), "rows": rows(df.head(60)), "top3": rows(few)}


def kernels_with_annotations(ta):
    df = ta.get_gpu_kernels_with_user_annotations(0, expand_names=True, shorten_names=False)
    if df is None:
        return None
    g = df.groupby("s_user_annotation")["dur"].agg(["count", "sum"]).reset_index()
    return {"count": len(df), "groups": rows(g, names=("s_user_annotation",))}


def counters(ta):
    out = ta.get_cupti_counter_data_with_operators(ranks=[0])
    if not out:
        return None
    df = out[0]
    skip = {"top_level_op", "bottom_level_op", "op_stack"}
    counter_cols = sorted(c for c in df.columns if "__" in c or c.endswith(".sum") or c.endswith(".avg"))
    recs = []
    for r in df.itertuples(index=False):
        d = r._asdict() if not any("." in c for c in df.columns) else dict(zip(df.columns, r))
        recs.append([num(d["index"]), key(d["name"]), d["top_level_op"], d["bottom_level_op"], len(d["op_stack"]),
                     key("|".join(d["op_stack"]))] + [num(d[c]) for c in counter_cols])
    assert skip <= set(df.columns)
    return {"columns": ["index", "name", "top_level_op", "bottom_level_op", "op_stack_depth", "op_stack"] + counter_cols,
            "count": len(recs), "sums": [num(df[c].sum()) for c in counter_cols],
            "samples": sample(recs)}


TABLES = {
    "temporal_breakdown": temporal,
    "comm_comp_overlap": overlap,
    "idle_time": idle,
    "kernel_breakdown": kernels,
    "kernel_breakdown_no_memory": lambda ta: kernels(ta, 10, False),
    "kernel_breakdown_all": kernels_all,
    "launch_stats": launches,
    "launch_stats_no_memory": lambda ta: launches(ta, False),
    "queue_length": queue,
    "memory_bandwidth": bandwidth,
    "gpu_annotations": lambda ta: annotations(ta, True),
    "cpu_annotations": lambda ta: annotations(ta, False),
    "kernels_with_annotations": kernels_with_annotations,
    "counters": counters,
}


def error(e: BaseException) -> str:
    text = str(e).strip().splitlines()
    return f"{type(e).__name__}: {text[0][:120] if text else ''}".rstrip(": ")


def make_sorts_stable():
    """Replaces the default of `DataFrame.sort_values`, so that rows of equal keys keep their order."""
    import pandas as pd

    original = pd.DataFrame.sort_values

    def stable(self, by, **kw):
        kw.setdefault("kind", "stable")
        return original(self, by, **kw)

    pd.DataFrame.sort_values = stable


def run_one(trace: str, stable: bool) -> dict:
    logging.disable(logging.CRITICAL)
    import warnings

    warnings.filterwarnings("ignore")
    from hta.trace_analysis import TraceAnalysis

    if stable:
        make_sorts_stable()
    out: dict = {"trace": Path(trace).name, "peer": "HTA 0.6.1 (traceinsight), pandas 2.2.3, numpy 2.2.6"}
    try:
        ta = TraceAnalysis(trace_files={0: os.path.abspath(trace)}, trace_dir=os.path.dirname(os.path.abspath(trace)))
        out["rows"] = len(ta.t.get_trace(0))
    except Exception as e:  # noqa: BLE001
        out["load_error"] = error(e)
        return out
    for name, f in TABLES.items():
        try:
            out[name] = f(ta)
        except Exception as e:  # noqa: BLE001
            out[name] = {"error": error(e)}
    return out


def child(trace: Path, *options: str) -> dict | None:
    """The tables of one trace, computed by a process of its own."""
    r = subprocess.run([sys.executable, __file__, str(trace), *options], capture_output=True, text=True)
    lines = r.stdout.splitlines()
    if r.returncode == 0 and lines and lines[-1].startswith("{"):
        return json.loads(lines[-1])
    print(f"{trace.name}: failed\n{r.stderr[-2000:]}", file=sys.stderr)
    return None


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    ap.add_argument("traces", nargs="+", help="trace files or folders of them")
    ap.add_argument("-o", "--output", help="folder of the fixtures; without it, one trace goes to standard output")
    ap.add_argument("--stable", action="store_true", help="without -o: with HTA's sorts made stable")
    args = ap.parse_args()
    if not args.output:
        json.dump(run_one(args.traces[0], args.stable), sys.stdout, indent=None, separators=(",", ":"), allow_nan=False)
        return 0
    files: list[Path] = []
    for t in map(Path, args.traces):
        files += sorted(p for p in t.iterdir() if p.name.endswith((".json", ".json.gz"))) if t.is_dir() else [t]
    os.makedirs(args.output, exist_ok=True)
    for f in files:
        start = time.time()
        # A process of its own for each trace: HTA keeps state in module globals, and may run out of stack.
        data, again = child(f), child(f, "--stable")
        if data is None or again is None:
            continue
        merged = {}
        for name, table in data.items():
            merged[name] = table
            if again.get(name) != table:
                merged[f"{name}@stable"] = again[name]
        data = merged
        bad = [k for k, v in data.items() if isinstance(v, dict) and "error" in v]
        out = Path(args.output) / (f.name.removesuffix(".gz").removesuffix(".json") + ".json")
        # One table per line: small, and a change shows as one line.
        body = ",\n".join(f"{json.dumps(k)}:{json.dumps(v, separators=(',', ':'))}" for k, v in data.items())
        out.write_text("{" + body + "}\n")
        print(f"{f.name}: {out.stat().st_size} B, {time.time() - start:.1f} s"
              + (f", load: {data['load_error']}" if "load_error" in data else "")
              + "".join(f", {k}" for k in data if k.endswith("@stable")) + (f", failed: {bad}" if bad else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
