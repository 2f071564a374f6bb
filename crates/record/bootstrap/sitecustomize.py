"""Starts the recorder in a process of ``stackline record``, which puts this file first on ``PYTHONPATH``. Then imports the
``sitecustomize`` of the site."""

import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))


def _start():
    sys.path.insert(0, _here)
    try:
        import _stackline_bootstrap
    finally:
        sys.path.remove(_here)
    _stackline_bootstrap.start()


def _chain():
    """Import the ``sitecustomize`` that this module hides, if there is one."""
    own_module = sys.modules.pop(__name__, None)
    import_path = list(sys.path)
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _here]
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules[__name__] = own_module
    finally:
        sys.path[:] = import_path


_start()
_chain()
