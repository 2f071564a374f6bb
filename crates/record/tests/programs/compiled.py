"""Trains a compiled function for a few steps, with inputs of two sizes, and prints all results to the bit.

Arguments: a backend of ``torch.compile``.
"""

import sys

import torch

torch.manual_seed(0)
torch.set_num_threads(1)


def scale(x, weight):
    """Has one kernel forward and one backward."""
    return torch.relu(x * weight + 1).sum()


compiled = torch.compile(scale, backend=sys.argv[1], dynamic=False)
for size in (1000, 1000, 1001):
    weight = torch.randn(size, requires_grad=True)
    loss = compiled(torch.randn(size), weight)
    loss.backward()
    print("loss", loss.item().hex(), "gradient", weight.grad.sum().item().hex())
