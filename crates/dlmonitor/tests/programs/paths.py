"""Compares call paths with the frames that Python reports: random recursion, loops, generators, hooks, several threads."""

import random
import sys
import threading

from tool import OK, load

tool = load()
import torch  # noqa: E402

assert tool.register_set(0) == OK
assert tool.init() == OK
tool.want(1, 0)
failures = []


def expected(frame, first):
    names = []
    while frame is not None:
        names.append((frame.f_code.co_qualname, frame.f_lineno if names else None))
        frame = frame.f_back
    return names[::-1]


def check(line, frame):
    """The last path of this thread is that of the frame, whose operator was called on this line."""
    got = [entry.rsplit(":", 1) for entry in tool.last_path().decode().split("|") if entry and entry[0] != "["]
    want, lines = [], []
    while frame is not None:
        want.append(frame.f_code.co_qualname)
        lines.append(frame.f_lineno if lines else line)
        frame = frame.f_back
    want, lines = want[::-1], lines[::-1]
    if [name for name, _ in got] != want or [int(number) for _, number in got] != lines:
        failures.append((got, list(zip(want, lines))))


def leaf_a(x):
    x.add_(1); line = sys._getframe().f_lineno
    check(line, sys._getframe())


def leaf_b(x):
    for _ in range(3):
        x.mul_(1); check(sys._getframe().f_lineno, sys._getframe())
        x.add_(1); check(sys._getframe().f_lineno, sys._getframe())


def generator(x):
    for _ in range(2):
        x.add_(1); check(sys._getframe().f_lineno, sys._getframe())
        yield x


def made_at_run_time(x, number):
    """Runs a function, a method or a closure whose code object is soon replaced by another one."""
    space = {"check": check, "sys": sys}
    name = f"made_{number % 5}"
    body = "x.add_(1); check(sys._getframe().f_lineno, sys._getframe())"
    source = (
        f"def {name}(x):\n    {body}\n",
        f"class Made:\n    @staticmethod\n    def {name}(x):\n        {body}\n{name} = Made.{name}\n",
        f"def maker():\n    def {name}(x):\n        {body}\n    return {name}\n{name} = maker()\n",
    )[number % 3]
    exec("\n" * (number % 7) + source, space)
    space[name](x)


def down(x, depth, random):
    if depth == 0:
        random.choice((leaf_a, leaf_b, lambda x: list(generator(x)), lambda x: made_at_run_time(x, random.randrange(100))))(x)
        return
    if random.random() < 0.5:
        down(x, depth - 1, random)
    else:
        down(x, depth - 1, random)
    if random.random() < 0.1:
        leaf_a(x)


def hooks():
    x = torch.ones(3, requires_grad=True)
    y = x * 2

    def hook(gradient):
        result = gradient * 3; check(sys._getframe().f_lineno, sys._getframe())
        return result

    y.register_hook(hook)
    y.sum().backward()


def run(seed):
    numbers = random.Random(seed)
    x = torch.ones(2)
    for _ in range(150):
        down(x, numbers.choice((0, 1, 2, 5, 29, 30, 31, 80)), numbers)
    down(x, 500, numbers)
    for _ in range(20):
        down(x, numbers.randrange(6), numbers)


run(1)
threads = [threading.Thread(target=run, args=(seed,)) for seed in range(2, 8)]
for thread in threads:
    thread.start()
for _ in range(300):
    hooks()
for thread in threads:
    thread.join()
tool.finalize()
assert not failures, (len(failures), failures[0])
print("paths of", tool.begins(0), "operators")
