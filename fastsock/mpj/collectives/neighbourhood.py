"""What the neighbourhood collectives share."""

from __future__ import annotations

from collections.abc import Sequence

from .blocks import AnyBlocks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .exchange import Exchange
    from .protocols import Request


def receives(exchange: Exchange, receive: AnyBlocks, sources: Sequence[int]) -> list[Request]:
    """A receive of block i from each i-th source."""
    return [exchange.receive(receive.range(i, i + 1), at) for i, at in enumerate(sources) if at >= 0]


def order(destinations: Sequence[int], cartesian: bool) -> list[int]:
    """In which order to send, for neighbours that are one and the same rank: messages match in the order of the
    receives. On a grid what goes down in a dimension comes from above, so the two directions change places."""
    places = range(len(destinations))
    if cartesian:
        return [place ^ 1 for place in places if destinations[place ^ 1] >= 0]
    return [place for place in places if destinations[place] >= 0]
