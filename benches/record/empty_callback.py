"""Run a program with an empty callback at each of PyTorch's operators: `python empty_callback.py PROGRAM [ARGUMENT…]`."""

import ctypes
import pathlib
import runpy
import subprocess
import sys
import tempfile

import torch


def main() -> None:
    source = pathlib.Path(__file__).resolve().with_suffix(".c")
    with tempfile.TemporaryDirectory() as folder:
        library = pathlib.Path(folder, "empty_callback.so")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
        torch_cpu = pathlib.Path(torch.__file__).parent / "lib/libtorch_cpu.so"
        if not ctypes.CDLL(str(library)).register_empty(str(torch_cpu).encode()):
            sys.exit("empty_callback: PyTorch has no addGlobalCallback")
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
