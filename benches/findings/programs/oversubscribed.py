"""More threads compute than the program may use processors."""  # finding anywhere: SL028

import os

import torch
import torch.nn.functional as F
from harness import arguments, train


def main():
    args = arguments(__doc__)
    processors = len(os.sched_getaffinity(0))
    # As PyTorch does by itself in a container that may use a part of a large machine.
    torch.set_num_threads(processors if args.mended else 8 * processors)
    layers = [part for _ in range(6) for part in (torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.LayerNorm(256))]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    features, labels = torch.rand(512, 256), torch.randint(10, (512,))

    def step(_):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(features), labels)
        loss.backward()
        optimizer.step()

    train(args, range(args.steps), step)


if __name__ == "__main__":
    main()
