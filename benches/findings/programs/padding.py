"""Sequences of any length are put into batches, and padded."""

# recorded with: --shapes

import random

import torch
import torch.nn.functional as F
from harness import arguments, train
from torch.nn.utils.rnn import pad_sequence

LONGEST, BATCH, WIDTH = 256, 16, 128


def batches(count, sort):
    random.seed(0)
    lengths = [min(LONGEST, 8 + int(random.expovariate(1 / 40))) for _ in range(count * BATCH)]
    if sort:
        lengths.sort()
    made = [lengths[at : at + BATCH] for at in range(0, len(lengths), BATCH)]
    random.shuffle(made)
    return [[torch.rand(length, WIDTH) for length in batch] for batch in made]


def main():
    args = arguments(__doc__)
    layer = torch.nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
    model = torch.nn.Sequential(layer, torch.nn.Linear(WIDTH, WIDTH))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(sequences):
        batch = pad_sequence(sequences, batch_first=True)  # finding: SL061
        optimizer.zero_grad()
        loss = F.mse_loss(model(batch), batch)
        loss.backward()
        optimizer.step()

    train(args, batches(args.steps, args.mended), step)


if __name__ == "__main__":
    main()
