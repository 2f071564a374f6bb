"""An LSTM, trained on a sequence with batch 1."""

import torch
from harness import digest, main
from torch import nn


def program():
    model = nn.LSTM(16, 32, num_layers=2, dropout=0.2)
    head = nn.Linear(32, 16)
    parameters = [*model.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
    data = torch.randn(40, 1, 16)
    state = None
    for step in range(12):
        optimizer.zero_grad()
        out, state = model(data[:-1], state)
        state = tuple(part.detach() for part in state)
        loss = (head(out) - data[1:]).pow(2).mean()
        loss.backward()
        optimizer.step()
        if step % 4 == 3:
            print("step", step, digest(loss))
    print("weights", digest(*parameters))


main(program)
