"""The shm path: byte rings in sealed shared memory, which a connection gains while it lives. TCP stays beside them.

The ends find each other and attach in the core (core/switch); `connection/carriers.py` tells it the settings.
"""

from __future__ import annotations

from . import core
from .transport import WITHOUT_CORE, Capability, Transport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .transport import Reason


class ShmTransport(Transport):
    name = "shm"
    capabilities = Capability.SAME_HOST | Capability.SHARED_MEMORY
    depends: Mapping[str, str] = {
        "descriptors.blocked_in_sending_to_a_detached_number_that_is_closed": "no number is given away within a call",
    }

    def usable(self) -> Reason | None:
        return None if core.available else WITHOUT_CORE
