"""Messages of several blocks behind a header with their sizes, for ranks that do not know the sizes."""

from __future__ import annotations

from array import array
from itertools import accumulate

from .blocks import AnyBlocks, Blocks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .exchange import Exchange
    from .protocols import View


def message(blocks: AnyBlocks, first: int, end: int) -> list[View]:
    """The blocks of ranks first to end - 1 behind their sizes."""
    sizes = array("q", [blocks.nbytes(rank, rank + 1) for rank in range(first, end)])
    data = blocks.range(first, end)
    return [memoryview(sizes).cast("B"), *(data if isinstance(data, list) else [data])]


def room(exchange: Exchange, blocks: AnyBlocks, first: int, end: int) -> list[View]:
    """Where to receive such a message for blocks whose sizes are known: the header goes nowhere."""
    data = blocks.range(first, end)
    return [exchange.scratch(8 * (end - first)), *(data if isinstance(data, list) else [data])]


def opened(payload: object, first: int, end: int) -> Blocks:
    """The blocks of ranks first to end - 1 in a message that came."""
    data = memoryview(payload).cast("B")  # type: ignore[arg-type]
    header = 8 * (end - first)
    sizes = data[:header].cast("q")
    bounds = [0] * first + list(accumulate(sizes, initial=0))
    if any(size < 0 for size in sizes) or bounds[-1] != len(data) - header:
        raise ValueError(f"a message of {end - first} blocks does not have the sizes that it tells")
    return Blocks(data[header:], bounds, first)
