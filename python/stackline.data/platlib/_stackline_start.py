"""Imported by ``stackline.pth`` in every Python process of this environment that was asked to record itself."""

import os
import sys


def _start():
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stackline", "_bootstrap")
    sys.path.insert(0, here)
    try:
        import _stackline_bootstrap
    finally:
        sys.path.remove(here)
    _stackline_bootstrap.start()


_start()
