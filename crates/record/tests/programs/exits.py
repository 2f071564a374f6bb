"""Ends by ``os._exit``, as do its children, while other threads are running."""

import os
import threading

import torch


def at_work(stop, begun):
    torch.ones(3)
    begun.wait()
    while not stop.is_set():
        torch.ones(3).mul_(2)


def main():
    stop = threading.Event()
    # With its first operator a thread takes a lock of PyTorch's, which a child that is forked meanwhile finds locked for ever,
    # recorded or not.
    begun = threading.Barrier(4)
    threads = [threading.Thread(target=at_work, args=(stop, begun)) for _ in range(3)]
    for thread in threads:
        thread.start()
    begun.wait()
    codes = []
    for number in range(10):
        child = os.fork()
        if child == 0:
            for _ in range(number):
                torch.ones(2).sinh()
            # With nothing recorded there would be no stream.
            torch.ones(2)
            os._exit(number)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(codes, flush=True)
    for _ in range(7):
        torch.ones(2).cosh()
    os._exit(3)


if __name__ == "__main__":
    main()
