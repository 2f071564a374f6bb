"""Starts Stackline's recorder in a Python process that was asked to record itself.

Imports as little as it can: it runs before the program does, in every Python process that the program starts. Whatever
fails there stands aside with one line on stderr. ``stackline.record`` begins and ends recordings here, too: one at most.
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
# What is used of the recorder: a recorder of another version may lack some of it.
_FUNCTIONS = ("_exit", "begin_text", "collecting", "execv", "execve", "forget_module", "frames", "name_tensor", "name_thread", "put_module",
              "resume_in_child", "start", "start_in_child", "start_without_python", "stop", "torch_imported", "watch_calls", "watch_exec")  # fmt: skip
_OTHER_VERSION = "the recorder is of another version than the command that uses it: build or install both anew"
# What waits for imports, what tells of modules and what of garbage collection, while a recording goes on.
_imports, _registrations, _collecting = None, [], None
# Weak references to the modules that the recorder was told of, by their id.
_modules = {}
# By the id of a parameter: the module that has it (a weak reference) and its name there.
_holders = {}
_MOST_HOLDERS = 1 << 18
# PyTorch, once it is asked for names, and what hides them from the program: it may take both out of ``sys.modules``.
_torch = _hidden = None
# Types of tensors that answer by themselves, without code of the program.
_tensors = ()


class _Imports:
    """Finds nothing itself: it has a word with the recorder once certain modules have been imported."""

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
    """The module's own loader, and a word to the recorder afterwards."""

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
    """Whether the recorder sees the frames that are running now as the interpreter does."""
    seen = [line.split("\t") for line in _recorder.frames().splitlines()]
    if any(len(parts) != 5 for parts in seen):
        raise ImportError(_OTHER_VERSION)
    if not seen:
        # It knows that it cannot read them, and will say why.
        return True
    frame, name = sys._getframe(), "co_qualname" if sys.version_info >= (3, 11) else "co_name"
    for function, file, _, first_line, _ in seen:
        code = frame.f_code if frame is not None else None
        if code is None or [getattr(code, name), code.co_filename, str(code.co_firstlineno)] != [function, file, first_line]:
            return False
        frame = frame.f_back
    return frame is None


def _stop_with_workers():
    """Workers of ``multiprocessing`` end with ``os._exit``: no ``atexit``, but finalizers of its own."""
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
    """A method of a class that one of ours takes the place of while the recording goes on."""

    def __init__(self, owner, name, make):
        self._owner, self._name, self._theirs = owner, name, getattr(owner, name)
        self._ours = make(self._theirs)
        setattr(owner, name, self._ours)

    def remove(self):
        if self._owner.__dict__.get(self._name) is self._ours:
            setattr(self._owner, self._name, self._theirs)


def _first(action):
    """Makes a method that does this with its object before what the one does that it replaces."""
    return lambda theirs: lambda self, *arguments: (action(self), theirs(self, *arguments))[1]


def _note_end(child):
    """Says that this process ends a worker of a loader or pool (those are daemons), whose stream then breaks off as if something
    else had killed it."""
    try:
        processes = sys.modules["multiprocessing.process"]._children
        if any(process._popen is child and process.daemon for process in list(processes)):
            import select

            # What is dead already, something else has killed: the other end of its pipe is closed.
            pipe = select.poll()
            pipe.register(child.sentinel, select.POLLIN)
            if not pipe.poll(0):
                with open(os.path.join(os.environ["STACKLINE_RECORD"], "streams", "ended_by_parent"), "a") as ended:
                    ended.write("%d\n" % child.pid)
    except Exception as error:
        _pass_on(error)


def _name_thread(thread):
    """Tells the recorder what Python calls a thread; those that it does not know better have a name of the system's."""
    try:
        if type(thread) is not sys.modules["threading"]._DummyThread:
            _recorder.name_thread(thread._native_id, thread._name)
    except Exception as error:
        # A name without a spelling in UTF-8, a thread that did not begin yet.
        _pass_on(error)


def _name_threads():
    for thread in list(getattr(sys.modules.get("threading"), "_active", {}).values()):
        _name_thread(thread)


def _watch_threads():
    """Tells the recorder the names of threads when they begin and end: before and after any code of the program."""
    thread = sys.modules["threading"].Thread
    if hasattr(thread, "_set_native_id") and hasattr(thread, "_delete"):
        after, before = (lambda f: lambda self: (f(self), _name_thread(self))[0]), _first(_name_thread)
        _registrations.extend([_Replaced(thread, "_set_native_id", after), _Replaced(thread, "_delete", before)])
        _name_threads()


def _watch_ends():
    """``os._exit`` and ``os.exec*`` run no ``atexit``: ours have the recording written, and then do what the interpreter's do."""
    _recorder.watch_exec(posix.execv, posix.execve)
    for name in ("_exit", "execv", "execve"):
        theirs, ours = getattr(posix, name), getattr(_recorder, name)
        if getattr(os, name) is theirs:
            # Under the name of the one that it replaces: as such it is pickled.
            ours.__module__ = "posix"
            _registrations.extend(_Replaced(module, name, lambda _: ours) for module in (os, posix))
            if theirs in os.supports_fd:
                os.supports_fd.add(ours)


def _know_module(module):
    """A weak reference to a module; once it is gone, the recorder is told."""
    known = _modules.get(id(module))
    if known is None:
        # No Python code: an interrupt that comes just then would be raised in it, and be lost.
        forget = _functools.partial(_recorder.forget_module, _modules, id(module))
        known = _modules[id(module)] = _weakref.ref(module, forget)
    return known


def _pass_on(error):
    """What goes wrong in a hook of ours is not the program's, but what its handler of a signal raised just then is."""
    handlers = [getattr(_signal.getsignal(number), "__code__", None) for number in range(1, _signal.NSIG)]
    trace = error.__traceback__
    while trace is not None:
        if any(trace.tb_frame.f_code is handler for handler in handlers):
            raise error
        trace = trace.tb_next


def _put_module(parent, name, child):
    """Tells the recorder that a module has another, and later if one of them is gone: its id may be used again."""
    if child is None:
        return
    try:
        _recorder.put_module(parent, name, child)
        _know_module(parent)
        _know_module(child)
    except Exception as error:
        # A name that is no text, a class without weak references: it is called without a name, or with its last one.
        _pass_on(error)


def _names_tensors():
    """Whether the recording has each tensor's memory, so that names of it are of use."""
    return os.environ.get("STACKLINE_MEMORY") == "1" and os.environ.get("STACKLINE_MODE") == "trace"


def _name_tensor(module, name, part, tensor):
    """Tells the recorder where a tensor lies; it keeps the address alone. Of other devices no allocation is recorded yet."""
    if type(tensor) in _tensors and tensor.is_cpu:
        _recorder.name_tensor(module, name, part, tensor._cdata)


def _put_parameter(module, name, parameter):
    """A module is given a parameter."""
    try:
        if parameter is None or _torch.compiler.is_compiling():
            return
        # What a program sees by modes and subclasses, it shall not see of this.
        with _hidden():
            holder = _know_module(module)
            _holders[id(parameter)] = (holder, name)
            _name_tensor(module, name, "parameter", parameter)
        if len(_holders) > _MOST_HOLDERS:
            _forget_holders()
    except Exception as error:
        _pass_on(error)


def _forget_holders():
    """Entries of modules that are gone; all, if that is not enough: they come again with the next names."""
    for parameter in [parameter for parameter, (holder, _) in list(_holders.items()) if holder() is None]:
        _holders.pop(parameter, None)
    if len(_holders) > _MOST_HOLDERS // 2:
        _holders.clear()


def _put_buffer(module, name, buffer):
    """A module is given a buffer."""
    try:
        if buffer is None or _torch.compiler.is_compiling():
            return
        with _hidden():
            _know_module(module)
            _name_tensor(module, name, "buffer", buffer)
    except Exception as error:
        _pass_on(error)


def _name_all(module):
    """Tells of all parameters, gradients and buffers of a module, where they are now."""
    for name, parameter in list(module.__dict__.get("_parameters", {}).items()):
        _put_parameter(module, name, parameter)
        if type(parameter) in _tensors and parameter.is_leaf:
            _name_tensor(module, name, "gradient", parameter.grad)
    for name, buffer in list(module.__dict__.get("_buffers", {}).items()):
        _put_buffer(module, name, buffer)


def _optimizer_stepped(optimizer, arguments, keywords):
    """Tells where the parameters of an optimizer are now, their gradients, and what it keeps of them."""
    try:
        if _torch.compiler.is_compiling():
            return
        with _hidden():
            state = optimizer.state
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    _name_state(parameter, state)
    except Exception as error:
        # An optimizer that keeps it in another way; what it has may be code of the program.
        _pass_on(error)


def _name_state(parameter, state):
    holder, name = _holders.get(id(parameter), (None, None))
    module = holder() if holder is not None else None
    # Another object may have the id by now.
    if module is None or module.__dict__["_parameters"].get(name) is not parameter:
        return
    _name_tensor(module, name, "parameter", parameter)
    _name_tensor(module, name, "gradient", parameter.grad)
    kept = state.get(parameter)
    for key, value in list(kept.items()) if type(kept) is dict else ():
        if type(key) is str:
            _name_tensor(module, name, "." + key, value)


def _leave_uncompiled(*functions):
    """``torch.compile`` compiles none of these by itself; what it traces them into, it sees do nothing (``is_compiling``)."""
    global _torch, _hidden
    _torch = sys.modules["torch"]
    _hidden = sys.modules["torch._C"].DisableTorchFunction
    frames = getattr(getattr(sys.modules["torch._C"], "_dynamo", None), "eval_frame", None)
    skip = getattr(frames, "skip_code", None)
    for function in functions if skip is not None else ():
        skip(function.__code__)


def _watch_optimizers():
    """Has optimizers say when they made a step."""
    register = getattr(sys.modules["torch.optim.optimizer"], "register_optimizer_step_post_hook", None)
    if register is not None and _names_tensors():
        _leave_uncompiled(_optimizer_stepped, _name_state, _name_tensor, _pass_on)
        _registrations.append(register(_optimizer_stepped))


def _watch_modules():
    """Tells the recorder which method calls a module, which module holds which, and which has which tensors."""
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
        _leave_uncompiled(_put_parameter, _put_buffer, _know_module, _forget_holders, _name_tensor, _pass_on)
        _registrations.extend([parameters(_put_parameter), buffers(_put_buffer)])


def _name_modules():
    """Tells the recorder of modules that were made before the recording."""
    module = getattr(sys.modules["torch.nn.modules.module"], "Module", None)
    if module is None or not _registrations:
        return
    # By type, not by isinstance: objects may answer that in their own way.
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
            _know_module(held)
    _name_known()


def _name_known():
    """Tells where the tensors of all modules are that are known."""
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
    """Has a word with the recorder for each module that matters to it: now, or once it is imported."""
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
    """The file of the recorder: what the environment names, or what is installed with this file; ``None`` without one."""
    named = os.environ.get("STACKLINE_RECORDER")
    if named:
        return named
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    installed = os.path.join(package, "_stackline_record.so")
    return installed if os.path.exists(installed) else None


def is_recording():
    """Whether a recording of this process goes on."""
    return _recording


def _load():
    """Loads the recorder into this process."""
    path = recorder()
    if path is None:
        raise ImportError("there is no recorder: STACKLINE_RECORDER names none, and none is installed")
    loaded = _imp.create_dynamic(type(sys.__spec__)("_stackline_record", None, origin=path))
    if not all(hasattr(loaded, name) for name in _FUNCTIONS):
        raise ImportError(_OTHER_VERSION)
    return loaded


def begin():
    """Starts the recorder as the environment says. Raises whatever goes wrong."""
    global _recorder, _recording, _registered, _collecting
    _recorder = _load() if _recorder is None else _recorder
    record = _recorder.start if _frames_are_right() else _recorder.start_without_python
    if not _registered:
        atexit.register(end)
        os.register_at_fork(after_in_child=_recorder.resume_in_child)  # For good, and no Python code, as in `_know_module`.
    os.environ["STACKLINE_BEGIN"] = _recorder.begin_text()  # Processes that start later count their times from it, too.
    _recording, _registered, _collecting = True, True, _recorder.collecting
    reason = record()
    if reason is not None:
        end()  # A recorder that failed half way would go on, into a run that is given up.
        raise RuntimeError(reason)
    gc.callbacks.append(_collecting)
    _watch_imports()
    _watch_ends()


def end():
    """Ends the recording, if one goes on, and writes what is left."""
    global _recording, _imports, _tensors
    if not _recording:
        return
    _recording = False
    # By identity: callbacks of others may compare in their own way.
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
    """Whether this is not one of the further interpreters that a process may have: the first one records for all."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            interpreters = __import__(name)
        except ImportError:
            continue
        return interpreters.get_current() == interpreters.get_main()
    return True


def _say(line):
    """Not by ``sys.stderr``, whose buffer keeps what cannot be written, which makes the program fail at its end."""
    try:
        select = __import__("select")
        stderr = select.poll()
        stderr.register(2, select.POLLOUT)
        # The number may be another file's if it was closed; a pipe may have no reader, or one that does not read.
        if sys.__stderr__ is not None and stderr.poll(0) == [(2, select.POLLOUT)]:
            posix.write(2, b"stackline: %s\n" % line.encode(errors="replace"))
    except Exception as error:
        _pass_on(error)


def start():
    """Starts the recorder if the environment asks for it, once."""
    run = os.environ.get("STACKLINE_RECORD")
    if not run or _recorder is not None or not _in_main_interpreter():
        return
    try:
        if not os.path.isabs(run):  # Children may run elsewhere.
            os.environ["STACKLINE_RECORD"] = os.path.abspath(run)
        begin()
    except Exception as error:
        end()
        _say("not recording process %d: %s" % (os.getpid(), error))
