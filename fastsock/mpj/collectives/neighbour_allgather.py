"""Neighbourhood allgather(v): each rank gives one block to all its destinations, and gets one from each source."""

from __future__ import annotations

from collections.abc import Sequence

from . import neighbourhood
from .blocks import AnyBlocks
from .forms import forms
from .primitive import Primitive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .exchange import Exchange
    from .protocols import Steps, View

PRIMITIVE = Primitive("neighbour_allgather")


def steps(
    exchange: Exchange,
    send: View,
    receive: AnyBlocks,
    sources: Sequence[int],
    destinations: Sequence[int],
    cartesian: bool = False,
    algorithm: str | None = None,
) -> Steps:
    """The steps that bring the `send` of the i-th source into block i of `receive`; negative neighbours are none."""
    function = PRIMITIVE.choose(exchange, 0, algorithm)
    return function(exchange, send, receive, sources, destinations, cartesian)  # type: ignore[no-any-return]


run, start = forms(steps)


@PRIMITIVE.algorithm()
def flat_tree(
    exchange: Exchange,
    send: View,
    receive: AnyBlocks,
    sources: Sequence[int],
    destinations: Sequence[int],
    cartesian: bool,
) -> Steps:
    """All at the same time."""
    requests = neighbourhood.receives(exchange, receive, sources)
    requests += [exchange.send(send, destinations[i]) for i in neighbourhood.order(destinations, cartesian)]
    yield requests
