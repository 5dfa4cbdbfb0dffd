"""Allgather of blocks of any sizes. Every rank knows them."""

from __future__ import annotations

from . import allgather, primitive, shared
from .blocks import AnyBlocks
from .entry_points import entry_points
from .primitive import Primitive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .exchange import Exchange
    from .protocols import Steps, View

PRIMITIVE = Primitive("allgatherv")


def steps(exchange: Exchange, send: View | None, receive: AnyBlocks, algorithm: str | None = None) -> Steps:
    """The steps that bring the `send` of rank i into block i of every `receive`; None: one's own is there already."""
    nbytes = receive.nbytes(0, exchange.size)
    return PRIMITIVE.choose(exchange, nbytes, algorithm)(exchange, send, receive)  # type: ignore[no-any-return]


run, start = entry_points(steps)

# all of allgather's move blocks that need not have one size
PRIMITIVE.offer("gather_broadcast", allgather.gather_broadcast)
PRIMITIVE.offer("bucket", allgather.bucket)
PRIMITIVE.offer("double_ring", allgather.double_ring)
PRIMITIVE.offer("bidirectional_exchange", allgather.bidirectional_exchange)
PRIMITIVE.offer("flat_tree", allgather.flat_tree)
PRIMITIVE.offer("two_level", allgather.two_level, primitive.hierarchy)


@PRIMITIVE.algorithm(primitive.team)
def shared_memory(exchange: Exchange, send: View | None, receive: AnyBlocks) -> Steps:
    """Through the memory that all ranks share."""
    shared.write(exchange, receive, lambda *placed: exchange.team.allgather(send, *placed))
    return ()
