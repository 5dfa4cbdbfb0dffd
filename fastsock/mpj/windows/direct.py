"""Windows whose members reach each other's memory: an origin does all itself, and it is complete when the call ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from fastsock.core.binding._requests import MessageError
from fastsock.core.binding._window import MemoryGone

from ..constants import (
    ERR_RMA_FLAVOR,
    ERR_WIN,
    LOCK_EXCLUSIVE,
    MODE_NOCHECK,
    MODE_NOPRECEDE,
    MODE_NOSUCCEED,
    PROC_NULL,
    WIN_FLAVOR_DYNAMIC,
    WIN_UNIFIED,
)
from ..datatypes._memory import buffer
from ..datatypes.native_kernels import kernel_of
from ._direct import Direct
from .exposed import check_swaps, check_updates, unit_of
from .window_record import Window, store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fastsock.core.binding._window import Window as Control

    from ..datatypes.buffers import Simple
    from .target import Place


class DirectWindow(Window):
    """The general way of all calls. `_direct` does most of them before they come here.

    `addresses`: where each member's memory begins, here or in its process. `exposed`: that memory, to operations.
    """

    model = WIN_UNIFIED

    def __init__(
        self,
        communicator: Any,
        flavor: int,
        control: Control,
        addresses: Sequence[int],
        sizes: Sequence[int],
        units: Sequence[int],
    ) -> None:
        super().__init__(communicator, flavor, sizes, units)
        self.native = Direct(control, self.epochs, addresses, sizes, units, flavor == WIN_FLAVOR_DYNAMIC)
        self.exposed: Sequence[Any] = ()

    def check(self, rank: int) -> None:
        if self.native is None:
            raise self.fail(ERR_WIN, f"{self.title} was freed")
        super().check(rank)

    def _do(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except MessageError as error:
            raise self.failed(error) from error
        except MemoryGone as error:
            raise self.gone() from error

    # ---- operations ----

    def put(self, origin: Simple, rank: int, place: Place) -> None:
        offset = self.reached(rank, place)
        data = self.fitting(origin, place.nbytes)
        self._do(self.exposed[rank].store, offset, place.count, place.datatype, data)

    def get(self, origin: Simple, rank: int, place: Place) -> None:
        offset = self.reached(rank, place)
        room, land = self.room(origin, place.nbytes)
        if place.nbytes:
            store(room, land, self._do(self.exposed[rank].load, offset, place.count, place.datatype))

    def accumulate(self, origin: Simple, rank: int, place: Place, op: Any) -> None:
        offset = self.reached(rank, place)
        if place.nbytes:
            self.guarded(check_updates, op, place.datatype)
        data = self.fitting(origin, place.nbytes)
        if len(data):
            self._combine(rank, offset, place, op, data, None)

    def get_accumulate(self, origin: Simple, result: Simple, rank: int, place: Place, op: Any) -> None:
        offset = self.reached(rank, place)
        if place.nbytes:
            self.guarded(check_updates, op, place.datatype)
        data = self.fitting(origin, place.nbytes) if op.ob.name != "NO_OP" else b""
        room, land = self.room(result, place.nbytes)
        if place.nbytes:
            before = buffer.allocate(place.nbytes)
            self._combine(rank, offset, place, op, data, before)
            store(room, land, before)

    def _combine(self, rank: int, offset: int, place: Place, op: Any, data: Any, before: buffer | None) -> None:
        numbers = kernel_of(op.ob.name, unit_of(place.datatype).ob)
        if numbers is not None and len(data) == place.nbytes:
            type_ = place.datatype.ob
            self._do(self.native.accumulate, rank, offset, type_, place.nbytes, numbers, data, before)
            return
        with self._holding(rank):
            exposed = self.exposed[rank]
            if before is None:
                self._do(exposed.accumulate, op, offset, place.count, place.datatype, data)
            else:
                memoryview(before)[:] = self._do(exposed.fetch, op, offset, place.count, place.datatype, data)

    @contextmanager
    def _holding(self, rank: int) -> Iterator[None]:
        control = self.native.control
        self._do(control.hold, rank)
        try:
            yield
        finally:
            control.release(rank)

    def compare_and_swap(self, origin: Simple, compare: Simple, result: Simple, rank: int, place: Place) -> None:
        offset = self.reached(rank, place)
        self.guarded(check_swaps, place.datatype)
        data, compared = self.fitting(origin, place.nbytes), self.fitting(compare, place.nbytes)
        room, land = self.room(result, place.nbytes)
        store(room, land, self._do(self.native.swap, rank, offset, compared, data))

    # ---- completion ----

    def flush(self, rank: int) -> None:
        if rank != PROC_NULL:
            self.check(rank)
            self.epochs.flush(rank)
            self.native.order()

    def flush_all(self) -> None:
        self.check(self.rank)
        self.epochs.flush()
        self.native.order()

    def flush_local(self, rank: int) -> None:
        self.flush(rank)

    def flush_local_all(self) -> None:
        self.flush_all()

    def sync(self) -> None:
        self.check(self.rank)
        self.native.order()

    # ---- epochs ----

    def fence(self, assertion: int) -> None:
        self.check(self.rank)
        self.epochs.fence(assertion)
        if not (assertion & MODE_NOPRECEDE and assertion & MODE_NOSUCCEED):
            self.barrier()

    def barrier(self) -> None:
        self._do(self.native.control.fence)

    def start(self, ranks: Sequence[int], assertion: int) -> None:
        self.check(self.rank)
        self.epochs.start(ranks, assertion)
        try:
            self._do(self.native.control.start, ranks)
        except BaseException:
            self.epochs.started = None
            raise

    def complete(self) -> None:
        self.check(self.rank)
        ranks = self.epochs.complete()
        self.epochs.started = None
        self._do(self.native.control.complete, ranks)

    def post(self, ranks: Sequence[int], assertion: int) -> None:
        self.check(self.rank)
        self.epochs.post(ranks, assertion)
        self._do(self.native.control.post, ranks)

    def wait(self) -> None:
        self.check(self.rank)
        self._do(self.native.control.await_origins, self.epochs.wait(), True)
        self.epochs.posted = None

    def test(self) -> bool:
        self.check(self.rank)
        done: bool = self._do(self.native.control.await_origins, self.epochs.wait(), False)
        if done:
            self.epochs.posted = None
        else:
            self.engine.give_way()
        return done

    def lock(self, rank: int, lock_type: int, assertion: int) -> None:
        if rank == PROC_NULL:
            return
        self.check(rank)
        self.epochs.lock(rank, lock_type, assertion)
        takes = not assertion & MODE_NOCHECK
        self.epochs.locked[rank] = takes  # no other thread of this rank may take it meanwhile
        if takes:
            try:
                self._do(self.native.lock, rank, lock_type == LOCK_EXCLUSIVE)
            except BaseException:
                del self.epochs.locked[rank]
                raise

    def unlock(self, rank: int) -> None:
        if rank == PROC_NULL:
            return
        self.check(rank)
        taken = self.epochs.unlock(rank)
        del self.epochs.locked[rank]
        if taken:
            self._do(self.native.unlock, rank)

    def lock_all(self, assertion: int) -> None:
        self.check(self.rank)
        self.epochs.lock_all(assertion)
        self.epochs.all_locked = takes = not assertion & MODE_NOCHECK
        if takes:
            try:
                self._share_all()
            except BaseException:
                self.epochs.all_locked = None
                raise

    def _share_all(self) -> None:
        taken = 0
        try:
            for rank in range(len(self.sizes)):
                self._do(self.native.lock, rank, False)
                taken += 1
        except BaseException:
            for rank in range(taken):
                self.native.unlock(rank)
            raise

    def unlock_all(self) -> None:
        self.check(self.rank)
        taken = self.epochs.unlock_all()
        self.epochs.all_locked = None
        if taken:
            for rank in range(len(self.sizes)):
                self._do(self.native.unlock, rank)

    # ---- memory ----

    def attach(self, memory: buffer) -> None:
        self._refuse_memory()

    def detach(self, memory: buffer) -> None:
        self._refuse_memory()

    def _refuse_memory(self) -> None:
        raise self.fail(ERR_RMA_FLAVOR, "only a window of Create_dynamic has memory attached to it")

    def free(self) -> None:
        self.check(self.rank)
        self.epochs.free()
        try:
            self.barrier()
        finally:  # the memory goes at once, but for the parts that the program has
            self.close()

    def close(self) -> None:
        """Lets go of all memory."""
        self.native = None
        self.exposed, self.memory = (), buffer()
