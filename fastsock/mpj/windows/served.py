"""Windows by messages, on every device and between hosts: each operation is a message to the server of its target."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import suppress

from fastsock.core.binding._requests import MessageError
from fastsock.core.binding._window import MemoryGone

from ..collectives import prepared
from ..constants import (
    LOCK_EXCLUSIVE,
    LOCK_SHARED,
    MODE_NOCHECK,
    MODE_NOPRECEDE,
    MODE_NOSUCCEED,
    PROC_NULL,
    WIN_FLAVOR_DYNAMIC,
    WIN_UNIFIED,
)
from ..datatypes._memory import buffer
from ..datatypes.buffers import Simple, outgoing
from ..exceptions import Exception as MPIException
from .exposed import Exposed, check_swaps, check_updates
from .far import Far, Own
from .frames import (
    ACCUMULATE,
    BYTES,
    COMPLETED,
    FETCH,
    GET,
    LOCK,
    POSTED,
    PUT,
    SWAP,
    UNLOCK,
    Frame,
    description_of,
    number_of,
)
from .lock_table import LockTable
from .operations import Incoming, Outgoing
from .origin import Origin
from .server import Server
from .target import Place
from .window_record import Window, store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    Call = TypeVar("Call", bound=Callable[..., Any])


def _helping(call: Call) -> Call:
    """A call that may wait: meanwhile its thread serves the other members."""

    @functools.wraps(call)
    def helping(self: ServedWindow, *arguments: Any) -> Any:
        server = self._server
        if server is None:
            return call(self, *arguments)
        server.serving.help()
        try:
            return call(self, *arguments)
        finally:
            server.serving.leave()

    return helping  # type: ignore[return-value]


class ServedWindow(Window):
    """The origin's side. What it asks of itself, it does itself; so it writes and reads what is `near`."""

    def __init__(
        self,
        communicator: Any,
        flavor: int,
        memory: buffer,
        sizes: Sequence[int],
        units: Sequence[int],
        near: Any,
        own: Own,
        places: Sequence[tuple[int, int]],
    ) -> None:
        super().__init__(communicator, flavor, sizes, units)
        self.model = WIN_UNIFIED  # the server reads and writes the memory that the program does
        self.memory = memory
        self.exposed = Exposed(memory, flavor == WIN_FLAVOR_DYNAMIC)
        self._near = near
        self._reached: dict[int, Any] = {} if near is None else {**near.exposed}
        self._reached[self.rank] = self.exposed
        self.locks = LockTable()
        self._own = own
        self.origin = Origin(self, Far(communicator, places))
        self.targets = self.origin.targets
        self._completing: list[Any] = []
        self._server: Server | None = None
        if communicator.size > 1:
            self._server = Server(communicator, self.exposed, self.locks)
            self._server.start()

    def _do(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except MessageError as error:
            raise self.failed(error) from error
        except MemoryGone as error:
            raise self.gone() from error
        except MPIException as error:
            raise self.failed(error) from error.__cause__

    # ---- operations ----

    def put(self, origin: Simple, rank: int, place: Place) -> Outgoing | None:
        offset = self.reached(rank, place)
        data = self.fitting(origin, place.nbytes)
        if rank in self._reached:
            self._do(self._reached[rank].store, offset, place.count, place.datatype, data)
            return None
        return self.origin.write(rank, self._frame(PUT, offset, place), place, data, origin)

    def get(self, origin: Simple, rank: int, place: Place) -> Incoming | None:
        offset = self.reached(rank, place)
        room, land = self.room(origin, place.nbytes)
        if place.nbytes == 0:
            return None
        if rank in self._reached:
            store(room, land, self._do(self._reached[rank].load, offset, place.count, place.datatype))
            return None
        return self.origin.read(rank, self._frame(GET, offset, place), place, origin, (room, land, place.nbytes))

    def accumulate(self, origin: Simple, rank: int, place: Place, op: Any) -> Outgoing | None:
        offset = self.reached(rank, place)
        if place.nbytes:
            self.guarded(check_updates, op, place.datatype)
        data = self.fitting(origin, place.nbytes)
        if rank == self.rank:
            self.guarded(self.exposed.accumulate, op, offset, place.count, place.datatype, data)
            return None
        return self.origin.send(rank, self._frame(ACCUMULATE, offset, place, number_of(op)), data, origin)

    def get_accumulate(self, origin: Simple, result: Simple, rank: int, place: Place, op: Any) -> Incoming | None:
        offset = self.reached(rank, place)
        if place.nbytes:
            self.guarded(check_updates, op, place.datatype)
        data = self.fitting(origin, place.nbytes) if op.ob.name != "NO_OP" else b""
        room, land = self.room(result, place.nbytes)
        if place.nbytes == 0:
            return None
        if rank == self.rank:
            before = self.guarded(self.exposed.fetch, op, offset, place.count, place.datatype, data)
            store(room, land, before)
            return None
        frame = self._frame(FETCH, offset, place, number_of(op))
        return self.origin.ask(rank, frame, data, (origin, result), (room, land, place.nbytes))

    def compare_and_swap(self, origin: Simple, compare: Simple, result: Simple, rank: int, place: Place) -> None:
        offset = self.reached(rank, place)
        self.guarded(check_swaps, place.datatype)
        compared, data = (bytes(outgoing(each.address, 1, each.datatype)) for each in (compare, origin))
        room, land = self.room(result, place.nbytes)
        if rank == self.rank:
            store(room, land, self.guarded(self.exposed.swap, offset, place.datatype, compared, data))
            return
        self.origin.ask(rank, self._frame(SWAP, offset, place), compared + data, result, (room, land, place.nbytes))

    def reached(self, rank: int, place: Place) -> int:
        """Of a dynamic window it returns an address, which the target checks."""
        if not self.exposed.dynamic:
            return super().reached(rank, place)
        self.check(rank)
        self.epochs.access(rank)
        return place.displacement

    def _frame(self, kind: int, offset: int, place: Place, argument: int = 0) -> Frame:
        count, description = place.count, description_of(place.datatype)
        if kind in (PUT, GET) and place.datatype.ob.dense:
            count, description = place.nbytes, BYTES
        return Frame(kind, argument=argument, offset=offset, count=count, description=description)

    # ---- completion ----

    @_helping
    def flush(self, rank: int) -> None:
        if rank != PROC_NULL:
            self.check(rank)
            self.epochs.flush(rank)
            self.origin.complete([rank])

    @_helping
    def flush_all(self) -> None:
        self.check(self.rank)
        self.epochs.flush()
        self.origin.complete(range(len(self.targets)))

    @_helping
    def flush_local(self, rank: int) -> None:
        if rank != PROC_NULL:
            self.check(rank)
            self.epochs.flush(rank)
            self.targets[rank].wait()

    @_helping
    def flush_local_all(self) -> None:
        self.check(self.rank)
        self.epochs.flush()
        for begun in self.targets:
            begun.wait()

    def sync(self) -> None:
        self.check(self.rank)
        with self.exposed.updating:  # a lock orders memory on every processor
            pass

    # ---- fence ----

    @_helping
    def fence(self, assertion: int) -> None:
        self.check(self.rank)
        self.epochs.fence(assertion)
        self.origin.complete(range(len(self.targets)))
        if assertion & MODE_NOPRECEDE and assertion & MODE_NOSUCCEED:
            return
        self.barrier()

    def barrier(self) -> None:
        communicator = self.communicator
        try:
            if not communicator.team_calls.barrier():
                prepared.barrier(communicator).run()
        except MPIException as error:
            raise self.failed(error) from error.__cause__

    # ---- start, complete, post, wait ----

    @_helping
    def start(self, ranks: Sequence[int], assertion: int) -> None:
        self.check(self.rank)
        self.epochs.start(ranks, assertion)
        if not assertion & MODE_NOCHECK:
            for rank in ranks:
                self.origin.hear(rank, POSTED)

    @_helping
    def complete(self) -> None:
        self.check(self.rank)
        ranks = sorted(self.epochs.complete())
        self.epochs.started = None
        try:
            self.origin.complete(ranks)
        finally:  # also where an operation failed: the targets wait
            for rank in ranks:
                self.origin.signal(rank, COMPLETED)

    def post(self, ranks: Sequence[int], assertion: int) -> None:
        self.check(self.rank)
        self.epochs.post(ranks, assertion)
        self._completing = [self.origin.expect(rank, COMPLETED) for rank in ranks]
        if not assertion & MODE_NOCHECK:
            for rank in ranks:
                self.origin.signal(rank, POSTED)

    @_helping
    def wait(self) -> None:
        self.check(self.rank)
        self.epochs.wait()
        self.engine.wait_all(self._completing)
        self._end_exposure()

    @_helping
    def test(self) -> bool:
        self.check(self.rank)
        self.epochs.wait()
        if not all(request.test() for request in self._completing):
            self.engine.give_way()
            return False
        self._end_exposure()
        return True

    def _end_exposure(self) -> None:
        self.epochs.posted = None
        requests, self._completing = self._completing, []
        for request in requests:
            if request.error is not None:
                raise self.failed(request.error)

    # ---- locks ----

    @_helping
    def lock(self, rank: int, lock_type: int, assertion: int) -> None:
        if rank == PROC_NULL:
            return
        self.check(rank)
        self.epochs.lock(rank, lock_type, assertion)
        self.epochs.locked[rank] = takes = not assertion & MODE_NOCHECK  # no other thread may take it meanwhile
        try:
            if takes and rank == self.rank:
                self._lock_own(lock_type)
            elif takes:
                self.origin.question(rank, LOCK, _argument(lock_type))
        except BaseException:
            del self.epochs.locked[rank]
            raise

    @_helping
    def unlock(self, rank: int) -> None:
        if rank == PROC_NULL:
            return
        self.check(rank)
        taken = self.epochs.unlock(rank)
        del self.epochs.locked[rank]
        self._release([rank], taken)

    @_helping
    def lock_all(self, assertion: int) -> None:
        self.check(self.rank)
        self.epochs.lock_all(assertion)
        takes = not assertion & MODE_NOCHECK
        if takes:
            self._share_all()
        self.epochs.all_locked = takes

    def _share_all(self) -> None:
        """In the order of ranks: two could else have what the other waits for, behind one who wants it alone."""
        taken = 0
        try:
            for rank in range(len(self.targets)):
                if rank == self.rank:
                    self._lock_own(LOCK_SHARED)
                else:
                    self.origin.question(rank, LOCK, _argument(LOCK_SHARED))
                taken += 1
        except BaseException:
            with suppress(MPIException):
                self._release(range(taken), True)
            raise

    @_helping
    def unlock_all(self) -> None:
        self.check(self.rank)
        taken = self.epochs.unlock_all()
        self.epochs.all_locked = None
        self._release(range(len(self.targets)), taken)

    def _release(self, ranks: Sequence[int], taken: bool) -> None:
        """Completes the operations to these ranks. The answer that a lock is given back says so too."""
        if not taken:
            self.origin.complete(ranks)
            return
        failed: BaseException | None = None
        for rank in ranks:  # an operation may need to be complete here before another rank may change the memory
            try:
                self.targets[rank].wait()
            except MPIException as error:
                failed = failed or error
        questions = [self.origin.begin_question(rank, UNLOCK) for rank in ranks if rank != self.rank]
        if self.rank in ranks:
            self.locks.give_back(self.targets[self.rank].peer)
        self.origin.end_all([], questions)  # the answer says that the device's writes are there too
        for rank in ranks:
            self.targets[rank].written = None
        if failed is not None:
            raise failed

    def _lock_own(self, lock_type: int) -> None:
        given = self.engine.user_request()
        self.locks.take(self.targets[self.rank].peer, lock_type == LOCK_EXCLUSIVE, given.complete)
        try:
            given.wait()
        except (MPIException, MessageError) as error:
            raise self.failed(error) from error.__cause__

    # ---- memory ----

    def attach(self, memory: buffer) -> None:
        self.guarded(self.exposed.attach, memory)

    def detach(self, memory: buffer) -> None:
        self.guarded(self.exposed.detach, memory)

    def shared_query(self, rank: int) -> tuple[buffer, int]:
        if rank == PROC_NULL:
            rank = next((member for member, size in enumerate(self.sizes) if size), 0)
        self.check(rank)
        if rank != self.rank:
            return buffer(), self.units[rank]
        return self.memory, self.units[rank]

    @_helping
    def free(self) -> None:
        self.check(self.rank)
        self.epochs.free()
        try:
            self.origin.complete(range(len(self.targets)))
            self.barrier()
            self._own.close()
        finally:
            self._own.leave_open()
            if self._server is not None:
                self._server.stop()
            self.engine.set_members(self.origin.context, None)
            self.communicator.close()
            self.exposed.close()
            if self._near is not None:
                self._near.close()
            self.memory, self._near, self._reached = buffer(), None, {}


def _argument(lock_type: int) -> int:
    return int(lock_type == LOCK_EXCLUSIVE)
