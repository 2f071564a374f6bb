"""A step of an optimizer that `torch.compile` compiles: prints its number of graphs and operations."""

import torch
from torch import nn

graphs = []


def backend(graph, inputs):
    graphs.append(graph)
    return graph.forward


torch.manual_seed(0)
model = nn.Linear(8, 8)
optimizer = torch.optim.AdamW(model.parameters())


@torch.compile(backend=backend)
def step():
    optimizer.step()


for _ in range(3):
    model(torch.ones(2, 8)).sum().backward()
    step()
print(len(graphs), sum(len(graph.graph.nodes) for graph in graphs), float(model.weight.sum().detach()))
