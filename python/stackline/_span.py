"""Names for parts of a program, in recordings and in PyTorch's profiler."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


class span:  # noqa: N801 - used like a function
    """Names a part of the program: ``with sl.span("load"):``, or as a decorator, ``@sl.span("load")``.

    What runs inside stands below that name in recordings (:func:`record`, ``stackline record``) and in traces of
    ``torch.profiler``. While neither runs, or without PyTorch, it does nothing.
    """

    __slots__ = ("_name", "_open")

    def __init__(self, name: str) -> None:
        self._name = name
        self._open: list[Any] = []

    def __enter__(self) -> span:
        torch = sys.modules.get("torch")
        self._open.append(None if torch is None else _enter(torch, self._name))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        opened = self._open.pop()
        if opened is not None:
            torch: Any = sys.modules["torch"]
            with torch._C.DisableTorchFunctionSubclass():
                torch.ops.profiler._record_function_exit._RecordFunction(opened)

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """A function whose calls have this name."""
        if (
            inspect.iscoroutinefunction(function)
            or inspect.isgeneratorfunction(function)
            or inspect.isasyncgenfunction(function)
        ):
            raise TypeError(f"{function.__qualname__} does not run in one go: use `with sl.span(...)` inside")
        name = self._name

        @functools.wraps(function)
        def named(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            with span(name):
                return function(*args, **kwargs)

        return named


def _enter(torch: Any, name: str) -> Any:
    """Opens a span of PyTorch's, if someone is there to see it."""
    bootstrap = sys.modules.get("_stackline_bootstrap")
    try:
        if (bootstrap is not None and bootstrap.is_recording()) or torch.autograd._profiler_enabled():
            # What torch.profiler.record_function does, without calling it.
            return torch.ops.profiler._record_function_enter_new(name, None)
    except AttributeError:  # half imported, or another module of this name
        pass
    return None
