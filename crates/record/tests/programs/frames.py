"""Compares the Python stack that the recorder reads with CPython's own, for many kinds of stacks.

Prints the number of comparisons of one frame, and of those that differed.
"""

import _imp
import sys
import threading
from importlib.machinery import ModuleSpec

recorder = _imp.create_dynamic(ModuleSpec("_stackline_record", None, origin=sys.argv[1]))
lock = threading.Lock()
checks = 0
differences = []
NAME = "co_qualname" if sys.version_info >= (3, 11) else "co_name"


def check():
    """Walks the stack both ways."""
    global checks
    ours = [line.split("\t")[:4] for line in recorder.frames().splitlines()]
    frame, theirs = sys._getframe(), []
    while frame is not None:
        code = frame.f_code
        theirs.append([getattr(code, NAME), code.co_filename, str(frame.f_lineno or 0), str(code.co_firstlineno)])
        frame = frame.f_back
    # The two walks stand in different lines of this function.
    ours[0][2] = theirs[0][2] = "here"
    with lock:
        checks += len(theirs)
        if ours != theirs:
            differences.append((ours, theirs))


def recursive(depth):
    if depth:
        return (
            recursive(
                depth - 1
            )
        )
    check()


def generator(depth):
    yield check()
    yield from (generator(depth - 1) if depth else ())


def in_handler(depth):
    try:
        if depth:
            in_handler(depth - 1)
        raise ValueError(depth)
    except ValueError:
        check()
    finally:
        check()


class Dying:
    def __del__(self):
        check()


class Sorted:
    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        check()
        return self.value < other.value


def through_c():
    sorted([Sorted(3), Sorted(1), Sorted(2)])
    list(map(lambda _: check(), range(3)))
    [check() for _ in range(3)]
    {key: check() for key in range(2)}


async def coroutine(depth):
    if depth:
        await coroutine(depth - 1)
    check()


def compiled(line):
    source = "\n" * line + "def späte_funktion():\n    x = 1\n    check()\nspäte_funktion()\n"
    exec(compile(source, "<执行 %d>" % line, "exec"), {"check": check})


def everything(rounds):
    for index in range(rounds):
        recursive(index % 17)
        list(generator(5))
        in_handler(4)
        Dying()
        through_c()
        try:
            coroutine(6).send(None)
        except StopIteration:
            pass
        compiled(index % 400)


if __name__ == "__main__":
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=everything, args=(int(sys.argv[2]),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(checks, len(differences))
    if differences:
        print(differences[0])
