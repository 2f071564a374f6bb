"""Shared parts of the programs: arguments, and the seconds of each step."""

import argparse
import json
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--mended", action="store_true", help="without the problem")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--times", type=Path, metavar="FILE", help="write the seconds of each step as JSON")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    return parser.parse_args()


def train(args, batches, step):
    """Calls `step` with each batch, and notes how long each took with the loading of its batch."""
    seconds = []
    before = time.perf_counter()
    for batch in batches:
        step(batch)
        now = time.perf_counter()
        seconds.append(now - before)
        before = now
    if args.times:
        args.times.write_text(json.dumps(seconds))


def classifier(width, layers=2, classes=10):
    widths = [width] * layers
    inner = [part for one in widths for part in (torch.nn.Linear(one, one), torch.nn.ReLU())]
    return torch.nn.Sequential(*inner, torch.nn.Linear(width, classes))


class Slow(Dataset):
    """A dataset as slow as one that reads small files over a network."""

    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.full((256,), float(index % 10)), index % 10


def train_on_slow_samples(args, workers):
    """Trains on batches that take 32 ms of sleep each, read by so many workers."""
    model = classifier(256, layers=12)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(batch):
        features, labels = batch
        optimizer.zero_grad()
        loss = F.cross_entropy(model(features), labels)
        loss.backward()
        optimizer.step()

    train(args, DataLoader(Slow(32 * args.steps), batch_size=32, num_workers=workers), step)
