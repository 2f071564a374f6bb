"""Large products of matrices run on one thread, as torchrun lets them."""  # finding anywhere: SL049

import os

import torch
import torch.nn.functional as F
from harness import arguments, train


def main():
    args = arguments(__doc__)
    torch.set_num_threads(len(os.sched_getaffinity(0)) if args.mended else 1)
    layers = [part for _ in range(4) for part in (torch.nn.Linear(1024, 1024), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(1024, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    features, labels = torch.rand(256, 1024), torch.randint(10, (256,))

    def step(_):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(features), labels)
        loss.backward()
        optimizer.step()

    train(args, range(args.steps), step)


if __name__ == "__main__":
    main()
