"""The text of an algorithm as a schedule, which the engine follows by itself.

The text runs once, on an engine that writes down what is posted, and on parts of memory that is given later. So it is
the text of the blocking calls that non-blocking ones follow, without Python and without another description of it.
What depends on a message's contents cannot be written down, nor can an operation without a native kernel.
"""

from __future__ import annotations

from fastsock.core.binding._schedule import STEP_COMBINE, STEP_COPY, STEP_RECEIVE, STEP_SEND, STEP_WAIT, Schedule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from .protocols import Combine, Steps

LINE = 64
SCRATCH = 0
"""The first buffer of a schedule."""


class NotRecordableError(Exception):
    """The engine cannot follow this text by itself."""


class Part:
    """Bytes of a buffer that a call will give. It stands for a view of them in the text of an algorithm."""

    __slots__ = ("_recorder", "buffer", "length", "offset")

    def __init__(self, recorder: Recorder, buffer: int, offset: int, length: int) -> None:
        self._recorder, self.buffer, self.offset, self.length = recorder, buffer, offset, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, place: slice) -> Part:
        start, stop, _ = place.indices(self.length)
        return Part(self._recorder, self.buffer, self.offset + start, max(stop - start, 0))

    def __setitem__(self, place: slice, source: Part) -> None:
        target = self[place]
        if target.length != source.length:
            raise NotRecordableError(f"{source.length} bytes do not go into {target.length}")
        if target.length:
            self._recorder.between(STEP_COPY, source, target)


class RecordedCombine:
    """An operation that native code knows."""

    __slots__ = ("_recorder", "commutative", "itemsize", "kernel")

    def __init__(self, recorder: Recorder, combine: Combine) -> None:
        self._recorder = recorder
        self.commutative, self.itemsize, self.kernel = combine.commutative, combine.itemsize, combine.kernel

    def __call__(self, source: Part, target: Part) -> None:
        if len(target):
            self._recorder.between(STEP_COMBINE, source, target)


class Posted:
    """A message that was written down."""

    __slots__ = ("awaited", "number")

    done = False
    error = None
    callback = None

    def __init__(self, number: int) -> None:
        self.number, self.awaited = number, False

    @property
    def payload(self) -> Any:
        """Nobody knows it when a text is written down."""
        raise NotRecordableError("the text depends on what a message contains")


class Recorder:
    """What an algorithm posts its messages to, in place of an engine. A message's tag is the number of its channel."""

    __slots__ = ("_awaited", "_kernel", "_lengths", "_parts", "_posted", "_steps", "contexts")

    def __init__(self, contexts: Sequence[int]) -> None:
        self.contexts = list(contexts)
        self._steps: list[tuple[int, ...]] = []
        self._parts: list[tuple[int, int, int]] = []
        self._awaited: list[int] = []
        self._posted: list[Posted] = []
        self._lengths = [0]
        self._kernel: Any = None

    # what a text works on

    def buffer(self, view: memoryview | Sequence[memoryview]) -> Any:
        """One more buffer that calls will give; or several."""
        if not isinstance(view, memoryview):
            return [self.buffer(each) for each in view]
        self._lengths.append(len(view))
        return Part(self, len(self._lengths) - 1, 0, len(view))

    def combine(self, combine: Combine) -> RecordedCombine:
        """The operation of a reduction."""
        self._kernel = combine.kernel
        return RecordedCombine(self, combine)

    def scratch(self, nbytes: int) -> Part:
        """Memory of one's own, with anything in it."""
        start = self._lengths[SCRATCH]
        self._lengths[SCRATCH] += (nbytes + LINE - 1) // LINE * LINE
        return Part(self, SCRATCH, start, nbytes)

    # what it does

    def isend(self, data: Part | list[Part], peer: int, tag: int, context: int) -> Posted:
        """Write a message down."""
        return self._message(STEP_SEND, data, peer, tag)

    def irecv(self, data: Part | list[Part], peer: int, tag: int, context: int) -> Posted:
        """Write a receive down."""
        return self._message(STEP_RECEIVE, data, peer, tag)

    def irecv_new(self, peer: int, tag: int, context: int) -> Posted:
        """Refuse."""
        raise NotRecordableError("a message's size is not known before it comes")

    def _message(self, kind: int, data: Part | list[Part], peer: int, channel: int) -> Posted:
        posted = Posted(len(self._posted))
        self._posted.append(posted)
        first = self._add(data if isinstance(data, list) else [data])
        self._steps.append((kind, channel, peer, posted.number, first, len(self._parts) - first))
        return posted

    def _add(self, parts: Iterable[Any]) -> int:
        first = len(self._parts)
        for part in parts:
            if isinstance(part, Part):
                self._parts.append((part.buffer, part.offset, part.length))
            elif len(part) == 0:  # of a barrier
                self._parts.append((SCRATCH, 0, 0))
            else:
                raise NotRecordableError("the text sends memory of its own")
        return first

    def between(self, kind: int, source: Part, target: Part) -> None:
        """Write down what is done with two parts of memory."""
        self._steps.append((kind, 0, 0, 0, self._add((source, target)), 2))

    def wait(self, requests: Iterable[Posted]) -> None:
        """Write down that these messages must be complete before the text goes on."""
        first = len(self._awaited)
        for posted in requests:
            if not posted.awaited:
                posted.awaited = True
                self._awaited.append(posted.number)
        if len(self._awaited) > first:
            self._steps.append((STEP_WAIT, 0, 0, 0, first, len(self._awaited) - first))

    def schedule(self, steps: Steps) -> Schedule:
        """Run the text; what it does as a schedule."""
        for requests in steps:
            self.wait(requests)  # type: ignore[arg-type]
        self.wait(self._posted)
        requests_ = len(self._posted)
        return Schedule(self._steps, self._parts, self._awaited, requests_, self._lengths, self.contexts, self._kernel)


def _is_blocks(argument: Any) -> bool:
    return hasattr(argument, "fresh")


def shape(argument: Any, memory: list[memoryview]) -> Any:
    """All of an argument that a schedule depends on; its memory is added to `memory`."""
    if isinstance(argument, memoryview):
        memory.append(argument)
        return len(argument)
    if _is_blocks(argument):
        return argument.shape(memory)
    if isinstance(argument, (int, type(None))):
        return argument, type(argument)
    if isinstance(argument, (list, tuple)):
        return tuple(argument)
    kernel = getattr(argument, "kernel", None)
    if kernel is None:
        raise NotRecordableError("the native kernels do not know this operation on this type")
    return kernel, argument.commutative, argument.itemsize


def recorded(argument: Any, recorder: Recorder) -> Any:
    """What stands for the argument while the text is written down; its memory is taken in the same order."""
    if isinstance(argument, memoryview):
        return recorder.buffer(argument)
    if _is_blocks(argument):
        return argument.on(recorder.buffer)
    if isinstance(argument, (int, type(None), list, tuple)):
        return argument
    return recorder.combine(argument)
