"""Distributed data parallel over gloo; a rank of a job of torchrun."""

import torch
import torch.distributed as dist
from harness import digest, main
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def program():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        optimizer.zero_grad()
        data = torch.randn(8, 16, generator=torch.Generator().manual_seed(100 * rank + step))
        loss = model(data).pow(2).mean()
        loss.backward()
        optimizer.step()
    total = torch.tensor([rank + 1.0])
    dist.all_reduce(total)
    if rank == 0:
        print("weights", digest(*model.parameters()), "total", total.item())
    dist.barrier()
    dist.destroy_process_group()


main(program)
