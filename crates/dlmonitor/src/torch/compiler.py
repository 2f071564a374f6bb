"""Reports compilations of PyTorch's compiler, and enables names for the CPU kernels that it generates.

DLMonitor runs this code in the observed process, with ``_begin``, ``_end`` and ``_report_state`` among its globals. It must not
raise into PyTorch, and changes nothing in compiled code but the names of kernels. Exceptions that a signal handler of the program
raises while this code runs are passed on to the program.
"""

import contextlib
import os
import sys
from _signal import getsignal, valid_signals
from _thread import _local

_COMPILATIONS, _KERNELS = 0, 1
_KERNEL_OPTION = "TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE"
_GENERATOR = 0x20

# Files whose functions return before the contexts that they entered end.
_PASSING = {contextlib.contextmanager.__code__.co_filename}
# Replaced methods of PyTorch: owner, name, original, replacement.
_replaced = []
# The finder that waits for the import of PyTorch's compiler.
_finder = None
# Compilations and phases in progress on this thread: pairs of a name (None for a compilation) and a handle.
_running = _local()


class _Finder:
    """Import hook that runs actions before and after the import of certain modules, and delegates to the other finders."""

    def __init__(self):
        self.actions = {}
        self._searched = set()

    def find_spec(self, name, path=None, target=None):
        """Find an awaited module in the other finders, and wrap its loader; ``None`` for other modules."""
        if name not in self.actions or name in self._searched:
            return None
        self._searched.add(name)
        try:
            return self._find_in_other_finders(name, path, target)
        finally:
            self._searched.discard(name)

    def _find_in_other_finders(self, name, path, target):
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
    """Wrapper of a module's loader that runs actions before and after it."""

    def __init__(self, loader, actions):
        self._loader = loader
        self._actions = actions

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        """Execute the module between its two actions, each of which runs only once."""
        # Before the execution: afterwards the module may reject attributes.
        _quietly(_put_loader, module, self._loader)
        before, after = self._actions.pop(module.__name__, (_nothing, _nothing))
        prepared = None
        try:
            prepared = _quietly(before)
            self._loader.exec_module(module)
        finally:
            _quietly(after, module, prepared)


def _put_loader(module, loader):
    """Set the original loader in the attributes of a module, in place of the wrapper."""
    module.__spec__.loader = loader
    module.__loader__ = loader


def _quietly(action, *arguments):
    """Call a function and return its result; ``None`` if it raised, unless a signal handler of the program did."""
    try:
        return action(*arguments)
    except Exception as error:
        if _is_from_signal_handler(error):
            raise
        return None


def _is_from_signal_handler(error):
    """True if a signal handler raised it: Python calls handlers between any two instructions, also of this code."""
    codes = {id(_code_object(getsignal(number))) for number in valid_signals()}
    trace = error.__traceback__
    while trace is not None:
        if id(trace.tb_frame.f_code) in codes:
            return True
        trace = trace.tb_next
    return False


def _code_object(handler):
    """Code object of the handler, if it is a Python function or an object with one."""
    handler = getattr(handler, "func", handler)
    return getattr(handler, "__code__", None) or getattr(getattr(type(handler), "__call__", None), "__code__", handler)


def _upon_import(name, before, after):
    """Run actions once, before and after the import of a module, or only the second one if it is imported already."""
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
    """Replace a method once; ``False`` if there is no such method."""
    original = getattr(owner, name, None)
    if original is None:
        return False
    if not any(original is replacement for *_, replacement in _replaced):
        replacement = make(original)
        setattr(owner, name, replacement)
        _replaced.append((owner, name, original, replacement))
    return True


def _nothing(*_):
    return None


# --- Compilations ---


def _watch_compilations(module, _):
    """Wrap the context manager around each compilation, and report if this PyTorch has it."""
    handler = getattr(module, "CompilationCallbackHandler", None)

    def make(install):
        def install_callbacks(self, *args, **kwargs):
            return _Compilation(install(self, *args, **kwargs), args)

        return install_callbacks

    if _replace(handler, "install_callbacks", make):
        _report_state(_COMPILATIONS, True, "compilations with their functions")
    else:
        _report_state(_COMPILATIONS, False, "this PyTorch does not report its compilations")


def _watch_phases(module, _):
    """Report the phases that PyTorch writes to its own log of compilations."""
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

    # Replace the end first: an end without a begin has no effect, but a begin without an end would stay open.
    if _replace(logger, "log_event_end", make_end):
        _replace(logger, "log_event_start", make_start)


class _Compilation:
    """Wrapper of the context manager around each compilation, which reports begin and end to the observer."""

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
            _quietly(_end_nested, running)
            raise

    def __exit__(self, *error):
        try:
            return self._context.__exit__(*error)
        finally:
            _quietly(_end_compilation, self._handle)


def _stack():
    """Compilations and phases in progress on this thread, outermost first."""
    stack = getattr(_running, "stack", None)
    if stack is None:
        stack = _running.stack = []
    return stack


def _begin_compilation(arguments):
    """Report the begin of a compilation, push it on the stack, and return its handle."""
    handle = _begin(_quietly(_compilation_name, arguments) or "Compile ?", False, _passing_frames())
    _stack().append((None, handle))
    return handle


def _end_compilation(handle):
    """Report the end of a compilation, and of everything that it contains."""
    _end_down_to((None, handle))


def _begin_phase(name):
    """Report the begin of a phase, if a compilation is in progress."""
    # Outside of compilations the log has other spans, and spans around a compilation.
    if _stack():
        _stack().append((name, _begin(name, True, _passing_frames())))


def _end_phase(name):
    """End the newest phase of this name in the newest compilation."""
    for entry in reversed(_stack()):
        if entry[0] == name:
            _end_down_to(entry)
            return
        if entry[0] is None:
            return


def _end_nested(running):
    """End all compilations and phases except the ``running`` oldest ones."""
    while len(_stack()) > running:
        _end(_stack().pop()[1])


def _end_down_to(entry):
    """End the newest entries of the stack up to and including ``entry``; no effect if it is not on the stack."""
    stack = _stack()
    while entry in stack:
        newest = stack.pop()
        _end(newest[1])
        if newest is entry or newest == entry:
            return


def _passing_frames():
    """Number of newest frames, from the caller's on, that enter context managers: they return before the context ends."""
    count, frame = 0, sys._getframe(1)
    while frame is not None and (frame.f_code.co_flags & _GENERATOR or frame.f_code.co_filename in _PASSING):
        count, frame = count + 1, frame.f_back
    return count


def _compilation_name(arguments):
    """Display name of a compilation: its id, and the function, or the trigger of a compilation at run time."""
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
    """Code object of the function that Dynamo compiles, from a local variable of Dynamo's function."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_filename in _PASSING:
        frame = frame.f_back
    code = frame.f_locals.get("code") if frame is not None else None
    return code if hasattr(code, "co_firstlineno") else None


# --- Names of kernels ---


def _enable_kernel_names():
    """Set the option in Python's copy of the environment. The environment of the process, which children inherit and other
    threads may read, is unchanged. Returns ``True`` if the option was not set before."""
    key = os.environ.encodekey(_KERNEL_OPTION)
    if key in os.environ._data:
        return False
    os.environ._data[key] = os.environ.encodevalue("1")
    return True


def _report_kernel_names(module, was_unset):
    """Reset the option after the import of the compiler's configuration, and report if kernels get names."""
    if was_unset:
        os.environ._data.pop(os.environ.encodekey(_KERNEL_OPTION), None)
    on = getattr(getattr(module, "cpp", None), "enable_kernel_profile", None)
    if on:
        _report_state(_KERNELS, True, "names of the CPU kernels that PyTorch compiles")
    elif on is None:
        _report_state(_KERNELS, False, "this PyTorch does not name its kernels")
    elif was_unset is None:
        _report_state(_KERNELS, False, "PyTorch's compiler was imported before the recording began")
    else:
        _report_state(_KERNELS, False, "disabled by %s" % _KERNEL_OPTION)


# --- Functions that DLMonitor calls ---


def compilations():
    """Report compilations of PyTorch from now on."""
    _PASSING.add(_nothing.__code__.co_filename)
    _upon_import("torch._dynamo.callback", _nothing, _watch_compilations)
    _upon_import("torch._dynamo.utils", _nothing, _watch_phases)


def torch():
    """Report the loading of PyTorch's libraries."""
    _upon_import("torch._C", _nothing, lambda *_: _imported())


def kernels():
    """Enable names for kernels that are compiled from now on."""
    _upon_import("torch._inductor.config", _enable_kernel_names, _report_kernel_names)


def stop():
    """Restore the replaced methods of PyTorch, except those that other code has changed since. Names of kernels remain enabled:
    the option cannot be reset for all threads, and compiled kernels keep their names anyway."""
    if _finder is not None:
        _finder.actions.clear()
        if _finder in sys.meta_path:
            sys.meta_path.remove(_finder)
    while _replaced:
        owner, name, original, replacement = _replaced.pop()
        if getattr(owner, name, None) is replacement:
            setattr(owner, name, original)
