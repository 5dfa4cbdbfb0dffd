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
patterns, waiting   bytes that both processes can compute; waiting without the clock
names, memory       the processes that hold a name; the memory that a test took

The top of the package: only tests import this. Its own tests are those that run it: tests/paths/test_stream.py,
tests/xxdev/test_conformance.py.
"""

from __future__ import annotations

import importlib
import pkgutil

from ..chain import transports
from . import checks as _checks
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
    "difference",
    "name",
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
    for path in transports():
        if path.name == maker.transport:
            return path.differs.get(name(check))
    return None


def check_stream(maker: PairMaker, concept: str | None = None) -> dict[str, str]:
    """Run every check, or those of one concept, in both roles (the near end connects, the near end accepts).

    Returns the names of the checks that `Transport.differs` lists, each with its reason. Raises the error of the first
    check that fails although it is not listed. Raises AssertionError if a listed check passes.
    """
    differed = {}
    for each in (maker, maker.turned()):
        for check in checks(concept):
            reason = difference(maker, check)
            if reason is None:
                check(each)
                continue
            try:
                check(each)
            except Exception:
                differed[name(check)] = reason
            else:
                raise AssertionError(f"{name(check)} passes, but the {maker.transport} path says it differs: {reason}")
    return differed
