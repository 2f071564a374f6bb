"""Says when PyTorch's compiler runs, and has it name the kernels that it makes for the CPU.

DLMonitor runs this in the watched process, with ``_begin``, ``_end`` and ``_say`` among its globals. Nothing here may
raise into PyTorch, or change what it compiles but for the names of kernels. What a handler of a signal raises while this
runs is the program's, and goes on to it.
"""

import contextlib
import os
import sys
from _signal import getsignal, valid_signals
from _thread import _local

_COMPILATIONS, _KERNELS = 0, 1
_KERNEL_OPTION = "TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE"
_GENERATOR = 0x20

# Files whose functions are gone while what they began still runs.
_PASSING = {contextlib.contextmanager.__code__.co_filename}
# What was put in the place of something of PyTorch: where, under what name, what was there, and ours.
_replaced = []
# The finder that waits for PyTorch's compiler, while it is not there.
_finder = None
# Compilations of this thread that run, and their phases: pairs of a name (of a compilation None) and a handle.
_running = _local()


class _Finder:
    """Finds nothing itself: it acts before and after certain modules are imported."""

    def __init__(self):
        self.actions = {}
        self._searched = set()

    def find_spec(self, name, path=None, target=None):
        if name not in self.actions or name in self._searched:
            return None
        self._searched.add(name)
        try:
            return self._find_elsewhere(name, path, target)
        finally:
            self._searched.discard(name)

    def _find_elsewhere(self, name, path, target):
        for finder in list(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self.actions)
                return spec
        return None


class _Loader:
    """The module's own loader, with something to do before and after it."""

    def __init__(self, loader, actions):
        self._loader = loader
        self._actions = actions

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        # Beforehand: afterwards it may be a module that takes no attributes.
        _quietly(_put_loader, module, self._loader)
        before, after = self._actions.pop(module.__name__, (_nothing, _nothing))
        prepared = None
        try:
            prepared = _quietly(before)
            self._loader.exec_module(module)
        finally:
            _quietly(after, module, prepared)


def _put_loader(module, loader):
    module.__spec__.loader = loader
    module.__loader__ = loader


def _quietly(action, *arguments):
    try:
        return action(*arguments)
    except Exception as error:
        if _is_of_a_handler(error):
            raise
        return None


def _is_of_a_handler(error):
    """Whether a handler of a signal raised it: Python calls those between any two instructions, ours included."""
    codes = {id(_code_of(getsignal(number))) for number in valid_signals()}
    trace = error.__traceback__
    while trace is not None:
        if id(trace.tb_frame.f_code) in codes:
            return True
        trace = trace.tb_next
    return False


def _code_of(handler):
    """The code that runs first when this is called, if that is Python at all."""
    handler = getattr(handler, "func", handler)
    return getattr(handler, "__code__", None) or getattr(getattr(type(handler), "__call__", None), "__code__", handler)


def _upon_import(name, before, after):
    """Acts around the import of a module, or only afterwards if it is imported already; both once."""
    global _finder
    if name in sys.modules:
        after(sys.modules[name], None)
        return
    if _finder is None:
        _finder = _Finder()
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    _finder.actions[name] = (before, after)


def _replace(owner, name, make):
    """Puts a function in the place of a method, once; ``False`` if there is no such method."""
    original = getattr(owner, name, None)
    if original is None:
        return False
    if not any(original is ours for *_, ours in _replaced):
        ours = make(original)
        setattr(owner, name, ours)
        _replaced.append((owner, name, original, ours))
    return True


def _nothing(*_):
    return None


# --- When it compiles ---


def _watch_compilations(module, _):
    handler = getattr(module, "CompilationCallbackHandler", None)

    def make(install):
        def install_callbacks(self, *args, **kwargs):
            return _Compilation(install(self, *args, **kwargs), args)

        return install_callbacks

    if _replace(handler, "install_callbacks", make):
        _say(_COMPILATIONS, True, "when PyTorch compiles, and what")
    else:
        _say(_COMPILATIONS, False, "this PyTorch does not tell when it compiles")


def _watch_phases(module, _):
    """The spans that PyTorch writes into its own log of compilations."""
    logger = getattr(module, "ChromiumEventLogger", None)

    def make_start(start):
        def log_event_start(self, event_name, *args, **kwargs):
            result = start(self, event_name, *args, **kwargs)
            _quietly(_begin_phase, event_name)
            return result

        return log_event_start

    def make_end(end):
        def log_event_end(self, event_name, *args, **kwargs):
            try:
                _quietly(_end_phase, event_name)
            finally:
                result = end(self, event_name, *args, **kwargs)
            return result

        return log_event_end

    # An end without a begin is nothing, a begin without an end would be.
    if _replace(logger, "log_event_end", make_end):
        _replace(logger, "log_event_start", make_start)


class _Compilation:
    """The context manager around each compilation, and a word to the observer as it begins and ends."""

    def __init__(self, context, arguments):
        self._context = context
        self._arguments = arguments
        self._handle = 0

    def __enter__(self):
        running = len(_stack())
        try:
            self._handle = _quietly(_begin_compilation, self._arguments)
            return self._context.__enter__()
        except BaseException:
            _quietly(_end_further, running)
            raise

    def __exit__(self, *error):
        try:
            return self._context.__exit__(*error)
        finally:
            _quietly(_end_compilation, self._handle)


def _stack():
    stack = getattr(_running, "stack", None)
    if stack is None:
        stack = _running.stack = []
    return stack


def _begin_compilation(arguments):
    handle = _begin(_quietly(_name_of, arguments) or "Compile ?", False, _passing_frames())
    _stack().append((None, handle))
    return handle


def _end_compilation(handle):
    _end_down_to((None, handle))


def _begin_phase(name):
    # Outside of compilations the log has spans of other things, and those around a compilation.
    if _stack():
        _stack().append((name, _begin(name, True, _passing_frames())))


def _end_phase(name):
    """Ends the newest phase with this name of the newest compilation."""
    for entry in reversed(_stack()):
        if entry[0] == name:
            _end_down_to(entry)
            return
        if entry[0] is None:
            return


def _end_further(running):
    """Ends all but the oldest ones, so many of them."""
    while len(_stack()) > running:
        _end(_stack().pop()[1])


def _end_down_to(entry):
    stack = _stack()
    while entry in stack:
        newest = stack.pop()
        _end(newest[1])
        if newest is entry or newest == entry:
            return


def _passing_frames():
    """How many of the newest frames, from the caller's on, enter context managers: they return, what they began goes on."""
    count, frame = 0, sys._getframe(1)
    while frame is not None and (frame.f_code.co_flags & _GENERATOR or frame.f_code.co_filename in _PASSING):
        count, frame = count + 1, frame.f_back
    return count


def _name_of(arguments):
    """What is compiled: its id, and the function, or why it is compiled when it runs."""
    identity = sys.modules["torch._guards"].CompileContext.current_compile_id()
    again = getattr(identity, "frame_compile_id", None)
    code = _compiled_code()
    trigger = getattr(arguments[0] if arguments else None, "name", "")
    if code is not None:
        about = ": %s (%s:%d)" % (
            getattr(code, "co_qualname", code.co_name),
            os.path.basename(code.co_filename),
            code.co_firstlineno,
        )
    else:
        about = ": " + trigger.lower().replace("_", " ") if trigger else ""
    word = "Recompile" if again and code is not None else "Compile"
    return "%s %s%s" % (word, "?" if identity is None else identity, about)


def _compiled_code():
    """The code of the function that Dynamo compiles: a variable of the one that began it."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_filename in _PASSING:
        frame = frame.f_back
    code = frame.f_locals.get("code") if frame is not None else None
    return code if hasattr(code, "co_firstlineno") else None


# --- What it makes ---


def _ask_for_kernels():
    """Sets the option as Python sees the environment: that of the process, which children inherit and other threads may be
    reading, stays as it is. Returns whether it did."""
    key = os.environ.encodekey(_KERNEL_OPTION)
    if key in os.environ._data:
        return False
    os.environ._data[key] = os.environ.encodevalue("1")
    return True


def _see_whether_kernels(module, asked):
    if asked:
        os.environ._data.pop(os.environ.encodekey(_KERNEL_OPTION), None)
    on = getattr(getattr(module, "cpp", None), "enable_kernel_profile", None)
    if on:
        _say(_KERNELS, True, "kernels that PyTorch compiles for the CPU have names")
    elif on is None:
        _say(_KERNELS, False, "this PyTorch does not name them")
    elif asked is None:
        _say(_KERNELS, False, "PyTorch's compiler was imported before the recording began")
    else:
        _say(_KERNELS, False, "%s says so" % _KERNEL_OPTION)


# --- What DLMonitor calls ---


def compilations():
    """Says when PyTorch compiles, from now on."""
    _PASSING.add(_nothing.__code__.co_filename)
    _upon_import("torch._dynamo.callback", _nothing, _watch_compilations)
    _upon_import("torch._dynamo.utils", _nothing, _watch_phases)


def torch():
    """Says when PyTorch's libraries are loaded."""
    _upon_import("torch._C", _nothing, lambda *_: _imported())


def kernels():
    """Has kernels named that are compiled from now on."""
    _upon_import("torch._inductor.config", _ask_for_kernels, _see_whether_kernels)


def stop():
    """Leaves PyTorch as it was, where nobody else changed it meanwhile. But kernels go on to be named: the option cannot
    be taken back for all threads, and kernels that have names keep them anyway."""
    if _finder is not None:
        _finder.actions.clear()
        if _finder in sys.meta_path:
            sys.meta_path.remove(_finder)
    while _replaced:
        owner, name, original, ours = _replaced.pop()
        if getattr(owner, name, None) is ours:
            setattr(owner, name, original)
