"""The models that the programs of this folder train, and their sizes: tiny without a GPU."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
HALF = torch.bfloat16


def size(on_gpu: int, here: int) -> int:
    return on_gpu if GPU else here


class Attention(nn.Module):
    """Causal self-attention; `manual` writes its scores to memory, `mask` is built in each forward."""

    def __init__(self, width: int, heads: int, manual: bool = False, mask: str = "none"):
        super().__init__()
        self.heads, self.manual, self.mask = heads, manual, mask
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        n = x.shape[1]
        if self.manual:
            scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
            attended = torch.softmax(scores, -1) @ v  # finding: SL014
        elif self.mask == "inline":
            bias = torch.tril(torch.ones(n, n, device=x.device, dtype=torch.bool))  # finding: SL045
            attended = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        elif self.mask == "given":
            attended = F.scaled_dot_product_attention(q, k, v, attn_mask=self.bias)
        else:
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(attended.transpose(1, 2).flatten(-2))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, **attention):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, **attention)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class Transformer(nn.Module):
    def __init__(self, width=512, layers=6, heads=8, vocabulary=8192, length=512, **attention):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads, **attention) for _ in range(layers)))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.blocks(self.tokens(tokens) + self.positions(places)))


def convolutions(channels=64, layout=torch.contiguous_format, side=64, batch=64):
    layers = []
    for before, after in ((3, channels), (channels, channels), (channels, 2 * channels), (2 * channels, 2 * channels)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * channels, 10)).to(DEVICE)
    model = model.to(memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    labels = torch.randint(10, (batch,), device=DEVICE)
    return model, optimizer, labels
