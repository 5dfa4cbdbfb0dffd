"""A random schedule on one connection, followed on the fast socket and on plain TCP at the same time.

Both connections get the same calls. After each of them poll() and an edge-triggered epoll must say on both what
the bytes that were sent and received make true: plain TCP shows that the condition is right, the fast socket that
it is met. Nothing is asked about the time that it takes.
"""

from __future__ import annotations

import select
import socket
from collections import deque
from contextlib import ExitStack

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fastsock.testing.outcomes import fill
from fastsock.testing.pairs import PLAIN
from fastsock.testing.waiting import events

IN, OUT, END, HANGUP, ERROR = select.POLLIN, select.POLLOUT, select.POLLRDHUP, select.POLLHUP, select.POLLERR
WAIT = 3.0

ends = st.sampled_from(("client", "server"))
sizes = st.sampled_from((1, 2, 100, 4096, 9000, 30_000))
SMALL = 100_000  # bytes in flight that surely fit into any buffer


class End:
    """One end of one connection, and what must be true of it."""

    def __init__(self, sock, cleaning):
        self.sock = sock
        sock.setblocking(False)
        # Without it TCP keeps a small segment back until the one before is acknowledged.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.unread = deque()  # blocks that the peer sent and this end has not received
        self.shut = False
        self.ended = False  # the peer has shut its writing half or closed
        self.full = False
        self.edges_due = OUT
        self.watcher = cleaning.enter_context(select.epoll())
        self.watcher.register(sock, select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET)

    @property
    def waiting(self):
        return sum(map(len, self.unread))

    def take(self, data):
        """Compare received bytes with what was sent."""
        while data:
            block = self.unread.popleft()
            part = min(len(block), len(data))
            assert bytes(data[:part]) == bytes(block[:part]), "wrong bytes"
            data = data[part:]
            if part < len(block):
                self.unread.appendleft(block[part:])


class Connection:
    """A connection with both ends in this process."""

    def __init__(self, maker):
        self.cleaning = ExitStack()
        client, server = self.cleaning.enter_context(maker.local())
        self.client = End(client, self.cleaning)
        self.server = End(server, self.cleaning)

    def ends(self, which):
        pair = self.client, self.server
        return pair if which == "client" else pair[::-1]

    def send(self, which, data):
        end, peer = self.ends(which)
        assert end.sock.send(data) == len(data)
        peer.unread.append(memoryview(data))
        peer.edges_due |= IN

    def receive(self, which, size, flags=0):
        end, _ = self.ends(which)
        try:
            data = end.sock.recv(size, flags)
        except BlockingIOError:
            assert not end.waiting and not end.ended, f"refused, though {end.waiting} bytes wait"
            return
        if not data:
            assert end.ended and not end.waiting
        elif not flags:
            end.take(memoryview(data))
        else:
            kept = end.unread.copy()
            end.take(memoryview(data))
            end.unread = kept

    def fill(self, which):
        end, peer = self.ends(which)
        total = fill(end.sock, bytes(30_000))
        if total:
            peer.unread.append(memoryview(bytes(total)))
            # What a full connection still takes may stay in the sender's buffer: the receiver need not hear of it.
            if not end.full:
                peer.edges_due |= IN
        end.full = True
        # Edges from the time before it was full are of no interest: begin anew.
        end.watcher.poll(0)
        self.register_again(which, modify=True)

    def drain(self, which):
        end, peer = self.ends(which)
        end.sock.settimeout(WAIT)
        while end.waiting:
            data = end.sock.recv(1 << 20)
            assert data, "ended early"
            end.take(memoryview(data))
        end.sock.setblocking(False)
        if peer.full and not peer.shut:
            peer.edges_due |= OUT
            peer.full = False

    def shut(self, which):
        end, peer = self.ends(which)
        end.sock.shutdown(socket.SHUT_WR)
        end.shut = True
        end.full = False
        peer.ended = True
        peer.edges_due |= IN | END

    def collect_edges(self, which):
        end, _ = self.ends(which)
        seen, due = 0, end.edges_due
        # What is no longer so need not be reported.
        if not end.waiting and not end.ended:
            due &= ~IN
        if end.full or end.shut:
            due &= ~OUT
        while due & ~seen:
            found = end.watcher.poll(WAIT)
            assert found, f"edge {due & ~seen:#x} does not come"
            seen |= found[0][1]
        end.edges_due = 0

    def register_again(self, which, modify):
        end, _ = self.ends(which)
        mask = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET
        if modify:
            end.watcher.modify(end.sock, mask)
        else:
            end.watcher.unregister(end.sock)
            end.watcher.register(end.sock, mask)
        end.edges_due = IN if end.waiting or end.ended else 0
        if not end.full and not end.shut:
            end.edges_due |= OUT
        if end.ended:
            end.edges_due |= END

    def check(self):
        for which in ("client", "server"):
            end, _ = self.ends(which)
            mask = IN | OUT | END
            required = (IN if end.waiting or end.ended else 0) | (END if end.ended else 0)
            if not end.full and not end.shut:
                required |= OUT
            seen = events(end.sock, mask)
            if required & ~seen and required:
                # It may be on its way; it must come without anything else happening.
                for bit in (IN, OUT, END):
                    if required & bit:
                        assert events(end.sock, bit, WAIT) & bit, f"{which} does not show {bit:#x}"
                seen = events(end.sock, mask)
            if not end.waiting and not end.ended:
                assert not seen & IN, f"{which} shows data though there is none"
            if not end.ended:
                assert not seen & END, f"{which} shows an end though the peer is there"
            if not (end.shut and end.ended):
                assert not seen & (HANGUP | ERROR), f"{which} shows a hang-up or an error: {seen:#x}"

    def close(self, which):
        """Close one end; the other must see the end, or the reset when bytes were left unread."""
        end, peer = self.ends(which)
        reset = bool(end.waiting)
        end.sock.close()
        assert end.watcher.poll(0) == [], "a closed socket is still reported"
        assert events(peer.sock, IN, WAIT) & IN, "the peer does not see the end"
        peer.sock.settimeout(WAIT)
        try:
            while data := peer.sock.recv(1 << 20):
                peer.take(memoryview(data))
        except ConnectionResetError:
            assert reset, "reset though everything had been read"
        else:
            assert not peer.waiting, "bytes are missing"


class Schedule(RuleBasedStateMachine):
    """Random calls on a fast connection and on a plain one."""

    maker = PLAIN

    def __init__(self):
        super().__init__()
        self.number = 0
        self.connect()

    def connect(self):
        self.both = [Connection(PLAIN), Connection(self.maker)]
        self.closed = False

    def each(self, name, *arguments):
        for connection, maker in zip(self.both, (PLAIN, self.maker), strict=True):
            try:
                getattr(connection, name)(*arguments)
            except AssertionError as error:
                raise AssertionError(f"{maker}, {name}{arguments}: {error}") from error

    def state(self, which):
        """What the schedule may do next depends on plain TCP alone: it is the model."""
        return self.both[0].ends(which)

    @precondition(lambda self: not self.closed)
    @rule(which=ends, size=sizes)
    def send(self, which, size):
        end, peer = self.state(which)
        if end.shut or end.full or peer.waiting + size > SMALL:
            return
        self.number += 1
        self.each("send", which, bytes([self.number & 255]) * size)

    @precondition(lambda self: not self.closed)
    @rule(which=ends, size=sizes)
    def receive(self, which, size):
        _, peer = self.state(which)
        if peer.full:
            return
        self.each("receive", which, size)

    @precondition(lambda self: not self.closed)
    @rule(which=ends, size=sizes)
    def peek(self, which, size):
        self.each("receive", which, size, socket.MSG_PEEK)

    @precondition(lambda self: not self.closed)
    @rule(which=ends)
    def drain(self, which):
        self.each("drain", which)

    @precondition(lambda self: not self.closed)
    @rule(which=ends)
    def fill(self, which):
        if not self.state(which)[0].shut:
            self.each("fill", which)

    @precondition(lambda self: not self.closed)
    @rule(which=ends)
    def shut(self, which):
        end, _ = self.state(which)
        # Behind a full buffer the end would not be seen before the bytes are read.
        if not end.shut and not end.full:
            self.each("shut", which)

    @precondition(lambda self: not self.closed)
    @rule(which=ends)
    def collect_edges(self, which):
        self.each("collect_edges", which)

    @precondition(lambda self: not self.closed)
    @rule(which=ends, modify=st.booleans())
    def register_again(self, which, modify):
        self.each("register_again", which, modify)

    @precondition(lambda self: not self.closed)
    @rule(which=ends)
    def close(self, which):
        self.each("close", which)
        self.closed = True

    @precondition(lambda self: self.closed)
    @rule()
    def connect_again(self):
        self.teardown()
        self.connect()

    @precondition(lambda self: not self.closed)
    @invariant()
    def readiness(self):
        self.each("check")

    def teardown(self):
        for connection in self.both:
            connection.cleaning.close()
