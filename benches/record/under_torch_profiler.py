"""Runs a program under torch.profiler: ``under_torch_profiler.py plain|with_stack|record_shapes PROGRAM [ARGUMENT…]``."""

import runpy
import sys

import torch.profiler


def main() -> None:
    kind, program = sys.argv[1:3]
    sys.argv = sys.argv[2:]
    options = {} if kind == "plain" else {kind: True}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options):
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
