"""The common part of the neighbourhood collectives: all but the choice of the blocks to send."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .blocks import AnyBlocks
from .primitive import Primitive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Concatenate, TypeVar

    from .exchange import Exchange
    from .protocols import Data, Request, Steps

    Sent = TypeVar("Sent")
    Function = Callable[Concatenate[Exchange, Sent, AnyBlocks, Sequence[int], Sequence[int], ...], Steps]


def primitive(name: str, block: Callable[[Sent, int], Data]) -> tuple[Primitive, Function[Sent]]:
    """A primitive among neighbours, and its steps; `block` gives the part for the i-th destination."""
    made = Primitive(name)

    @made.algorithm()
    def flat_tree(
        exchange: Exchange,
        send: Sent,
        receive: AnyBlocks,
        sources: Sequence[int],
        destinations: Sequence[int],
        cartesian: bool,
    ) -> Steps:
        """All at the same time."""
        requests = receives(exchange, receive, sources)
        requests += [exchange.send(block(send, i), destinations[i]) for i in order(destinations, cartesian)]
        yield requests

    def steps(
        exchange: Exchange,
        send: Sent,
        receive: AnyBlocks,
        sources: Sequence[int],
        destinations: Sequence[int],
        cartesian: bool = False,
        algorithm: str | None = None,
    ) -> Steps:
        """The steps that bring what each i-th source sends here into block i of `receive`; negative neighbours are
        none."""
        function = made.choose(exchange, 0, algorithm)
        return function(exchange, send, receive, sources, destinations, cartesian)  # type: ignore[no-any-return]

    return made, steps


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
