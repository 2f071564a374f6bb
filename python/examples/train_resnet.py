"""Trains a small ResNet on made-up images of the size of CIFAR's, on the CPU: a real training program to try tools on.

    python train_resnet.py --steps 20
    python train_resnet.py --layers 3 --dim 16 --batch 32 --workers 2 --times times.json

The same options give the same loss, bit by bit: it is printed in full, to compare a watched run with one that is not.
"""

import argparse
import json
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

CLASSES = 10


class Images(Dataset):
    """Each class has a pattern of its own; an image is that pattern, mirrored or not, in noise."""

    def __init__(self, samples, size):
        self.samples = samples
        self.patterns = torch.randn(CLASSES, 3, size, size, generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        noise = torch.Generator().manual_seed(index)
        label = index % CLASSES
        pattern = self.patterns[label]
        if index % 2:
            pattern = pattern.flip(-1)
        return pattern + torch.randn(pattern.shape, generator=noise), label


class BasicBlock(nn.Module):
    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Identity()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, blocks, width):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        channels = [width, width, 2 * width, 4 * width]
        self.stages = nn.ModuleList(
            self.stage(channels[i], channels[i + 1], blocks, stride=1 if i == 0 else 2) for i in range(3)
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(4 * width, CLASSES)

    @staticmethod
    def stage(channels_in, channels, blocks, stride):
        first = BasicBlock(channels_in, channels, stride)
        return nn.Sequential(first, *(BasicBlock(channels, channels, 1) for _ in range(blocks - 1)))

    def forward(self, images):
        x = self.stem(images)
        for stage in self.stages:
            x = stage(x)
        return self.classifier(self.pool(x).flatten(1))


def train_step(model, optimizer, schedule, images, labels):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    schedule.step()
    return loss.item()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--layers", type=int, default=1, help="blocks in each of the three stages")
    parser.add_argument("--dim", type=int, default=8, help="channels of the first stage")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=32, help="pixels along an edge of an image")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0, help="processes that load data")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model (needs a C++ compiler)")
    parser.add_argument("--times", type=Path, metavar="FILE", help="write the seconds of each step as JSON")
    return parser.parse_args()


def main():
    args = parse_arguments()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    loader = DataLoader(Images(args.steps * args.batch, args.size), args.batch, shuffle=True, num_workers=args.workers)
    model = ResNet(args.layers, args.dim)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.steps)
    if args.compile:
        model = torch.compile(model)

    seconds = []
    before = time.perf_counter()
    for step, (images, labels) in enumerate(loader):
        loss = train_step(model, optimizer, schedule, images, labels)
        now = time.perf_counter()
        seconds.append(now - before)
        before = now
        if step % 10 == 0:
            print(f"step {step}: loss {loss:.4f}")
    print(f"final loss {loss!r}")
    if args.times:
        args.times.write_text(json.dumps({"step_seconds": seconds, "loss": loss}))


if __name__ == "__main__":
    main()
