"""Threads, exceptions, generators, coroutines, exec and recursion while signals arrive; prints its results."""

import asyncio
import sys
import threading


def numbers(n):
    for i in range(n):
        yield from (j * i for j in range(3))


def deep(n):
    return 0 if n == 0 else 1 + deep(n - 1)


def raises(n):
    if n == 0:
        raise ValueError(n)
    try:
        raises(n - 1)
    finally:
        deep(1)


class Dies:
    def __del__(self):
        sum(range(5))


async def wait(n):
    await asyncio.sleep(0)
    return n + (await wait(n - 1) if n else 0)


def work(number, results):
    total = number
    for step in range(int(sys.argv[1])):
        total = (total * 31 + sum(numbers(10)) + deep(30)) % 1_000_003
        try:
            raises(5)
        except ValueError:
            total += 1
        names = {}
        code = f"def f(x):\n    return [y + {step % 50} for y in range(x)]\nr = sum(f(10))"
        exec(compile(code, f"<code {step % 50}>", "exec"), names)
        total += names["r"]
        dies = Dies()
        dies.itself = dies
        del dies
        total += sorted([3, 1, 2], key=lambda x: -x)[0]
        if step % 10 == 0:
            total += asyncio.run(wait(5))
    results[number] = total


results = {}
threads = [threading.Thread(target=work, args=(number, results)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(results.items()))
