"""Communicators with a topology."""

from __future__ import annotations

from collections.abc import Sequence

from ..constants import CART, DIST_GRAPH, ERR_ARG, ERR_DIMS, ERR_TOPOLOGY, GRAPH, UNDEFINED
from ..handle import public
from . import creation
from .comm import Comm
from .intracomm import Intracomm
from .neighbourhood import Neighbourhood
from .topology_creation import checked, member, with_topology
from .topology_records import Cartesian, Distributed, General, balanced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@public
class Topocomm(Neighbourhood, Intracomm):
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


@public
class Cartcomm(Topocomm, wraps=Cartesian):
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
        place = checked(coords, len(grid.dims))
        rank = grid.rank(place)
        if rank < 0:
            raise self.ob.fail(ERR_ARG, f"coordinates {place} lie outside of the dimensions {grid.dims}")
        return rank

    def Get_coords(self, rank: int) -> list[int]:
        """Translate ranks to logical coordinates."""
        return self._grid().coordinates(member(self.ob, rank))

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
        remain = [bool(each) for each in checked(remain_dims, len(grid.dims))]
        place = grid.coordinates(communicator.rank)
        gone = Cartesian([n for n, stays in zip(grid.dims, remain, strict=True) if not stays], [])
        left = Cartesian([n for n, stays in zip(grid.dims, remain, strict=True) if stays], [])
        gone.periods = [False] * len(gone.dims)
        left.periods = [period for period, stays in zip(grid.periods, remain, strict=True) if stays]
        color = gone.rank([at for at, stays in zip(place, remain, strict=True) if not stays])
        key = left.rank([at for at, stays in zip(place, remain, strict=True) if stays])
        record = creation.split(communicator, color, key)
        return Comm._wrap(with_topology(record, left))


@public
class Graphcomm(Topocomm, wraps=General):
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
        return self._graph().of(member(self.ob, rank))

    @property
    def neighbors(self) -> list[int]:
        """Neighbors."""
        return self.Get_neighbors(self.Get_rank())


@public
class Distgraphcomm(Topocomm, wraps=Distributed):
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
