"""Making communicators with a topology."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index as as_index

from .. import constants
from ..constants import ERR_ARG, ERR_DIMS, ERR_RANK, UNDEFINED
from ..messages.pickling import CODEC
from . import creation
from .communicator_record import Communicator
from .topology_records import Cartesian, Distributed, General

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def member(communicator: Any, rank: int) -> int:
    """Returns a rank of the communicator, as an int whatever integer was given."""
    rank = as_index(rank)
    if not 0 <= rank < communicator.size:
        raise communicator.fail(ERR_RANK, f"no rank {rank} among the {communicator.size} of {communicator.title}")
    return rank


def _members(communicator: Any, ranks: Sequence[int] | None) -> list[int]:
    """Returns ranks of the communicator. None means no rank; an array is not asked for its truth value."""
    return [] if ranks is None else [member(communicator, rank) for rank in ranks]


def checked(values: Sequence[int], expected: int) -> list[int]:
    """Returns so many integers."""
    found = list(map(as_index, values))
    if len(found) != expected:
        raise ValueError(f"expecting {expected} items, got {len(found)}")
    return found


def with_topology(record: Communicator | None, topology: Any) -> Communicator | None:
    """Gives a communicator a topology, and returns it; None where this rank is in no communicator."""
    if record is not None:
        record.topology = topology
    return record


def _first(communicator: Any, count: int) -> Communicator | None:
    """Returns a communicator of the first `count` members."""
    return creation.among(communicator, range(count))


def create_cart(communicator: Any, dims: Sequence[int], periods: Any) -> Communicator | None:
    """Returns a communicator whose first members form a grid; None at the others."""
    extents = [as_index(extent) for extent in dims]
    rings = [bool(periods)] * len(extents) if periods is None or isinstance(periods, bool) else list(periods)
    grid = Cartesian(extents, [bool(each) for each in checked(rings, len(extents))])
    return with_topology(_first(communicator, _grid_size(communicator, extents)), grid)


def sub_grid(communicator: Any, grid: Cartesian, remain: tuple[int, ...]) -> Communicator | None:
    """Returns a communicator of the part of a grid that this rank is in when only some dimensions remain."""
    part = grid.part(remain)
    return with_topology(creation.among(communicator, part.around(communicator.rank)), part.grid)


def _grid_size(communicator: Any, extents: list[int]) -> int:
    size = prod(extents)
    if any(extent < 1 for extent in extents) or size > communicator.size:
        raise communicator.fail(ERR_DIMS, f"a grid of {extents} does not fit {communicator.size} ranks")
    return size


def _graph_index(index: Sequence[int], edges: int) -> list[int]:
    """The first entry of an index may be 0, as in a list of offsets."""
    found = [as_index(each) for each in index]
    return found[1:] if found and found[0] == 0 and len(found) > 1 and found[-1] == edges else found


def create_graph(communicator: Any, index: Sequence[int], edges: Sequence[int]) -> Communicator | None:
    """Returns a communicator whose first members form a graph; None at the others."""
    targets = [as_index(each) for each in edges]
    graph = General(_graph_index(index, len(targets)), targets)
    nodes = len(graph.index)
    if nodes > communicator.size or any(not 0 <= edge < nodes for edge in targets):
        raise communicator.fail(ERR_ARG, f"a graph of {nodes} nodes does not fit {communicator.size} ranks")
    return with_topology(_first(communicator, nodes), graph)


def _weights(weights: Any, count: int) -> list[int] | None:
    if weights is None or weights is constants.UNWEIGHTED:
        return None
    if weights is constants.WEIGHTS_EMPTY:
        if count:
            raise ValueError("empty weights but nonzero degree")
        return []
    return checked(weights, count)


def create_adjacent(
    communicator: Any, sources: Any, destinations: Any, sourceweights: Any, destweights: Any
) -> Communicator | None:
    """Returns a communicator of a graph of which each member gives its edges, in and out."""
    incoming = _members(communicator, sources)
    outgoing = _members(communicator, destinations)
    before, after = _weights(sourceweights, len(incoming)), _weights(destweights, len(outgoing))
    weighted = before is not None or after is not None
    weights = (before or [1] * len(incoming), after or [1] * len(outgoing)) if weighted else None
    record = _first(communicator, communicator.size)
    return with_topology(record, Distributed(incoming, outgoing, weights))


def create_distributed(
    communicator: Any, sources: Sequence[int], degrees: Any, destinations: Sequence[int], weights: Any
) -> Communicator | None:
    """Returns a communicator of a graph of which each member gives any edges, of other members too."""
    starts = _members(communicator, sources)
    counts = [degrees] * len(starts) if isinstance(degrees, int) else checked(degrees, len(starts))
    ends = _members(communicator, checked(destinations, sum(counts)))
    given = _weights(weights, len(ends))
    froms = [start for start, count in zip(starts, counts, strict=True) for _ in range(count)]
    edges = list(zip(froms, ends, given or [1] * len(ends), strict=True))
    received = communicator.objects.allgather(CODEC, (edges, given is not None))
    every = [edge for theirs, _ in received for edge in theirs]
    mine = communicator.rank
    incoming = [(start, weight) for start, end, weight in every if end == mine]
    outgoing = [(end, weight) for start, end, weight in every if start == mine]
    weighted = ([weight for _, weight in incoming], [weight for _, weight in outgoing])
    has_weights = any(each for _, each in received)
    graph = Distributed(
        [rank for rank, _ in incoming], [rank for rank, _ in outgoing], weighted if has_weights else None
    )
    return with_topology(_first(communicator, communicator.size), graph)


def cart_map(communicator: Any, dims: Sequence[int]) -> int:
    """Returns the rank that this one would have in a grid; UNDEFINED: none."""
    size = _grid_size(communicator, [as_index(extent) for extent in dims])
    return communicator.rank if communicator.rank < size else UNDEFINED


def graph_map(communicator: Any, index: Sequence[int]) -> int:
    """Returns the rank that this one would have in a graph; UNDEFINED: none."""
    nodes = len(_graph_index(index, index[-1] if len(index) else 0))
    return communicator.rank if communicator.rank < nodes else UNDEFINED
