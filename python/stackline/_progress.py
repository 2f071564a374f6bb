"""Progress of long reads: a bar on terminals and in notebooks, no output elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TypeAlias

Progress: TypeAlias = "bool | Callable[[int, int], object] | None"
"""Display of progress. ``None``: a bar on a terminal or in a notebook if the read takes longer than 0.5 s. ``True``: always a bar.
``False``: no bar. A function is called in the calling thread about 20 times per second with (bytes read, total bytes)."""

_DELAY_S = 0.5


def reporter(progress: Progress, label: str) -> tuple[Callable[[int, int], object] | None, Callable[[], None]]:
    """A function to call with (done, total) bytes, or ``None``, and a function to call at the end."""
    if callable(progress):
        return progress, _nothing
    if progress is False or (progress is None and not (_in_notebook() or _stderr_is_terminal())):
        return None, _nothing
    bar = _Bar(label, delay=0.0 if progress else _DELAY_S)
    return bar.update, bar.close


def _nothing() -> None:
    pass


def _stderr_is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # closed, or replaced by an object that is not a complete file
        return False


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    if shell is None:
        return False
    current = shell.get_ipython()
    return current is not None and "IPKernelApp" in current.config


class _Bar:
    """Progress bar on stderr: tqdm's if it is installed, because it also works in notebooks, otherwise one line of text."""

    def __init__(self, label: str, delay: float) -> None:
        self._label = label
        self._show_after = time.monotonic() + delay
        self._tqdm: Any = None
        self._drawn = False

    def update(self, done: int, total: int) -> None:
        if time.monotonic() < self._show_after:
            return
        if not self._drawn:
            self._drawn = True
            try:
                from tqdm.auto import tqdm
            except ImportError:
                pass
            else:
                self._tqdm = tqdm(total=total, desc=self._label, unit="B", unit_scale=True, leave=False)
        if self._tqdm is not None:
            self._tqdm.update(done - self._tqdm.n)
            return
        percent = 100 * done // total if total else 0
        sys.stderr.write(f"\r{self._label}: {percent:3d} % of {total / 1e6:.1f} MB")
        sys.stderr.flush()

    def close(self) -> None:
        if self._tqdm is not None:
            self._tqdm.close()
        elif self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
