"""The gradient of a table with many rows is dense, though each batch looks up few of them."""

# recorded with: --shapes

import torch
import torch.nn.functional as F
from harness import arguments, train

ROWS, WIDTH, WORDS = 200_000, 64, 20


class Net(torch.nn.Module):
    def __init__(self, is_sparse):
        super().__init__()
        self.table = torch.nn.Embedding(ROWS, WIDTH, sparse=is_sparse)
        self.first, self.second = torch.nn.Linear(WIDTH, 256), torch.nn.Linear(256, 1)

    def forward(self, words):
        vectors = self.table(words)  # finding: SL065
        return self.second(torch.relu(self.first(vectors.mean(1))))


def main():
    args = arguments(__doc__)
    model = Net(args.mended)
    if args.mended:
        of_layers = [*model.first.parameters(), *model.second.parameters()]
        optimizers = [torch.optim.SparseAdam(model.table.parameters()), torch.optim.Adam(of_layers)]
    else:
        optimizers = [torch.optim.Adam(model.parameters())]

    def step(_):
        for optimizer in optimizers:
            optimizer.zero_grad()
        words = torch.randint(0, ROWS, (64, WORDS))
        loss = F.mse_loss(model(words), torch.rand(64, 1))
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()

    train(args, range(args.steps), step)


if __name__ == "__main__":
    main()
