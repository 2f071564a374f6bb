"""Tests for pytest, whose fault handler is on: operators in a loop. One test fails."""

import hashlib

import guarded_stack
import pytest
import torch

guarded_stack.guard()


@pytest.mark.parametrize("size", [8, 32, 64])
def test_loop(size):
    torch.set_num_threads(1)
    torch.manual_seed(size)
    weights = torch.randn(size, size)
    for _ in range(300):
        weights = torch.tanh(weights @ weights.t() / size)
    print(hashlib.sha256(weights.numpy().tobytes()).hexdigest())


def test_fails():
    total = sum(torch.ones(100).add(number).sum().item() for number in range(2000))
    assert total == 0, total
