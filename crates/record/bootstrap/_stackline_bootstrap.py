"""Starts Stackline's recorder in a Python process that was asked to record itself.

Imports as little as it can: it runs before the program does, in every Python process that the program starts. Whatever
fails here stands aside with one line on stderr.
"""

import os
import sys

_recorder = None


class _Torch:
    """Finds nothing itself: it tells the recorder once ``torch._C`` has been imported."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch._C":
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Watched(spec.loader)
                return spec
        return None


class _Watched:
    """The module's own loader, and a word to the recorder afterwards."""

    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        _recorder.torch_imported()


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
        _recorder.start()
        import atexit

        atexit.register(_recorder.stop)
        if "torch._C" in sys.modules:
            _recorder.torch_imported()
        else:
            sys.meta_path.insert(0, _Torch())
    except Exception as error:
        sys.stderr.write("stackline: not recording process %d: %s\n" % (os.getpid(), error))
