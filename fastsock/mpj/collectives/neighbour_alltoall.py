"""Neighbourhood alltoall(v, w): each rank gives each destination a block of its own, and gets one from each source."""

from __future__ import annotations

from collections.abc import Sequence

from . import neighbourhood
from .blocks import AnyBlocks
from .forms import forms
from .primitive import Primitive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .exchange import Exchange
    from .protocols import Steps

PRIMITIVE = Primitive("neighbour_alltoall")


def steps(
    exchange: Exchange,
    send: AnyBlocks,
    receive: AnyBlocks,
    sources: Sequence[int],
    destinations: Sequence[int],
    cartesian: bool = False,
    algorithm: str | None = None,
) -> Steps:
    """The steps that bring each rank's i-th block to its i-th destination; negative neighbours are none."""
    function = PRIMITIVE.choose(exchange, 0, algorithm)
    return function(exchange, send, receive, sources, destinations, cartesian)  # type: ignore[no-any-return]


run, start = forms(steps)


@PRIMITIVE.algorithm()
def flat_tree(
    exchange: Exchange,
    send: AnyBlocks,
    receive: AnyBlocks,
    sources: Sequence[int],
    destinations: Sequence[int],
    cartesian: bool,
) -> Steps:
    """All at the same time."""
    requests = neighbourhood.receives(exchange, receive, sources)
    for i in neighbourhood.order(destinations, cartesian):
        requests.append(exchange.send(send.range(i, i + 1), destinations[i]))
    yield requests
