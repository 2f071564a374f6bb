"""Multiplies in a thread with a stack of the given size in KiB."""

import sys
import threading

import torch

torch.set_num_threads(1)
x = torch.ones(2)


def work():
    for _ in range(500):
        torch.mul(x, x)
    print("multiplied 500 times")


threading.stack_size(int(sys.argv[1]) << 10)
thread = threading.Thread(target=work)
thread.start()
thread.join()
