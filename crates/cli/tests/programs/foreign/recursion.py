"""Deep recursion: in Python, in nested modules, and in the graph of autograd."""

import sys

import torch
from harness import digest, main
from torch import nn


class Nested(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.inner = Nested(depth - 1) if depth else None

    def forward(self, x):
        x = x * self.weight
        return self.inner(x) if self.inner else x


def down(x, depth):
    return x.neg() if depth == 0 else down(x, depth - 1).neg()


def endless(x):
    return endless(x.neg())


def program():
    sys.setrecursionlimit(6000)
    x = torch.randn(3)
    print("down", digest(*(down(x, depth) for depth in (10, 1000, 3000))))
    model = Nested(120)
    for _ in range(3):
        model(x).sum().backward()
    long = x.clone().requires_grad_()
    y = long
    for _ in range(5000):
        y = y + 1
    y.sum().backward()
    print("gradients", digest(long.grad, model.weight.grad))
    sys.setrecursionlimit(900)
    try:
        endless(x)
    except RecursionError as error:
        print("caught", type(error).__name__)


main(program)
