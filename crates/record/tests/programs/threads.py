"""Many short threads, each with a forward and a backward pass; prints by how many MB the process grew, after the first
threads, for so many more."""

import os
import sys
import threading

import torch

torch.set_num_threads(1)


def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def work():
    value = torch.zeros(8, requires_grad=True)
    for _ in range(20):
        (value * 2).sum().backward()


def threads(count):
    for _ in range(count):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()


threads(200)
before = resident_mb()
threads(int(sys.argv[1]))
print(resident_mb() - before)
