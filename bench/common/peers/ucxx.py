"""ucxx's active messages: its core interface, whose worker is polled, over the shared memory of UCX."""

from __future__ import annotations

import importlib.util
import socket
import time
from typing import Any, ClassVar

from .. import venvs
from ..process import Unusable
from .peer import Peer, warm_up

VENV, PACKAGE = "ucxx", "ucxx-cu12"  # it runs without a CUDA device


class Ucxx(Peer):
    """A message and one that answers it. A message has one byte: it has no words, and none is empty."""

    environment: ClassVar[dict[str, str]] = {"UCX_TLS": "sm,self,tcp", "UCX_WARN_UNUSED_ENV_VARS": "n"}

    def __init__(self, name: str) -> None:
        self.name = name

    def _begin(self) -> bytes:
        """The address of this end's worker."""
        if importlib.util.find_spec("ucxx") is None:
            venvs.enter(VENV)
        try:
            from ucxx._lib import libucxx
            from ucxx._lib.arr import Array

            self.library = libucxx
            self.message = Array(bytearray(1))
            context = libucxx.UCXContext({}, feature_flags=(libucxx.Feature.AM,))
            self.worker = libucxx.UCXWorker(context)
            return bytes(self.worker.address.tobytes())
        except Exception as error:  # CUDA's packages fail in many ways where they miss something
            raise Unusable(f"ucxx does not run here: {type(error).__name__}: {error}") from error

    def _reach(self, address: bytes) -> None:
        there = self.library.UCXAddress.create_from_buffer(address)
        self.endpoint = self.library.UCXEndpoint.create_from_worker_address(self.worker, there, False)

    def listen(self) -> Any:
        own = self._begin()
        self.listener = socket.create_server(("127.0.0.1", 0))
        return self.listener.getsockname()[1], own.hex()

    def accept(self) -> None:
        with self.listener, self.listener.accept()[0] as met, met.makefile("rb") as file:
            self._reach(file.read())

    def connect(self, address: Any) -> None:
        port, theirs = address
        own = self._begin()
        with socket.create_connection(("127.0.0.1", port)) as met:
            met.sendall(own)
        self._reach(bytes.fromhex(theirs))

    def _complete(self, request: Any) -> Any:
        progress = self.worker.progress
        while not request.completed:
            progress()
        request.check_error()
        return request

    def ping(self, size: int, count: int) -> float:
        self._ask(warm_up(size, count))
        start = time.perf_counter()
        self._ask(count)
        return time.perf_counter() - start

    def _ask(self, count: int) -> None:
        endpoint, message, complete = self.endpoint, self.message, self._complete
        for _ in range(count):
            complete(endpoint.am_send(message))
            complete(endpoint.am_recv())

    def pong(self, size: int, count: int) -> None:
        endpoint, message, complete = self.endpoint, self.message, self._complete
        for _ in range(warm_up(size, count) + count):
            complete(endpoint.am_recv())
            complete(endpoint.am_send(message))
