"""Starts Stackline's recorder in a Python process that was asked to record itself.

Imports as little as it can: it runs before the program does, in every Python process that the program starts. Whatever
fails here stands aside with one line on stderr.
"""

import os
import sys

_recorder = None


class _Imports:
    """Finds nothing itself: it has a word with the recorder once certain modules have been imported."""

    def __init__(self, actions):
        self._actions = actions

    def find_spec(self, name, path=None, target=None):
        action = self._actions.pop(name, None)
        if action is None:
            return None
        if not self._actions:
            sys.meta_path.remove(self)
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Watched(spec.loader, action)
                return spec
        return None


class _Watched:
    """The module's own loader, and a word to the recorder afterwards."""

    def __init__(self, loader, action):
        self._loader = loader
        self._action = action

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._action()


def _frames_are_right():
    """Whether the recorder sees the frames that are running now as the interpreter does."""
    seen = [line.split("\t") for line in _recorder.frames().splitlines()]
    if not seen:
        # It knows that it cannot read them, and will say why.
        return True
    frame, name = sys._getframe(), "co_qualname" if sys.version_info >= (3, 11) else "co_name"
    for function, file, _, first_line in seen:
        code = frame.f_code if frame is not None else None
        if code is None or [getattr(code, name), code.co_filename, str(code.co_firstlineno)] != [function, file, first_line]:
            return False
        frame = frame.f_back
    return frame is None


def _stop_with_workers():
    """Workers of ``multiprocessing`` end with ``os._exit``: no ``atexit``, but finalizers of its own."""
    util = sys.modules["multiprocessing.util"]

    def in_worker(_):
        util.Finalize(None, _recorder.stop, exitpriority=-1000)

    util.register_after_fork(_stop_with_workers, in_worker)


def _watch_modules():
    """Tells the recorder which method calls a module, and which module holds which."""
    module = sys.modules["torch.nn.modules.module"]
    call = getattr(module.Module, "_wrapped_call_impl", None)
    register = getattr(module, "register_module_module_registration_hook", None)
    if call is not None and register is not None:
        _recorder.watch_calls(call.__code__)
        register(_recorder.put_module)


def start():
    """Loads the recorder that the environment names, and starts it."""
    global _recorder
    path = os.environ.get("STACKLINE_RECORDER")
    if not path or not os.environ.get("STACKLINE_RECORD") or _recorder is not None:
        return
    try:
        import _imp
        from importlib.machinery import ModuleSpec

        _recorder = _imp.create_dynamic(ModuleSpec("_stackline_record", None, origin=path))
        if _frames_are_right():
            _recorder.start()
        else:
            sys.stderr.write("stackline: recording without Python frames: this interpreter keeps them in an unknown way\n")
            _recorder.start_without_python()
        import atexit

        atexit.register(_recorder.stop)
        actions = {
            "torch._C": _recorder.torch_imported,
            "torch.nn.modules.module": _watch_modules,
            "multiprocessing.util": _stop_with_workers,
        }
        for name in list(actions):
            if name in sys.modules:
                actions.pop(name)()
        if actions:
            sys.meta_path.insert(0, _Imports(actions))
    except Exception as error:
        sys.stderr.write("stackline: not recording process %d: %s\n" % (os.getpid(), error))
