"""Collective access in two phases: each part of the file is read or written by one member, and data go as messages.

For file systems between hosts, where many short accesses, and pages that several hosts change, are slow.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from ..datatypes._memory import buffer, part
from ..messages.pickling import CODEC
from ._transfer import LOCKED, WHOLE, Places, hold_to_change, let_go

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .view import View

_TAG = 0
"""The communicator's context is the file's alone."""
_ALIGNED = 1 << 16
_BUFFER = 16 << 20


def views(record: Any) -> list[Places]:
    """Returns where the data of each member lie. All members call it."""
    import pickle  # no rank needs it for its start

    view = record.direct.view
    own = pickle.dumps((view.displacement, view.in_file))
    found = []
    for described in record.communicator.objects.allgather(CODEC, own):
        displacement, datatype = pickle.loads(described)
        found.append(Places(datatype.ob, displacement))
    return found


def carry(record: Any, view: View, writing: bool, start: int, address: int, nbytes: int) -> int:
    """Reads or writes this member's bytes of data from `start` on; returns how many. All members call it."""
    error: OSError | None = None
    access = _Access(record, writing, address)
    if not access.agree(view, start, nbytes):
        move = view.places.write if writing else view.places.read
        count = move(record.direct.descriptor, start, address, nbytes, record.direct.how)
        return count
    for windows in access.rounds():
        try:
            access.carry(windows)
        except OSError as found:
            error = error or found
    numbers = record.exchange(0 if error is None else error.errno or 5)
    if error is not None:
        raise error
    failed = next((number for number in numbers if number), 0)
    if failed:
        raise OSError(failed, os.strerror(failed))
    return access.nbytes


class _Access:
    """One call of one member."""

    def __init__(self, record: Any, writing: bool, address: int) -> None:
        self.record = record
        self.communicator = record.communicator
        self.engine = record.engine
        self.writing = writing
        self.address = address
        self.nbytes = 0

    def agree(self, view: View, start: int, nbytes: int) -> bool:
        """Tells the others what this one does. Returns whether all can work together."""
        places = view.places
        size = 0 if self.writing else self.record.size()
        first = places.place(start) if nbytes else -1
        end = places.place(start + nbytes - 1) + 1 if nbytes else -1
        given = self.record.exchange(first, end, start, nbytes, size, places.ordered)
        if not all(given[5::6]):
            return False
        members: list[Places] = self.record.views
        size = max(given[4::6])
        self.parts = []
        for member, (each_start, each_nbytes) in enumerate(zip(given[2::6], given[3::6], strict=True)):
            if not self.writing and each_nbytes:
                each_nbytes = max(0, min(each_nbytes, members[member].below(size) - each_start))
            self.parts.append((members[member], each_start, each_nbytes))
        self.nbytes = self.parts[self.communicator.rank][2]
        ends = [end for end in given[1::6] if end >= 0]
        self.first = min((first for first in given[0::6] if first >= 0), default=0)
        self.end = max(ends, default=0)
        self.workers = self._workers()
        return True

    def _workers(self) -> list[int]:
        """The members that read and write: one of each host, or as many as the hint says."""
        size = self.communicator.size
        wanted = self.record.info.get("cb_nodes", "")
        if wanted.isdecimal() and int(wanted):
            count = min(int(wanted), size)
            return [number * size // count for number in range(count)]
        hosts = self.communicator.hosts
        return [member for member in range(size) if hosts.index(hosts[member]) == member]

    def rounds(self) -> Iterator[list[tuple[int, int]]]:
        """Yields the window of each worker, until all of the file's part is covered."""
        hint = self.record.info.get("cb_buffer_size", "")
        most = int(hint) if hint.isdecimal() and int(hint) else _BUFFER
        share = -(-(self.end - self.first) // len(self.workers))
        share = -(-share // _ALIGNED) * _ALIGNED
        for begun in range(0, share, most):
            windows = []
            for number in range(len(self.workers)):
                low = self.first + number * share
                high = min(low + share, low + begun + most, self.end)
                windows.append((min(low + begun, high), high))
            yield windows

    def _slice(self, member: int, window: tuple[int, int]) -> tuple[int, int]:
        """The bytes of a member's data in a window: the first, and their number."""
        places, start, nbytes = self.parts[member]
        if nbytes == 0 or window[0] == window[1]:
            return start, 0
        low = min(max(places.below(window[0]), start), start + nbytes)
        high = min(max(places.below(window[1]), low), start + nbytes)
        return low, high - low

    def carry(self, windows: list[tuple[int, int]]) -> None:
        """One round."""
        engine, context, ranks = self.engine, self.communicator.context, self.communicator.ranks
        own = self.communicator.rank
        _, start, _ = self.parts[own]
        requests = []
        for worker, window in zip(self.workers, windows, strict=True):
            low, length = self._slice(own, window)
            if worker == own or length == 0:
                continue
            data = buffer.fromaddress(self.address + low - start, length)
            if self.writing:
                requests.append(engine.isend(data, ranks[worker], _TAG, context))
            else:
                requests.append(engine.irecv(data, ranks[worker], _TAG, context))
        try:
            if own in self.workers:
                self._work(windows[self.workers.index(own)])
        finally:
            engine.complete(requests)

    def _work(self, window: tuple[int, int]) -> None:
        slices = [(member, *self._slice(member, window)) for member in range(self.communicator.size)]
        slices = [each for each in slices if each[2]]
        if not slices:
            return
        first = min(self.parts[member][0].place(low) for member, low, _ in slices)
        end = max(self.parts[member][0].place(low + length - 1) + 1 for member, low, length in slices)
        room = buffer.allocate(end - first, True)
        if self.writing:
            self._write(room, first, slices)
        else:
            self._read(room, first, slices)

    def _data(self, member: int, low: int, length: int) -> buffer:
        """Memory for a member's part: this one's own is there already."""
        if member == self.communicator.rank:
            return buffer.fromaddress(self.address + low - self.parts[member][1], length)
        return buffer.allocate(length)

    def _write(self, room: buffer, first: int, slices: list[tuple[int, int, int]]) -> None:
        context, ranks, own = self.communicator.context, self.communicator.ranks, self.communicator.rank
        datas = [self._data(*each) for each in slices]
        self.engine.complete(
            [
                self.engine.irecv(data, ranks[member], _TAG, context)
                for data, (member, _, _) in zip(datas, slices, strict=True)
                if member != own
            ]
        )
        descriptor = self.record.direct.descriptor
        held = hold_to_change(descriptor, first, room.nbytes)
        try:
            if sum(length for _, _, length in slices) < room.nbytes:
                if not held & WHOLE:  # others may write between
                    for data, (member, low, length) in zip(datas, slices, strict=True):
                        self.parts[member][0].write(descriptor, low, data.address, length, LOCKED)
                    return
                _read_into(descriptor, room, first)  # what lies between is written back as it was
            for data, (member, low, length) in zip(datas, slices, strict=True):
                self.parts[member][0].put(low, data.address, length, room, first)
            _write_from(descriptor, room, first)
        finally:
            let_go(descriptor, first, room.nbytes, held)

    def _read(self, room: buffer, first: int, slices: list[tuple[int, int, int]]) -> None:
        context, ranks, own = self.communicator.context, self.communicator.ranks, self.communicator.rank
        error: OSError | None = None
        try:
            _read_into(self.record.direct.descriptor, room, first)
        except OSError as found:  # the others wait for bytes, whatever these are
            error = found
        requests = []
        for member, low, length in slices:
            data = self._data(member, low, length)
            self.parts[member][0].take(low, data.address, length, room, first)
            if member != own:
                requests.append(self.engine.isend(data, ranks[member], _TAG, context))
        self.engine.complete(requests)
        if error is not None:
            raise error


def _read_into(descriptor: int, room: buffer, first: int) -> None:
    """Reads so many bytes as there are."""
    done = 0
    while done < room.nbytes:
        got = os.preadv(descriptor, [part(room, done, room.nbytes - done)], first + done)
        if got == 0:
            return
        done += got


def _write_from(descriptor: int, room: buffer, first: int) -> None:
    done = 0
    while done < room.nbytes:
        done += os.pwrite(descriptor, part(room, done, room.nbytes - done), first + done)
