"""Installs fastsock in a Python process, then makes way for the sitecustomize that it displaced.

Where the preloaded library is there, all that the process does before it imports `socket` is right without the class.
Many processes never import it. So there fastsock is installed by that import, or by one of fastsock itself.

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


def is_same_python():
    return os.environ.get("FASTSOCK_INTERPRETER") == "%s:%s" % (sys.implementation.cache_tag, sys.prefix)


def may_wait():
    """Whether fastsock can be installed later. A report and a trace tell of the process from its start on."""
    reports = [os.environ.get("FASTSOCK_" + name, "") for name in ("STATS", "TRACE")]
    has_library = "libfastsock_preload.so" in os.environ.get("LD_PRELOAD", "")
    is_unknown = "fastsock" not in sys.modules and "socket" not in sys.modules
    return has_library and is_unknown and is_same_python() and is_for_children() and not any(reports)


def find_neighbour():
    """The package that this file belongs to, which this process's sys.path may not lead to."""
    # Python itself loads modules so. What importlib adds to that is a tenth of fastsock's start.
    from _frozen_importlib_external import PathFinder

    return PathFinder.find_spec("fastsock", [os.path.dirname(os.path.dirname(os.path.dirname(HERE)))])


def load_neighbour():
    from _frozen_importlib import module_from_spec

    spec = find_neighbour()
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
    try:
        if is_same_python() and "fastsock" not in sys.modules:
            load_neighbour()
        import fastsock
    except ImportError as error:
        if getattr(error, "name", None) != "fastsock":
            raise
        note("not installed in this process: %s" % error)
        return
    fastsock.install()


def install_or_report():
    try:
        install()
    except Exception as error:
        report(error)


def report(error):
    if sys.stderr is not None:
        sys.stderr.write("fastsock is not installed in this process: %s: %s\n" % (type(error).__name__, error))


class Finder(object):  # noqa: UP004
    """Finds `socket` and fastsock as Python does. Behind the first of them fastsock is installed."""

    installs = None  # the thread that does

    def find_spec(self, name, path=None, target=None):
        if name == "fastsock":
            spec = find_neighbour()
        elif name == "socket" and self.installs != get_ident():
            found = (each.find_spec(name, path, target) for each in list(sys.meta_path) if each is not self)
            spec = next((each for each in found if each is not None), None)
        else:
            return None
        if spec is not None and spec.loader is not None:
            spec.loader = Loader(spec.loader)
        return spec

    def install(self):
        self.installs = get_ident()
        try:
            install()
        except (ImportError, RuntimeError) as error:
            if len(sys._current_frames()) == 1:
                report(error)
            else:  # another thread imports a part of fastsock, and waits for this one: it must have it first
                start_new_thread(install_or_report, ())
        except Exception as error:
            report(error)
        finally:
            # another list: who goes through the old one misses nobody
            sys.meta_path = [each for each in sys.meta_path if each is not self]


class Loader(object):  # noqa: UP004
    def __init__(self, loader):
        self.loader = loader

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        if module.__name__ == "fastsock":
            finder.install()
        else:
            bring()


def bring():
    """Import fastsock, which is installed by that."""
    try:
        import fastsock  # noqa: F401
    except RuntimeError:
        pass  # Python has seen a deadlock: another thread imports fastsock, and waits for this one. It installs
    except ImportError as error:
        report(error)


def clear_environment():
    """Of --no-children: what this process starts gets nothing of fastsock."""
    for name in ("CHILDREN", "INSTALL", "INTERPRETER", "RESOLVED_RULES"):
        os.environ.pop("FASTSOCK_" + name, None)
    for name, separator, ours in (("PYTHONPATH", os.pathsep, HERE), ("LD_PRELOAD", " ", "libfastsock_preload.so")):
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
finder = Finder()
if wanted() and may_wait():
    from _thread import get_ident, start_new_thread

    sys.meta_path.insert(0, finder)
elif wanted():
    install_or_report()
if not is_for_children():
    clear_environment()
leave()

# Where there is none, this is the error that site expects then.
import sitecustomize  # noqa: E402, F401
