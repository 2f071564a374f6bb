"""Spans: named parts of a program, for recordings and PyTorch's profiler."""

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
    """Name a part of the program: ``with sl.span("load"):``, or as a decorator, ``@sl.span("load")``.

    Recordings (:func:`record`, ``stackline record``) and traces of ``torch.profiler`` show the enclosed calls under this name.
    Without an active recording or profiler, or without PyTorch, a span has no effect.
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
        """Decorate a function: each of its calls becomes a span. Raises ``TypeError`` for coroutines and generators."""
        if (
            inspect.iscoroutinefunction(function)
            or inspect.isgeneratorfunction(function)
            or inspect.isasyncgenfunction(function)
        ):
            raise TypeError(f"{function.__qualname__} is a coroutine or generator and does not run in one go: use `with sl.span(...)` inside it")
        name = self._name

        @functools.wraps(function)
        def named(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            with span(name):
                return function(*args, **kwargs)

        return named


def _enter(torch: Any, name: str) -> Any:
    """Open a span of PyTorch if a recording or its profiler is active."""
    bootstrap = sys.modules.get("_stackline_bootstrap")
    try:
        if (bootstrap is not None and bootstrap.is_recording()) or torch.autograd._profiler_enabled():
            # As torch.profiler.record_function, without its overhead.
            return torch.ops.profiler._record_function_enter_new(name, None)
    except AttributeError:  # half imported, or another module of this name
        pass
    return None
