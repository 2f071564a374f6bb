"""Handles every signal number in every way, and prints the number of signals that it did not send itself: none."""

import ctypes
import os
import signal
import sys
import threading
import time

C = ctypes.CDLL(sys.argv[1])
LIBC = ctypes.CDLL(None, use_errno=True)
SECONDS = float(sys.argv[2])
received = [0] * 65


def received_one(number, frame):
    received[number] += 1


def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(100))


def wait_until(condition):
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.001)


def python_handlers():
    numbers = []
    for number in range(1, 65):
        try:
            signal.signal(number, received_one)
            numbers.append(number)
        except (OSError, ValueError):
            pass
    spin(SECONDS)
    unasked = sum(received)
    for number in numbers:
        for expected in (1, 2):
            os.kill(os.getpid(), number)
            wait_until(lambda: received[number] == expected)
    spin(SECONDS)
    print("python", len(numbers), unasked, [received[number] for number in numbers])
    for number in numbers:
        signal.signal(number, signal.SIG_IGN if number == signal.SIGPIPE else signal.SIG_DFL)


def c_handlers():
    numbers = range(signal.SIGRTMIN, signal.SIGRTMAX + 1)
    assert all(C.take(number) == 0 for number in numbers)
    spin(SECONDS)
    unasked = sum(map(C.count, numbers))
    for number in numbers:
        os.kill(os.getpid(), number)
        wait_until(lambda: C.count(number) == 1)
    spin(SECONDS)
    print("c", unasked, list(map(C.count, numbers)))


def waited_for():
    """Blocked in all threads, and fetched."""
    every = signal.valid_signals()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, every)
    mask = (ctypes.c_uint64 * 16)((1 << 64) - 1)
    # What glibc leaves out of `sigfillset`.
    mask[0] &= ~(3 << 31)
    file = LIBC.signalfd(-1, mask, os.O_NONBLOCK)
    found = []
    end = time.thread_time() + SECONDS
    while time.thread_time() < end:
        info = signal.sigtimedwait(every, 0)
        found += [info.si_signo] if info else []
        try:
            found.append(os.read(file, 128))
        except BlockingIOError:
            pass
        sum(range(1000))
    os.kill(os.getpid(), 50)
    found.append(signal.sigtimedwait(every, 20).si_signo)
    os.close(file)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    print("waited for", found)


def users():
    """Change the user id, for which glibc sends a signal to all threads."""
    running = True

    def run():
        while running:
            sum(range(100))

    threads = [threading.Thread(target=run) for _ in range(3)]
    # Who calls waits for Python's lock behind all of them, each time.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    for thread in threads:
        thread.start()
    results = [LIBC.setresuid(-1, -1, -1) for _ in range(200)]
    running = False
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
    print("users", sum(results))


def taken_by_system_call():
    """The number of the recorder is taken from it: it is to use another one, soon."""
    before = C.count(33)
    result = C.take_by_system_call(33)
    spin(0.5)
    settled = C.count(33)
    after_taken()
    print("taken", result, C.count(33) - settled)
    # What came before the recorder noticed.
    print(settled - before, file=sys.stderr)


def after_taken():
    spin(SECONDS)


python_handlers()
c_handlers()
for number in range(signal.SIGRTMIN, signal.SIGRTMAX + 1):
    signal.signal(number, signal.SIG_DFL)
waited_for()
users()
taken_by_system_call()
