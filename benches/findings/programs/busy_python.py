"""Each step reads a table of numbers anew from JSON."""

import json
import random

import torch
import torch.nn.functional as F
from harness import arguments, classifier, train


def main():
    args = arguments(__doc__)
    model = classifier(128, layers=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    labels = torch.randint(10, (64,))
    text = json.dumps([[random.random() for _ in range(128)] for _ in range(64 * 4)])

    def rows():
        return json.loads(text)[:64]  # finding: SL043

    def step(_):
        optimizer.zero_grad()
        features = kept if args.mended else torch.tensor(rows())
        loss = F.cross_entropy(model(features), labels)
        loss.backward()
        optimizer.step()

    kept = torch.tensor(rows())
    train(args, range(args.steps), step)


if __name__ == "__main__":
    main()
