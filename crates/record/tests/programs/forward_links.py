"""A graph with more operators before its backward pass than the limit of links, and one with fewer."""

import sys

import torch

torch.set_num_threads(1)
x = torch.ones(1, requires_grad=True)
y = x
for _ in range(int(sys.argv[1])):
    y = y * 1.0
y.backward()
