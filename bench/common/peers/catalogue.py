"""Every peer by the word that chooses it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from .asyncio_streams import AsyncioStreams
from .bare_copy import BareCopy
from .bare_ring import BareRing, BareRingInC
from .peer import Peer
from .pipes import PipeBytes, PipePickledArrays
from .stream_sockets import PolledTcp, TcpPeer, UnixPair
from .zeromq import ZeroMq

Maker = Callable[..., Peer]


def fast(path: str, name: str = "", buffers: str = "bytearray") -> Peer:
    """fastsock at both ends, with one path allowed besides TCP."""
    return TcpPeer(name or f"fastsock {path}", client="fast", server="fast", path=path, buffers=buffers)


# In the order in which they take their turns; tcp first, since the others are compared with it.
CATALOGUE: dict[str, Maker] = {
    "tcp": partial(TcpPeer, "tcp"),
    "shm": partial(fast, "shm"),
    "fast-tcp": partial(fast, "tcp"),
    "tcp-polled": partial(PolledTcp, "tcp polled"),
    "unix": partial(UnixPair, "AF_UNIX"),
    "pipe": PipeBytes,
    "pipe-pickle": PipePickledArrays,
    "zmq": partial(ZeroMq, "zmq ipc", copy=True),
    "zmq-zero-copy": partial(ZeroMq, "zmq ipc zero-copy", copy=False),
    "ring": partial(BareRing, "bare ring"),
    "ring-c": partial(BareRingInC, "bare ring in C"),
    "readv": partial(BareCopy, "process_vm_readv", both=False),
    "both": partial(BareCopy, "both ends copying", both=True),
    "asyncio-tcp": partial(AsyncioStreams, "asyncio tcp"),
    "asyncio-shm": partial(AsyncioStreams, "asyncio fastsock shm", "shm"),
}


def choose(words: str | None, buffers: str = "bytearray") -> dict[str, Callable[[], Peer]]:
    """Makers by peer name. Raises SystemExit for an unknown word; tcp is added where ratios need it."""
    wanted = words.split(",") if words else list(CATALOGUE)
    unknown = [word for word in wanted if word not in CATALOGUE]
    if unknown:
        raise SystemExit(f"unknown peer {', '.join(unknown)}; known: {', '.join(CATALOGUE)}")
    if any(not word.startswith("asyncio") for word in wanted):
        wanted.append("tcp")
    if any(word.startswith("asyncio") for word in wanted):
        wanted.append("asyncio-tcp")
    makers: dict[str, Callable[[], Peer]] = {}
    for word, maker in CATALOGUE.items():
        if word in wanted:
            made = partial(_with_buffers, maker, buffers)
            makers[made().name] = made
    return makers


def _with_buffers(maker: Maker, kind: str) -> Peer:
    peer = maker()
    if hasattr(peer, "buffers"):
        peer.buffers.kind = kind
    return peer
