"""Python looks through a large, unchanging data set again and again for garbage."""
# finding anywhere: SL025

import gc

import torch
import torch.nn.functional as F
from harness import arguments, classifier, train


class Sample:
    def __init__(self, index):
        self.label = index % 10
        self.tags = [index]
        self.self = self


def main():
    args = arguments(__doc__)
    model = classifier(128, layers=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    samples = [Sample(index) for index in range(100_000)]
    if args.mended:
        gc.collect()
        gc.freeze()
        gc.disable()

    def step(number):
        # Objects in circles, as frameworks and tracebacks leave them.
        batch = [Sample(index) for index in range(4_000)]
        labels = torch.tensor([sample.label for sample in batch[:64]])
        optimizer.zero_grad()
        loss = F.cross_entropy(model(torch.rand(64, 128)), labels)
        loss.backward()
        optimizer.step()
        return samples[number % len(samples)]

    train(args, range(args.steps), step)


if __name__ == "__main__":
    main()
