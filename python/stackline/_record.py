"""Recordings of this program, or of a part of it, by the recorder that ``stackline record`` uses, too."""

from __future__ import annotations

import errno
import functools
import inspect
import os
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType, TracebackType
from typing import Any, Literal, ParamSpec, TypeVar, cast

from ._analyses import Steps
from ._errors import RecordError
from ._record_options import Options

_P = ParamSpec("_P")
_R = TypeVar("_R")

PathLike = str | os.PathLike[str]

# What is imported in processes to be recorded; `./dev` puts it here from crates/record.
_BOOTSTRAP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bootstrap")

# A signal handler may come here while its thread is here.
_lock = threading.RLock()
_active: Recording | None = None
_warned = False


class Recording:
    """A recording of this process and of those that it starts. Made by :func:`record`; a context manager and a
    decorator."""

    __slots__ = ("_began", "_calls", "_ended", "_options", "_path", "_restore")

    def __init__(self, path: PathLike, options: Options) -> None:
        self._path = os.fspath(path)
        self._options = options
        self._began = False
        self._ended = False
        self._calls = 0
        self._restore: dict[str, tuple[str | None, str]] = {}
        options.environment()  # what makes no sense is said where it was written, not where it is used

    @property
    def path(self) -> str:
        """The run directory."""
        return self._path

    @property
    def has_ended(self) -> bool:
        """Whether this was recorded to its end: the run directory can be looked at."""
        return self._ended

    def __enter__(self) -> Recording:
        global _active
        with _lock:
            if _active is not None:
                raise RecordError(
                    f"this process is being recorded into {_active.path}: end that recording before you begin another; "
                    "sl.span names a part of a recording"
                )
            bootstrap = _load_bootstrap()
            if bootstrap.is_recording():
                _warn_once()
                return self
            recorder = _find_recorder(bootstrap)
            run = os.path.abspath(self._path)
            _make_run(run, self._path)
            self._set_environment(run, recorder)
            try:
                bootstrap.begin()
            except BaseException as error:
                bootstrap.end()
                self._restore_environment()
                _remove_empty(run)
                if isinstance(error, ImportError):
                    raise RecordError(f"the recorder {recorder} cannot be loaded: {error}") from error
                if isinstance(error, RuntimeError):
                    raise RecordError(f"nothing is recorded: {error}") from error
                raise
            self._began = True
            _active = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        global _active
        with _lock:
            if not self._began:
                return
            self._began = False
            _active = None
            self._restore_environment()
            _load_bootstrap().end()
            self._ended = True

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Records each call of a function. The first call is recorded into the run directory that was given, later ones
        beside it: ``run-2.stackline`` and so on."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{function.__qualname__} is a generator function, whose calls end at once: use `with` inside")
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def recorded_coroutine(*args: Any, **kwargs: Any) -> Any:
                with self._next():
                    return await function(*args, **kwargs)

            return cast("Callable[_P, _R]", recorded_coroutine)

        @functools.wraps(function)
        def recorded(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            with self._next():
                return function(*args, **kwargs)

        return recorded

    def __repr__(self) -> str:
        return f"Recording({self._path!r}{', going on' if self._began else ''})"

    def _next(self) -> Recording:
        """The recording of the next call of a decorated function."""
        self._calls += 1
        return Recording(self._path if self._calls == 1 else free_name(self._path), self._options)

    def _set_environment(self, run: str, recorder: str) -> None:
        wanted = self._options.environment()
        # The begin is none of an outer recording: the recorder sets its own, which processes that start meanwhile count from.
        wanted |= {"STACKLINE_RECORD": run, "STACKLINE_RECORDER": recorder, "STACKLINE_BEGIN": ""}
        if os.pathsep not in _BOOTSTRAP:
            inherited = os.environ.get("PYTHONPATH")
            wanted["PYTHONPATH"] = _BOOTSTRAP + (os.pathsep + inherited if inherited else "")
        for name, value in wanted.items():
            self._restore[name] = (os.environ.get(name), value)
            os.environ[name] = value

    def _restore_environment(self) -> None:
        for name, (before, ours) in self._restore.items():
            # What the program has changed since is its own; the begin was changed by the recorder.
            if os.environ.get(name) != ours and name != "STACKLINE_BEGIN":
                continue
            if before is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = before
        self._restore.clear()


def record(
    path: PathLike,
    *,
    python: bool | None = None,
    pytorch: bool | None = None,
    compilations: bool | None = None,
    kernels: bool | None = None,
    memory: bool | None = None,
    native: bool | None = None,
    shapes: bool | None = None,
    sample_hz: int | None = None,
    real_hz: int | None = None,
    wait_hz: int | None = None,
    counters: Sequence[str] | None = None,
    mode: Literal["profile", "trace"] | None = None,
    steps: Steps | str = None,
    every: int | None = None,
    after: float | str | None = None,
    duration: float | str | None = None,
    max_nodes: int | None = None,
    overhead_steps: int | None = None,
) -> Recording:
    """Records a part of this program: which calls led to which operators, how often they ran and for how long.

    ``with sl.record("run.stackline"): train()``, or as a decorator, ``@sl.record("run.stackline")``. Processes that
    start meanwhile are recorded as well. ``stackline calls run.stackline`` shows the result. PyTorch may have been
    imported before, may be imported later, or not at all.

    ``path``: the run directory, which must not exist yet. ``python``, ``pytorch``: whether to read Python's frames and
    to record PyTorch's operators (both on). ``compilations``: when ``torch.compile`` compiles, and ``kernels``: those
    that it makes for the CPU, by name (both on; kernels only if its compiler is imported while this records).
    ``memory``: tensors' allocations (off). ``native``: frames of native code below operators and in samples (off).
    ``shapes``: operators with other shapes or types of inputs are others (off).
    ``sample_hz``: samples per second of CPU time and thread, 0 for none (99);
    ``real_hz``: of wall-clock time (none); ``wait_hz``: how often to look where threads that run operators wait (99; not
    with ``real_hz``, nor without samples of CPU time). ``counters``: counters of the system and the processor that are read with
    samples, such as ``["page-faults", "cycles"]``; those that the machine lacks are left out, and said.
    ``mode``: ``"profile"`` keeps one tree, whose size does not depend on how long the program runs; ``"trace"`` keeps
    each single call as well. What to record: ``steps``, training steps by number from 0, or ``(first, last)`` with
    both ends included, or a text ``"10..20"`` as on the command line (optimizers tell where steps end);
    ``every``, one step of so many; ``after`` and ``duration``, seconds or texts such as ``"30s"``, from the begin
    of this recording, in processes that start later, too. ``max_nodes``: call
    paths that one thread's tree may have. What is not given is as the environment says (``STACKLINE_SAMPLE_HZ`` ...).

    In a program that ``stackline record`` runs this warns once, and does nothing: it is being recorded already.

    Raises ``ValueError`` for options that make no sense; upon entering, :class:`RecordError` if this process is being
    recorded by another ``sl.record`` or there is no recorder for this platform, and ``FileExistsError`` or another
    ``OSError`` if the run directory exists or cannot be made. Once it runs, whatever fails stands aside with one line
    on stderr.
    """
    options = Options(
        python=python, pytorch=pytorch, compilations=compilations, kernels=kernels, memory=memory, native=native,
        shapes=shapes, sample_hz=sample_hz, real_hz=real_hz, wait_hz=wait_hz, counters=counters, mode=mode, steps=steps,
        every=every, after=after, duration=duration, max_nodes=max_nodes,
        overhead_steps=overhead_steps,
    )  # fmt: skip
    return Recording(path, options)


def free_name(path: str) -> str:
    """``run.stackline``, or if that is taken the first of ``run-2.stackline``, ``run-3.stackline`` … that is not."""
    stem, extension = os.path.splitext(path)
    name, number = path, 1
    while os.path.lexists(name):
        number += 1
        name = f"{stem}-{number}{extension}"
    return name


def _load_bootstrap() -> ModuleType:
    """What knows whether this process is being recorded: there is one, whoever loads it."""
    name = "_stackline_bootstrap"
    known = sys.modules.get(name)
    if known is not None:
        return known
    spec = spec_from_file_location(name, os.path.join(_BOOTSTRAP, f"{name}.py"))
    if spec is None or spec.loader is None or not os.path.isdir(_BOOTSTRAP):
        raise RecordError(_no_recorder())
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[name] = module
    return module


def _find_recorder(bootstrap: ModuleType) -> str:
    path: str | None = bootstrap.recorder()
    if path is None:
        raise RecordError(_no_recorder())
    if not os.path.exists(path):
        raise RecordError(f"there is no recorder at {path}, which STACKLINE_RECORDER names")
    return os.path.abspath(path)


def _no_recorder() -> str:
    if sys.platform != "linux":
        return f"there is no recorder for {sys.platform}: programs can be recorded on Linux only"
    return (
        "this installation has no recorder: install a wheel that `./dev test` built, or name one that "
        "`cargo build --release -p stackline-record` built with STACKLINE_RECORDER"
    )


def _make_run(run: str, given: str) -> None:
    try:
        os.mkdir(run)
        os.mkdir(os.path.join(run, "streams"))
    except FileExistsError:
        raise FileExistsError(errno.EEXIST, "exists already; a recording needs a directory of its own", given) from None
    except OSError as error:
        reason = f"cannot make a run directory here: {error.strerror}"
        raise type(error)(error.errno, reason, given) from None


def _remove_empty(run: str) -> None:
    for folder in (os.path.join(run, "streams"), run):
        try:
            os.rmdir(folder)
        except OSError:  # something was written: it stays
            return


def _warn_once() -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            "this process is being recorded already, by `stackline record` or STACKLINE_RECORD: sl.record does nothing",
            RuntimeWarning,
            stacklevel=3,
        )
