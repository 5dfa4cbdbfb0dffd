"""Blocks as the shared-memory collectives take them: one buffer, and each block's size and place in it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .blocks import AnyBlocks, Placed
    from .exchange import Exchange
    from .protocols import View


def read(exchange: Exchange, blocks: AnyBlocks) -> Placed:
    """Blocks to send: as they are, or copied side by side where each has memory of its own."""
    placed = blocks.placed()
    if placed is None:
        copy = blocks.fresh(exchange, 0, len(blocks))
        for rank in range(len(blocks)):
            copy[rank][:] = blocks[rank]
        placed = copy.placed()
    return placed


def write(exchange: Exchange, blocks: AnyBlocks, call: Callable[[View, list[int], list[int]], None]) -> None:
    """Call with blocks to receive into: as they are, or copied side by side, and to their places afterwards."""
    placed = blocks.placed()
    if placed is not None:
        call(*placed)
        return
    copy = blocks.fresh(exchange, 0, len(blocks))
    for rank in range(len(blocks)):
        copy[rank][:] = blocks[rank]
    call(*copy.placed())
    for rank in range(len(blocks)):
        blocks[rank][:] = copy[rank]
