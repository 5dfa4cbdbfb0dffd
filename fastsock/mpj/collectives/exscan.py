"""Exscan: each rank but the first gets the vectors of all ranks before its own combined, in their order."""

from __future__ import annotations

from . import prefixes, primitive
from .entry_points import entry_points
from .primitive import Primitive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .exchange import Exchange
    from .protocols import Combine, Steps, View

PRIMITIVE = Primitive("exscan")


def steps(
    exchange: Exchange, send: View | None, receive: View, combine: Combine, algorithm: str | None = None
) -> Steps:
    """The steps that combine the `send` of ranks 0 to i - 1 in the `receive` of rank i, which stays as it is at rank
    0; None: what is there is sent."""
    function = PRIMITIVE.choose(exchange, len(receive), algorithm, combine)
    return function(exchange, send, receive, combine)  # type: ignore[no-any-return]


run, start = entry_points(steps)


@PRIMITIVE.algorithm()
def flat_tree(exchange: Exchange, send: View | None, receive: View, combine: Combine) -> Steps:
    """Each rank gives to all above at the same time (F-MPJ, MPJ Express)."""
    before = yield from prefixes.flat(exchange, receive if send is None else send, combine)
    if before is not None:
        receive[:] = before


@PRIMITIVE.algorithm()
def flat_tree_blocking(exchange: Exchange, send: View | None, receive: View, combine: Combine) -> Steps:
    """Each rank waits for the one below, and gives the one above its result (MPJ/Ibis)."""
    own = receive if send is None else send
    before = yield from prefixes.from_below(exchange, len(receive))
    if exchange.rank < exchange.size - 1:
        if before is None:
            yield [exchange.send(own, 1)]
        else:
            total = exchange.scratch(len(own))
            total[:] = own
            combine(before, total)
            yield [exchange.send(total, exchange.rank + 1)]
    if before is not None:
        receive[:] = before


@PRIMITIVE.algorithm()
def recursive_doubling(exchange: Exchange, send: View | None, receive: View, combine: Combine) -> Steps:
    """Partial results of runs of ranks. The runs double in each round."""
    before = yield from prefixes.doubling(exchange, receive if send is None else send, combine)
    if before is not None:
        receive[:] = before


@PRIMITIVE.algorithm(primitive.team)
def shared_memory(exchange: Exchange, send: View | None, receive: View, combine: Combine) -> Steps:
    """Through the memory that all ranks share."""
    exchange.team.exscan(send, receive, *combine.kernel)
    return ()


@PRIMITIVE.algorithm(primitive.hierarchy_in_order)
def two_level(exchange: Exchange, send: View | None, receive: View, combine: Combine) -> Steps:
    """Inside each host, between the hosts' last ranks, inside each host again."""
    before = yield from prefixes.two_level(exchange, receive if send is None else send, combine)
    if before is not None:
        receive[:] = before
