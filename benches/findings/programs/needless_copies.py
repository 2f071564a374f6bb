"""A transposed copy of a table is made in each step, without effect."""

import torch
import torch.nn.functional as F
from harness import arguments, train
from torch import nn


class Scores(nn.Module):
    def __init__(self, mended):
        super().__init__()
        self.project = nn.Linear(256, 256)
        self.register_buffer("keys", torch.randn(4096, 256) / 16)
        self.mended = mended

    def forward(self, queries):
        keys = self.keys.t()
        if not self.mended:
            keys = keys.contiguous()  # finding: SL017
        return self.project(queries) @ keys


def main():
    args = arguments(__doc__)
    model = Scores(args.mended)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    queries, labels = torch.rand(32, 256), torch.randint(10, (32,))

    def step(_):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(queries), labels)
        loss.backward()
        optimizer.step()

    train(args, range(args.steps), step)


if __name__ == "__main__":
    main()
