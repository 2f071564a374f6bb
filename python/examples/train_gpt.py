"""Trains a tiny GPT on a made-up language, on the CPU: a real training program to try tools on.

    python train_gpt.py --steps 50
    python train_gpt.py --layers 4 --dim 256 --batch 8 --seq 64     # about 100 ms a step
    python train_gpt.py --workers 2 --compile --times times.json

The same options give the same loss, bit by bit: it is printed in full, to compare a watched run with one that is not.
"""

import argparse
import json
import random
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

VOCABULARY = 64


class Text(Dataset):
    """Windows of a text in which each token mostly follows from the one before it: there is something to learn."""

    def __init__(self, samples, length):
        self.samples, self.length = samples, length
        rng = random.Random(0)
        tokens = [0]
        while len(tokens) < 20_000:
            surprise = rng.random() < 0.1
            tokens.append(rng.randrange(VOCABULARY) if surprise else (5 * tokens[-1] + 7) % VOCABULARY)
        self.tokens = torch.tensor(tokens)

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        start = index * 997 % (len(self.tokens) - self.length - 1)
        window = self.tokens[start : start + self.length + 1]
        return window[:-1], window[1:]


class CausalSelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        batch, length, dim = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, dim))


class MLP(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attention = CausalSelfAttention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = MLP(dim)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, layers, dim, length, heads=4):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, dim)
        self.positions = nn.Embedding(length, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def train_step(model, optimizer, tokens, targets):
    optimizer.zero_grad()
    logits = model(tokens)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--dim", type=int, default=32, help="width of the model, a multiple of 4")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=16, help="tokens in a sequence")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0, help="processes that load data")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model (needs a C++ compiler)")
    parser.add_argument("--times", type=Path, metavar="FILE", help="write the seconds of each step as JSON")
    return parser.parse_args()


def main():
    args = parse_arguments()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    loader = DataLoader(Text(args.steps * args.batch, args.seq), args.batch, shuffle=True, num_workers=args.workers)
    model = GPT(args.layers, args.dim, args.seq)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    if args.compile:
        model = torch.compile(model)

    seconds = []
    before = time.perf_counter()
    for step, (tokens, targets) in enumerate(loader):
        loss = train_step(model, optimizer, tokens, targets)
        now = time.perf_counter()
        seconds.append(now - before)
        before = now
        if step % 50 == 0:
            print(f"step {step}: loss {loss:.4f}")
    print(f"final loss {loss!r}")
    if args.times:
        args.times.write_text(json.dumps({"step_seconds": seconds, "loss": loss}))


if __name__ == "__main__":
    main()
