"""Blocks as the shared-memory collectives take them: one buffer, and each block's size and place in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .blocks import AnyBlocks, Placed
from .exchange import Exchange


def read(exchange: Exchange, blocks: AnyBlocks) -> Placed:
    """Blocks to send: as they are, or copied side by side where each has memory of its own."""
    placed = blocks.placed()
    if placed is None:
        copy = blocks.fresh(exchange, 0, len(blocks))
        for rank in range(len(blocks)):
            copy[rank][:] = blocks[rank]
        placed = copy.placed()
    return placed


@contextmanager
def written(exchange: Exchange, blocks: AnyBlocks) -> Iterator[Placed]:
    """Blocks to receive into: as they are, or side by side and copied to their places at the end."""
    placed = blocks.placed()
    if placed is not None:
        yield placed
        return
    copy = blocks.fresh(exchange, 0, len(blocks))
    for rank in range(len(blocks)):
        copy[rank][:] = blocks[rank]
    yield copy.placed()
    for rank in range(len(blocks)):
        blocks[rank][:] = copy[rank]
