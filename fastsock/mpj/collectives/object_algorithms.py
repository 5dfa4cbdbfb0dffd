"""Algorithms for messages whose length only their sender knows. They block: each returns what arrived at this rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..messages.pickling import CODEC, Codec
from . import trees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .exchange import Exchange

DIRECT = 8
"""Up to so many ranks all get everything by a message from each to each; among more it is gathered, then spread."""


def spread(exchange: Exchange, data: Any, root: int) -> Any:
    """The root's message, along a binomial tree."""
    tree = trees.binomial_reversed(exchange.rank, exchange.size, root)
    if tree.parent >= 0:
        data = exchange.take(tree.parent)
    if tree.children:
        exchange.engine.complete([exchange.send(data, child.rank) for child in tree.children])
    return data


def collect(exchange: Exchange, data: Any, root: int) -> list[Any] | None:
    """Every rank's message, at the root."""
    if exchange.rank != root:
        exchange.give(data, root)
        return None
    coming = [None if rank == root else exchange.receive_new(rank) for rank in range(exchange.size)]
    exchange.engine.complete([request for request in coming if request is not None])
    return [data if request is None else request.payload for request in coming]


def hand_out(exchange: Exchange, items: Sequence[Any], root: int) -> Any:
    """The root's item for this rank."""
    if exchange.rank != root:
        return exchange.take(root)
    exchange.engine.complete([exchange.send(items[rank], rank) for rank in range(exchange.size) if rank != root])
    return items[root]


def swap(exchange: Exchange, items: Sequence[Any], own: int | None) -> list[Any]:
    """What each rank sent here; item i goes to rank i, the item for oneself stays."""
    others = [rank for rank in range(exchange.size) if rank != own]
    coming = {rank: exchange.receive_new(rank) for rank in others}
    exchange.engine.complete([*coming.values(), *[exchange.send(items[rank], rank) for rank in others]])
    return [items[rank] if rank == own else coming[rank].payload for rank in range(exchange.size)]


def everyone(exchange: Exchange, data: Any) -> list[Any]:
    """Every rank's message, at every rank."""
    if exchange.size <= DIRECT:
        return swap(exchange, [data] * exchange.size, exchange.rank)
    collected = collect(exchange, data, 0)
    packed = None if collected is None else CODEC.message([bytes(message) for message in collected])
    found: list[Any] = CODEC.load(spread(exchange, packed, 0))
    return found


def climb(exchange: Exchange, codec: Codec, result: Any, op: Callable[[Any, Any], Any]) -> Any:
    """The reduction in the order of ranks of what may be changed, along a binomial tree; the whole of it at rank 0."""
    tree = trees.binomial_reversed(exchange.rank, exchange.size, 0)
    for child in reversed(tree.children):
        result = op(result, codec.load(exchange.take(child.rank)))
    if tree.parent >= 0:
        exchange.give(codec.pieces(result), tree.parent)
    return result


def among_neighbours(
    exchange: Exchange, items: Sequence[Any], sources: Sequence[int], destinations: Sequence[int], order: Sequence[int]
) -> list[Any]:
    """What each source sent here, None where there is none (a negative rank). `order`: which items to send, in turn."""
    coming = [exchange.receive_new(rank) if rank >= 0 else None for rank in sources]
    going = [exchange.send(items[place], destinations[place]) for place in order]
    exchange.engine.complete([*[request for request in coming if request is not None], *going])
    return [None if request is None else request.payload for request in coming]
