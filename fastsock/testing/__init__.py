"""The conformance suite: what every path owes a program that expects TCP.

Each check is a function of a `PairMaker`. It raises AssertionError if the maker's sockets do not behave as the standard
library's do over TCP. The author of a new path runs all checks on it:

    from fastsock import testing

    testing.check_stream(testing.PairMaker("fastsock.socket", transport="my-path"))

or one by one, as the project's own tests do:

    @pytest.mark.parametrize("check", testing.checks(), ids=testing.name)
    def test_my_path(check):
        check(maker)

Needs Linux and os.fork; no test framework.

checks/             the checks of paths, a module for each concept of the stream contract
device_checks/      the checks of message passing devices
pairs, process      connected sockets, with one end in a second process that obeys commands
ranks               ranks of one job, for the checks of devices
outcomes            compares a socket's behaviour with plain TCP's
alone               a check that may hang, in a process of its own
patterns, waiting   bytes that both processes can compute; waiting without the clock
names, memory       the processes that hold a name; the memory that a test took

The top of the package: only tests import this. Its own tests are those that run it: tests/paths/test_stream.py,
tests/xxdev/test_conformance.py.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from ..chain import transports
from . import checks as _checks
from .alone import passes
from .outcomes import Check
from .pairs import PLAIN, Far, Pair, PairMaker
from .process import DEADLINE, Died, FarError, FarProcess, Hang, Pending, until_asleep, until_blocked, until_stopped

__all__ = [
    "DEADLINE",
    "PLAIN",
    "Check",
    "Died",
    "Far",
    "FarError",
    "FarProcess",
    "Hang",
    "Pair",
    "PairMaker",
    "Pending",
    "check_stream",
    "checks",
    "concepts",
    "dependence",
    "difference",
    "name",
    "passes",
    "until_asleep",
    "until_blocked",
    "until_stopped",
]


def concepts() -> list[str]:
    """The parts of the stream contract, one module of `fastsock.testing.checks` each."""
    return sorted(module.name for module in pkgutil.iter_modules(_checks.__path__))


def checks(concept: str | None = None) -> list[Check]:
    """The checks of one concept, or all."""
    found = []
    for each in [concept] if concept else concepts():
        module = importlib.import_module(f"{_checks.__name__}.{each}")
        found += [value for key, value in vars(module).items() if key.startswith("check_")]
    return found


def name(check: Check) -> str:
    """A check's short name, as `transfer.order_both_ways`."""
    concept = check.__module__.rpartition(".")[2]
    return f"{concept}.{check.__name__.removeprefix('check_')}"


def difference(maker: PairMaker, check: Check) -> str | None:
    """The reason why the path that `maker` tests cannot pass a check (`Transport.differs`), or None."""
    return _reasons(maker, "differs").get(name(check))


def dependence(maker: PairMaker, check: Check) -> str | None:
    """The reason why the path that `maker` tests may not pass a check here (`Transport.depends`), or None."""
    return _reasons(maker, "depends").get(name(check))


def _reasons(maker: PairMaker, which: str) -> Mapping[str, str]:
    path = next((path for path in transports() if path.name == maker.transport), None)
    return {} if path is None else getattr(path, which)


def check_stream(maker: PairMaker, concept: str | None = None) -> dict[str, str]:
    """Run every check, or those of one concept, in both roles (the near end connects, the near end accepts).

    Returns the names of the checks that `Transport.differs` lists, and of those of `Transport.depends` that failed,
    each with its reason. These run in a process of their own for a few seconds at most, because they may hang. Raises
    the error of the first other check that fails. Raises AssertionError if a check that `differs` lists passes.
    """
    differed = {}
    for each in (maker, maker.turned()):
        for check in checks(concept):
            differs, depends = difference(maker, check), dependence(maker, check)
            if differs is None and depends is None:
                check(each)
            elif not passes(check, each):
                differed[name(check)] = differs or depends or ""
            elif differs is not None:
                raise AssertionError(f"{name(check)} passes, but the {maker.transport} path says it differs: {differs}")
    return differed
