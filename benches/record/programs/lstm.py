"""An LSTM written out cell by cell, batch 1: small operators, forward only or forward and backward.

    python lstm.py [--width 64] [--backward] [--steps 200] [--times FILE]

Write the CPU seconds of each step (of the calling thread) to FILE as JSON.
"""

import argparse
import json
import pathlib
import time

import torch


class Cell(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.input = torch.nn.Linear(width, 4 * width)
        self.hidden = torch.nn.Linear(width, 4 * width)

    def forward(self, x, state):
        h, c = state
        i, f, g, o = (self.input(x) + self.hidden(h)).chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = Cell(width), Cell(width)
        self.head = torch.nn.Linear(width, 16)

    def forward(self, sequence):
        zero = torch.zeros(1, sequence.shape[-1])
        first, second = (zero, zero), (zero, zero)
        for x in sequence:
            first = self.first(x, first)
            second = self.second(first[0], second)
        return self.head(second[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--backward", action="store_true")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--times")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, sequence = Model(options.width), torch.randn(20, 1, options.width)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    times = []
    for _ in range(options.steps):
        # Backward of CPU tensors runs on the thread that asks for it.
        before = time.thread_time()
        if options.backward:
            optimizer.zero_grad()
            model(sequence).square().sum().backward()
            optimizer.step()
        else:
            with torch.no_grad():
                model(sequence)
        times.append(time.thread_time() - before)
    if options.times:
        pathlib.Path(options.times).write_text(json.dumps({"step_seconds": times}))


if __name__ == "__main__":
    main()
