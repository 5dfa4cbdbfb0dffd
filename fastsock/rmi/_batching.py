# cython: language_level=3, annotation_typing=False, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Calls that go together: what a batch notes of each, and how the results come to their places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from fastsock.rmi import _interpreted as cython

from fastsock.rmi.proxy import method_named

if not cython.compiled:
    from fastsock.rmi._connection import Method
    from fastsock.rmi._interpreted import accept_calls
    from fastsock.rmi._interpreted import no_vectorcall as vectorcall_of_recording
    from fastsock.rmi._packing_values import Writer

    def new_later(method: Any) -> Later:
        return Later(method)


class Later:
    """The result of a call of a batch."""

    def __init__(self, method: Method) -> None:
        self._method = method
        self._arguments: Any = None
        self._keywords: Any = None
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None

    def _what(self) -> str:
        return f"{self._method.target.name}.{self._method.name}"

    def __repr__(self) -> str:
        return f"<result of {self._what()}: {'ready' if self._done else 'not sent yet'}>"

    def done(self) -> bool:
        """Whether the batch has come back."""
        return self._done

    def result(self) -> Any:
        """The value. Raises what the call raised, RuntimeError before the end of the block."""
        if not self._done:
            raise RuntimeError(f"{self._what()} is in a batch: its result is there after the block")
        if self._error is not None:
            raise self._error
        return self._value


class Recording:
    """A method of a batch: a call of it is noted."""

    def __init__(self, recorder: Recorder, method: Method) -> None:
        self._recorder = recorder
        self._method = method
        self._vectorcall = vectorcall_of_recording()

    def __call__(self, *arguments: Any, **keywords: Any) -> Later:
        return self._note(arguments, keywords)

    def _note(self, arguments: Any, keywords: Any) -> Later:
        later = new_later(self._method)
        later._arguments = arguments
        if keywords:
            later._keywords = keywords
        self._recorder.results.append(later)
        return later


class Calls:
    """What the block of a batch calls. A method is made at its first use."""

    def __init__(self, proxy: Any, recorder: Recorder) -> None:
        self._proxy = proxy
        self._recorder = recorder

    def __getattr__(self, name: str) -> Recording:
        found = None if name.startswith("_") else method_named(self._proxy, name)
        if found is None:
            raise AttributeError(f"{self._proxy!r} exposes no method {name!r}")
        made = Recording(self._recorder, found)
        setattr(self, name, made)
        return made


def recording_of(calls: Any, method: Method) -> Recording:
    """A method of the batch's own proxy, to be called in its block. Raises TypeError where it is another one's."""
    if not isinstance(calls, Calls):
        raise TypeError(f"{calls!r} is not what the block of a batch calls")
    noted = calls
    if method.target is not noted._proxy._rmi_target:
        raise TypeError(f"{method!r} is not of the object of this batch, {noted._proxy!r}")
    return Recording(noted._recorder, method)


class Recorder(Writer):
    """The calls of a batch, in their order. object_number: of the object that they are made on, when they are sent."""

    def __init__(self) -> None:
        self.object_number = 0
        self.results: list[Later] = []

    def write_to(self, packer: Any) -> None:
        """A tuple: object, method, arguments, keywords of each call. The calls keep nothing of it."""
        packer.put_tuple_of(4 * len(self.results))
        packer.enter()
        for each in self.results:
            later = each
            packer.ready()
            packer.put_int(self.object_number)
            packer.put_int(later._method.number)
            packer.write(later._arguments)
            packer.write(later._keywords)
            later._arguments = None
            later._keywords = None
        packer.leave()
        packer.count += 1

    def settle(self, values: Any, error_of: Callable[..., BaseException]) -> None:
        """The batch has come back: a value for each call behind True, or the parts of an error behind False."""
        if type(values) is not list or len(values) != 2 * len(self.results):
            raise ValueError(f"{len(self.results)} calls of a batch had another number of results")
        found = values
        at = 0
        for each in self.results:
            later = each
            if found[at] is True:
                later._value = found[at + 1]
            else:
                later._error = error_of(*found[at + 1])
            later._done = True
            at += 2


accept_calls()
