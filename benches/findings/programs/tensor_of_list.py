"""A table of positions is made of a list in each step."""

import torch
import torch.nn.functional as F
from harness import arguments, train

LENGTH, WIDTH = 64, 256


class Net(torch.nn.Module):
    def __init__(self, keep):
        super().__init__()
        self.table = [[float(i * j % 7) for j in range(WIDTH)] for i in range(LENGTH)]
        self.kept = torch.tensor(self.table) if keep else None
        self.first, self.second = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WIDTH)

    def positions(self, features):
        if self.kept is not None:
            return features + self.kept
        table = torch.tensor(self.table)  # finding: SL045
        return features + table

    def forward(self, features):
        return self.second(torch.relu(self.first(self.positions(features))))


def main():
    args = arguments(__doc__)
    model = Net(args.mended)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(_):
        optimizer.zero_grad()
        features = torch.randn(LENGTH, WIDTH)
        loss = F.mse_loss(model(features), features)
        loss.backward()
        optimizer.step()

    train(args, range(args.steps), step)


if __name__ == "__main__":
    main()
