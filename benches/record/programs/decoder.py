"""A transformer decoder that generates tokens with a KV cache, batch 1: small operators, no gradients.

    python decoder.py [--width 64] [--steps 200] [--times FILE]

A step is one token. Write the CPU seconds of each step (of the calling thread) to FILE as JSON.
"""

import argparse
import json
import pathlib
import time

import torch

HEADS, LAYERS, LENGTH, VOCABULARY = 4, 4, 64, 256


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.norm_1, self.norm_2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x, keys, values, at):
        q, k, v = self.qkv(self.norm_1(x)).chunk(3, dim=-1)
        keys[:, at], values[:, at] = k.view(HEADS, -1), v.view(HEADS, -1)
        scores = torch.matmul(keys[:, : at + 1], q.view(HEADS, -1, 1)).squeeze(-1) * (self.width // HEADS) ** -0.5
        weights = torch.softmax(scores, dim=-1)
        attended = torch.matmul(weights.unsqueeze(1), values[:, : at + 1]).reshape(1, self.width)
        x = x + self.out(attended)
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm_2(x))))


class Decoder(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, width)
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(LAYERS))
        self.head = torch.nn.Linear(width, VOCABULARY)

    def forward(self, token, cache, at):
        x = self.embedding(token)
        for block, (keys, values) in zip(self.blocks, cache):
            x = block(x, keys, values, at)
        return self.head(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--times")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, token, times = Decoder(options.width), torch.zeros(1, dtype=torch.long), []
    cache = [(torch.zeros(HEADS, LENGTH, options.width // HEADS), torch.zeros(HEADS, LENGTH, options.width // HEADS)) for _ in range(LAYERS)]
    with torch.no_grad():
        for step in range(options.steps):
            before = time.thread_time()
            token = model(token, cache, step % LENGTH).argmax(dim=-1)
            times.append(time.thread_time() - before)
    if options.times:
        pathlib.Path(options.times).write_text(json.dumps({"step_seconds": times}))


if __name__ == "__main__":
    main()
