"""Communicators with a topology: a grid, a graph, or a distributed graph."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index as as_index

from ..constants import CART, DIST_GRAPH, ERR_ARG, ERR_DIMS, ERR_TOPOLOGY, GRAPH, UNDEFINED
from ..handle import public
from .comm import Comm
from .intracomm import Intracomm
from .neighbourhood import Neighbourhood
from .topology_creation import checked, member, sub_grid
from .topology_records import Cartesian, Distributed, General, balanced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@public
class Topocomm(Neighbourhood, Intracomm):
    """A communicator with a topology (MPI 4.1, chapter 8)."""

    __slots__ = ()

    def __new__(cls, comm: Comm | None = None) -> Any:
        """Returns another handle of such a communicator, a null handle without an argument. Raises TypeError."""
        if comm is not None and comm and isinstance(comm, Comm) and not cls._suits(comm.Get_topology()):
            raise TypeError(f"expecting a communicator with a topology, as a {cls.__name__} is")
        return super().__new__(cls, comm)

    @classmethod
    def _suits(cls, kind: int) -> bool:
        return kind != UNDEFINED

    @property
    def degrees(self) -> tuple[int, int]:
        """How many neighbours send to this rank, and to how many it sends."""
        sources, destinations = self.inoutedges
        return len(sources), len(destinations)

    @property
    def indegree(self) -> int:
        """How many neighbours send to this rank."""
        return self.degrees[0]

    @property
    def outdegree(self) -> int:
        """To how many neighbours this rank sends."""
        return self.degrees[1]

    @property
    def inoutedges(self) -> tuple[list[int], list[int]]:
        """The ranks that send to this one, and those that it sends to; PROC_NULL beyond the edge of a grid."""
        communicator = self.ob
        sources, destinations = communicator.topology.neighbours(communicator.rank)
        return list(sources), list(destinations)

    @property
    def inedges(self) -> list[int]:
        """The ranks that send to this one."""
        return self.inoutedges[0]

    @property
    def outedges(self) -> list[int]:
        """The ranks that this one sends to."""
        return self.inoutedges[1]


@public
class Cartcomm(Topocomm, wraps=Cartesian):
    """A communicator whose ranks form a grid. Its calls raise MPI.Exception (ERR_TOPOLOGY) where there is none."""

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
        """Return the number of dimensions."""
        return len(self._grid().dims)

    @property
    def dim(self) -> int:
        """The number of dimensions."""
        return self.Get_dim()

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.Get_dim()

    def Get_topo(self) -> tuple[list[int], list[int], list[int]]:
        """Return (extents, whether each dimension is a ring as 1 or 0, this rank's coordinates)."""
        grid = self._grid()
        return list(grid.dims), [int(period) for period in grid.periods], grid.coordinates(self.ob.rank)

    @property
    def topo(self) -> tuple[list[int], list[int], list[int]]:
        """What `Get_topo` returns."""
        return self.Get_topo()

    @property
    def dims(self) -> list[int]:
        """The extent of each dimension."""
        return self.Get_topo()[0]

    @property
    def periods(self) -> list[int]:
        """Whether each dimension is closed to a ring: 1 or 0."""
        return self.Get_topo()[1]

    @property
    def coords(self) -> list[int]:
        """This rank's coordinates."""
        return self.Get_topo()[2]

    def Get_cart_rank(self, coords: Sequence[int]) -> int:
        """Return the rank at these coordinates; in a dimension that is a ring any integer is one.

        Raises ValueError where there are not as many coordinates as dimensions, and MPI.Exception (ERR_ARG) outside the
        grid.
        """
        grid = self._grid()
        place = checked(coords, len(grid.dims))
        rank = grid.rank(place)
        if rank < 0:
            raise self.ob.fail(ERR_ARG, f"coordinates {place} lie outside of the dimensions {grid.dims}")
        return rank

    def Get_coords(self, rank: int) -> list[int]:
        """Return the coordinates of a rank. Raises MPI.Exception (ERR_RANK) where there is no such rank."""
        return self._grid().coordinates(member(self.ob, rank))

    def Shift(self, direction: int, disp: int) -> tuple[int, int]:
        """Return the ranks that this one receives from and sends to when data move by `disp` along a dimension.

        PROC_NULL beyond the edge of the grid. Raises MPI.Exception (ERR_DIMS) where there is no dimension `direction`.
        """
        grid = self._grid()
        direction, disp = as_index(direction), as_index(disp)
        if not 0 <= direction < len(grid.dims):
            raise self.ob.fail(ERR_DIMS, f"no dimension {direction}: there are {len(grid.dims)}, from 0 on")
        return grid.shift(self.ob.rank, direction, disp)

    def Sub(self, remain_dims: Sequence[bool]) -> Any:
        """Return the communicator of the part of the grid that this rank is in when only some dimensions remain.

        All members call it. Raises ValueError where there are not as many entries as dimensions.
        """
        grid = self._grid()
        return Comm._wrap(sub_grid(self.ob, grid, tuple(checked(remain_dims, len(grid.dims)))))


@public
class Graphcomm(Topocomm, wraps=General):
    """A communicator whose ranks form a graph. Its calls raise MPI.Exception (ERR_TOPOLOGY) where there is none."""

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
        """The number of nodes and of edges."""
        return self.Get_dims()

    @property
    def nnodes(self) -> int:
        """The number of nodes."""
        return self.Get_dims()[0]

    @property
    def nedges(self) -> int:
        """The number of edges."""
        return self.Get_dims()[1]

    def Get_topo(self) -> tuple[list[int], list[int]]:
        """Return `index` and `edges`, as `Intracomm.Create_graph` takes them."""
        graph = self._graph()
        return list(graph.index), list(graph.edges)

    @property
    def topo(self) -> tuple[list[int], list[int]]:
        """What `Get_topo` returns."""
        return self.Get_topo()

    @property
    def index(self) -> list[int]:
        """For each node the number of edges of all nodes up to it."""
        return self.Get_topo()[0]

    @property
    def edges(self) -> list[int]:
        """The neighbours of each node, one node after another."""
        return self.Get_topo()[1]

    def Get_neighbors_count(self, rank: int) -> int:
        """Return the number of a rank's neighbours. Raises MPI.Exception (ERR_RANK)."""
        return len(self.Get_neighbors(rank))

    @property
    def nneighbors(self) -> int:
        """The number of this rank's neighbours."""
        return self.Get_neighbors_count(self.Get_rank())

    def Get_neighbors(self, rank: int) -> list[int]:
        """Return a rank's neighbours. Raises MPI.Exception (ERR_RANK) where there is no such rank."""
        return self._graph().of(member(self.ob, rank))

    @property
    def neighbors(self) -> list[int]:
        """This rank's neighbours."""
        return self.Get_neighbors(self.Get_rank())


@public
class Distgraphcomm(Topocomm, wraps=Distributed):
    """A communicator whose ranks form a graph of which each knows its own edges.

    Its calls raise MPI.Exception (ERR_TOPOLOGY) where there is none.
    """

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
        """Return how many edges lead here, how many lead from here, and whether there are weights."""
        graph = self._graph()
        return len(graph.sources), len(graph.destinations), graph.weights is not None

    def Get_dist_neighbors(self) -> tuple[list[int], list[int], tuple[list[int], list[int]] | None]:
        """Return (sources, destinations, their weights or None)."""
        graph = self._graph()
        weights = None if graph.weights is None else (list(graph.weights[0]), list(graph.weights[1]))
        return list(graph.sources), list(graph.destinations), weights


def Compute_dims(nnodes: int, dims: int | Sequence[int]) -> list[int]:
    """Return the extents of a grid of `nnodes` places, as equal as can be and in falling order.

    `dims`: the number of dimensions, or a list in which 0 stands for an extent to be chosen. Raises MPI.Exception
    (ERR_DIMS) where no grid is possible, or an extent is negative.
    """
    extents: Any = dims if hasattr(dims, "__len__") else [0] * as_index(dims)  # numpy's arrays are no Sequence
    return balanced(as_index(nnodes), extents)
