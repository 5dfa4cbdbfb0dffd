"""The shm path: byte rings in sealed shared memory; the meeting's UNIX connection stays as the doorbell."""

from __future__ import annotations

import errno
from os import close as _close
from typing import TYPE_CHECKING, Any

from . import core
from .transport import Capability, Reason, Refused, Transport

if TYPE_CHECKING:
    from .config import Settings

NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
NO_MEMORY = (errno.ENOMEM, errno.EFBIG, errno.ENOSPC, errno.EAGAIN)


def refusal(error: OSError) -> Refused:
    if error.errno in NO_DESCRIPTORS:
        return Refused(Reason.NO_DESCRIPTORS, str(error))
    if error.errno in NO_MEMORY:
        return Refused(Reason.NO_MEMORY, str(error))
    return Refused(Reason.SYSTEM_ERROR, str(error))


class ShmTransport(Transport):
    name = "shm"
    number = 2
    capabilities = Capability.SAME_HOST | Capability.MEETS_BESIDE_TCP | Capability.SHARED_MEMORY

    def usable(self) -> Reason | None:
        return None if core.available else Reason.NO_NATIVE_CORE

    def offer(self, doorbell: Any, settings: Settings, peer: str) -> tuple[Any, list[int]]:
        memory = -1
        try:
            memory = core.create_segment(settings.ring_bytes)
            channel = core.Channel(memory, doorbell.fileno(), core.ACCEPTED, spin_us=settings.spin_us, peer=peer)
        except OSError as error:
            if memory >= 0:
                _close(memory)
            raise refusal(error) from error
        return channel, [memory]

    def join(self, doorbell: Any, descriptors: list[int], settings: Settings, peer: str) -> Any:
        if len(descriptors) != 1:
            raise Refused(Reason.PEER_DECLINED, "the other end sent no memory")
        try:
            return core.Channel(descriptors[0], doorbell.fileno(), core.CONNECTED, spin_us=settings.spin_us, peer=peer)
        except OSError as error:
            raise refusal(error) from error
