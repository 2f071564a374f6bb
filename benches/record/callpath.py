"""Cost of a call path through DLMonitor's C interface, by Python depth and by source.

    python benches/record/callpath.py --python PYTHON_WITH_TORCH [--library FOLDER] [--rounds 3]

A tool in C (callpath_tool.c) asks for the call path at each `aten::mul` of an LSTM cell that is written out in PyTorch
operators, and times the call. Each line is a process of its own; the best of all repetitions counts. FOLDER holds
libdlmonitor.so (default: target/release).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PYTHON, OPERATORS, NATIVE = 1, 2, 4
CONFIGURATIONS = {
    "shallow": (0, PYTHON | OPERATORS),
    "30 Python frames": (30, PYTHON | OPERATORS),
    "100 Python frames": (100, PYTHON | OPERATORS),
    "shallow, native": (0, PYTHON | OPERATORS | NATIVE),
    "30 Python frames, native": (30, PYTHON | OPERATORS | NATIVE),
}
STEPS = 1500


def program(tool: str, depth: int, sources: int) -> None:
    """Steps of an LSTM, with more Python frames around it."""
    import torch

    torch.set_num_threads(1)
    weights = [torch.randn(16, 16) for _ in range(8)]

    def cell(x, h, c):
        i, f, g, o = (x @ weights[2 * k] + h @ weights[2 * k + 1] for k in range(4))
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    def steps():
        h = c = torch.zeros(1, 16)
        for _ in range(STEPS):
            h, c = cell(h, h, c)
        return h

    def down(levels):
        return steps() if levels == 0 else down(levels - 1)

    library = ctypes.CDLL(tool)
    library.percentile.restype = ctypes.c_double
    library.percentile.argtypes = [ctypes.c_double]
    library.frames_of_path.restype = library.calls.restype = ctypes.c_size_t
    with torch.no_grad():
        down(0)
        assert library.start(b"aten::mul", sources) == 0
        # Frames of this script, `steps` and `cell` are there, too.
        down(max(depth - 5, 0))
        library.stop()
    found = {"calls": library.calls(), "frames": library.frames_of_path()}
    print(json.dumps(found | {name: library.percentile(at) for name, at in (("min", 0), ("median", 50), ("p99", 99))}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True)
    parser.add_argument("--library", default=ROOT / "target/release", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tool = os.path.join(folder, "libcallpath.so")
        source = ROOT / "benches/record/callpath_tool.c"
        include = ROOT / "crates/dlmonitor/include"
        library = arguments.library.resolve()
        compile_tool = ["cc", "-O2", "-shared", "-fPIC", f"-I{include}", str(source), f"-L{library}"]
        subprocess.run([*compile_tool, f"-Wl,-rpath,{library}", "-ldlmonitor", "-o", tool], check=True)
        best: dict[str, dict[str, float]] = {}
        for _ in range(arguments.rounds):
            for name, (depth, sources) in CONFIGURATIONS.items():
                command = [arguments.python, __file__, "--one", tool, str(depth), str(sources)]
                found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                known = best.setdefault(name, found)
                best[name] = {key: min(known[key], found[key]) for key in found}
    print(f"{'':26} {'frames':>6} {'min ns':>8} {'median ns':>10} {'p99 ns':>8}")
    for name, found in best.items():
        print(f"{name:26} {found['frames']:6.0f} {found['min']:8.0f} {found['median']:10.0f} {found['p99']:8.0f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        program(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
