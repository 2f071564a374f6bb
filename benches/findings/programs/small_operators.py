"""Python loops over the rows of a matrix."""

import torch
import torch.nn.functional as F
from harness import arguments, classifier, train


def normalized(rows, mended):
    if mended:
        return (rows - rows.mean(1, keepdim=True)) / rows.std(1, keepdim=True)
    result = []
    for row in rows:
        result.append((row - row.mean()) / row.std())  # finding: SL038
    return torch.stack(result)


def main():
    args = arguments(__doc__)
    model = classifier(128, layers=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    features, labels = torch.rand(256, 128), torch.randint(10, (256,))

    def step(_):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(normalized(features, args.mended)), labels)
        loss.backward()
        optimizer.step()

    train(args, range(args.steps), step)


if __name__ == "__main__":
    main()
