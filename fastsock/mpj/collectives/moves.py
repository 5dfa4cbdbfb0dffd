"""Steps along a tree that algorithms of several primitives share."""

from __future__ import annotations

from .blocks import AnyBlocks
from .trees import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .exchange import Exchange
    from .protocols import Data, Steps


def spread(exchange: Exchange, data: Data, tree: Tree) -> Steps:
    """Receive from above, then send to all below at the same time."""
    if tree.parent >= 0:
        yield [exchange.receive(data, tree.parent)]
    if tree.children:
        yield [exchange.send(data, child.rank) for child in tree.children]


def spread_blocking(exchange: Exchange, data: Data, tree: Tree) -> Steps:
    """Receive from above, then send to those below one after the other."""
    if tree.parent >= 0:
        yield [exchange.receive(data, tree.parent)]
    for child in tree.children:
        yield [exchange.send(data, child.rank)]


def scatter(exchange: Exchange, data: AnyBlocks, tree: Tree) -> Steps:
    """Receive the blocks of one's subtree, all of which have room, from above; pass on those of the ones below."""
    if tree.parent >= 0:
        yield [exchange.receive(data.range(tree.first, tree.end), tree.parent)]
    if tree.children:
        yield [exchange.send(data.range(child.first, child.end), child.rank) for child in tree.children]


def gather(exchange: Exchange, data: AnyBlocks, tree: Tree) -> Steps:
    """The same upwards: receive the blocks of those below, pass on one's subtree's."""
    if tree.children:
        yield [exchange.receive(data.range(child.first, child.end), child.rank) for child in tree.children]
    if tree.parent >= 0:
        yield [exchange.send(data.range(tree.first, tree.end), tree.parent)]
