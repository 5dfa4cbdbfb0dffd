"""Communicators with a topology."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index as as_index

from .. import constants
from ..collectives import object_collectives
from ..constants import CART, DIST_GRAPH, ERR_ARG, ERR_DIMS, ERR_RANK, ERR_TOPOLOGY, GRAPH, UNDEFINED
from ..handle import public
from ..messages.pickling import CODEC
from . import creation
from .comm import Comm
from .communicator_record import Communicator
from .neighbourhood import Neighbourhood
from .topology_records import Cartesian, Distributed, General, balanced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@public
class Topocomm(Neighbourhood):
    """Topology intracommunicator."""

    __slots__ = ()

    def __new__(cls, comm: Comm | None = None) -> Any:
        """Returns another handle of a communicator with a topology; a null handle without an argument."""
        if comm is not None and comm and isinstance(comm, Comm) and not cls._suits(comm.Get_topology()):
            raise TypeError(f"expecting a communicator with a topology, as a {cls.__name__} is")
        return super().__new__(cls, comm)

    @classmethod
    def _suits(cls, kind: int) -> bool:
        return kind != UNDEFINED

    @property
    def degrees(self) -> tuple[int, int]:
        """Number of incoming and outgoing neighbors."""
        sources, destinations = self.inoutedges
        return len(sources), len(destinations)

    @property
    def indegree(self) -> int:
        """Number of incoming neighbors."""
        return self.degrees[0]

    @property
    def outdegree(self) -> int:
        """Number of outgoing neighbors."""
        return self.degrees[1]

    @property
    def inoutedges(self) -> tuple[list[int], list[int]]:
        """Incoming and outgoing neighbors."""
        communicator = self.ob
        sources, destinations = communicator.topology.neighbours(communicator.rank)
        return list(sources), list(destinations)

    @property
    def inedges(self) -> list[int]:
        """Incoming neighbors."""
        return self.inoutedges[0]

    @property
    def outedges(self) -> list[int]:
        """Outgoing neighbors."""
        return self.inoutedges[1]


def _member(communicator: Any, rank: int) -> int:
    if not 0 <= rank < communicator.size:
        raise communicator.fail(ERR_RANK, f"no rank {rank} among the {communicator.size} of {communicator.title}")
    return rank


@public
class Cartcomm(Topocomm):
    """Cartesian topology intracommunicator."""

    __slots__ = ()

    @classmethod
    def _suits(cls, kind: int) -> bool:
        return kind == CART

    def _grid(self) -> Cartesian:
        grid = self.ob.topology
        if not isinstance(grid, Cartesian):
            raise self.ob.fail(ERR_TOPOLOGY, f"{self.ob.title} has no cartesian topology")
        return grid

    def Get_dim(self) -> int:
        """Return number of dimensions."""
        return len(self._grid().dims)

    @property
    def dim(self) -> int:
        """Number of dimensions."""
        return self.Get_dim()

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.Get_dim()

    def Get_topo(self) -> tuple[list[int], list[int], list[int]]:
        """Return information on the cartesian topology."""
        grid = self._grid()
        return list(grid.dims), [int(period) for period in grid.periods], grid.coordinates(self.ob.rank)

    @property
    def topo(self) -> tuple[list[int], list[int], list[int]]:
        """Topology information."""
        return self.Get_topo()

    @property
    def dims(self) -> list[int]:
        """Dimensions."""
        return self.Get_topo()[0]

    @property
    def periods(self) -> list[int]:
        """Periodicity."""
        return self.Get_topo()[1]

    @property
    def coords(self) -> list[int]:
        """Coordinates."""
        return self.Get_topo()[2]

    def Get_cart_rank(self, coords: Sequence[int]) -> int:
        """Translate logical coordinates to ranks."""
        grid = self._grid()
        place = _checked(coords, len(grid.dims))
        rank = grid.rank(place)
        if rank < 0:
            raise self.ob.fail(ERR_ARG, f"coordinates {place} lie outside of the dimensions {grid.dims}")
        return rank

    def Get_coords(self, rank: int) -> list[int]:
        """Translate ranks to logical coordinates."""
        return self._grid().coordinates(_member(self.ob, rank))

    def Shift(self, direction: int, disp: int) -> tuple[int, int]:
        """Return a process ranks for data shifting with `Sendrecv`."""
        grid = self._grid()
        if not 0 <= direction < len(grid.dims):
            raise self.ob.fail(ERR_DIMS, f"no direction {direction} among {len(grid.dims)}")
        return grid.shift(self.ob.rank, direction, disp)

    def Sub(self, remain_dims: Sequence[bool]) -> Any:
        """Return a lower-dimensional Cartesian topology."""
        grid = self._grid()
        communicator = self.ob
        remain = [bool(each) for each in _checked(remain_dims, len(grid.dims))]
        place = grid.coordinates(communicator.rank)
        gone = Cartesian([n for n, stays in zip(grid.dims, remain, strict=True) if not stays], [])
        left = Cartesian([n for n, stays in zip(grid.dims, remain, strict=True) if stays], [])
        gone.periods = [False] * len(gone.dims)
        left.periods = [period for period, stays in zip(grid.periods, remain, strict=True) if stays]
        color = gone.rank([at for at, stays in zip(place, remain, strict=True) if not stays])
        key = left.rank([at for at, stays in zip(place, remain, strict=True) if stays])
        record = creation.split(communicator, color, key)
        return _with_topology(record, left)


@public
class Graphcomm(Topocomm):
    """General graph topology intracommunicator."""

    __slots__ = ()

    @classmethod
    def _suits(cls, kind: int) -> bool:
        return kind == GRAPH

    def _graph(self) -> General:
        graph = self.ob.topology
        if not isinstance(graph, General):
            raise self.ob.fail(ERR_TOPOLOGY, f"{self.ob.title} has no graph topology")
        return graph

    def Get_dims(self) -> tuple[int, int]:
        """Return the number of nodes and edges."""
        graph = self._graph()
        return len(graph.index), len(graph.edges)

    @property
    def dims(self) -> tuple[int, int]:
        """Number of nodes and edges."""
        return self.Get_dims()

    @property
    def nnodes(self) -> int:
        """Number of nodes."""
        return self.Get_dims()[0]

    @property
    def nedges(self) -> int:
        """Number of edges."""
        return self.Get_dims()[1]

    def Get_topo(self) -> tuple[list[int], list[int]]:
        """Return index and edges."""
        graph = self._graph()
        return list(graph.index), list(graph.edges)

    @property
    def topo(self) -> tuple[list[int], list[int]]:
        """Topology information."""
        return self.Get_topo()

    @property
    def index(self) -> list[int]:
        """Index."""
        return self.Get_topo()[0]

    @property
    def edges(self) -> list[int]:
        """Edges."""
        return self.Get_topo()[1]

    def Get_neighbors_count(self, rank: int) -> int:
        """Return number of neighbors of a process."""
        return len(self.Get_neighbors(rank))

    @property
    def nneighbors(self) -> int:
        """Number of neighbors."""
        return self.Get_neighbors_count(self.Get_rank())

    def Get_neighbors(self, rank: int) -> list[int]:
        """Return list of neighbors of a process."""
        return self._graph().of(_member(self.ob, rank))

    @property
    def neighbors(self) -> list[int]:
        """Neighbors."""
        return self.Get_neighbors(self.Get_rank())


@public
class Distgraphcomm(Topocomm):
    """Distributed graph topology intracommunicator."""

    __slots__ = ()

    @classmethod
    def _suits(cls, kind: int) -> bool:
        return kind == DIST_GRAPH

    def _graph(self) -> Distributed:
        graph = self.ob.topology
        if not isinstance(graph, Distributed):
            raise self.ob.fail(ERR_TOPOLOGY, f"{self.ob.title} has no distributed graph topology")
        return graph

    def Get_dist_neighbors_count(self) -> tuple[int, int, bool]:
        """Return adjacency information for a distributed graph topology."""
        graph = self._graph()
        return len(graph.sources), len(graph.destinations), graph.weights is not None

    def Get_dist_neighbors(self) -> tuple[list[int], list[int], tuple[list[int], list[int]] | None]:
        """Return adjacency information for a distributed graph topology."""
        graph = self._graph()
        weights = None if graph.weights is None else (list(graph.weights[0]), list(graph.weights[1]))
        return list(graph.sources), list(graph.destinations), weights


def Compute_dims(nnodes: int, dims: int | Sequence[int]) -> list[int]:
    """Return a balanced distribution of processes per coordinate direction."""
    return balanced(nnodes, [0] * dims if isinstance(dims, int) else dims)


# Making them


def _checked(values: Sequence[int], expected: int) -> list[int]:
    found = [as_index(value) for value in values]
    if len(found) != expected:
        raise ValueError(f"expecting {expected} items, got {len(found)}")
    return found


def _with_topology(record: Communicator | None, topology: Any) -> Any:
    if record is None:
        return Comm()
    record.topology = topology
    return topology.handle_class().of(record)


def _first(communicator: Any, count: int) -> Communicator | None:
    """Returns a communicator of the first `count` members."""
    return creation.among(communicator, range(count))


def create_cart(communicator: Any, dims: Sequence[int], periods: Any) -> Any:
    """Returns a communicator whose first members form a grid; the null handle at the others."""
    extents = [as_index(extent) for extent in dims]
    rings = [bool(periods)] * len(extents) if periods is None or isinstance(periods, bool) else list(periods)
    grid = Cartesian(extents, [bool(each) for each in _checked(rings, len(extents))])
    return _with_topology(_first(communicator, _grid_size(communicator, extents)), grid)


def _grid_size(communicator: Any, extents: list[int]) -> int:
    size = prod(extents)
    if any(extent < 1 for extent in extents) or size > communicator.size:
        raise communicator.fail(ERR_DIMS, f"a grid of {extents} does not fit {communicator.size} ranks")
    return size


def _graph_index(index: Sequence[int], edges: int) -> list[int]:
    """The first entry of an index may be 0, as in a list of offsets."""
    found = [as_index(each) for each in index]
    return found[1:] if found and found[0] == 0 and len(found) > 1 and found[-1] == edges else found


def create_graph(communicator: Any, index: Sequence[int], edges: Sequence[int]) -> Any:
    """Returns a communicator whose first members form a graph; the null handle at the others."""
    targets = [as_index(each) for each in edges]
    graph = General(_graph_index(index, len(targets)), targets)
    nodes = len(graph.index)
    if nodes > communicator.size or any(not 0 <= edge < nodes for edge in targets):
        raise communicator.fail(ERR_ARG, f"a graph of {nodes} nodes does not fit {communicator.size} ranks")
    return _with_topology(_first(communicator, nodes), graph)


def _weights(weights: Any, count: int) -> list[int] | None:
    if weights is None or weights is constants.UNWEIGHTED:
        return None
    if weights is constants.WEIGHTS_EMPTY:
        if count:
            raise ValueError("empty weights but nonzero degree")
        return []
    return _checked(weights, count)


def create_adjacent(communicator: Any, sources: Any, destinations: Any, sourceweights: Any, destweights: Any) -> Any:
    """Returns a communicator of a graph of which each member gives its edges, in and out."""
    incoming = [_member(communicator, as_index(each)) for each in sources or ()]
    outgoing = [_member(communicator, as_index(each)) for each in destinations or ()]
    before, after = _weights(sourceweights, len(incoming)), _weights(destweights, len(outgoing))
    weighted = before is not None or after is not None
    weights = (before or [1] * len(incoming), after or [1] * len(outgoing)) if weighted else None
    record = _first(communicator, communicator.size)
    return _with_topology(record, Distributed(incoming, outgoing, weights))


def create_distributed(
    communicator: Any, sources: Sequence[int], degrees: Any, destinations: Sequence[int], weights: Any
) -> Any:
    """Returns a communicator of a graph of which each member gives any edges, of other members too."""
    starts = [_member(communicator, as_index(each)) for each in sources]
    counts = [degrees] * len(starts) if isinstance(degrees, int) else _checked(degrees, len(starts))
    ends = [_member(communicator, as_index(each)) for each in _checked(destinations, sum(counts))]
    given = _weights(weights, len(ends))
    froms = [start for start, count in zip(starts, counts, strict=True) for _ in range(count)]
    edges = list(zip(froms, ends, given or [1] * len(ends), strict=True))
    told = object_collectives.allgather(communicator, CODEC, (edges, given is not None))
    every = [edge for theirs, _ in told for edge in theirs]
    mine = communicator.rank
    incoming = [(start, weight) for start, end, weight in every if end == mine]
    outgoing = [(end, weight) for start, end, weight in every if start == mine]
    weighted = ([weight for _, weight in incoming], [weight for _, weight in outgoing])
    has_weights = any(each for _, each in told)
    graph = Distributed(
        [rank for rank, _ in incoming], [rank for rank, _ in outgoing], weighted if has_weights else None
    )
    return _with_topology(_first(communicator, communicator.size), graph)


def cart_map(communicator: Any, dims: Sequence[int]) -> int:
    """Returns the rank that this one would have in a grid; UNDEFINED: none."""
    size = _grid_size(communicator, [as_index(extent) for extent in dims])
    return communicator.rank if communicator.rank < size else UNDEFINED


def graph_map(communicator: Any, index: Sequence[int]) -> int:
    """Returns the rank that this one would have in a graph; UNDEFINED: none."""
    nodes = len(_graph_index(index, index[-1] if len(index) else 0))
    return communicator.rank if communicator.rank < nodes else UNDEFINED
