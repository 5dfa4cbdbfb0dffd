"""Counting the basic elements of what arrived."""

from __future__ import annotations

from itertools import islice

from ..constants import UNDEFINED
from ._memory import TypeRecord


def count_elements(type_: TypeRecord, length: int) -> int:
    """Returns how many basic elements `length` bytes of data are; UNDEFINED where they end inside one."""
    if type_.size == 0:
        return 0
    whole, rest = divmod(length, type_.size)
    count = whole * type_.elements
    if type_.basic is not None and type_.basic.size:
        more, rest = divmod(rest, type_.basic.size)
        return UNDEFINED if rest else count + more
    for basic, _ in type_.basics():
        if rest <= 0:
            break
        rest -= basic.size
        count += 1
    return UNDEFINED if rest < 0 else count


def element_bytes(type_: TypeRecord, count: int) -> int:
    """Returns how many bytes the data of the first `count` basic elements are."""
    if type_.elements == 0:
        return 0
    whole, rest = divmod(count, type_.elements)
    return whole * type_.size + sum(basic.size for basic, _ in islice(type_.basics(), rest))
