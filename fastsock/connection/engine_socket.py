"""The methods, beside the standard ones, by which native code takes a fast socket's connection over."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class EngineSocket(Protocol):
        """A socket whose connection an engine takes over. `fastsock.socket.socket` is one.

        The names are private because a program may derive its own class from the socket's, with names of its own.
        Accepting is in halves, so that a thread may take the next connection while another one meets:

            sock, address = listener._fast_take()
            sock._fast_meet_from(listener, address)
            sock._fast_give_to(engine, peer, in_memory)     at either end, once it is connected
            ...                                             the engine closes the descriptor
            sock._fast_given_back()
        """

        def _fast_take(self) -> tuple[Any, Any]:
            """Accepts as the kernel does. Returns a socket and the other end's address. It is on TCP until it meets."""

        def _fast_meet_from(self, listener: Any, address: Any) -> None:
            """Meets the connecting end, and may wait for it. Leaves TCP if both ends can."""

        def _fast_give_to(self, engine: Any, peer: int, in_memory: bool) -> None:
            """Messages of the engine with `peer` go over this connection from now on. Raises OSError: it is closed.

            in_memory: both ends have said that the connection stays TCP and both its directions go through memory. The
            socket cannot be used any more, but still tells of its connection (`fastsock.explain`).
            """

        def _fast_given_back(self) -> None:
            """The engine has closed it: the connection is over."""
