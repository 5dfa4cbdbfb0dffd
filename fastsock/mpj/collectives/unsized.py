"""Algorithms for messages whose length only their sender knows: each gives back what arrived at this rank."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from ..messages.pickling import CODEC, Codec
from . import trees
from .exchange import drive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from .exchange import Exchange
    from .protocols import Request

    Found = TypeVar("Found")
    Giving = Generator[Sequence[Request], None, Found]

DIRECT = 8
"""Up to so many ranks all get everything by a message from each to each; among more it is gathered, then spread."""


def run(exchange: Exchange, steps: Giving[Found]) -> Found:
    """Run an algorithm to its end; what it gives back."""
    found: list[Found] = []
    drive(exchange, _kept(steps, found))
    return found[0]


def _kept(steps: Giving[Found], found: list[Found]) -> Giving[None]:
    found.append((yield from steps))


def spread(exchange: Exchange, data: Any, root: int) -> Giving[Any]:
    """The root's message, along a binomial tree."""
    tree = trees.binomial_reversed(exchange.rank, exchange.size, root)
    if tree.parent >= 0:
        request = exchange.receive_new(tree.parent)
        yield [request]
        data = request.payload
    if tree.children:
        yield [exchange.send(data, child.rank) for child in tree.children]
    return data


def collect(exchange: Exchange, data: Any, root: int) -> Giving[list[Any] | None]:
    """Every rank's message, at the root."""
    if exchange.rank != root:
        yield [exchange.send(data, root)]
        return None
    coming = {rank: exchange.receive_new(rank) for rank in range(exchange.size) if rank != root}
    yield list(coming.values())
    return [data if rank == root else coming[rank].payload for rank in range(exchange.size)]


def hand_out(exchange: Exchange, items: Sequence[Any], root: int) -> Giving[Any]:
    """The root's item for this rank."""
    if exchange.rank != root:
        request = exchange.receive_new(root)
        yield [request]
        return request.payload
    yield [exchange.send(items[rank], rank) for rank in range(exchange.size) if rank != root]
    return items[root]


def swap(exchange: Exchange, items: Sequence[Any], own: int | None) -> Giving[list[Any]]:
    """What each rank sent here; item i goes to rank i, the item for oneself stays."""
    others = [rank for rank in range(exchange.size) if rank != own]
    coming = {rank: exchange.receive_new(rank) for rank in others}
    yield [*coming.values(), *[exchange.send(items[rank], rank) for rank in others]]
    return [items[rank] if rank == own else coming[rank].payload for rank in range(exchange.size)]


def everyone(exchange: Exchange, data: Any) -> Giving[list[Any]]:
    """Every rank's message, at every rank."""
    if exchange.size <= DIRECT:
        return (yield from swap(exchange, [data] * exchange.size, exchange.rank))
    collected = yield from collect(exchange, data, 0)
    packed = None if collected is None else CODEC.message([bytes(message) for message in collected])
    found: list[Any] = CODEC.load((yield from spread(exchange, packed, 0)))
    return found


def climb(exchange: Exchange, codec: Codec, obj: Any, op: Callable[[Any, Any], Any]) -> Giving[Any]:
    """The reduction of all objects in the order of ranks, along a binomial tree; the whole of it at rank 0."""
    tree = trees.binomial_reversed(exchange.rank, exchange.size, 0)
    result = codec.load(codec.message(obj))  # operations may change their operands
    for child in reversed(tree.children):
        request = exchange.receive_new(child.rank)
        yield [request]
        result = op(result, codec.load(request.payload))
    if tree.parent >= 0:
        yield [exchange.send(codec.pieces(result), tree.parent)]
    return result


def among_neighbours(
    exchange: Exchange, items: Sequence[Any], sources: Sequence[int], destinations: Sequence[int]
) -> Giving[list[Any]]:
    """What each source sent here, None where there is none (a negative rank); items go to the destinations in order."""
    coming = [exchange.receive_new(rank) if rank >= 0 else None for rank in sources]
    going = [exchange.send(item, rank) for item, rank in zip(items, destinations, strict=True) if rank >= 0]
    yield [*[request for request in coming if request is not None], *going]
    return [None if request is None else request.payload for request in coming]
