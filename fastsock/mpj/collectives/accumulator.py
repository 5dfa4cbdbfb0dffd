"""A partial result in a reduction."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .exchange import Exchange
    from .protocols import Combine, View


class Accumulator:
    """What a run of neighbouring ranks gives. It grows at either end, with as few copies as the order allows."""

    __slots__ = ("_combine", "_exchange", "_owned", "_spare", "value")

    def __init__(
        self, exchange: Exchange, combine: Combine, own: View, spare: View | None = None, owned: bool = False
    ) -> None:
        """Begin with one rank's own contribution, which stays as it is unless it is `owned`; `spare` is memory for
        what comes."""
        self._exchange, self._combine = exchange, combine
        self.value, self._spare, self._owned = own, spare, owned

    def room(self) -> View:
        """Where to receive the next partial result."""
        if self._spare is None:
            self._spare = self._exchange.scratch(len(self.value))
        return self._spare

    def take_higher(self) -> None:
        """Add what came into the room, of the ranks just above."""
        value, room = self.value, self.room()
        self._combine(value, room)
        self._spare = value if self._owned else None
        self.value, self._owned = room, True

    def take_lower(self) -> None:
        """Add what came into the room, of the ranks just below."""
        if self._combine.commutative:
            self.take_higher()
            return
        if not self._owned:
            own = self.value
            self.value, self._owned = self._exchange.scratch(len(own)), True
            self.value[:] = own
        self._combine(self.room(), self.value)

    def store(self, receive: View) -> None:
        """Put the result where it belongs."""
        if self.value is not receive:
            receive[:] = self.value


def begin(exchange: Exchange, send: View | None, receive: View | None, combine: Combine) -> Accumulator:
    """One's own contribution: `send`, or in place what is in `receive`. Then `receive` may be written over. At the end
    the result goes to `receive` where there is one, so that is where the accumulating begins."""
    if send is None:
        assert receive is not None
        return Accumulator(exchange, combine, receive, owned=True)
    return Accumulator(exchange, combine, send, receive)
