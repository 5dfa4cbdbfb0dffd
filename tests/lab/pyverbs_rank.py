"""A rank whose queue pair is pyverbs' own. It speaks ibvdev's wire, and sends each message back with its bytes turned.

python pyverbs_rank.py DEVICE GID_INDEX place|data|read [--ring] [--leaves] [--lies]

It runs in the environment of a rank of a job of two. With --leaves it says goodbye before the other rank does. With
--lies its first answer says that it comes from another rank.

The third word says how long messages travel: the sender's device places them, they come as data, or the receiver's
device reads them. A message with the tag LAST ends it. Prints a line of JSON.

The ranks meet as all ranks do: by the job's server, a TCP connection and its hello.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
from collections import deque
from typing import NamedTuple

from fastsock.xxdev import hello, job
from tests.lab.pyverbs_pair import Memory, Pair, e

FRAME = struct.Struct("=BBBBiIIQQ")
GREETING = struct.Struct("=IIiIQQQQQQ")
FRAME_MAGIC, VERSION, BYTE_ORDER = 0xF5, 4, 0x01020304
EAGER_LIMIT, CREDIT, COST = 128 << 10, 1 << 20, 96
FIRST_CREDIT = 65536
LAST = 999
WELCOME = b"W\0"


class Kind:
    GREETING, EAGER, KEY, READY_TO_SEND, READY_TO_RECEIVE, DATA, ACKNOWLEDGE, CREDIT = range(1, 9)
    PLACE, PLACED, GOODBYE = 14, 15, 16


class Frame(NamedTuple):
    kind: int
    tag: int = 0
    context: int = 0
    id: int = 0
    length: int = 0
    word: int = 0
    keyed: int = 0


class Message(NamedTuple):
    tag: int
    context: int
    data: bytes


class Rank:
    def __init__(self, pair: Pair, way: str) -> None:
        self.pair, self.way = pair, way
        self.inbox: deque[Message] = deque()
        self.awaited: dict[tuple[int, int], Frame] = {}  # kind and number: the answer to something of this end
        self.arriving: dict[int, tuple[Frame, Memory | None, bytearray]] = {}
        self.key: Frame | None = None
        self.credit, self.charged, self.acknowledged = FIRST_CREDIT, 0, 0  # ours over there
        self.consumed = self.told = 0
        self.numbers = 0
        self.said_goodbye = False
        self.kinds: dict[str, int] = {}

    # ---- frames ----

    def say(self, frame: Frame, payload: bytes = b"") -> None:
        kind, tag, context, number, length, word, keyed = frame
        self.pair.write(FRAME.pack(FRAME_MAGIC, kind, 0, keyed, tag, context, number, length, word) + payload)

    def greet(self) -> None:
        words = GREETING.pack(VERSION, BYTE_ORDER, self.pair.rank, 0, CREDIT, EAGER_LIMIT, 0, 0, 0, 0)
        self.say(Frame(Kind.GREETING, length=GREETING.size), words)
        self._heed(self._next(Kind.GREETING))

    def _next(self, only: int | None = None) -> Frame:
        magic, kind, _, keyed, tag, context, number, length, word = FRAME.unpack(self.pair.read(FRAME.size))
        assert magic == FRAME_MAGIC
        assert only in (None, kind), f"a frame of kind {kind} in place of {only}"
        self.kinds[str(kind)] = self.kinds.get(str(kind), 0) + 1
        return Frame(kind, tag, context, number, length, word, keyed)

    def _heed(self, frame: Frame) -> None:
        if frame.kind == Kind.GREETING:
            version, order, rank, _, self.credit, *_ = GREETING.unpack(self.pair.read(frame.length))
            assert (version, order, rank) == (VERSION, BYTE_ORDER, self.pair.peer)
        elif frame.kind == Kind.EAGER:
            self.acknowledged = frame.word
            self.inbox.append(Message(frame.tag, frame.context, self.pair.read(frame.length)))
            self._consume(frame.length)
            if frame.id:
                self.say(Frame(Kind.ACKNOWLEDGE, id=frame.id))
        elif frame.kind == Kind.KEY:
            self.key = frame
        elif frame.kind == Kind.READY_TO_SEND:
            self._take_announced(frame)
        elif frame.kind == Kind.DATA:
            announced, _, data = self.arriving[frame.id]
            data += self.pair.read(frame.length)
            if len(data) == announced.length:
                self._arrived(frame.id, bytes(data))
        elif frame.kind == Kind.PLACED:
            _, memory, _ = self.arriving[frame.id]
            self._arrived(frame.id, memory.bytes[:])
        elif frame.kind == Kind.CREDIT:
            self.acknowledged = frame.word
        elif frame.kind == Kind.GOODBYE:
            self.said_goodbye = True
        else:
            self.awaited[frame.kind, frame.id] = frame

    def _consume(self, length: int) -> None:
        self.consumed += length + COST
        if self.consumed - self.told >= CREDIT // 2:
            self.told = self.consumed
            self.say(Frame(Kind.CREDIT, word=self.consumed))

    # ---- long messages that come ----

    def _take_announced(self, frame: Frame) -> None:
        key, self.key = self.key, None
        assert bool(frame.keyed) == (key is not None) == (self.way == "read")
        self.numbers += 1
        access = e.IBV_ACCESS_LOCAL_WRITE | (e.IBV_ACCESS_REMOTE_WRITE if self.way == "place" else 0)
        memory = None if self.way == "data" else Memory(self.pair.domain, frame.length, access)
        self.arriving[self.numbers] = frame, memory, bytearray()
        self._consume(0)
        if key is not None and memory is not None:
            rkey = key.tag & 0xFFFFFFFF
            self.pair.transfer(e.IBV_WR_RDMA_READ, memory, frame.length, key.word, rkey)
            self.say(Frame(Kind.ACKNOWLEDGE, id=frame.id))
            self._arrived(self.numbers, memory.bytes[:])
        elif memory is None:
            self.say(Frame(Kind.READY_TO_RECEIVE, id=frame.id, length=frame.length, word=self.numbers))
        else:
            rkey = _signed(memory.region.rkey)
            self.say(Frame(Kind.PLACE, rkey, self.numbers, frame.id, frame.length, memory.address))

    def _arrived(self, number: int, data: bytes) -> None:
        announced, memory, _ = self.arriving.pop(number)
        if memory is not None:
            memory.close()
        self.inbox.append(Message(announced.tag, announced.context, data))

    # ---- messages ----

    def receive(self) -> Message:
        while not self.inbox:
            self._heed(self._next())
        return self.inbox.popleft()

    def send(self, message: Message) -> None:
        is_eager = len(message.data) <= EAGER_LIMIT
        cost = COST + (len(message.data) if is_eager else 0)
        while self.charged - self.acknowledged + cost > self.credit:
            self._heed(self._next())
        self.charged += cost
        if is_eager:
            self.told = self.consumed
            frame = Frame(Kind.EAGER, message.tag, message.context, 0, len(message.data), self.consumed)
            self.say(frame, message.data)
        else:
            self._send_long(message)

    def _send_long(self, message: Message) -> None:
        self.numbers += 1
        length, number, keyed = len(message.data), self.numbers, int(self.way == "read")
        memory = Memory(self.pair.domain, length, e.IBV_ACCESS_LOCAL_WRITE | (e.IBV_ACCESS_REMOTE_READ * keyed))
        memory.bytes[:] = message.data
        if keyed:
            self.say(Frame(Kind.KEY, _signed(memory.region.rkey), word=memory.address))
        self.say(Frame(Kind.READY_TO_SEND, message.tag, message.context, number, length, keyed=keyed))
        wanted = {(kind, number) for kind in (Kind.PLACE, Kind.READY_TO_RECEIVE, Kind.ACKNOWLEDGE)}
        while not wanted & self.awaited.keys():
            self._heed(self._next())
        (answer,) = [self.awaited.pop(each) for each in wanted & self.awaited.keys()]
        if answer.kind == Kind.PLACE:
            assert answer.length == length
            self.pair.transfer(e.IBV_WR_RDMA_WRITE, memory, length, answer.word, answer.tag & 0xFFFFFFFF)
            self.say(Frame(Kind.PLACED, id=answer.context))
        elif answer.kind == Kind.READY_TO_RECEIVE:
            self.say(Frame(Kind.DATA, id=answer.word, length=length), message.data)
        memory.close()

    def part(self) -> None:
        """The other end says its last, and takes nothing any more."""
        while not self.said_goodbye:
            self._heed(self._next())
        assert not (self.pair.came or self.arriving or self.inbox or self.awaited)


def _signed(key: int) -> int:
    return key - (1 << 32) if key >> 31 else key


def connect(this: job.Job) -> socket.socket:
    """The other rank connects here, and proves that it is of this job."""
    with socket.create_server((this.interface, 0)) as listener:
        this.announce(*listener.getsockname())
        sock, _ = listener.accept()
    party = hello.Party(this.secret, this.name, this.rank, this.size)
    caller = hello.accept(sock, {"message": party}, timeout=60)
    assert caller.rank == 1 - this.rank
    sock.sendall(WELCOME)
    sock.settimeout(60)
    return sock


def main(device: str, gid_index: str, way: str, *options: str) -> None:
    this = job.current()
    with connect(this) as sock:
        pair = Pair(device, int(gid_index), this.rank, 1 - this.rank, ring="--ring" in options)
        pair.meet(sock)
        rank = Rank(pair, way)
        rank.greet()
        message = rank.receive()
        if "--lies" in options:
            pair.rank += 1
        while message.tag != LAST:
            rank.send(message._replace(data=message.data[::-1]))
            message = rank.receive()
        if "--leaves" in options:
            rank.say(Frame(Kind.GOODBYE))
            pair.flush()
        else:
            rank.part()
            assert sock.recv(1) == b""
        counts = {name: getattr(pair, name) for name in ("segments", "returns", "written", "fetched")}
        print(json.dumps({**counts, "ring": bool(pair.ring_there), "kinds": rank.kinds}))
        pair.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
