"""Starts Stackline's recorder in a Python process whose environment enables it.

The module imports as few others as possible, because it runs before the program, in every Python process that the program starts. A failure
prints one line on stderr and does not affect the program. ``stackline.record`` uses this module, too. At most one recording is active.
"""

import _functools
import _imp
import _signal
import _weakref
import atexit
import gc
import os
import posix
import sys

_recorder, _recording, _registered, _workers_stop = None, False, False, False
# Functions of the recorder that this module calls. A recorder of another version may lack some of them.
_FUNCTIONS = ("_exit", "begin_text", "collecting", "execv", "execve", "forget_module", "frames", "name_tensor", "name_thread", "put_module",
              "resume_in_child", "start", "start_in_child", "start_without_python", "stop", "torch_imported", "watch_calls", "watch_exec")  # fmt: skip
_OTHER_VERSION = "the recorder is of another version than the command that uses it: build or install both again"
# During a recording: the import hook, the registered hooks of PyTorch and others, and the callback for garbage collection.
_imports, _registrations, _collecting = None, [], None
# Weak references to the modules that the recorder knows, by their id.
_modules = {}
# Module (a weak reference) and name of each parameter, by the id of the parameter.
_holders = {}
_MOST_HOLDERS = 1 << 18
# PyTorch and its context manager that hides our calls. Stored here, because the program may remove both from ``sys.modules``.
_torch = _hidden = None
# Types of tensors whose attributes run no code of the program.
_tensors = ()


class _Imports:
    """Import hook that runs an action after the import of certain modules, and delegates to the other finders."""

    def __init__(self, actions):
        self._actions = actions

    def find_spec(self, name, path=None, target=None):
        action = self._actions.pop(name, None)
        if action is None:
            return None
        if not self._actions:
            self.stop()
        for finder in list(sys.meta_path):
            is_other = finder is not self and hasattr(finder, "find_spec")
            spec = finder.find_spec(name, path, target) if is_other else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Watched(spec.loader, action)
                return spec
        return None

    def stop(self):
        if self in sys.meta_path:
            sys.meta_path.remove(self)


class _Watched:
    """Wrapper of a module's loader that runs an action afterwards."""

    def __init__(self, loader, action):
        self._loader, self._action = loader, action

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def exec_module(self, module):
        self._loader.exec_module(module)
        module.__spec__.loader = module.__loader__ = self._loader
        if _recording:
            self._action()


def _frames_are_right():
    """True if the recorder reads the current frames as the interpreter reports them."""
    seen = [line.split("\t") for line in _recorder.frames().splitlines()]
    if any(len(parts) != 5 for parts in seen):
        raise ImportError(_OTHER_VERSION)
    if not seen:
        # The recorder has detected that it cannot read frames, and reports the reason itself.
        return True
    frame, name = sys._getframe(), "co_qualname" if sys.version_info >= (3, 11) else "co_name"
    for function, file, _, first_line, _ in seen:
        code = frame.f_code if frame is not None else None
        if code is None or [getattr(code, name), code.co_filename, str(code.co_firstlineno)] != [function, file, first_line]:
            return False
        frame = frame.f_back
    return frame is None


def _stop_with_workers():
    """End the recording in workers of ``multiprocessing``, which end by ``os._exit`` without ``atexit``, but with finalizers."""
    global _workers_stop
    if _workers_stop:
        return
    _workers_stop = True
    util = sys.modules["multiprocessing.util"]

    def in_worker(_):
        # Unlike most forked children, a worker runs no other program.
        _recorder.start_in_child()
        util.Finalize(None, end, exitpriority=-1000)

    util.register_after_fork(_stop_with_workers, in_worker)


class _Replaced:
    """A method of a class or module that is replaced by one of ours during the recording."""

    def __init__(self, owner, name, make):
        self._owner, self._name, self._original = owner, name, getattr(owner, name)
        self._replacement = make(self._original)
        setattr(owner, name, self._replacement)

    def remove(self):
        if self._owner.__dict__.get(self._name) is self._replacement:
            setattr(self._owner, self._name, self._original)


def _first(action):
    """Make a replacement method that calls ``action`` with its object before the original method."""
    return lambda original: lambda self, *arguments: (action(self), original(self, *arguments))[1]


def _note_end(child):
    """Note that this process ends a worker of a loader or pool (which are daemons). Without the note, the worker's stream would look
    as if the worker was killed by something else."""
    try:
        processes = sys.modules["multiprocessing.process"]._children
        if any(process._popen is child and process.daemon for process in list(processes)):
            import select

            # A worker that is dead already was killed by something else: the other end of its pipe is closed.
            pipe = select.poll()
            pipe.register(child.sentinel, select.POLLIN)
            if not pipe.poll(0):
                with open(os.path.join(os.environ["STACKLINE_RECORD"], "streams", "ended_by_parent"), "a") as ended:
                    ended.write("%d\n" % child.pid)
    except Exception as error:
        _pass_on(error)


def _name_thread(thread):
    """Report the Python name of a thread to the recorder. Threads that Python did not start keep their system name."""
    try:
        if type(thread) is not sys.modules["threading"]._DummyThread:
            _recorder.name_thread(thread._native_id, thread._name)
    except Exception as error:
        # A name that is not valid UTF-8, or a thread that has not begun yet.
        _pass_on(error)


def _name_threads():
    for thread in list(getattr(sys.modules.get("threading"), "_active", {}).values()):
        _name_thread(thread)


def _watch_threads():
    """Report names of threads at their begin and end, before and after any code of the program."""
    thread = sys.modules["threading"].Thread
    if hasattr(thread, "_set_native_id") and hasattr(thread, "_delete"):
        after, before = (lambda f: lambda self: (f(self), _name_thread(self))[0]), _first(_name_thread)
        _registrations.extend([_Replaced(thread, "_set_native_id", after), _Replaced(thread, "_delete", before)])
        _name_threads()


def _watch_ends():
    """Replace ``os._exit`` and ``os.exec*``, which run no ``atexit``, by functions that first write the recording."""
    _recorder.watch_exec(posix.execv, posix.execve)
    for name in ("_exit", "execv", "execve"):
        original, replacement = getattr(posix, name), getattr(_recorder, name)
        if getattr(os, name) is original:
            # With the module name of the original, by which it is pickled.
            replacement.__module__ = "posix"
            _registrations.extend(_Replaced(module, name, lambda _: replacement) for module in (os, posix))
            if original in os.supports_fd:
                os.supports_fd.add(replacement)


def _register_module(module):
    """A weak reference to a module, which notifies the recorder when the module is freed."""
    known = _modules.get(id(module))
    if known is None:
        # The callback runs no Python code: an interrupt at that moment would be raised in it and lost.
        forget = _functools.partial(_recorder.forget_module, _modules, id(module))
        known = _modules[id(module)] = _weakref.ref(module, forget)
    return known


def _pass_on(error):
    """Ignore an error in one of our hooks, unless a signal handler of the program raised it: then raise it again."""
    handlers = [getattr(_signal.getsignal(number), "__code__", None) for number in range(1, _signal.NSIG)]
    trace = error.__traceback__
    while trace is not None:
        if any(trace.tb_frame.f_code is handler for handler in handlers):
            raise error
        trace = trace.tb_next


def _put_module(parent, name, child):
    """Report the assignment of a module to another one. The recorder is notified when one of them is freed, because ids are reused."""
    if child is None:
        return
    try:
        _recorder.put_module(parent, name, child)
        _register_module(parent)
        _register_module(child)
    except Exception as error:
        # A name that is not a text, or a class without weak references: the module has no name, or keeps its last one.
        _pass_on(error)


def _names_tensors():
    """True if the recording contains the memory of each tensor, for which names are used."""
    return os.environ.get("STACKLINE_MEMORY") == "1" and os.environ.get("STACKLINE_MODE") == "trace"


def _name_tensor(module, name, part, tensor):
    """Report the name and address of a tensor; only the address is kept. Allocations of other devices are not recorded."""
    if type(tensor) in _tensors and tensor.is_cpu:
        _recorder.name_tensor(module, name, part, tensor._cdata)


def _put_parameter(module, name, parameter):
    """Hook for the assignment of a parameter to a module."""
    try:
        if parameter is None or _torch.compiler.is_compiling():
            return
        # Hide these calls from the program's tensor modes and subclasses.
        with _hidden():
            holder = _register_module(module)
            _holders[id(parameter)] = (holder, name)
            _name_tensor(module, name, "parameter", parameter)
        if len(_holders) > _MOST_HOLDERS:
            _forget_holders()
    except Exception as error:
        _pass_on(error)


def _forget_holders():
    """Remove entries of freed modules, or all if that is not enough: they are added again with the next names."""
    for parameter in [parameter for parameter, (holder, _) in list(_holders.items()) if holder() is None]:
        _holders.pop(parameter, None)
    if len(_holders) > _MOST_HOLDERS // 2:
        _holders.clear()


def _put_buffer(module, name, buffer):
    """Hook for the assignment of a buffer to a module."""
    try:
        if buffer is None or _torch.compiler.is_compiling():
            return
        with _hidden():
            _register_module(module)
            _name_tensor(module, name, "buffer", buffer)
    except Exception as error:
        _pass_on(error)


def _name_all(module):
    """Report the current addresses of all parameters, gradients and buffers of a module."""
    for name, parameter in list(module.__dict__.get("_parameters", {}).items()):
        _put_parameter(module, name, parameter)
        if type(parameter) in _tensors and parameter.is_leaf:
            _name_tensor(module, name, "gradient", parameter.grad)
    for name, buffer in list(module.__dict__.get("_buffers", {}).items()):
        _put_buffer(module, name, buffer)


def _optimizer_stepped(optimizer, arguments, keywords):
    """Report the current addresses of an optimizer's parameters, their gradients and their states."""
    try:
        if _torch.compiler.is_compiling():
            return
        with _hidden():
            state = optimizer.state
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    _name_state(parameter, state)
    except Exception as error:
        # An optimizer with another structure, which may run code of the program.
        _pass_on(error)


def _name_state(parameter, state):
    holder, name = _holders.get(id(parameter), (None, None))
    module = holder() if holder is not None else None
    # Another object may have the id by now.
    if module is None or module.__dict__["_parameters"].get(name) is not parameter:
        return
    _name_tensor(module, name, "parameter", parameter)
    _name_tensor(module, name, "gradient", parameter.grad)
    optimizer_state = state.get(parameter)
    for key, value in list(optimizer_state.items()) if type(optimizer_state) is dict else ():
        if type(key) is str:
            _name_tensor(module, name, "." + key, value)


def _leave_uncompiled(*functions):
    """Exclude these functions from ``torch.compile``. When it traces into them, they do nothing (``is_compiling``)."""
    global _torch, _hidden
    _torch = sys.modules["torch"]
    _hidden = sys.modules["torch._C"].DisableTorchFunction
    frames = getattr(getattr(sys.modules["torch._C"], "_dynamo", None), "eval_frame", None)
    skip = getattr(frames, "skip_code", None)
    for function in functions if skip is not None else ():
        skip(function.__code__)


def _watch_optimizers():
    """Register a hook that is called after each step of an optimizer."""
    register = getattr(sys.modules["torch.optim.optimizer"], "register_optimizer_step_post_hook", None)
    if register is not None and _names_tensors():
        _leave_uncompiled(_optimizer_stepped, _name_state, _name_tensor, _pass_on)
        _registrations.append(register(_optimizer_stepped))


def _watch_modules():
    """Report the method by which modules are called, and register hooks for submodules, parameters and buffers."""
    global _tensors
    module = sys.modules["torch.nn.modules.module"]
    call = getattr(getattr(module, "Module", None), "_wrapped_call_impl", None)
    register = getattr(module, "register_module_module_registration_hook", None)
    if call is not None and register is not None:
        _recorder.watch_calls(call.__code__)
        _registrations.append(register(_put_module))
    parameters = getattr(module, "register_module_parameter_registration_hook", None)
    buffers = getattr(module, "register_module_buffer_registration_hook", None)
    if parameters is not None and buffers is not None and _names_tensors():
        _tensors = (module.Tensor, module.Parameter)
        _leave_uncompiled(_put_parameter, _put_buffer, _register_module, _forget_holders, _name_tensor, _pass_on)
        _registrations.extend([parameters(_put_parameter), buffers(_put_buffer)])


def _name_modules():
    """Report modules that were created before the recording."""
    module = getattr(sys.modules["torch.nn.modules.module"], "Module", None)
    if module is None or not _registrations:
        return
    # By type instead of isinstance, which objects can override.
    known = {}
    for held in gc.get_objects():
        kind = type(held)
        if kind not in known:
            known[kind] = issubclass(kind, module)
        children = held.__dict__.get("_modules") if known[kind] else None
        if isinstance(children, dict):
            for name, child in children.items():
                _put_module(held, name, child)
        if _tensors and known[kind]:
            _register_module(held)
    _name_known()


def _name_known():
    """Report the current addresses of the tensors of all known modules."""
    if not _tensors:
        return
    with _hidden():
        for reference in list(_modules.values()):
            module = reference()
            if module is not None:
                try:
                    _name_all(module)
                except Exception as error:
                    _pass_on(error)


def _watch_imports():
    """Run an action for each module that the recorder hooks into: now if it is imported, otherwise after its import."""
    global _imports
    actions = {
        "torch._C": _recorder.torch_imported,
        "torch.nn.modules.module": _watch_modules,
        "torch.optim.optimizer": _watch_optimizers,
        "multiprocessing.util": _stop_with_workers,
        "multiprocessing.popen_fork": lambda: _registrations.append(
            _Replaced(sys.modules["multiprocessing.popen_fork"].Popen, "_send_signal", _first(_note_end))
        ),
        "threading": _watch_threads,
    }
    for name in list(actions):
        if name in sys.modules:
            actions.pop(name)()
    if "torch.nn.modules.module" not in actions:
        _name_modules()
    if actions:
        _imports = _Imports(actions)
        sys.meta_path.insert(0, _imports)


def recorder():
    """Path of the recorder's library: from the environment, or installed with this file; ``None`` without one."""
    named = os.environ.get("STACKLINE_RECORDER")
    if named:
        return named
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    installed = os.path.join(package, "_stackline_record.so")
    return installed if os.path.exists(installed) else None


def is_recording():
    """True while this process is being recorded."""
    return _recording


def _load():
    """Load the recorder into this process."""
    path = recorder()
    if path is None:
        raise ImportError("there is no recorder: set STACKLINE_RECORDER, or install a package that contains it")
    loaded = _imp.create_dynamic(type(sys.__spec__)("_stackline_record", None, origin=path))
    if not all(hasattr(loaded, name) for name in _FUNCTIONS):
        raise ImportError(_OTHER_VERSION)
    return loaded


def begin():
    """Start the recorder with the options of the environment. Raises on failure."""
    global _recorder, _recording, _registered, _collecting
    _recorder = _load() if _recorder is None else _recorder
    record = _recorder.start if _frames_are_right() else _recorder.start_without_python
    if not _registered:
        atexit.register(end)
        os.register_at_fork(after_in_child=_recorder.resume_in_child)  # Permanent, and no Python code, as in `_register_module`.
    os.environ["STACKLINE_BEGIN"] = _recorder.begin_text()  # Processes that start later count their times from it, too.
    _recording, _registered, _collecting = True, True, _recorder.collecting
    reason = record()
    if reason is not None:
        end()  # A partly started recorder would continue to write into an abandoned run.
        raise RuntimeError(reason)
    gc.callbacks.append(_collecting)
    _watch_imports()
    _watch_ends()


def end():
    """End the recording, if one is active, and write the remaining data."""
    global _recording, _imports, _tensors
    if not _recording:
        return
    _recording = False
    # By identity, because other callbacks may override comparison.
    gc.callbacks[:] = [callback for callback in gc.callbacks if callback is not _collecting]
    try:
        _name_threads()
        _name_known()
    except Exception as error:
        _pass_on(error)
    finally:
        _recorder.stop()
        if _imports is not None:
            _imports.stop()
            _imports = None
        while _registrations:
            _registrations.pop().remove()
        _tensors = ()
        _modules.clear()
        _holders.clear()


def _in_main_interpreter():
    """True in the main interpreter of the process, which records for all subinterpreters."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            interpreters = __import__(name)
        except ImportError:
            continue
        return interpreters.get_current() == interpreters.get_main()
    return True


def _print_message(line):
    """Print one line without ``sys.stderr``, whose buffer would keep unwritten data and make the program fail at its end."""
    try:
        select = __import__("select")
        stderr = select.poll()
        stderr.register(2, select.POLLOUT)
        # After a close, the number may belong to another file. A pipe may have no reader, or one that does not read.
        if sys.__stderr__ is not None and stderr.poll(0) == [(2, select.POLLOUT)]:
            posix.write(2, b"stackline: %s\n" % line.encode(errors="replace"))
    except Exception as error:
        _pass_on(error)


def start():
    """Start the recorder once, if the environment enables it."""
    run = os.environ.get("STACKLINE_RECORD")
    if not run or _recorder is not None or not _in_main_interpreter():
        return
    try:
        if not os.path.isabs(run):  # Children may run elsewhere.
            os.environ["STACKLINE_RECORD"] = os.path.abspath(run)
        begin()
    except Exception as error:
        end()
        _print_message("not recording process %d: %s" % (os.getpid(), error))
