"""What the programs share: arguments, and the seconds of each step."""

import argparse
import json
import time
from pathlib import Path

import torch


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
