"""Forks while libraries are loaded and unloaded, which the sampler detects; children live long enough to be sampled themselves."""

import _ctypes
import os
import sys
import sysconfig
import threading
import time

import torch

CHILDREN = 20
stop = threading.Event()


def load():
    # Any library that nobody else has loaded.
    folder = sysconfig.get_config_var("DESTSHARED")
    names = [name for name in sorted(os.listdir(folder)) if name.startswith(("_crypt", "_xx", "audioop", "_test"))]
    while not stop.is_set() and names:
        for name in names:
            _ctypes.dlclose(_ctypes.dlopen(os.path.join(folder, name), 0))
        time.sleep(0.005)


def wait(child):
    """End of a child; one that hangs is killed."""
    for _ in range(6000):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return "hangs"


def main():
    torch.ones(2)
    loader = threading.Thread(target=load)
    loader.start()
    endings = []
    for _ in range(CHILDREN // 4):
        children = []
        for _ in range(4):
            child = os.fork()
            if child == 0:
                torch.ones(2)
                # The sampler of the child looks at libraries meanwhile.
                time.sleep(0.06)
                torch.ones(2)
                # Not `os._exit`: that does not wait for the sampler.
                sys.exit(5)
            children.append(child)
            time.sleep(0.013)
        endings.extend(wait(child) for child in children)
    stop.set()
    loader.join()
    print("%d children, %d as they should" % (CHILDREN, endings.count(5)))


if __name__ == "__main__":
    main()
