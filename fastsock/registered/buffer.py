"""RegisteredBuffer: memory that a program sees as arrays, and that other processes can have."""

from __future__ import annotations

import errno
import math
from time import monotonic
from typing import Any

from .. import core
from ..array_format import check_sendable
from ..system.originals import originals
from . import exporter
from .errors import ReferencedError, RegistrationError, TypedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    import numpy

    Array = numpy.ndarray[Any, Any]

_ASKED_BEFORE = 16 << 20  # bytes from which on it is asked whether the host has them
_SLICE_SECONDS = 0.02  # of a wait; in between a look whether the other process lives

_Lendable: Any = core.Lendable if core.available else object


_NOT_REGISTERED = {
    "shm": "each process on this host maps the memory itself, and all its pages are there: nothing is left to pin",
    "tcp": "the kernel copies what it carries",
    "sdp": "the kernel copies what it carries",
    "rdma": "its sockets send from memory of their own; ranks on ibvdev do not: give register() the open device",
    "rsockets": "its sockets send from memory of their own",
    "iodev": "it sends through sockets",
    "sysvdev": "each process on this host maps the memory itself",
    "smpdev": "its ranks are threads of one process",
    "ibvdev": "give register() the open device in place of its name",
}


def need_core() -> None:
    """Raises NotImplementedError in words where there is no native core."""
    if not core.available:
        raise NotImplementedError(f"registered buffers need the native core, and {core.why_not}")


class RegisteredBuffer(_Lendable):  # type: ignore[misc]
    """`nbytes` bytes of sealed shared memory, zeroes at first: Javia-II's ViBuffer (section 4).

    It exports the buffer protocol: as bytes itself, and as arrays by `view`. Exports are counted, views of views too.
    Raises MemoryError where there is no memory for it, and OSError where no descriptor is free.
    """

    def __init__(self, nbytes: int) -> None:
        need_core()
        if nbytes < 1:
            raise ValueError(f"a buffer has at least one byte, not {nbytes}")
        self.set_memory(new_memory(nbytes), 0, nbytes)

    if TYPE_CHECKING:  # the native core has them
        _loans: list[Any]
        _borrowed: Any
        _spent: bool
        _released: bool
        _registered: Any

    _lock = exporter.lock
    _callbacks: tuple[Callable[[RegisteredBuffer], Any], ...] = ()
    _pool: Any = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.nbytes} bytes{', ' + self._why_closed() if self._is_closed() else ''}>"

    # ---- views ----

    def view(self, dtype: Any, shape: Any = None, offset: int = 0, *, readonly: bool = False) -> Array:
        """A numpy array of that dtype over the memory, from the byte `offset` on.

        shape: None for one dimension with all that is there. Raises TypedError while views of another dtype live,
        ReferencedError while another process has the buffer, ValueError where the array does not fit. While the buffer
        is lent, and where it is borrowed for reading, the array is read-only.
        """
        import numpy

        kind = numpy.dtype(dtype)
        check_sendable(kind)
        room = self.nbytes - offset
        if offset < 0 or room < 0 or kind.itemsize == 0:
            raise ValueError(f"no array of {kind} lies at offset {offset} of {self.nbytes} bytes")
        if shape is None:
            count = room // kind.itemsize
            if room % kind.itemsize:
                raise ValueError(f"{room} bytes are no whole number of {kind}")
        else:
            shape = (shape,) if isinstance(shape, int) else tuple(shape)
            count = math.prod(shape)
            if min(shape, default=0) < 0 or count * kind.itemsize > room:
                raise ValueError(f"{kind} items of shape {shape} do not lie in {room} bytes")
        # frombuffer() keeps the export as long as a view lives; other functions of numpy see through it to its owner
        export = core.TypedExport(self, None if kind == numpy.uint8 else kind, readonly)
        items = numpy.frombuffer(export, kind, count, offset)
        return items if shape is None else items.reshape(shape)

    def unref(self, callback: Callable[[RegisteredBuffer], Any]) -> None:
        """Calls `callback(buffer)` once no view is left: at once, or in the thread that drops the last one."""
        self._callbacks = (*self._callbacks, callback)
        if not self.exports:
            self.unreferenced()

    def unreferenced(self) -> None:
        """Called when the last view is gone."""
        callbacks, self._callbacks = self._callbacks, ()
        for callback in callbacks:
            callback(self)

    def refusal(self, kind: Any, writable: bool) -> BaseException | None:
        """Why it cannot be seen in that way; None where it can by now."""
        if self.is_inherited():
            return ReferencedError("the buffer is the parent's: this process was forked from it. Make one here")
        if self._loans:
            self.look()
            if not self._loans and not self._spent:
                return None
        if self._is_closed():
            kind_of = ValueError if self._released else ReferencedError
            return kind_of(f"the buffer cannot be seen: {self._why_closed()}")
        if self.exports and not self.is_kind(kind):
            have = "bytes" if self.kind is None else self.kind
            return TypedError(f"views of {have} live, so there are none of {'bytes' if kind is None else kind}")
        why = self._why_closed() if self._loans else "it is borrowed for reading"
        return BufferError(f"the buffer is not writable: {why}")

    def _is_closed(self) -> bool:
        return bool(self.closed)

    def _why_closed(self) -> str:
        if self._released:
            return "it was released"
        if self._loans:
            return f"process {self._loans[0].link.process} has it until it releases it"
        return "it was lost with the process that had it" if self._spent else "it is being sent"

    # ---- registration ----

    def register(self, path: Any) -> None:
        """Pins the memory on the RDMA device of `path`, an open ibvdev device (`fastsock.xxdev`), until deregister().

        Sends from the buffer then use that registration (Javia-II's register, section 4). Any other path, a name or a
        device, is refused with RegistrationError, which says why.
        """
        if self.closed or self.is_inherited():
            raise ReferencedError(f"the buffer cannot be registered: {self._why_closed()}")
        if self._registered is not None:
            raise RegistrationError("the buffer is registered: deregister() it first")
        pin = getattr(path, "pin", None)
        if pin is None:
            name = path if isinstance(path, str) else getattr(path, "name", path)
            raise RegistrationError(f"{name}: {_NOT_REGISTERED.get(name, 'no path of that name registers memory')}")
        memory = self.get_memory()
        pin(memory.address + self.offset, self.nbytes)
        self._registered = path, memory  # the memory stays mapped so long

    def deregister(self) -> None:
        """Undoes register(). Raises RegistrationError where the buffer is not registered."""
        if self._registered is None:
            raise RegistrationError("the buffer is not registered")
        (device, memory), self._registered = self._registered, None
        device.unpin(memory.address + self.offset, self.nbytes)

    # ---- who has it ----

    @property
    def is_home(self) -> bool:
        """Whether no other process has it, or will have it."""
        self.look()
        return not self._loans

    def wait(self, timeout: float | None = None) -> None:
        """Until no other process has it. Raises TimeoutError after that many seconds."""
        end = None if timeout is None else monotonic() + timeout
        while True:
            ledger = self._loans[0].link.ledger if self._loans else None
            seen = ledger.news() if ledger is not None else 0
            if self.is_home:
                return
            left = _SLICE_SECONDS if end is None else min(_SLICE_SECONDS, end - monotonic())
            if left <= 0:
                raise TimeoutError(f"the buffer did not come back: {self._why_closed()}")
            if ledger is not None:
                ledger.wait(seen, left)

    def _renew(self) -> None:
        if self._registered is not None:
            self.deregister()
        # somebody may write to it still, a child of that process even: nobody shall see that here
        self.set_memory(new_memory(self.nbytes), 0, self.nbytes)
        self._spent = False

    # ---- for send_buffer() ----

    def close_for(self, lend: bool) -> None:
        """Nobody here writes to it from now on, or sees it at all, until settle().

        Raises ReferencedError, ValueError.
        """
        if self.is_inherited():
            raise ReferencedError("the buffer cannot be sent: it is the parent's, from which this process was forked")
        self.look()
        if self._released:
            raise ValueError("the buffer cannot be sent: it was released")
        if self._borrowed is not None and self._borrowed.only_read and not lend:
            raise ReferencedError("the buffer cannot be handed over: it is borrowed for reading. Lend it on: lend=True")
        if self._loans and not (lend and all(loan.only_read for loan in self._loans)):
            raise ReferencedError(f"the buffer cannot be sent: {self._why_closed()}")
        if not self.close_if_unexported(lend):
            why = "writable views of it live" if lend and not self.closed else "views of it live"
            raise ReferencedError(f"the buffer cannot be sent: {self._why_closed() if self.closed else why}")

    # ---- the end ----

    def release(self) -> None:
        """Gives the memory back: to the process or pool that it came from, or to the system. Idempotent.

        Raises ReferencedError while a view lives, or while another process has what this one has borrowed.
        """
        if self.give_back():
            return
        if self.is_inherited():
            self._released = True
            return
        self.look()
        if self._loans and self._borrowed is not None:
            raise ReferencedError(f"the buffer cannot be released: {self._why_closed()}")
        if not self.closed and not self.close_if_unexported():
            raise ReferencedError("the buffer cannot be released: views of it live")
        if self._registered is not None:
            self.deregister()
        self._released = True
        if self._borrowed is not None:
            self._borrowed.give_back(self._spent)
        if self._pool is not None:
            self._pool.take_back(self)
        else:
            self._drop()

    def _drop(self) -> None:
        """The memory lives on where another process has it."""
        loans, self._loans = self._loans, []
        for loan in loans:
            loan.link.abandon(loan)
        self.set_memory(None, 0, self.nbytes)

    def again(self) -> bool:
        """Makes a released one of a pool as new; whether it could: no other process has it."""
        self.look()
        if self._loans:
            return False
        self._released = False
        self._came_home()
        return True

    def __enter__(self) -> RegisteredBuffer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _left(self) -> None:
        """Nobody sees it any more. A borrowed one goes back."""
        if self._borrowed is not None:
            self._borrowed.give_back(self._spent or bool(self._loans))
        for loan in self._loans:
            loan.link.abandon(loan)

    def __reduce__(self) -> Any:
        raise TypeError("a buffer cannot be pickled: hand it over with send_buffer(), or pickle a view of it")


class BorrowedBuffer(RegisteredBuffer):
    """One that another process owns. Its release gives it back."""


def new_memory(nbytes: int) -> Any:
    """Raises MemoryError, OSError."""
    if nbytes > _ASKED_BEFORE and nbytes > _available():
        raise MemoryError(f"no memory for a buffer of {nbytes} bytes: this host has {_available()} left")
    try:
        return core.Memory.make(nbytes)
    except OverflowError:
        raise MemoryError(f"no memory for a buffer of {nbytes} bytes") from None
    except OSError as error:
        if error.errno in (errno.ENOMEM, errno.EFBIG, errno.EINVAL):
            raise MemoryError(f"no memory for a buffer of {nbytes} bytes") from None
        raise


def _available() -> int:
    """Bytes that programs can still have. What the kernel promises beyond that, it may kill a process for."""
    with originals.open_file("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return 1 << 62
