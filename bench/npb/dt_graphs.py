"""DT's three graphs: which node sends to which (DT/dt.c: buildBH, buildWH, buildSH). Node and rank are one number."""

from __future__ import annotations

from dataclasses import dataclass, field

FAN = 4  # maxInDeg


@dataclass
class Node:
    """Arcs are (number, the other node), in the order in which messages are sent or received."""

    incoming: list[tuple[int, int]] = field(default_factory=list)
    outgoing: list[tuple[int, int]] = field(default_factory=list)


class Graph:
    """Nodes in topological order, so that blocking sends cannot lock."""

    def __init__(self, nodes: int, arcs: list[tuple[int, int]]) -> None:
        self.nodes = [Node() for _ in range(nodes)]
        self.arcs = len(arcs)
        for number, (tail, head) in enumerate(arcs):
            self.nodes[tail].outgoing.append((number, head))
            self.nodes[head].incoming.append((number, tail))

    @property
    def sinks(self) -> list[int]:
        """The nodes that send nothing on."""
        return [number for number, node in enumerate(self.nodes) if not node.outgoing]


def black_hole(sources: int) -> Graph:
    """All sources flow into one sink, four streams into a comparator."""
    nodes, arcs = _tree(sources)
    return Graph(nodes, arcs)


def white_hole(sources: int) -> Graph:
    """One source flows to all sinks: the black hole the other way round, its nodes counted from the other end."""
    nodes, arcs = _tree(sources)
    return Graph(nodes, [(nodes - 1 - head, nodes - 1 - tail) for tail, head in arcs])


def shuffle(sources: int) -> Graph:
    """Layers of equal width: in each, a node hears of two of the layer before, whose numbers differ in one bit."""
    layers = sources.bit_length() - 1  # comparators in all but the last, which are the sinks
    arcs = [
        (layer * sources + tail, (layer + 1) * sources + i)
        for layer in range(layers)
        for i in range(sources)
        for tail in (i & ~(1 << layer), i | 1 << layer)
    ]
    return Graph(sources * (layers + 1), arcs)


def _tree(leaves: int) -> tuple[int, list[tuple[int, int]]]:
    """Arcs from the leaves, which come first, to the root, which is last."""
    arcs = []
    first, width, nodes = 0, leaves, leaves
    while width > FAN:
        above = -(-width // FAN)
        arcs += [(first + i, nodes + i // FAN) for i in range(width)]
        first, width, nodes = nodes, above, nodes + above
    arcs += [(first + i, nodes) for i in range(width)]
    return nodes + 1, arcs
