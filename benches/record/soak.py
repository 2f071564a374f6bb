"""A long run of a program that does all that is hard to follow, alone and recorded: results, and memory over time.

    python benches/record/soak.py --python PYTHON_WITH_TORCH [--seconds 600] [--native] [--memory] [--trace]

Prints the digests of both runs, which must be the same, and the growth of the resident set from the third iteration on.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def run(python: str, seconds: float, environment: dict[str, str]) -> dict:
    program = str(ROOT / "crates/record/tests/programs/soak.py")
    output = subprocess.run([python, program, str(seconds)], env=os.environ | environment, stdout=subprocess.PIPE, check=True)
    return json.loads(output.stdout.splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch")
    parser.add_argument("--recorder", default=os.environ.get("STACKLINE_RECORDER", str(ROOT / "target/release/libstackline_record.so")))
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--native", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args()
    alone = run(options.python, min(options.seconds, 30), {})
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "STACKLINE_RECORD": folder,
            "STACKLINE_RECORDER": options.recorder,
            "PYTHONPATH": str(ROOT / "crates/record/bootstrap"),
            "STACKLINE_NATIVE": str(int(options.native)),
            "STACKLINE_MEMORY": str(int(options.memory)),
            "STACKLINE_MODE": "trace" if options.trace else "profile",
        }
        watched = run(options.python, options.seconds, environment)
        streams = sorted((path.stat().st_size for path in pathlib.Path(folder, "streams").iterdir()), reverse=True)
    for name, result in (("alone", alone), ("recorded", watched)):
        resident = result["resident_mb"]
        early = resident[min(2, len(resident) - 1)]
        print(f"{name}: {result['rounds']} iterations, {early} MB after the third, {resident[-1]} MB at the end, {max(resident)} MB at most")
    print(f"streams: {len(streams)}, {sum(streams) / 1e6:.1f} MB, the largest {streams[0] / 1e6:.1f} MB")
    same = alone["digest"] == watched["digest"] and len(alone["digest"]) == 1
    print("results: " + ("the same" if same else f"DIFFERENT: {alone['digest']} and {watched['digest']}"))
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
