"""A graph network: messages along edges, gathered with scatter operators."""

import torch
from harness import digest, main
from torch import nn


class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.message, self.update = nn.Linear(2 * size, size), nn.GRUCell(size, size)

    def forward(self, nodes, source, target):
        messages = torch.relu(self.message(torch.cat([nodes[source], nodes[target]], -1)))
        total = torch.zeros_like(nodes).scatter_add_(0, target[:, None].expand_as(messages), messages)
        most = torch.zeros_like(nodes).scatter_reduce(
            0, target[:, None].expand_as(messages), messages, "amax", include_self=True
        )
        return self.update(total.index_add(0, target, messages) + most, nodes)


def program():
    nodes = torch.randn(64, 16)
    source, target = torch.randint(64, (2, 400))
    layers = nn.ModuleList(Layer(16) for _ in range(3))
    head = nn.Linear(16, 1)
    optimizer = torch.optim.Adam([*layers.parameters(), *head.parameters()])
    for _ in range(6):
        optimizer.zero_grad()
        x = nodes
        for layer in layers:
            x = layer(x, source, target)
        loss = head(x).sigmoid().mean()
        loss.backward()
        optimizer.step()
    print("loss", digest(loss), "weights", digest(*layers.parameters()))


main(program)
