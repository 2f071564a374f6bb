"""Steps of training with injected waste of memory: `waste.py`. Each such line names its kind of waste."""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(64, 64)

    def forward(self, x):
        return torch.tanh(self.inner(x))  # 24 layers, one line


model = nn.Sequential(*(Layer() for _ in range(24)), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs = torch.rand(256, 64)
kept = []


def step():
    unused = torch.zeros(400_000)  # written, never read
    optimizer.zero_grad()
    loss = model(inputs).square().mean()
    loss.backward()
    optimizer.step()
    kept.append(model(inputs).mean())  # keeps the graph, and with it what 24 layers made
    return len(unused)


for _ in range(4):
    step()
