"""Replaces itself by itself the given number of times, each time soon after its start, and ends with a given status."""

import os
import sys
import time


def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(100))


def main():
    left = int(sys.argv[1])
    spin(0.005)
    if left == 0:
        sys.exit(7)
    name = os.path.basename(sys.executable)
    arguments = [name, __file__, str(left - 1)]
    # The last one of these folders is the one that has it.
    path = os.pathsep.join(["/nowhere", os.path.dirname(__file__), os.path.dirname(sys.executable)])
    calls = [
        lambda: os.execv(sys.executable, arguments),
        lambda: os.execle(sys.executable, *arguments, dict(os.environ)),
        lambda: os.execvpe(name, arguments, {**os.environ, "PATH": path}),
        lambda: os.execve(path=sys.executable, argv=arguments, env=os.environ),
    ]
    calls[left % len(calls)]()


main()
