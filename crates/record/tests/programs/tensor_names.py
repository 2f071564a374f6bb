"""Tensors that have names: of models that are trained, that share a parameter, that are gone before the end, that lie in memory of
NumPy's. The values that the program sees are printed."""

import gc
import sys

import numpy
import torch
from torch import nn
from torch.overrides import TorchFunctionMode


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) * self.scale


class Seen(TorchFunctionMode):
    """Functions that the program sees to be called."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.append(getattr(function, "__name__", "?"))
        return function(*args, **(kwargs or {}))


def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.ones(4, 8)).square().mean().backward()
    optimizer.step()


def trained():
    model = nn.Sequential(Block(), nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        step(model, optimizer)
    bare = torch.ones(16, requires_grad=True)
    other = torch.optim.SGD([bare], momentum=0.9)
    bare.square().sum().backward()
    other.step()
    return float(model(torch.ones(4, 8)).sum())


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 6)
        self.head = nn.Linear(6, 10, bias=False)
        self.head.weight = self.embedding.weight


def flat():
    """Parameters that are parts of one buffer: each is its own name's, none is the buffer's."""
    model = nn.ModuleDict({"part": nn.Linear(8, 8)})
    buffer = torch.zeros(1088)
    model["part"].weight = nn.Parameter(buffer[:64].view(8, 8))
    model["part"].bias = nn.Parameter(buffer[64:72])
    model["part"](torch.ones(2, 8)).sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    return model


def converted():
    """A model whose parameters move after their registration; a step reports the new addresses."""
    model = nn.Linear(12, 12).double()
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
    model(torch.ones(2, 12, dtype=torch.float64)).sum().backward()
    optimizer.step()


torch.manual_seed(0)
seen = Seen()
with seen:
    result = trained()
tied = Tied()
tied.head(tied.embedding(torch.tensor([1])))
converted()
kept_flat = flat()
foreign = nn.Linear(20, 20, bias=False)
foreign.weight = nn.Parameter(torch.from_numpy(numpy.ones((20, 20), dtype=numpy.float32)))
foreign(torch.ones(1, 20))
kept = nn.Linear(30, 30, bias=False).half()  # told at the end
del tied
gc.collect()
alive = sum(isinstance(held, nn.Module) for held in gc.get_objects())
parameters = sum(isinstance(held, nn.Parameter) for held in gc.get_objects())
print(result, len(seen.names), alive, parameters)
sys.stdout.flush()
