"""Installs fastsock at the start of a Python process, then makes way for the sitecustomize that it displaced.

The directory comes by PYTHONPATH, so any Python may find it: the text must compile for old ones, and
nothing here may break a process that has no use for it.
"""

# ruff: noqa: UP031

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def is_for_children():
    return os.environ.get("FASTSOCK_CHILDREN") != "0"


def wanted():
    if not is_for_children() and os.environ.get("FASTSOCK_LAUNCHED") != str(os.getpid()):
        return False
    return sys.version_info >= (3, 10) and os.environ.get("FASTSOCK_INSTALL", "0").lower() not in ("", "0", "no", "off")


def note(text):
    # Logging has no handler yet when a process starts, so the trace goes out by hand.
    if os.environ.get("FASTSOCK_TRACE", "") not in ("", "0") and sys.stderr is not None:
        sys.stderr.write("fastsock[%d]: %s\n" % (os.getpid(), text))


def load_neighbour():
    """Import the package that this file belongs to, which this process's sys.path may not lead to."""
    # Python itself loads modules by these two. What importlib adds to them is a tenth of fastsock's start.
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import PathFinder

    spec = PathFinder.find_spec("fastsock", [os.path.dirname(os.path.dirname(os.path.dirname(HERE)))])
    if spec is None or spec.loader is None:
        return
    package = module_from_spec(spec)
    sys.modules["fastsock"] = package
    try:
        spec.loader.exec_module(package)
    except BaseException:
        del sys.modules["fastsock"]
        raise


def install():
    same = os.environ.get("FASTSOCK_INTERPRETER") == "%s:%s" % (sys.implementation.cache_tag, sys.prefix)
    try:
        if same and "fastsock" not in sys.modules:
            load_neighbour()
        import fastsock
    except ImportError as error:
        if getattr(error, "name", None) != "fastsock":
            raise
        note("not installed in this process: %s" % error)
        return
    fastsock.install()


def clear_environment():
    """Of --no-children: what this process starts gets nothing of fastsock."""
    for name in ("CHILDREN", "INSTALL", "INTERPRETER", "RESOLVED_RULES"):
        os.environ.pop("FASTSOCK_" + name, None)
    for name, separator, ours in (("PYTHONPATH", ":", HERE), ("LD_PRELOAD", " ", "libfastsock_preload.so")):
        entries = os.environ.get(name, "").split(separator)
        others = [entry for entry in entries if not entry.endswith(ours)]
        if not others:
            del os.environ[name]
        elif len(others) < len(entries):
            os.environ[name] = separator.join(others)


def leave():
    """Remove every trace of this directory, so that the process is as it would be without it."""
    sys.path[:] = [entry for entry in sys.path if entry != HERE]
    sys.path_importer_cache.pop(HERE, None)
    del sys.modules[__name__]


myself = sys.modules[__name__]  # Python 2 empties a module that nobody holds
try:
    if wanted():
        install()
except Exception as error:
    if sys.stderr is not None:
        sys.stderr.write("fastsock is not installed in this process: %s: %s\n" % (type(error).__name__, error))
if not is_for_children():
    clear_environment()
leave()

# Where there is none, this is the error that site expects then.
import sitecustomize  # noqa: E402, F401
