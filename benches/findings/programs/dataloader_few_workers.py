"""One worker reads batches more slowly than training takes them."""
# finding anywhere: SL009

import time

import torch
import torch.nn.functional as F
from harness import arguments, classifier, train
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    """As slow as one that reads small files over a network."""

    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.full((256,), float(index % 10)), index % 10


def main():
    args = arguments(__doc__)
    model = classifier(256, layers=12)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(batch):
        features, labels = batch
        optimizer.zero_grad()
        loss = F.cross_entropy(model(features), labels)
        loss.backward()
        optimizer.step()

    # As many as the finding tells to add.
    workers = 5 if args.mended else 1
    loader = DataLoader(Slow(32 * args.steps), batch_size=32, num_workers=workers)
    train(args, loader, step)


if __name__ == "__main__":
    main()
