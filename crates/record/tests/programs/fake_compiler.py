"""A fake PyTorch with only the functions into which the recorder hooks for compilations, and programs that stress them.

The fake behaves on every version of Python like the real one.
"""

import functools
import importlib.machinery
import signal
import sys

SOURCES = {
    "torch": "import torch._C",
    "torch._C": "",
    "torch._guards": """
class CompileContext:
    current = None

    @staticmethod
    def current_compile_id():
        if CompileContext.current == "late":
            import signal
            signal.raise_signal(signal.SIGUSR1)
        if CompileContext.current == "unknown":
            raise LookupError("nobody shall see this")
        return CompileContext.current
""",
    "torch._dynamo": "",
    "torch._dynamo.callback": """
import contextlib

class CompilationCallbackHandler:
    def __init__(self):
        self.start_callbacks = []

    @contextlib.contextmanager
    def install_callbacks(self, *arguments):
        for callback in self.start_callbacks:
            callback(*arguments)
        yield "what was yielded"

handler = CompilationCallbackHandler()
""",
    "torch._dynamo.utils": """
import contextlib

class ChromiumEventLogger:
    def log_event_start(self, event_name, time_ns, metadata, log_pt2_compile_event=False):
        return ("started", event_name)

    def log_event_end(self, event_name, time_ns, metadata=None):
        return ("ended", event_name)

logger = ChromiumEventLogger()

@contextlib.contextmanager
def dynamo_timed(name):
    logger.log_event_start(name, 1, metadata={})
    try:
        yield
    finally:
        logger.log_event_end(event_name=name, time_ns=2)
""",
}


class Finder:
    """Finder of the modules above, with a spec and a loader as any module has."""

    def find_spec(self, name, path=None, target=None):
        if name not in SOURCES:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=name in ("torch", "torch._dynamo"))

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(SOURCES[module.__name__], vars(module))


finder = Finder()
sys.meta_path.append(finder)

import torch  # noqa: E402
import torch._dynamo.callback  # noqa: E402
import torch._dynamo.utils  # noqa: E402
import torch._guards  # noqa: E402

handler, logger, timed = torch._dynamo.callback.handler, torch._dynamo.utils.logger, torch._dynamo.utils.dynamo_timed


class Id:
    """A compilation in Dynamo."""

    def __init__(self, frame, again):
        self.text, self.frame_compile_id = "%d/%d" % (frame, again), again

    def __str__(self):
        return self.text


class Trigger:
    """Reason of a compilation."""

    name = "LAZY_BACKWARD"


def compiled():
    """Compiled object, by name only."""


def compile_inner(code, identity, inside=None, arguments=()):
    torch._guards.CompileContext.current = identity
    with handler.install_callbacks(*arguments) as got:
        assert got == "what was yielded"
        with timed("trace"):
            inside and inside()
        return "result"


def unbalanced():
    assert logger.log_event_start("never ended", 1, {}) == ("started", "never ended")
    assert logger.log_event_end("never begun", 1) == ("ended", "never begun")


def fail():
    raise KeyError("as it is")


def attempt(action, *arguments):
    try:
        return action(*arguments)
    except Exception as error:
        return "%s: %s" % (type(error).__name__, error)


def odd_names():
    for name in ("\ud800", "nothing\0more", "", 7):
        with timed(name):
            pass


class Handler:
    def __call__(self, *_):
        raise TimeoutError("it takes too long")

    def method(self, *_):
        self()


def late():
    """Handlers of signals that raise while the word of a compilation is taken down: only a recorder asks for its id."""
    for handler in (Handler(), Handler().method, functools.partial(Handler()), lambda *_: Handler()()):
        signal.signal(signal.SIGUSR1, handler)
        print(attempt(compile_inner, code, "late"))
    print(compile_inner(code, Id(9, 0)))


code = compiled.__code__
if sys.argv[1:] == ["late"]:
    late()
    sys.exit()
with timed("outside of compilations"):
    print(compile_inner(code, Id(0, 0)))
print(compile_inner(code, Id(0, 1), lambda: compile_inner(None, Id(3, 0), arguments=(Trigger,))))
print(compile_inner(code, Id(4, 0), unbalanced))
print(attempt(compile_inner, code, Id(5, 0), fail))
print(compile_inner(code, Id(6, 0), odd_names))
print(compile_inner(code, "unknown"))
handler.start_callbacks.append(lambda *_: fail())
print(attempt(compile_inner, code, Id(7, 0)))
handler.start_callbacks.clear()
print(compile_inner(code, Id(8, 0)))
assert torch._dynamo.utils.__loader__ is finder and torch._dynamo.utils.__spec__.loader is finder
