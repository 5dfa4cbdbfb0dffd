"""What does an idle connection hold: resident memory of both ends, and wake-ups?

Memory is what both processes' proportional set sizes gain while the connections are made and each carries one small
message each way; shared pages count once. Wake-ups are voluntary context switches of all their threads while both
wait, in recv, in select, and elsewhere.
"""

from __future__ import annotations

import gc
import os
import selectors
import time
from pathlib import Path
from typing import Any

from common import question
from common.pair import Pair
from common.peers.stream_sockets import TcpPeer, require_path, settle, socket_module
from common.process import Broken, Process, Unusable
from common.question import Options
from common.target import Result

LIMIT_KIB = 64
MESSAGE, LARGE = 64, 1 << 20
ELSEWHERE, IN_RECV, IN_SELECT = "elsewhere", "in recv", "in select"


class Many(TcpPeer):
    """Many connections between the same two processes."""

    def __init__(self, name: str, **how: Any) -> None:
        super().__init__(name, **how)
        self.sockets: list[Any] = []

    def listen(self) -> Any:
        self.listener = socket_module(self.server).create_server(("127.0.0.1", 0), backlog=1024)
        return self.listener.getsockname()

    def accept(self) -> None:
        self.accept_more(1)

    def connect(self, address: Any) -> None:
        self.address = tuple(address)
        self.connect_more(1)
        if self.path:
            require_path(self.sockets[0], self.path)

    def accept_more(self, count: int) -> int:
        made = [self.listener.accept()[0] for _ in range(count)]
        self.sockets += made
        self._settle(made)
        return count

    def connect_more(self, count: int) -> int:
        """Returns how many took the wanted path."""
        module = socket_module(self.client)
        made = [module.create_connection(self.address) for _ in range(count)]
        self.sockets += made
        self._settle(made)
        return sum(sock.transport == self.path for sock in made) if self.path else count

    def _settle(self, made: list[Any]) -> None:
        for sock in made if self.path else ():
            settle(sock, self.path)

    def ask_all(self, size: int) -> None:
        """One message each way over every connection."""
        self._all(size, first=True)

    def answer_all(self, size: int) -> None:
        """The other end of ``ask_all``."""
        self._all(size, first=False)

    def _all(self, size: int, first: bool) -> None:
        out, into = self.buffers.of(size)
        for sock in self.sockets:
            if first:
                sock.sendall(out)
            self._rest_of(sock, into)
            if not first:
                sock.sendall(out)
        del out, into

    def _rest_of(self, sock: Any, into: memoryview) -> None:
        self.socket = sock
        self._rest(into, 0)

    def tidy(self) -> None:
        """Leave no garbage to be counted."""
        gc.collect()

    def wait(self, how: str) -> None:
        """Block until the first connection has a byte to read, then take it."""
        if how == IN_SELECT:
            with selectors.DefaultSelector() as selector:
                for sock in self.sockets:
                    selector.register(sock, selectors.EVENT_READ)
                selector.select()
        self.sockets[0].recv(1)

    def release(self) -> None:
        """End the other end's ``wait``."""
        self.sockets[0].sendall(b"k")


def measure(options: Options) -> list[Result]:
    results = []
    for name, how in (
        ("fastsock shm", {"client": "fast", "server": "fast", "path": "shm"}),
        ("tcp", {}),
    ):
        try:
            pair = Pair(Many(name, **how), options.cores)
        except (Broken, Unusable) as error:
            options.skipped.add(name, str(error))
            results.append(Result(f"idle {name}", None, "KiB", note=str(error)))
            continue
        try:
            results += _memory(pair, name, options)
            results += _wake_ups(pair, name, options)
        finally:
            pair.close()
    return results


def _memory(pair: Pair, name: str, options: Options) -> list[Result]:
    asked = options.times(50, 200)
    limit = LIMIT_KIB if name != "tcp" else None
    pair.both("ask_all", "answer_all", LARGE)  # what the interpreter itself takes once
    before = _resident(pair)
    count = pair.both("connect_more", "accept_more", asked)
    if not count:
        return [Result(f"idle {name}", None, "KiB", note=f"none of {asked} connections took the path")]
    made = _resident(pair)
    pair.both("ask_all", "answer_all", MESSAGE)
    used = _resident(pair)
    pair.both("ask_all", "answer_all", LARGE)
    filled = _resident(pair)
    where = f"both ends of an idle connection, {name}"
    note = f"over {count} of {asked} connections"
    return [
        Result(f"{where}, {MESSAGE} B carried", (used - before) / count, "KiB", at_most=limit, note=note),
        Result(f"{where}, nothing carried", (made - before) / count, "KiB", note=note),
        Result(f"{where}, 1 MiB carried each way", (filled - before) / count, "KiB", note=note),
    ]


def _wake_ups(pair: Pair, name: str, options: Options) -> list[Result]:
    seconds = options.pick(0.5, 2.0)
    limit = 0 if name != "tcp" else None
    results = []
    for how in (ELSEWHERE, IN_RECV, IN_SELECT):
        if how != ELSEWHERE:
            pair.other.start("wait", how)
        time.sleep(0.2)  # until it has settled; nothing tells when it sleeps
        before = [_switches(end) for end in (pair.near, pair.other)]
        time.sleep(seconds)
        switches = [_switches(end) - b for end, b in zip((pair.near, pair.other), before, strict=True)]
        if how != ELSEWHERE:
            pair.near.call("release")
            pair.other.finish()
        note = f"{switches[0]} in the client, {switches[1]} in the server, {seconds:g} s"
        results.append(
            Result(f"wake-ups while idle, {name}, server waits {how}", sum(switches), "", at_most=limit, note=note)
        )
    return results


def _resident(pair: Pair) -> float:
    """KiB, shared and private, of both processes."""
    for end in (pair.near, pair.other):
        end.call("tidy")
    return _share(pair.near) + _share(pair.other)


def _share(process: Process) -> float:
    for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return float(line.split()[1])
    raise OSError(f"the kernel tells no Pss of process {process.pid}")


def _switches(process: Process) -> int:
    total = 0
    for thread in os.listdir(f"/proc/{process.pid}/task"):
        for line in Path(f"/proc/{process.pid}/task/{thread}/status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                total += int(line.split()[1])
    return total


if __name__ == "__main__":
    question.run(measure, __doc__)
