"""Whether a message is surely small: an answer much cheaper than the size of it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PLAIN = frozenset((int, float, bool, type(None), complex))
_MOST_ITEMS = 1000
_MOST_BYTES = 1 << 18


def is_small(message: Any) -> bool:
    """Whether it holds few plain values. Anything that this cannot judge quickly is not small."""
    items, length = 0, 0
    left = [message]
    while left:
        value = left.pop()
        kind = type(value)
        if kind in _PLAIN:
            continue
        if kind is str or kind is bytes:
            length += len(value)
        elif kind is dict:
            items += len(value)
            if items > _MOST_ITEMS:
                return False
            left += value
            left += value.values()
        elif kind is list or kind is tuple or kind is set or kind is frozenset:
            items += len(value)
            if items > _MOST_ITEMS:
                return False
            left += value
        else:
            return False
        if length > _MOST_BYTES:
            return False
    return True
