"""The classes that travel though nobody registered them. A `ClassTable` is asked first.

Three kinds are found, each by the class at the sender and by its name, `module:Class`, at the receiver:

    of a library, whose function registers them    numpy, ipaddress, pandas, ...
    of the modules in STANDARD                     exceptions, Enums, NamedTuples, results of the system
    of any module that is imported already         subclasses of plain classes (derived.py), Enums, NamedTuples

A name that a peer sends is looked up in `sys.modules`. It imports nothing but the modules that are listed here, and a
library whose function is installed here. Nothing of a class runs when it is found, or when an instance is made.

A library's function is an entry point of the group `fastsock.rmi.values`, which has the name of the package whose
classes it registers. It takes one argument, `register`, with the arguments of `rmi.register`. Each class is given a
`name` that begins with the package's name and a colon. The function runs when the first value of the package is met.
"""

from __future__ import annotations

import enum
import importlib
import sys
import types
from collections.abc import Callable
from functools import cache
from importlib import metadata
from typing import Any

from ..errors import RmiError, VersionMismatch
from ..interrupts import interrupted
from .derived import describe_derived
from .values import STATE, ClassDescription, ClassTable, describe

GROUP = "fastsock.rmi.values"
_HERE = f"{__package__}.libraries"
# As entry points are written. They are none, so that fastsock runs from its sources too, where it is not installed.
OWN = {
    "_io": f"{_HERE}.standard:of_io",
    "builtins": f"{_HERE}.standard:of_builtins",
    "decimal": f"{_HERE}.standard:of_decimal",
    "fastsock": f"{_HERE}.standard:of_fastsock",
    "ipaddress": f"{_HERE}.standard:of_ipaddress",
    "re": f"{_HERE}.standard:of_re",
    "urllib": f"{_HERE}.standard:of_urllib",
    "numpy": f"{_HERE}.of_numpy:register_values",
    "pandas": f"{_HERE}.of_pandas:register_values",
    "pyarrow": f"{_HERE}.of_pyarrow:register_values",
    "torch": f"{_HERE}.of_torch:register_values",
}
# Modules that hold exceptions, Enums and NamedTuples, and do nothing when they are imported.
_MODULES = """
_csv _io _lzma _pickle _queue _struct argparse asyncio.exceptions asyncio.locks asyncio.queues binascii bz2 calendar
codecs collections concurrent.futures concurrent.futures._base concurrent.futures.process concurrent.futures.thread
configparser contextvars copy csv ctypes dataclasses datetime decimal difflib email.errors enum fractions ftplib
functools getopt graphlib grp gzip http http.client http.cookiejar http.cookies imaplib importlib.metadata inspect
ipaddress json json.decoder locale lzma multiprocessing multiprocessing.context netrc numpy.exceptions numpy.linalg
os pathlib pickle plistlib poplib posix pwd queue re resource sched select selectors shlex shutil signal smtplib
socket sqlite3 ssl statistics string struct subprocess sys tarfile tempfile textwrap threading time tokenize tomllib
types typing unicodedata urllib.error urllib.parse urllib.robotparser uuid warnings xml.dom xml.etree.ElementTree
xml.parsers.expat xmlrpc.client zipfile zlib zoneinfo zoneinfo._common
"""
STANDARD = frozenset(_MODULES.split())


def of_library(classes: ClassTable, cls: type) -> ClassDescription | None:
    """The description of a class that a library registers, or that is one of STANDARD. None: it is neither.

    Raises VersionMismatch where the library's function fails.
    """
    package = _package_of(cls.__module__)
    failure = _enter(classes, package)
    found = classes.by_class.get(cls)
    if found is None and failure:
        raise VersionMismatch(failure)
    if found is None and cls.__module__ in STANDARD:
        return _described(classes, cls)
    return found


def of_import(classes: ClassTable, cls: type) -> ClassDescription | None:
    """The description of a class that another process finds by its name, if it has imported the module."""
    return _described(classes, cls)


def of_name(classes: ClassTable, name: str) -> tuple[ClassDescription | None, str]:
    """The description of the class that a peer calls so. None: why there is none."""
    module, colon, path = name.partition(":")
    if not colon:
        return None, (
            f"the peer sent an instance of {name!r}, and no class is registered by this name here: "
            "register it at both ends, or give it the same name= there"
        )
    package = _package_of(module)
    failure = _enter(classes, package)
    known = classes.by_name.get(name)
    if known is not None:
        return known, ""
    if failure:
        return None, f"the peer sent a {module}.{path}: {failure}"
    cls = find_class(module, path)
    if cls is None:
        return None, _why_unknown(module, path)
    if cls in classes.by_class:
        return None, f"{module}.{path} is registered here, and the peer has not registered it: do so at both ends"
    try:
        known = _described(classes, cls)
    except Exception as error:  # its metaclass may be at fault
        if interrupted(error):
            raise
        return None, f"{module}.{path} cannot be described here: {type(error).__name__}: {error}"
    if known is None:
        return None, f"the peer sent a {module}.{path}, which is a class of another kind here: register it at both ends"
    return known, ""


def _why_unknown(module: str, path: str) -> str:
    said = f"the peer sent a {module}.{path}, "
    if _package_of(module) in entry_points():
        return f"{said}and the version of {_package_of(module)} that is installed here has none: install the peer's"
    if module == "__main__":
        return f"{said}and __main__ is another program here: define the class in a module that both ends import"
    if module in sys.modules:
        return f"{said}and the module {module} has no such class here: have both ends import the same one"
    return (
        f"{said}and {module} is not imported here: import it at this end before the call. If it cannot be, install it, "
        f"or what registers its classes (an entry point of {GROUP})"
    )


def find_class(module: str, path: str) -> type | None:
    """The class of that name, where its module is imported or in STANDARD. Runs nothing of what it meets."""
    found: Any = sys.modules.get(module)
    if found is None and module in STANDARD:
        try:
            found = importlib.import_module(module)
        except ImportError:  # this Python was built without it
            return None
    for name in path.split("."):
        space = _names_of(found)
        found = None if space is None else space.get(name)
    if found is None or not issubclass(type(found), type):
        return None
    said = type.__getattribute__(found, "__module__"), type.__getattribute__(found, "__qualname__")
    return found if said == (module, path) else None


def _names_of(found: Any) -> Any:
    """The names in a module or class, past what these say themselves: a module may import when it is asked."""
    kind = type(found)
    if issubclass(kind, types.ModuleType):
        return object.__getattribute__(found, "__dict__")
    return type.__getattribute__(found, "__dict__") if issubclass(kind, type) else None


def _described(classes: ClassTable, cls: type) -> ClassDescription | None:
    module, path = cls.__module__, cls.__qualname__
    if find_class(module, path) is not cls:
        return None
    name = f"{module}:{path}"
    if issubclass(cls, BaseException):
        return describe(cls, name=name) if module in STANDARD else None
    if issubclass(cls, enum.Enum):
        return describe(cls, name=name)
    if issubclass(cls, tuple) and module in STANDARD and "n_sequence_fields" in vars(cls):
        return _described_result(cls, name)
    if issubclass(cls, tuple) and hasattr(cls, "_fields") and not cls.__dictoffset__:
        return describe(cls, name=name)
    return describe_derived(cls, name)


def _described_result(cls: Any, name: str) -> ClassDescription:
    """Of what os.stat() and the like give."""

    def unpack(state: Any) -> Any:
        items, named = state
        return cls(items, named)

    return ClassDescription(cls, name, STATE, (), 0, pack=lambda value: value.__reduce__()[1], unpack=unpack)


def _package_of(module: str) -> str:
    return module.partition(".")[0]


@cache
def entry_points() -> dict[str, Any]:
    """By the name of the package whose classes each registers."""
    return {
        **{each.name: each for each in metadata.entry_points(group=GROUP)},
        **{name: metadata.EntryPoint(name, where, GROUP) for name, where in OWN.items()},
    }


def _enter(classes: ClassTable, package: str) -> str:
    """Has a library enter its classes, if that was not done. Returns why it could not."""
    if package not in OWN and package not in entry_points():  # a peer may name any: nothing is kept of that
        return ""
    failure = classes.libraries.get(package)
    if failure is None:  # two threads may do this at once: they enter the same
        failure = classes.libraries[package] = _entered(classes, package)
    return failure


def _entered(classes: ClassTable, package: str) -> str:
    own = OWN.get(package)
    entry = entry_points()[package] if own is None else metadata.EntryPoint(package, own, GROUP)

    def register(cls: type, **options: Any) -> None:
        """As rmi.register. What the program registered itself stays."""
        if cls not in classes.by_class:
            if options.get("unpack") is not None:
                options["unpack"] = _guarded(options["unpack"], options.get("name"))
            classes.add(describe(cls, **options))

    try:
        entry.load()(register)
    except ImportError as error:
        return (
            f"{package} cannot be used in this process ({error}): install what is missing at this end, "
            f"for example by pip install {package}"
        )
    except Exception as error:
        if interrupted(error):
            raise
        return f"what registers the values of {package} here, {entry.value}, failed: {type(error).__name__}: {error}"
    return ""


def _guarded(unpack: Callable[[Any], Any], name: Any) -> Callable[[Any], Any]:
    """What a library says of a value that it cannot make is an error of the call, of whatever kind the library's is."""

    def made(state: Any) -> Any:
        try:
            return unpack(state)
        except (RmiError, MemoryError):
            raise
        except Exception as error:
            if interrupted(error):
                raise
            raise VersionMismatch(
                f"a {name} cannot be made here of what the peer sent ({type(error).__name__}: {error}): "
                "install the same version at both ends"
            ) from error

    return made
