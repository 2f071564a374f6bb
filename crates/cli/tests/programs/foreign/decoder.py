"""A decoder that makes text, token by token, with a cache of keys and values."""

import torch
from harness import digest, main
from torch import nn


class Block(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

    def forward(self, x, cache):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.first(x)).chunk(3, -1))
        if cache:
            k, v = torch.cat([cache["k"], k], 2), torch.cat([cache["v"], v], 2)
        cache.update(k=k, v=v)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] > 1)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.mlp(self.second(x))


@torch.inference_mode()
def program():
    embedding, blocks = nn.Embedding(100, 48), [Block(48, 4) for _ in range(3)]
    caches = [{} for _ in blocks]
    tokens = torch.randint(100, (1, 8))
    said = tokens.tolist()[0]
    for _ in range(40):
        x = embedding(tokens)
        for block, cache in zip(blocks, caches):
            x = block(x, cache)
        logits = x[:, -1] @ embedding.weight.T
        tokens = torch.multinomial(torch.softmax(logits, -1), 1)
        said.append(tokens.item())
    print("text", digest(said), "logits", digest(logits))


main(program)
