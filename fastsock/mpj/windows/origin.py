"""What an origin sends to the servers of the other members, and what it hears from them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from fastsock.core.binding._requests import STANDARD, MessageError

from ..constants import ERR_TRUNCATE
from ..exceptions import Exception as MPIException
from .far import Far
from .frames import DATA, FIRST_ANSWER, FLUSH, INLINE, LAST_ANSWER, REQUEST, Frame, failure_of
from .operations import Begun, Incoming, Outgoing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from .target import Place

    Operated = TypeVar("Operated", Outgoing, Incoming)
    Question = tuple[Begun, int, Any]


class Origin:
    """The messages of one member about one window; its errors are the window's."""

    def __init__(self, window: Any, far: Far) -> None:
        self._window = window
        self._far = far
        self._failed: Callable[[BaseException], BaseException] = window.failed
        self.engine = window.engine
        self.context: int = window.communicator.context
        self.targets = [Begun(peer) for peer in window.communicator.ranks]
        self._answers = itertools.count()

    # ---- operations of the device ----

    def write(self, rank: int, frame: Frame, place: Place, data: Any, owner: Any) -> Outgoing | None:
        """Writes data over items. The device does it where it reaches them, else a message."""
        if len(data) == 0:
            return None
        begun = self.targets[rank]
        try:
            with begun.sending:
                request = self._far.write(rank, frame.offset, place, data)
                if request is not None:
                    begun.written = request
                    return self._under_way(begun, Outgoing(self._window, request, (owner, data, place.datatype.ob)))
        except MessageError as error:
            raise self._failed(error) from error
        return self.send(rank, frame, data, owner)

    def read(self, rank: int, frame: Frame, place: Place, owner: Any, into: tuple[Any, Any, int]) -> Incoming | None:
        """Reads items `into` memory in the same way; see `ask`."""
        room, land, expected = into
        begun = self.targets[rank]
        try:
            with begun.sending:
                request = self._far.read(rank, frame.offset, place, memoryview(room)[:expected])
                if request is not None:
                    kept = (owner, place.datatype.ob)
                    incoming = Incoming(self._window, request, kept, land, expected, lambda: self._complaint(rank))
                    return self._under_way(begun, incoming)
        except MessageError as error:
            raise self._failed(error) from error
        return self.ask(rank, frame, None, owner, into)

    def _under_way(self, begun: Begun, operation: Operated) -> Operated | None:
        """Keeps an operation of the device's, unless it is over."""
        if operation.over:
            return None
        begun.add(operation)
        return operation

    def _read_back(self, rank: int) -> None:
        """Has something follow the device's writes, so that they are there once it is done."""
        begun = self.targets[rank]
        with begun.sending:
            if begun.written is None:
                return
            begun.written = None
            room = bytearray(1)
            request = self._far.read_back(rank, room)
            if request is None:
                begun.sent += 1  # a message of the flush does it
            else:
                begun.add(Outgoing(self._window, request, room))

    def _follow(self, begun: Begun) -> None:
        """Before a message, which must not overtake what the device has not begun to write."""
        if begun.written is not None and not begun.written.done:
            begun.written.wait()

    # ---- operations by messages ----

    def send(self, rank: int, frame: Frame, data: Any, owner: Any) -> Outgoing | None:
        """Sends an operation that has no answer. Data that are short are copied."""
        frame.length = len(data)
        if frame.length == 0:
            return None
        begun = self.targets[rank]
        try:
            self._follow(begun)
            with begun.sending:
                begun.sent += 1
                if frame.length <= INLINE:
                    frame.data = data
                    self._send(frame.packed(), begun.peer, REQUEST)
                    return None
                self._send(frame.packed(), begun.peer, REQUEST)
                operation = Outgoing(self._window, self._send(data, begun.peer, DATA), (owner, data))
                begun.add(operation)
                return operation
        except MessageError as error:
            raise self._failed(error) from error

    def ask(self, rank: int, frame: Frame, data: Any, owner: Any, into: tuple[Any, Any, int]) -> Incoming:
        """Sends an operation whose answer goes `into` memory: (where, what to call then, how long it is)."""
        room, land, expected = into
        begun = self.targets[rank]
        frame.answer = self._answer()
        long = None
        if data is not None:
            frame.length = len(data)
            if frame.length <= INLINE:
                frame.data = data
            else:
                long = data
        try:
            self._follow(begun)
            answer = self.engine.irecv(memoryview(room)[:expected], begun.peer, frame.answer, self.context)
            with begun.sending:
                self._send_before(answer, frame.packed(), begun.peer, REQUEST)
                if long is not None:
                    begun.add(Outgoing(self._window, self._send_before(answer, long, begun.peer, DATA), (owner, long)))
                incoming = Incoming(self._window, answer, owner, land, expected, lambda: self._complaint(rank))
                begun.add(incoming)
                return incoming
        except MessageError as error:
            raise self._failed(error) from error

    # ---- questions ----

    def _answer(self) -> int:
        """Returns a tag for an answer that no other one under way has."""
        return FIRST_ANSWER + next(self._answers) % (LAST_ANSWER - FIRST_ANSWER)

    def _send(self, data: Any, peer: int, tag: int) -> Any:
        return self.engine.isend(data, peer, tag, self.context, STANDARD)

    def _send_before(self, answer: Any, data: Any, peer: int, tag: int) -> Any:
        """Sends what is answered: where that cannot be, nobody waits for the answer."""
        try:
            return self._send(data, peer, tag)
        except BaseException:
            answer.cancel()
            raise

    def begin_question(self, rank: int, kind: int, argument: int = 0) -> Question:
        """Asks a target something, behind all that was sent to it."""
        begun = self.targets[rank]
        frame = Frame(kind, argument=argument, answer=self._answer())
        try:
            answer = self.engine.irecv_new(begun.peer, frame.answer, self.context)
            with begun.sending:
                number = begun.sent
                self._send_before(answer, frame.packed(), begun.peer, REQUEST)
        except MessageError as error:
            raise self._failed(error) from error
        return begun, number, answer

    def end_question(self, question: Question) -> MPIException | None:
        """Returns the error that the target answers with."""
        begun, number, answer = question
        try:
            answer.wait()
        except MessageError as error:
            raise self._failed(error) from error
        begun.heard = max(begun.heard, number)
        return failure_of(answer.payload)

    def question(self, rank: int, kind: int, argument: int = 0) -> None:
        """Asks a target something, and waits. Raises the error that it answers with."""
        error = self.end_question(self.begin_question(rank, kind, argument))
        if error is not None:
            raise self._failed(error)

    def _complaint(self, rank: int) -> BaseException:
        """Returns why a target has refused an operation."""
        error = self.end_question(self.begin_question(rank, FLUSH))
        return self._failed(error or MPIException(ERR_TRUNCATE, f"rank {rank} sent less than was asked for"))

    def complete(self, ranks: Sequence[int]) -> None:
        """Waits until the operations to these ranks are complete there. All are asked before one is waited for."""
        try:
            for rank in ranks:
                self._read_back(rank)
        except MessageError as error:
            raise self._failed(error) from error
        questions = [
            self.begin_question(rank, FLUSH) for rank in ranks if self.targets[rank].heard < self.targets[rank].sent
        ]
        self.end_all(ranks, questions)

    def end_all(self, ranks: Sequence[int], questions: list[Question]) -> None:
        """Waits until the operations to these ranks are complete here, and for answers. Raises the first error."""
        failed: BaseException | None = None
        for rank in ranks:
            try:
                self.targets[rank].wait()
            except MPIException as error:
                failed = failed or error
        for question in questions:
            try:
                answer = self.end_question(question)
            except MPIException as error:
                failed = failed or error
            else:
                if answer is not None and failed is None:
                    failed = self._failed(answer)
        if failed is not None:
            raise failed

    # ---- signals between the programs of two members ----

    def signal(self, rank: int, tag: int) -> None:
        """Sends a signal."""
        try:
            self._send(None, self.targets[rank].peer, tag)
        except MessageError as error:
            raise self._failed(error) from error

    def hear(self, rank: int, tag: int) -> None:
        """Waits for a signal."""
        try:
            self.engine.recv(None, self.targets[rank].peer, tag, self.context)
        except MessageError as error:
            raise self._failed(error) from error

    def expect(self, rank: int, tag: int) -> Any:
        """Returns the engine's request for a signal."""
        try:
            return self.engine.irecv(None, self.targets[rank].peer, tag, self.context)
        except MessageError as error:
            raise self._failed(error) from error
