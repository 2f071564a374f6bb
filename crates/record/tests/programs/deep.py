"""A backward graph of DEPTH chained nodes, and one with more pending nodes than the recorder keeps. Prints the growth in MB.

    python deep.py DEPTH PENDING
"""

import os
import sys

import torch

torch.set_num_threads(1)


def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def run(depth):
    start = torch.ones(1, requires_grad=True)
    value = start
    for _ in range(depth):
        value = value.mul(1.0)
    value.backward()
    assert start.grad.item() == 1.0


depth, pending = int(sys.argv[1]), int(sys.argv[2])
run(depth)
before = resident_mb()
for _ in range(3):
    run(depth)
print(resident_mb() - before)
run(pending)
