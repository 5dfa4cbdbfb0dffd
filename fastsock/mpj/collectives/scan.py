"""Scan: each rank gets the vectors of all ranks up to its own combined, in their order."""

from __future__ import annotations

from . import prefixes, primitive
from .entry_points import entry_points
from .primitive import Primitive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .exchange import Exchange
    from .protocols import Combine, Steps, View

PRIMITIVE = Primitive("scan")


def steps(
    exchange: Exchange, send: View | None, receive: View, combine: Combine, algorithm: str | None = None
) -> Steps:
    """The steps that combine the `send` of ranks 0 to i in the `receive` of rank i. None: `receive` is sent."""
    function = PRIMITIVE.choose(exchange, len(receive), algorithm, combine)
    return function(exchange, send, receive, combine)  # type: ignore[no-any-return]


run, start = entry_points(steps)


def completed(exchange: Exchange, send: View | None, receive: View, combine: Combine, before: View | None) -> None:
    """Put one's own contribution behind those of the ranks before."""
    if send is not None:
        receive[:] = send
    if before is not None:
        combine(before, receive)


@PRIMITIVE.algorithm()
def flat_tree(exchange: Exchange, send: View | None, receive: View, combine: Combine) -> Steps:
    """Each rank gives to all above at the same time (F-MPJ, MPJ Express)."""
    own = receive if send is None else send
    before = yield from prefixes.flat(exchange, own, combine)
    completed(exchange, send, receive, combine, before)


@PRIMITIVE.algorithm()
def flat_tree_blocking(exchange: Exchange, send: View | None, receive: View, combine: Combine) -> Steps:
    """Each rank waits for the one below, and gives the one above its result (MPJ/Ibis)."""
    before = yield from prefixes.from_below(exchange, len(receive))
    completed(exchange, send, receive, combine, before)
    if exchange.rank < exchange.size - 1:
        yield [exchange.send(receive, exchange.rank + 1)]


@PRIMITIVE.algorithm()
def recursive_doubling(exchange: Exchange, send: View | None, receive: View, combine: Combine) -> Steps:
    """Partial results of runs of ranks. The runs double in each round."""
    own = receive if send is None else send
    before = yield from prefixes.doubling(exchange, own, combine)
    completed(exchange, send, receive, combine, before)


@PRIMITIVE.algorithm(primitive.team)
def shared_memory(exchange: Exchange, send: View | None, receive: View, combine: Combine) -> Steps:
    """Through the memory that all ranks share."""
    exchange.team.scan(send, receive, *combine.kernel)
    return ()


@PRIMITIVE.algorithm(primitive.hierarchy_in_order)
def two_level(exchange: Exchange, send: View | None, receive: View, combine: Combine) -> Steps:
    """Inside each host, between the hosts' last ranks, inside each host again."""
    own = receive if send is None else send
    before = yield from prefixes.two_level(exchange, own, combine)
    completed(exchange, send, receive, combine, before)
