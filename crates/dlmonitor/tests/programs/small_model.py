"""Runs a few operators under a tool, and prints the number that PyTorch's own profiler counts."""

import ctypes
import sys

import torch

tool = ctypes.CDLL(sys.argv[1])
large = torch.ones(1600, 1600)


def product():
    """The one place that multiplies matrices."""
    return torch.matmul(large, large)


def work():
    with torch.no_grad():
        return (product() + 1).sum().item()


work()
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
    work()
# Not `profile.events()`, which leaves out an operator that does nothing but call one of the same name.
expected = len([event for event in profile.profiler.kineto_results.events() if event.name().startswith("aten::")])
assert tool.begin() == 0
print("result", work())
tool.report()
print("expected", expected)
