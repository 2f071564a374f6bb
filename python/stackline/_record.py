"""Recordings of this program or a part of it, by the recorder of ``stackline record``."""

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

# Folder of the module that loads the recorder in each process; `./dev` copies it from crates/record.
_BOOTSTRAP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bootstrap")

# Reentrant, because a signal handler may run this code while its thread holds the lock.
_lock = threading.RLock()
_active: Recording | None = None
_warned = False


class Recording:
    """A recording of this process and its child processes, returned by :func:`record`. A context manager and a decorator."""

    __slots__ = ("_began", "_calls", "_ended", "_options", "_path", "_restore")

    def __init__(self, path: PathLike, options: Options) -> None:
        self._path = os.fspath(path)
        self._options = options
        self._began = False
        self._ended = False
        self._calls = 0
        self._restore: dict[str, tuple[str | None, str]] = {}
        options.environment()  # raise for invalid options here, in the line that has them

    @property
    def path(self) -> str:
        """Path of the run directory."""
        return self._path

    @property
    def has_ended(self) -> bool:
        """True if the recording has ended, so that the run directory can be opened."""
        return self._ended

    def __enter__(self) -> Recording:
        global _active
        with _lock:
            if _active is not None:
                raise RecordError(
                    f"this process is being recorded into {_active.path}: end that recording before you begin another, or name a "
                    "part of it with sl.span"
                )
            bootstrap = _load_bootstrap()
            if bootstrap.is_recording():
                _warn_unrecorded_once()
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
        """Decorate a function so that each call is recorded. The first call is recorded into the given run directory, later
        calls into ``run-2.stackline`` and so on in the same folder."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{function.__qualname__} is a generator function, whose calls return immediately: use `with` inside it")
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
        """Recording for the next call of a decorated function."""
        self._calls += 1
        return Recording(self._path if self._calls == 1 else free_name(self._path), self._options)

    def _set_environment(self, run: str, recorder: str) -> None:
        variables = self._options.environment()
        # Do not inherit STACKLINE_BEGIN of an outer recording: the recorder sets it for this process and its children.
        variables |= {"STACKLINE_RECORD": run, "STACKLINE_RECORDER": recorder, "STACKLINE_BEGIN": ""}
        if os.pathsep not in _BOOTSTRAP:
            inherited = os.environ.get("PYTHONPATH")
            variables["PYTHONPATH"] = _BOOTSTRAP + (os.pathsep + inherited if inherited else "")
        for name, value in variables.items():
            self._restore[name] = (os.environ.get(name), value)
            os.environ[name] = value

    def _restore_environment(self) -> None:
        for name, (before, assigned) in self._restore.items():
            # Keep values that the program has changed since. STACKLINE_BEGIN was changed by the recorder.
            if os.environ.get(name) != assigned and name != "STACKLINE_BEGIN":
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
    wall_hz: int | None = None,
    wait_hz: int | None = None,
    counters: Sequence[str] | None = None,
    mode: Literal["profile", "trace"] | None = None,
    steps: Steps | str = None,
    every: int | None = None,
    after: float | str | None = None,
    duration: float | str | None = None,
    max_nodes: int | None = None,
    overhead_steps: int | None = None,
    real_hz: int | None = None,
) -> Recording:
    """Record a part of this program: call paths of operators, with counts and times.

    ``with sl.record("run.stackline"): train()``, or as a decorator, ``@sl.record("run.stackline")``. Child processes that start
    during the recording are recorded, too. ``stackline calls run.stackline`` shows the result. PyTorch can be imported before or
    after the recording begins, or not at all.

    ``path``: the run directory, which must not exist.

    Sources of data. ``python``: Python frames (on). ``pytorch``: operators of PyTorch (on). ``compilations``: compilations of
    ``torch.compile`` (on). ``kernels``: CPU kernels of ``torch.compile`` by name (on; only if its compiler is imported during the
    recording). ``memory``: allocations of tensors (off). ``native``: native frames below operators and in samples (off).
    ``shapes``: distinguish operators by shapes and types of their inputs (off).

    Sampling. ``sample_hz``: rate in Hz per thread of CPU time, 0 disables it (99). ``wall_hz``: rate in Hz of wall time (0).
    ``wait_hz``: rate in Hz at which blocked threads that run operators are sampled (99; 0 with ``wall_hz`` or without samples of
    CPU time). ``counters``: counters of the system and processor that are read with samples, such as
    ``["page-faults", "cycles"]``. The recorder reports counters that the machine lacks and leaves them out.

    ``mode``: ``"profile"`` keeps one call tree, whose size does not depend on the length of the run; ``"trace"`` also keeps every
    call with timestamps. ``max_nodes``: largest number of call paths in the tree of one thread.

    Selection. ``steps``: training steps by number from 0, ``(first, last)`` with both ends included, or a text ``"10..20"`` as on the
    command line; optimizers mark the ends of steps. ``every``: record one of this many steps. ``after`` and ``duration``: seconds, or
    texts such as ``"30s"``, counted from the begin of this recording, also in child processes. ``overhead_steps``: number of steps
    that may run unrecorded to measure the overhead; 0 disables the measurement.

    Options that are not given keep the values of the environment (``STACKLINE_SAMPLE_HZ`` ...). ``real_hz`` is the former name of
    ``wall_hz``: it warns, and will be removed.

    In a program that ``stackline record`` runs, this function warns once and has no other effect.

    Raises ``ValueError`` for invalid options. At the begin of the recording, raises :class:`RecordError` if another ``sl.record`` is
    active or the platform has no recorder, and ``FileExistsError`` or another ``OSError`` if the run directory exists or cannot
    be created. Later failures of the recorder print one line on stderr and do not affect the program.
    """
    if real_hz is not None:
        if wall_hz is not None:
            raise ValueError("real_hz is the former name of wall_hz; give wall_hz only")
        warnings.warn("real_hz is now called wall_hz; the old name will be removed", DeprecationWarning, stacklevel=2)
        wall_hz = real_hz
    options = Options(
        python=python, pytorch=pytorch, compilations=compilations, kernels=kernels, memory=memory, native=native,
        shapes=shapes, sample_hz=sample_hz, wall_hz=wall_hz, wait_hz=wait_hz, counters=counters, mode=mode, steps=steps,
        every=every, after=after, duration=duration, max_nodes=max_nodes,
        overhead_steps=overhead_steps,
    )  # fmt: skip
    return Recording(path, options)


def free_name(path: str) -> str:
    """The first of ``run.stackline``, ``run-2.stackline``, ``run-3.stackline`` … that does not exist."""
    stem, extension = os.path.splitext(path)
    name, number = path, 1
    while os.path.lexists(name):
        number += 1
        name = f"{stem}-{number}{extension}"
    return name


def _load_bootstrap() -> ModuleType:
    """Load the bootstrap module, which holds the recording state of this process; return the loaded one if there is one."""
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
        raise RecordError(f"there is no recorder at {path}: correct STACKLINE_RECORDER, or unset it")
    return os.path.abspath(path)


def _no_recorder() -> str:
    if sys.platform != "linux":
        return f"there is no recorder for {sys.platform}: record on Linux"
    return (
        "this installation has no recorder: install a wheel that `./dev test` built, or set STACKLINE_RECORDER to a library that "
        "`cargo build --release -p stackline-record` built"
    )


def _make_run(run: str, given: str) -> None:
    try:
        os.mkdir(run)
        os.mkdir(os.path.join(run, "streams"))
    except FileExistsError:
        raise FileExistsError(errno.EEXIST, "exists already; choose a new directory for the recording", given) from None
    except OSError as error:
        reason = f"cannot make a run directory here: {error.strerror}"
        raise type(error)(error.errno, reason, given) from None


def _remove_empty(run: str) -> None:
    for folder in (os.path.join(run, "streams"), run):
        try:
            os.rmdir(folder)
        except OSError:  # not empty: keep the data
            return


def _warn_unrecorded_once() -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            "this process is being recorded already, by `stackline record` or STACKLINE_RECORD: sl.record has no effect",
            RuntimeWarning,
            stacklevel=3,
        )
