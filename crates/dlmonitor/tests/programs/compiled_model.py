"""Compiles two functions under a tool, one of them twice, and one that cannot be compiled."""

import ctypes
import sys

import torch

tool = ctypes.CDLL(sys.argv[1])
assert tool.begin() == 0


def double(x):
    return x @ x + x


def refused(x):
    raise ValueError(float(x.sum()))


def compile_and_call(function, *inputs):
    compiled = torch.compile(function, backend="eager", dynamic=False)
    return [compiled(x).sum().item() for x in inputs]


print("result", compile_and_call(double, torch.ones(3, 3), torch.ones(4, 4), torch.ones(3, 3)))
try:
    compile_and_call(refused, torch.ones(2))
except ValueError as error:
    print("refused", error)
# What was there before is there again, whoever is asked.
torch._dynamo.reset()
print("result", compile_and_call(double, torch.ones(3, 3)))
tool.report()
