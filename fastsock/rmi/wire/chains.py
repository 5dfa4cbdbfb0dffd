"""The chain of a call: the calls on whose behalf it is made, from the first one that holds a serial object on.

A chain is a tuple: a number and a text for each call. The number is that by which the call holds its object, 0 where it
holds none. It travels with calls that are made within other calls, and only where one of these holds a serial object.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

from ...system.originals import originals
from ..errors import LimitExceeded

MOST = 100  # calls of a chain
MOST_TEXT = 200  # characters of each

_numbers = itertools.count(1)


def new_number() -> int:
    """One that no other process gives."""
    return next(_numbers)


def extended(chain: tuple[Any, ...], number: int, text: str) -> tuple[Any, ...]:
    """The chain with one call more. Raises LimitExceeded where too many calls of it hold something."""
    if len(chain) >= 2 * MOST:
        chain = tuple(each for at in range(0, len(chain), 2) if chain[at] for each in chain[at : at + 2])
        if len(chain) >= 2 * MOST:
            raise LimitExceeded(
                f"{text}: {MOST} calls on whose behalf it is made hold serial objects: {described(chain)}"
            )
    return *chain, number, text[:MOST_TEXT]


def is_chain(value: Any) -> bool:
    """Whether what another process sent is a chain."""
    return (
        type(value) is tuple
        and 0 < len(value) <= 2 * MOST
        and not len(value) % 2
        and all(type(number) is int and 0 <= number < 1 << 63 for number in value[::2])
        and all(type(text) is str and len(text) <= MOST_TEXT for text in value[1::2])
    )


def passed(chain: tuple[Any, ...], request: Any) -> tuple[Any, ...]:
    """The chain of calls that a request makes which holds nothing itself."""
    return extended(chain, 0, text_of(request))


def text_of(request: Any) -> str:
    """What is called, and where it runs."""
    known = request.exported
    return f"{known.name}.{known.interface.entries[request.method].name} (process {originals.getpid()})"


def numbers_of(chain: tuple[Any, ...] | None) -> frozenset[int]:
    """By which the calls of a chain hold their objects."""
    return frozenset(chain[::2]) - {0} if chain else frozenset()


def described(chain: tuple[Any, ...]) -> str:
    """For messages: the first call comes first."""
    return " -> ".join(chain[1::2])


def _count_anew() -> None:
    global _numbers
    _numbers = itertools.count(int.from_bytes(originals.urandom(8), "little") >> 2 or 1)


_count_anew()
os.register_at_fork(after_in_child=_count_anew)
