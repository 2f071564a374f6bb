"""Runs a program under torch.profiler: ``under_torch_profiler.py plain|with_stack|record_shapes|gpu|gpu_with_stack PROGRAM [ARGUMENT…]``."""

import runpy
import sys

import torch.profiler

KINDS = {
    "plain": {},
    "with_stack": {"with_stack": True},
    "record_shapes": {"record_shapes": True},
    "gpu": {},
    "gpu_with_stack": {"with_stack": True},
}


def main() -> None:
    kind, program = sys.argv[1:3]
    sys.argv = sys.argv[2:]
    activities = [torch.profiler.ProfilerActivity.CPU]
    if kind.startswith("gpu") and torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities, **KINDS[kind]):
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
