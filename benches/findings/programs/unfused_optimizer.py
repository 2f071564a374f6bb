"""The optimizer updates hundreds of small parameters one by one."""

import torch
import torch.nn.functional as F
from harness import arguments, classifier, train


def main():
    args = arguments(__doc__)
    model = classifier(32, layers=60)
    how = {"fused": True} if args.mended else {"foreach": False}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **how)
    features, labels = torch.rand(64, 32), torch.randint(10, (64,))

    def step(_):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(features), labels)
        loss.backward()
        optimizer.step()  # finding: SL015

    train(args, range(args.steps), step)


if __name__ == "__main__":
    main()
