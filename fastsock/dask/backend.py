"""The entry point of distributed.comm.backends: what `fastsock://` addresses mean."""

from __future__ import annotations

from distributed.comm.tcp import BaseTCPBackend

from .connecting import FastConnector
from .listening import FastListener


class FastBackend(BaseTCPBackend):
    """Addresses are hosts and ports, as those of tcp://."""

    _connector_class = FastConnector
    _listener_class = FastListener
