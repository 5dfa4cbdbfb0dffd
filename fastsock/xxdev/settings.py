"""The settings of message passing: the FASTSOCK_MPJ_ variables that are no matter of a launcher, and defaults."""

from __future__ import annotations

import os

from .. import config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


EAGER = ("send", "write")
RENDEZVOUS = ("write", "read")
SHARED_MEMORY = ("measured", "buffers", "direct")


class Settings(config.Checked):
    """Every setting, checked. Times are milliseconds, sizes are bytes; both may be text, as the environment's are.

    device: the one that `Device.new_instance()` makes when no name is given.
    eager_limit: up to this length a message is sent at once, beyond it only when its receive has begun.
    credit: bytes of eager messages that one sender may have unreceived at one receiver.
    spin_us: longest busy wait, in microseconds, before a waiting call sleeps.
    connect_ms: how long the network may take to reach a rank before it counts as unreachable.
    silence_ms: how long the network may be silent before the rank behind it counts as lost.
    shared_memory: how long messages of collectives go in shared memory. "measured": the way that was faster lately;
        "buffers": copied through memory that all share; "direct": read out of their giver's memory.
    rdma_device: the one that ibvdev opens; none named: the one with the rank's address, or the first that is active.
    rdma_memory: bytes of programs' memory that ibvdev registers at once; beyond, long messages are copied.
    rdma_keeps_memory: it stays registered for later messages, where the kernel tells when it goes.
    rdma_eager: "send": short messages go to a queue of receives; "write": the sender's device writes them into memory
        that the receiver looks at, so a rank that waits keeps its core busy.
    rdma_rendezvous: "write": the sender's device writes long messages; "read": the receiver's reads them.
    """

    device: str
    eager_limit: int
    credit: int
    spin_us: float
    connect_ms: float
    silence_ms: float
    shared_memory: str
    rdma_device: str
    rdma_memory: int
    rdma_keeps_memory: bool
    rdma_eager: str
    rdma_rendezvous: str

    _fields = (
        "device",
        "eager_limit",
        "credit",
        "spin_us",
        "connect_ms",
        "silence_ms",
        "shared_memory",
        "rdma_device",
        "rdma_memory",
        "rdma_keeps_memory",
        "rdma_eager",
        "rdma_rendezvous",
    )
    __slots__ = _fields

    def __init__(
        self,
        *,
        device: str = "iodev",
        eager_limit: int | str = 128 << 10,
        credit: int | str = 4 << 20,
        spin_us: float | str = 200.0,
        connect_ms: float | str = 5000.0,
        silence_ms: float | str = 10_000.0,
        shared_memory: str = "measured",
        rdma_device: str = "",
        rdma_memory: int | str = 1 << 30,
        rdma_keeps_memory: bool | str = True,
        rdma_eager: str = "send",
        rdma_rendezvous: str = "write",
    ) -> None:
        put = object.__setattr__
        put(self, "device", device.strip())
        put(self, "eager_limit", config.size("eager_limit", eager_limit))
        put(self, "credit", config.size("credit", credit))
        put(self, "spin_us", config.duration("spin_us", spin_us))
        put(self, "connect_ms", config.duration("connect_ms", connect_ms))
        put(self, "silence_ms", config.duration("silence_ms", silence_ms))
        put(self, "shared_memory", config.choice("shared_memory", shared_memory, SHARED_MEMORY))
        put(self, "rdma_device", rdma_device.strip())
        put(self, "rdma_memory", config.size("rdma_memory", rdma_memory))
        put(self, "rdma_keeps_memory", config.flag("rdma_keeps_memory", rdma_keeps_memory))
        put(self, "rdma_eager", config.choice("rdma_eager", rdma_eager, EAGER))
        put(self, "rdma_rendezvous", config.choice("rdma_rendezvous", rdma_rendezvous, RENDEZVOUS))


_VARIABLES = {f"FASTSOCK_MPJ_{name.upper()}": name for name in Settings._fields}


def from_environment(environ: Mapping[str, str] | None = None) -> Settings:
    """The settings that the FASTSOCK_MPJ_ variables give; an empty one counts as unset. Raises ConfigError."""
    environ = os.environ if environ is None else environ
    return Settings().reading(_VARIABLES, environ)


in_force = config.InForce(from_environment)
current: Callable[[], Settings] = in_force.settings
reload: Callable[[], Settings] = in_force.reload
configure: Callable[..., Settings] = in_force.configure
