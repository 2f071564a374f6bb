"""torch.compile with recompilation: other shapes, another branch, a graph break."""

import torch
from harness import digest, main
from torch import nn


def step(model, x, scale):
    y = model(x)
    if scale > 1:
        y = y * scale
    torch._dynamo.graph_break()
    return y.softmax(-1).sum(0)


def program():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    compiled = torch.compile(step, backend="aot_eager", dynamic=False)
    for rows in (3, 3, 5, 3, 7):
        for scale in (1, 2):
            out = compiled(model, torch.randn(rows, 8), scale)
            out.prod().backward()
            print(rows, scale, digest(out))
    print("gradients", digest(*(parameter.grad for parameter in model.parameters())))
    print("compiled", torch._dynamo.utils.counters["stats"]["unique_graphs"])


main(program)
