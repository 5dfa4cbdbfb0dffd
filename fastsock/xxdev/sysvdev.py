"""sysvdev: one System V shared memory segment for each pair of ranks on one host, as MPJ Express's second device.

The rings, the waiting and the doorbell are the core's, as on the shm path; only the memory is another kind. A segment
outlives its processes unless it is removed, so it is marked for removal as soon as its maker has it attached: Linux
lets the other end attach it by its number all the same, and it goes with the last of the two, however they end. What a
rank that is killed in between leaves is told by its key and by the maker's number, and swept by the next.
"""

from __future__ import annotations

import contextlib
import socket
import struct

from .. import config, core
from ..meeting import unix_calls
from ..system import proof
from ..system.forkable import new_lock
from ..system.originals import originals
from .connections import Connections, listening
from .errors import Code, failed
from .networked import NetworkedDevice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

try:
    import sysv_ipc
except ImportError as error:
    raise ImportError("sysvdev needs the package sysv_ipc: pip install 'fastsock[sysv]', or use iodev") from error

_OFFER = struct.Struct("!iQQ")  # number, token, the maker's IPC namespace
_KEY_PREFIX = 0x4653_0000  # "FS": with 16 more bits the key of a segment that is being made
_TABLE = "/proc/sysvipc/shm"


class Sysvdev(NetworkedDevice):
    """Messages over System V shared memory: for ranks of one host."""

    name = "sysvdev"

    def init(self, args: Any = None) -> list[int]:
        sweep()
        return super().init(args)

    def connect_with(self) -> Connections:
        return _Segments(self.job, self.engine, self.settings)

    def explain(self, peer: int) -> Any:
        """What the segment carried so far, a dictionary as the channel counts it; None before the first message."""
        connections = self.connections
        channel = connections.standing.get(peer) if isinstance(connections, _Segments) else None
        return None if channel is None else {"transport": "sysv", **channel.statistics()}


class _Segments(Connections):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.standing: dict[int, Any] = {}
        self._name = proof.hmac_sha256(self.job.secret, b"sysvdev" + self.job.name.encode())[:12].hex()

    def _address(self, rank: int) -> str:
        return f"\0fastsock/sysvdev/{self._name}/{rank}"

    def listen(self) -> Any:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        return listening(listener, self._address(self.job.rank), self.job.size)

    def publish(self, listener: Any) -> None:
        self.job.publish(f"sysvdev/{self.job.rank}", b"1")

    def reach(self, peer: int) -> Any:
        self.job.lookup(f"sysvdev/{peer}", of=peer)
        if peer not in self.job.local_ranks:
            what = f"{self.name(peer)} is on another host than rank {self.job.rank}"
            raise failed(Code.UNREACHABLE, f"{what}: sysvdev joins ranks of one host, use iodev", peer)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(self._address(peer))
        except BaseException:
            sock.close()
            raise
        return sock

    def offer(self, peer: int) -> tuple[bytes, Any]:
        number, token, segment = make(config.settings().ring_bytes)
        return _OFFER.pack(number, token, _ipc_namespace()), segment

    def settle(self, peer: int, sock: Any, offered: Any, sent: bytes) -> None:
        segment, side = offered, core.ACCEPTED
        if segment is None:
            number, token, namespace = _OFFER.unpack(sent)
            if namespace != _ipc_namespace():
                what = f"{self.name(peer)} is in another IPC namespace than rank {self.job.rank}"
                raise failed(Code.UNREACHABLE, f"{what}: start them in one container, or use iodev", peer)
            segment, side = core.Segment.of_system_v(number, token), core.CONNECTED
        current = config.settings()
        direct_min = current.direct_min if current.peers == "same-user" else 0
        pid, _ = unix_calls.peer(sock.fileno())
        channel = core.Channel(
            segment, sock.fileno(), side, spin_us=self.settings.spin_us, direct_min=direct_min, peer_pid=pid,
            peer=f"rank {peer}",
        )  # fmt: skip
        self.standing[peer] = channel  # before the first message over it can be received
        try:
            self.engine.attach_channel(peer, channel)
        except BaseException:  # the engine was closed, or the peer is lost: the doorbell is the caller's still
            del self.standing[peer]
            raise
        sock.detach()  # the doorbell's descriptor is the engine's now

    def where(self, peer: int) -> str:
        return "System V shared memory"

    def close(self) -> None:
        super().close()
        self.standing.clear()


def make(ring_bytes: int) -> tuple[int, int, Any]:
    """A new segment, attached here and marked for removal: its number, its token, and the mapping. Raises OSError."""
    token = int.from_bytes(originals.urandom(8), "big")
    with _making:
        memory = _new_memory(core.segment_bytes(ring_bytes))
        try:
            core.format_system_v(memory.id, ring_bytes, token)
            return memory.id, token, core.Segment.of_system_v(memory.id, token)
        finally:
            memory.remove()
            memory.detach()


_making = new_lock()


def _new_memory(size: int) -> Any:
    """Attached once. Not created exclusively: then the package would write all of it, of which most is never used."""
    for _ in range(64):
        key = _KEY_PREFIX | int.from_bytes(originals.urandom(2), "big")
        try:
            memory = sysv_ipc.SharedMemory(key, sysv_ipc.IPC_CREAT, mode=0o600, size=size)
        except sysv_ipc.PermissionsError:  # another user's
            continue
        except (sysv_ipc.Error, OSError, MemoryError, ValueError) as error:
            raise OSError(f"System V shared memory of {size} bytes: {error}: see the limits of `ipcs -lm`") from error
        if memory.creator_pid == originals.getpid():
            return memory
        memory.detach()
    raise OSError("no key is free for System V shared memory: see `ipcs -m`")


def sweep() -> int:
    """Removes the segments of this user whose maker was killed before it could mark them for removal; how many."""
    removed = 0
    try:
        with originals.open_file(_TABLE) as table:
            names = next(table).split()
            rows = [dict(zip(names, line.split(), strict=False)) for line in table]
    except (OSError, StopIteration):
        return 0
    for row in rows:
        key = int(row["key"]) & 0xFFFF_FFFF
        if key & 0xFFFF_0000 != _KEY_PREFIX or not unix_calls.is_own_user(int(row["uid"])) or int(row["nattch"]):
            continue
        if not _is_alive(int(row["cpid"])):
            with contextlib.suppress(sysv_ipc.Error):  # somebody else sweeps too
                sysv_ipc.remove_shared_memory(int(row["shmid"]))
                removed += 1
    return removed


def _is_alive(pid: int) -> bool:
    try:
        originals.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _ipc_namespace() -> int:
    return originals.stat("/proc/self/ns/ipc").st_ino
