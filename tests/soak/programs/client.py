"""A client of the campaign, a program by itself: client.py TALK WAY PORT FILE CLIENT CONNECTIONS SEED

It reads no environment (-I), where it shall have the preloaded library alone.
"""

from __future__ import annotations

import json
import os
import random
import selectors
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "..")))

from tests.soak.programs.shared import Shared
from tests.soak.programs.talks import ANSWERED, LINE, TALKS, Caller, Over, Talk, Wrong
from tests.soak.programs.turns import put, take, wait

PATIENCE = 25.0
ENDED = (ConnectionResetError, BrokenPipeError, ConnectionAbortedError)
told: dict[str, int] = {}
problems: list[str] = []


class Conversation:
    """A connection as a talk has it: what is to be sent, and what came of what is awaited."""

    def __init__(self, caller: Caller, talk: Talk, before: tuple[int, int, bool]) -> None:
        self.caller, self.talk = caller, talk
        self.events, self.reloads, self.excused = before
        self.out = memoryview(b"")
        self.got = bytearray()
        self.wanted: int | str = 0
        caller.process, caller.relayed = 0, False
        self._go_on(next(talk))

    def sent(self, count: int) -> None:
        self.out = self.out[count:]
        if not self.out:
            self._go_on(next(self.talk))

    def heard(self, data: bytes) -> None:
        self.got += data
        while not self.out:
            end = self.got.find(b"\n") + 1 if self.wanted == LINE else int(self.wanted)
            if (self.wanted == LINE and not end) or len(self.got) < end:
                return
            piece = bytes(self.got[:end])
            del self.got[:end]
            self._go_on(self.talk.send(piece))

    def _go_on(self, step: bytes | int | str) -> None:
        while step in (ANSWERED, b""):
            if step == ANSWERED:
                self.caller.shared.answered(self.caller.client, self.caller.connection)
            step = next(self.talk)
        if not isinstance(step, bytes):
            self.wanted = step
        else:  # what came that nobody asked for is taken for the next answer, and so is found
            self.out = memoryview(step)

    def ended(self, how: str) -> None:
        """Judges an end: somebody must have been killed for it, and that one if the server tells who answers."""
        shared, caller = self.caller.shared, self.caller
        told[how] = told.get(how, 0) + 1
        if self.excused:
            return
        if shared.events == self.events:
            raise Wrong(f"{how}, and nobody was killed")
        known = caller.process and not caller.relayed and shared.reloads == self.reloads
        if known and not shared.was_killed(caller.process):
            raise Wrong(f"{how}, and process {caller.process} was not killed")


def begun(name: str, port: int, caller: Caller) -> tuple[socket.socket, Conversation] | None:
    shared = caller.shared
    while not shared.stopped:
        before = shared.events, shared.reloads, shared.busy
        try:
            sock = socket.create_connection(("127.0.0.1", port), PATIENCE)
        except (ConnectionRefusedError, ConnectionResetError):
            time.sleep(0.003)  # until the server is there again, which nobody tells
            continue
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock, Conversation(caller, TALKS[name](caller), before)
    return None


def judged(conversation: Conversation, error: Exception) -> None:
    """What ended a conversation is right, or Wrong."""
    if isinstance(error, Over):
        conversation.ended("told")
    elif isinstance(error, ENDED):
        conversation.ended(type(error).__name__)
    else:
        raise error


def sends(sock: socket.socket, conversation: Conversation, turns: bool) -> int:
    return put(sock, conversation.out, conversation.caller.chooser) if turns else sock.send(conversation.out)


def receives(sock: socket.socket, conversation: Conversation, most: int, turns: bool) -> bytes:
    return take(sock, most, conversation.caller.chooser) if turns else sock.recv(most)


def blocking(way: str, port: int, caller: Caller, name: str) -> None:
    """A thread with one connection."""
    shared, turns = caller.shared, way == "turns"
    while (both := begun(name, port, caller)) is not None:
        sock, conversation = both
        if way != "polls":
            sock.settimeout(None)
            span = struct.pack("ll", int(PATIENCE), 0)
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                sock.setsockopt(socket.SOL_SOCKET, option, span)
        with sock:
            try:
                while not shared.stopped:
                    if conversation.out:
                        conversation.sent(sends(sock, conversation, turns))
                        continue
                    if turns:
                        wait(sock, PATIENCE, caller.chooser)
                    if data := receives(sock, conversation, caller.chooser.choice((100, 65_536, 262_144)), turns):
                        conversation.heard(data)
                    else:
                        conversation.ended("end")
                        break
            except (Over, *ENDED) as error:
                judged(conversation, error)


def threads(way: str, port: int, callers: list[Caller], name: str) -> None:
    def run(caller: Caller) -> None:
        try:
            blocking(way, port, caller, name)
        except BaseException as error:
            problems.append(f"{way} {caller.client}.{caller.connection}, question {caller.number}: {error!r}")
            caller.shared.stop()

    running = [threading.Thread(target=run, args=(caller,)) for caller in callers]
    for each in running:
        each.start()
    for each in running:
        each.join()


def loop(way: str, port: int, callers: list[Caller], name: str) -> None:
    """All connections in one epoll object, which do not block."""
    shared, turns = callers[0].shared, way == "looped turns"
    with selectors.EpollSelector() as selector:
        heard: dict[int, float] = {}

        def begin(caller: Caller) -> None:
            both = begun(name, port, caller)
            if both is not None:
                both[0].setblocking(False)
                selector.register(both[0], selectors.EVENT_READ, both[1])
                step(both[0])

        def moves(sock: socket.socket, conversation: Conversation) -> None:
            """Till the end of the stream. It raises BlockingIOError where it would wait."""
            while True:
                if conversation.out:
                    conversation.sent(sends(sock, conversation, turns))
                elif data := receives(sock, conversation, 65_536, turns):
                    conversation.heard(data)
                else:
                    conversation.ended("end")
                    return

        def step(sock: socket.socket) -> None:
            conversation = selector.get_key(sock).data
            heard[sock.fileno()] = time.monotonic()
            try:
                moves(sock, conversation)
            except BlockingIOError:
                events = selectors.EVENT_WRITE if conversation.out else selectors.EVENT_READ
                if selector.get_key(sock).events != events:
                    selector.modify(sock, events, conversation)
                return
            except (Over, *ENDED) as error:
                judged(conversation, error)
            heard.pop(sock.fileno())
            selector.unregister(sock)
            sock.close()
            begin(conversation.caller)

        for caller in callers:
            begin(caller)
        while not shared.stopped:
            for key, _ in selector.select(1.0):
                step(key.fileobj)  # type: ignore[arg-type]
            now = time.monotonic()
            for number, since in heard.items():
                if now - since > PATIENCE:
                    raise Wrong(f"descriptor {number} heard nothing for {now - since:.0f} s")


def main(name: str, way: str, port: str, file: str, client: str, connections: str, seed: str) -> None:
    shared = Shared(file)
    callers = [
        Caller(int(client), each, random.Random(f"{seed}.{client}.{each}"), shared) for each in range(int(connections))
    ]
    try:
        if way in ("loop", "looped turns"):
            loop(way, int(port), callers, name)
        else:
            threads(way, int(port), callers, name)
    except BaseException as error:
        problems.append(f"{way} {client}, questions {[each.number for each in callers]}: {error!r}")
        shared.stop()
    print(json.dumps({"ends": told, "problems": problems}))


if __name__ == "__main__":
    main(*sys.argv[1:])
