"""Training and inference programs for a GPU with one problem each, and the same without it. Each function gives a step, with the problem or (`mended`) without. The line that a finding should name carries
`# finding: CODE`. Sizes are those of small real models; without a GPU they are tiny, so that the programs can be tried.
"""

from __future__ import annotations

import copy
import gc
import io
import math
import time

import torch
import torch.nn.functional as F
from collectives import small_collectives
from models import DEVICE, GPU, HALF, Transformer, convolutions, size
from torch import nn


def transformer(batch=None, length=256, vocabulary=8192, fused=True, half=True, **attention):
    """A training step of a small language model: forward, loss, backward, optimizer."""
    batch = batch or size(32, 2)
    length, vocabulary = size(length, 16), size(vocabulary, 64)
    model = Transformer(size(512, 32), size(6, 2), size(8, 2), vocabulary, length, **attention).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=fused)
    tokens = torch.randint(vocabulary, (batch, length + 1), device=DEVICE)

    def step(_):
        with torch.autocast(DEVICE.type, HALF, enabled=half):
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    step.model, step.optimizer = model, optimizer
    return step


def train(model, optimizer, images, labels):
    with torch.autocast(DEVICE.type, HALF):
        loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def train_and(waste, mended, batch=8, **sizes):
    """A training step, followed by avoidable work."""
    inner = transformer(batch=batch, **sizes)

    def step(number):
        inner(number)
        if not mended:
            waste()

    return step


def item_in_step(mended):
    """The loss is read in each step, in the middle of many small kernels."""
    step, total = transformer(batch=2, length=64), []

    def with_item(number):
        loss = step(number)
        if mended:
            total.append(loss.detach())
        else:
            total.append(loss.item())  # finding: SL004
        total[:-8] = []

    return with_item


def clip_with_if(mended):
    """A condition on a tensor that lies on the GPU, after each parameter's gradient."""
    step = transformer(batch=8)

    def checked(number):
        step(number)
        for parameter in step.model.parameters():
            if mended:
                parameter.data.clamp_(-10, 10)
            elif parameter.abs().max() > 10:  # finding: SL004
                parameter.data.clamp_(-10, 10)

    return checked


def pageable_copies(mended):
    """Batches lie in memory that is not pinned."""
    model, optimizer, labels = convolutions(side=64)
    images = torch.rand(size(64, 2), 3, size(256, 8), size(256, 8))
    labels = labels[: len(images)]
    if mended and GPU:
        images = images.pin_memory()

    def step(_):
        train(model, optimizer, images.to(DEVICE, non_blocking=True), labels)  # finding: SL011

    return step


def launch_bound(mended):
    """Small layers, launched one by one; mended: a graph."""
    model = Transformer(size(256, 32), size(12, 2), 4, 1024, 64).to(DEVICE).eval()
    tokens = torch.randint(1024, (1, 16), device=DEVICE)
    run = torch.no_grad()(model)
    if mended and GPU:
        run = torch.cuda.make_graphed_callables(model, (tokens,))

    def step(_):
        with torch.no_grad():
            run(tokens)  # finding: SL012

    return step


def unfused_optimizer(mended):
    return_step = transformer(batch=4)
    kind = {"fused": True} if mended else {"foreach": False}
    optimizer = torch.optim.AdamW(return_step.model.parameters(), lr=1e-4, **kind)
    tokens = torch.randint(64, (size(4, 2), size(256, 16)), device=DEVICE)

    def step(_):
        with torch.autocast(DEVICE.type, HALF):
            loss = return_step.model(tokens).float().logsumexp(-1).mean()
        loss.backward()
        optimizer.step()  # finding: SL015
        optimizer.zero_grad()

    return step


def manual_attention(mended):
    """Attention that writes its scores to memory (mended: fused, and causal, which is half the work)."""
    return transformer(length=512, batch=size(48, 2), manual=not mended)


def float32_products(mended):
    """Matrix products in float32 without tensor cores."""
    inner = transformer(batch=size(64, 2), half=False)

    def step(number):
        torch.backends.cuda.matmul.allow_tf32 = mended
        inner(number)  # finding anywhere: SL018
        torch.backends.cuda.matmul.allow_tf32 = False

    return step


def layout_conversions(mended):
    """Convolutions in bfloat16 on tensors whose channels do not lie innermost."""
    layout = torch.channels_last if mended else torch.contiguous_format
    model, optimizer, labels = convolutions(layout=layout, batch=size(256, 2))
    images = torch.rand(size(256, 2), 3, size(64, 8), size(64, 8), device=DEVICE).to(memory_format=layout)

    def step(_):
        train(model, optimizer, images, labels)  # finding anywhere: SL003

    return step


def casts_in_inference(mended):
    """Autocast converts the parameters in each forward."""
    model = Transformer(size(1024, 32), size(8, 2), 8, size(8192, 64), 256).to(DEVICE).eval()
    if mended:
        model = model.to(HALF)
    tokens = torch.randint(64, (1, 16), device=DEVICE)

    def step(_):
        with torch.inference_mode(), torch.autocast(DEVICE.type, HALF, enabled=not mended):
            model(tokens)  # finding anywhere: SL016

    return step


def contiguous_copies(mended):
    """Keys and values are copied into another order that the product would have taken as they are."""
    heads, length, width = 16, size(1024, 16), 64
    made = torch.rand(size(16, 2), length, heads, width, device=DEVICE, dtype=HALF)

    def step(_):
        q = made.transpose(1, 2)
        k, v = q, q
        for _ in range(6):
            if not mended:
                k, v = made.transpose(1, 2).contiguous(), made.transpose(1, 2).contiguous()  # finding: SL017
            q = F.scaled_dot_product_attention(q, k, v)

    return step


def empty_cache_in_step(mended):
    return train_and(torch.cuda.empty_cache, mended or not GPU)  # finding: SL024


def gc_in_step(mended):
    return train_and(gc.collect, mended)  # finding: SL025


def save_in_step(mended):
    inner = transformer(batch=8)

    def step(number):
        inner(number)
        if not mended:
            torch.save(inner.model.state_dict(), io.BytesIO())  # finding: SL029

    return step


def list_to_device(mended):
    """Labels and weights come to the GPU as Python lists."""
    inner = transformer(batch=8)
    numbers = [float(n) for n in range(size(20_000, 100))]
    kept = torch.tensor(numbers, device=DEVICE)

    def step(number):
        weights = kept if mended else torch.tensor(numbers, device=DEVICE)  # finding: SL045
        inner(number)
        weights.sum()

    return step


def loop_of_small_operators(mended):
    """Features are normalized one by one."""
    model = nn.Linear(256, 256).to(DEVICE)
    rows = torch.rand(size(256, 16), 256, device=DEVICE)

    def step(_):
        if mended:
            normal = rows / rows.norm(dim=-1, keepdim=True)
        else:
            normal = torch.stack([row / row.norm() for row in rows])  # finding: SL038
        model(normal).sum().backward()
        model.zero_grad()

    return step


def zeroed_gradients(mended):
    inner = transformer(batch=2, length=64, fused=True)
    tokens = torch.randint(64, (2, 16), device=DEVICE)

    def step(_):
        with torch.autocast(DEVICE.type, HALF):
            loss = inner.model(tokens).float().logsumexp(-1).mean()
        loss.backward()
        inner.optimizer.step()
        inner.optimizer.zero_grad(set_to_none=mended)  # finding: SL042

    return step


def inline_mask(mended):
    """A causal mask is built in the forward of each layer."""
    made = transformer(batch=size(16, 2), length=1024 if GPU else 16, mask="given" if mended else "inline")
    for block in made.model.blocks:
        n = size(1024, 16)
        block.attention.bias = torch.tril(torch.ones(n, n, device=DEVICE, dtype=torch.bool))
    return made


def growing_cache(mended):
    """Keys and values of a decoder grow by cat."""
    heads, width, most = 32, 128, size(4096, 64)
    token = torch.rand(size(8, 2), heads, 1, width, device=DEVICE, dtype=HALF)
    whole = torch.zeros(size(8, 2), heads, most, width, device=DEVICE, dtype=HALF)
    state = {"at": most // 2, "keys": whole[:, :, : most // 2].clone()}

    def step(_):
        at = state["at"] = most // 2 if state["at"] + 1 >= most else state["at"] + 1
        if mended:
            whole[:, :, at : at + 1] = token
            keys = whole[:, :, :at]
        else:
            keys = state["keys"] = torch.cat([state["keys"][:, :, : at - 1], token], dim=2)  # finding: SL046
        torch.softmax(token @ keys.transpose(-2, -1), -1) @ keys

    return step


def evaluation(every):
    def make(mended):
        """An evaluation runs during the training."""
        inner = transformer(batch=8)
        tokens = torch.randint(64, (size(32, 2), size(256, 16)), device=DEVICE)

        def evaluate():
            inner.model.eval()
            with torch.no_grad(), torch.autocast(DEVICE.type, HALF):
                inner.model(tokens)
            inner.model.train()

        def step(number):
            inner(number)
            if not mended and number % every == 0:
                evaluate()  # finding: SL047

        return step

    return make


def autograd_in_inference(mended):
    model = Transformer(size(256, 32), size(12, 2), 4, 1024, 64).to(DEVICE).eval()
    tokens = torch.randint(1024, (1, 16), device=DEVICE)

    def step(_):
        with torch.inference_mode(mended):
            model(tokens)  # finding anywhere: SL048

    return step


def indexing_backward(mended):
    """The backward of table[indices] sorts its indices."""
    table = nn.Parameter(torch.rand(size(50_000, 100), 256, device=DEVICE))
    indices = torch.randint(size(100, 10), (size(200_000, 100),), device=DEVICE)

    def step(_):
        rows = F.embedding(indices, table) if mended else table[indices]  # finding anywhere: SL007
        rows.square().sum().backward()
        table.grad = None

    return step


def benchmark_mode(mended):
    """cuDNN tries out its algorithms for each new size of the input."""
    model, optimizer, labels = convolutions(channels=size(16, 4), batch=size(8, 2))

    def step(number):
        # No size comes twice, nor in both variants: what was tried out is kept for the process.
        height, width = size(96, 8) + number // 48 * 2 + mended, size(96, 8) + number % 48
        torch.backends.cudnn.benchmark = not mended
        images = torch.rand(size(8, 2), 3, height, width, device=DEVICE)
        train(model, optimizer, images, labels)  # finding anywhere: SL062
        torch.backends.cudnn.benchmark = False

    return step


def deep_copy(mended):
    inner = transformer(batch=8)
    average = copy.deepcopy(inner.model).requires_grad_(False)

    def step(number):
        inner(number)
        if mended:
            torch._foreach_lerp_(list(average.parameters()), list(inner.model.parameters()), 0.01)
        else:
            copy.deepcopy(inner.model)  # finding: SL017

    return step


def busy_host(mended):
    """Python on the host, between the steps of the GPU."""
    return train_and(lambda: sum(math.sin(n) for n in range(60_000)), mended)  # finding anywhere: SL005


def unfused_loss(mended):
    """A loss over a large vocabulary in several kernels; mended: compiled."""
    vocabulary, rows = size(50_304, 64), size(4096, 8)
    head = nn.Linear(size(512, 16), vocabulary, device=DEVICE, dtype=HALF)
    x = torch.rand(rows, head.in_features, device=DEVICE, dtype=HALF)
    labels = torch.randint(vocabulary, (rows,), device=DEVICE)

    def loss(logits):
        return F.cross_entropy(logits.float(), labels)

    if mended and GPU:
        loss = torch.compile(loss)

    def step(_):
        loss(head(x)).backward()  # finding anywhere: SL013
        head.zero_grad()

    return step


def elementwise_chain(mended):
    """A chain of elementwise kernels; mended: compiled."""
    x = torch.rand(size(8192, 64), size(4096, 64), device=DEVICE)

    def chain(x):
        y = x * 0.5 + 1.0
        y = torch.tanh(y) * torch.sigmoid(x)
        y = y * y + x
        return (y - y.mean(-1, keepdim=True)) * 0.1

    if mended and GPU:
        chain = torch.compile(chain)

    def step(_):
        chain(x)  # finding anywhere: SL002

    return step


def synchronize_in_step(mended):
    return train_and(torch.cuda.synchronize, mended or not GPU, batch=4, length=64)  # finding: SL004


def sleeping(mended):
    """The step waits for something outside, such as a server."""
    return train_and(lambda: time.sleep(0.02), mended)  # finding anywhere: SL039


def odd_vocabulary(mended):
    """A vocabulary of GPT-2's size, which is no multiple of 8: its products are not aligned."""
    return transformer(batch=size(64, 2), vocabulary=(50_304 if mended else 50_257) if GPU else 64)  # finding anywhere: SL063


def optimizer_beside_graphs(mended):
    """The model is compiled and replays graphs; its optimizer launches one by one (mended: fused)."""
    model = Transformer(size(512, 32), size(6, 2), 8, size(8192, 64), 256).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True if mended else None)
    tokens = torch.randint(64, (size(16, 2), size(256, 16)), device=DEVICE)

    def loss_of(tokens):
        with torch.autocast(DEVICE.type, HALF):
            return model(tokens).float().logsumexp(-1).mean()

    if GPU:
        loss_of = torch.compile(loss_of, mode="reduce-overhead")

    def step(_):
        if GPU:
            torch.compiler.cudagraph_mark_step_begin()
        loss_of(tokens).backward()
        optimizer.step()  # finding: SL015
        optimizer.zero_grad()

    return step


PROBLEMS = {
    "item in the step": item_in_step,
    "if on a GPU tensor, per parameter": clip_with_if,
    "synchronize in the step": synchronize_in_step,
    "pageable copies": pageable_copies,
    "launch-bound inference": launch_bound,
    "optimizer not fused": unfused_optimizer,
    "attention by hand": manual_attention,
    "float32 products": float32_products,
    "layout conversions": layout_conversions,
    "casts in inference": casts_in_inference,
    "contiguous copies": contiguous_copies,
    "empty_cache in the step": empty_cache_in_step,
    "gc.collect in the step": gc_in_step,
    "torch.save in the step": save_in_step,
    "list to the device": list_to_device,
    "loop of small operators": loop_of_small_operators,
    "zeroed gradients": zeroed_gradients,
    "mask built in forward": inline_mask,
    "cache that grows by cat": growing_cache,
    "evaluation in each step": evaluation(1),
    "evaluation in every third step": evaluation(3),
    "autograd in inference": autograd_in_inference,
    "backward of indexing": indexing_backward,
    "benchmark mode with new sizes": benchmark_mode,
    "deepcopy in the step": deep_copy,
    "Python on the host": busy_host,
    "loss not fused": unfused_loss,
    "elementwise chain": elementwise_chain,
    "waiting in the step": sleeping,
    "vocabulary that is not aligned": odd_vocabulary,
    "optimizer outside of graphs": optimizer_beside_graphs,
    "a collective for each gradient": small_collectives,
}
