"""fileno() keeps its meaning: select, poll, epoll and selectors see readable, writable and hang-up."""

from __future__ import annotations

import os
import random
import select
import selectors
import socket
import threading
from typing import Any

from ..outcomes import fill, like_plain_tcp, on_pair, outcome, receive, receive_all, reset
from ..pairs import Pair, PairMaker
from ..patterns import Pattern
from ..process import DEADLINE, FarProcess
from ..waiting import events, until_hangup, until_readable, until_writable

IN, OUT, HANGUP, ERROR, END = select.POLLIN, select.POLLOUT, select.POLLHUP, select.POLLERR, select.POLLRDHUP
ALL = IN | OUT | END


def _by_select(sock: Any, timeout: float = 0) -> tuple[bool, bool]:
    readable, writable, _ = select.select([sock], [sock] if not timeout else [], [], timeout)
    return bool(readable), bool(writable)


def _by_poll(sock: Any, timeout: float = 0) -> tuple[bool, bool]:
    found = events(sock, IN | OUT if not timeout else IN, timeout)
    return bool(found & IN), bool(found & OUT)


def _by_epoll(sock: Any, timeout: float = 0) -> tuple[bool, bool]:
    with select.epoll() as poller:
        poller.register(sock, select.EPOLLIN | (0 if timeout else select.EPOLLOUT))
        found = dict(poller.poll(timeout)).get(sock.fileno(), 0)
    return bool(found & select.EPOLLIN), bool(found & select.EPOLLOUT)


def _by_selector(kind: Any, sock: Any, timeout: float = 0) -> tuple[bool, bool]:
    both = selectors.EVENT_READ | selectors.EVENT_WRITE
    with kind() as selector:
        selector.register(sock, selectors.EVENT_READ if timeout else both)
        found = [mask for _, mask in selector.select(timeout)]
    mask = found[0] if found else 0
    return bool(mask & selectors.EVENT_READ), bool(mask & selectors.EVENT_WRITE)


def _by_select_selector(sock: Any, timeout: float = 0) -> tuple[bool, bool]:
    return _by_selector(selectors.SelectSelector, sock, timeout)


def _by_poll_selector(sock: Any, timeout: float = 0) -> tuple[bool, bool]:
    return _by_selector(selectors.PollSelector, sock, timeout)


def _by_epoll_selector(sock: Any, timeout: float = 0) -> tuple[bool, bool]:
    return _by_selector(selectors.EpollSelector, sock, timeout)


WATCHERS = (_by_select, _by_poll, _by_epoll, _by_select_selector, _by_poll_selector, _by_epoll_selector)


@on_pair
def check_level_triggered_life(pair: Pair) -> None:
    """Every watcher sees the same through empty, filled, partly read, drained, full and ended."""
    near, far = pair.near, pair.far
    for watch in WATCHERS:
        assert watch(near) == (False, True), watch
        far.sendall(b"abcdef")
        assert watch(near) == (True, True), watch
        assert watch(near) == (True, True), watch
        assert near.recv(4) == b"abcd"
        assert watch(near) == (True, True), watch
        assert near.recv(4) == b"ef"
        assert watch(near) == (False, True), watch
        total = fill(near)
        assert watch(near) == (False, False), watch
        assert len(far.run(receive, total)) == total
        until_writable(near)
        assert watch(near) == (False, True), watch
        near.setblocking(True)
    far.shutdown(socket.SHUT_WR)
    for watch in WATCHERS:
        assert watch(near) == (True, True), watch
        assert near.recv(1) == b""


def _wait_then_receive(sock: Any, number: int) -> Any:
    readable, _ = WATCHERS[number](sock, DEADLINE)
    return readable and sock.recv(100, socket.MSG_DONTWAIT)


@on_pair
def check_blocked_watchers_wake_on_data(pair: Pair) -> None:
    for number in range(len(WATCHERS)):
        for _ in range(3):
            watching = pair.far.begin_run(_wait_then_receive, number)
            pair.far.until_blocked()
            pair.near.sendall(b"woken")
            assert watching.result() == b"woken"


@on_pair
def check_blocked_watchers_wake_on_the_end(pair: Pair) -> None:
    for number, watch in enumerate(WATCHERS):
        with pair.maker.pair() as each:
            watching = each.far.begin_run(_wait_then_receive, number)
            each.far.until_blocked()
            if number % 2:
                each.near.close()
            else:
                each.near.shutdown(socket.SHUT_WR)
            assert watching.result() == b"", watch


def _wait_for_room(sock: Any, kind: str) -> int:
    """Fill the socket, then watch until it takes bytes again; how many it took before."""
    total = fill(sock)
    if kind == "epoll":
        with select.epoll() as poller:
            poller.register(sock, select.EPOLLOUT)
            assert poller.poll(DEADLINE)
    elif kind == "select":
        assert select.select([], [sock], [], DEADLINE)[1]
    else:
        assert events(sock, OUT, DEADLINE)
    assert sock.send(b"x") == 1
    sock.setblocking(True)
    return total + 1


@on_pair
def check_blocked_watchers_wake_on_room(pair: Pair) -> None:
    for kind in ("select", "poll", "epoll"):
        watching = pair.far.begin_run(_wait_for_room, kind)
        receive(pair.near, 1)
        pair.far.until_blocked()
        received = 1
        pair.near.settimeout(DEADLINE)
        # All of it, then the one byte that follows when the room was seen.
        while not watching.done():
            if events(pair.near, IN, 0.01):
                received += len(pair.near.recv(1 << 20))
        total = watching.result()
        assert len(receive(pair.near, total - received)) == total - received
        pair.near.settimeout(None)


@on_pair
def check_reading_leaves_no_stale_event(pair: Pair) -> None:
    """Data that a blocking recv() took, whether it waited or not, is not reported afterwards."""
    near, far = pair.near, pair.far
    assert not events(near, IN)
    for number in range(100):
        far.process.begin(_send_later, b"x" * (1 + number)).result()
        assert receive(near, 1 + number) == b"x" * (1 + number)
        assert not events(near, IN), number


def _send_later(here: Any, data: bytes) -> None:
    here.sock.sendall(data)


@on_pair
def check_no_event_behind_what_was_read(pair: Pair) -> None:
    """The receiver may have everything before the sender comes to tell of it."""
    poller = select.poll()
    poller.register(pair.near, select.POLLIN)
    for _ in range(200):
        sending = pair.far.begin("sendall", bytes(70_000))
        assert len(receive(pair.near, 70_000)) == 70_000
        sending.result()
        assert poller.poll(0) == []


@on_pair
def check_every_message_is_reported(pair: Pair) -> None:
    """Read and watch in turn, with unread bytes left at random: no arrival goes unseen, none is invented."""
    near, far, chooser, waiting = pair.near, pair.far, random.Random(1), 0
    near.setblocking(False)
    # Without it TCP keeps a small segment back until the one before is acknowledged.
    far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with select.epoll() as poller:
        poller.register(near, select.EPOLLIN)
        for _ in range(500):
            if chooser.random() < 0.5:
                size = chooser.choice((1, 10, 3000))
                far.sendall(bytes(size))
                waiting += size
            elif waiting:
                waiting -= len(near.recv(chooser.choice((1, 7, 5000))))
            else:
                assert outcome(near.recv, 1) == "BlockingIOError EAGAIN"
            assert bool(poller.poll(0)) == bool(waiting), waiting


# Edges


def _edges(poller: Any, timeout: float = 0) -> int:
    found = poller.poll(timeout)
    return found[0][1] if found else 0


@on_pair
def check_edge_for_each_arrival(pair: Pair) -> None:
    """Edge-triggered: one report for each arrival, also while earlier bytes are unread; none repeated."""
    near, far = pair.near, pair.far
    near.setblocking(False)
    with select.epoll() as poller:
        poller.register(near, select.EPOLLIN | select.EPOLLET)
        assert not _edges(poller)
        for _ in range(3):
            far.sendall(b"unread")
            assert _edges(poller, DEADLINE) & IN
            assert not _edges(poller)
        assert near.recv(5) == b"unrea"
        assert not _edges(poller)
        far.sendall(b"more")
        assert _edges(poller, DEADLINE) & IN
        assert near.recv(100) == b"dunreadunreadmore"
        assert outcome(near.recv, 1) == "BlockingIOError EAGAIN"
        assert not _edges(poller)
        far.sendall(b"after drain")
        assert _edges(poller, DEADLINE) & IN
        far.shutdown(socket.SHUT_WR)
        assert _edges(poller, DEADLINE) & IN
        assert near.recv(100) == b"after drain"
        assert near.recv(100) == b""


@on_pair
def check_edge_when_registered_late(pair: Pair) -> None:
    """What is already there when an edge-triggered watcher comes is reported once."""
    near, far = pair.near, pair.far
    far.sendall(b"there")
    until_readable(near)
    with select.epoll() as poller:
        poller.register(near, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
        assert _edges(poller) & (IN | OUT) == IN | OUT
        assert not _edges(poller)
        poller.modify(near, select.EPOLLIN | select.EPOLLET)
        assert _edges(poller) & IN
        poller.unregister(near)
        assert near.recv(5) == b"there"
        poller.register(near, select.EPOLLIN | select.EPOLLET)
        assert not _edges(poller)


@on_pair
def check_edge_for_room(pair: Pair) -> None:
    near, far = pair.near, pair.far
    with select.epoll() as poller:
        poller.register(near, select.EPOLLOUT | select.EPOLLET)
        assert _edges(poller) & OUT
        for _ in range(5):
            total = fill(near)
            # Filling may have raised an edge on its way; from here on the socket is full.
            _edges(poller)
            assert outcome(near.send, b"x") == "BlockingIOError EAGAIN"
            assert len(far.run(receive, total)) == total
            assert _edges(poller, DEADLINE) & OUT
            assert near.send(b"x") == 1
            assert far.recv(1) == b"x"


@on_pair
def check_edge_for_the_end(pair: Pair) -> None:
    near, far = pair.near, pair.far
    with select.epoll() as poller:
        poller.register(near, select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)
        far.close()
        seen = 0
        while not seen & END:  # it may come in two edges
            found = _edges(poller, DEADLINE)
            assert found, f"no edge after {seen:#x}"
            seen |= found
        assert seen & IN
        assert near.recv(1) == b""
        assert outcome(near.send, b"x") == 1


@on_pair
def check_one_shot(pair: Pair) -> None:
    near, far = pair.near, pair.far
    with select.epoll() as poller:
        poller.register(near, select.EPOLLIN | select.EPOLLONESHOT)
        far.sendall(b"one")
        assert _edges(poller, DEADLINE) & IN
        far.sendall(b"two")
        assert not _edges(poller)
        poller.modify(near, select.EPOLLIN | select.EPOLLONESHOT)
        assert _edges(poller, DEADLINE) & IN
        assert receive(near, 6) == b"onetwo"


def _stream_by_epoll(sock: Any, out: int, back: int, total: int, edge: bool) -> None:
    """Send and receive patterns of `total` bytes at the same time in one event loop."""
    chooser, sent, received = random.Random(out), 0, 0
    outgoing, incoming = Pattern(out), Pattern(back)
    sock.setblocking(False)
    wanted = select.EPOLLIN | select.EPOLLOUT | (select.EPOLLET if edge else 0)
    readable = writable = False
    with select.epoll() as poller:
        poller.register(sock, wanted)
        while received < total or sent < total:
            busy = edge and ((readable and received < total) or (writable and sent < total))
            found = poller.poll(0 if busy else DEADLINE)
            assert found or busy, f"no event after {sent} sent and {received} received"
            for _, mask in found:
                readable = readable or bool(mask & IN)
                writable = writable or bool(mask & OUT)
            if readable and received < total:
                try:
                    data = sock.recv(chooser.choice((10, 1000, 30_000, 70_000)))
                    assert data, "ended"
                    incoming.verify(received, data)
                    received += len(data)
                except BlockingIOError:
                    readable = False
            if writable and sent < total:
                size = min(chooser.choice((1, 100, 5000, 65_536, 300_000)), total - sent)
                try:
                    sent += sock.send(outgoing.at(sent, size))
                except BlockingIOError:
                    writable = False
            if not edge:
                readable = writable = False
                now = (select.EPOLLIN if received < total else 0) | (select.EPOLLOUT if sent < total else 0)
                if now != wanted:
                    poller.modify(sock, now)
                    wanted = now
    sock.setblocking(True)


@on_pair
def check_event_loops_on_both_ends(pair: Pair) -> None:
    """Two event loops stream both ways at once, level- and edge-triggered in all combinations."""
    total = 4 << 20
    for here, there in ((False, False), (True, True), (True, False), (False, True)):
        streaming = pair.far.begin_run(_stream_by_epoll, 1, 2, total, there)
        _stream_by_epoll(pair.near, 2, 1, total, here)
        streaming.result()


@on_pair
def check_event_loop_against_blocking_calls(pair: Pair) -> None:
    """One end is an event loop, the other blocks in two threads."""
    from .threads import _duplex

    total = 6 << 20
    for edge in (False, True):
        blocking = pair.far.begin_run(_duplex, 1, 2, total)
        _stream_by_epoll(pair.near, 2, 1, total, edge)
        blocking.result()


# Hang-up


@like_plain_tcp
def check_masks_of_a_half_close(pair: Pair) -> Any:
    near, far = pair.near, pair.far
    seen = [events(near, ALL)]
    far.sendall(b"data")
    until_readable(near)
    far.shutdown(socket.SHUT_WR)
    assert events(near, END, DEADLINE)
    seen.append(events(near, ALL))
    near.recv(4)
    seen.append(events(near, ALL))
    near.recv(4)
    seen.append(events(near, ALL))
    near.shutdown(socket.SHUT_WR)
    until_hangup(near)
    return [*seen, events(near, ALL)]


@like_plain_tcp
def check_masks_of_own_shutdown(pair: Pair) -> Any:
    near = pair.near
    near.shutdown(socket.SHUT_WR)
    seen = [events(near, ALL)]
    near.shutdown(socket.SHUT_RD)
    return [*seen, events(near, ALL)]


def _without_hangup(mask: int) -> int:
    return mask & ~HANGUP


@like_plain_tcp
def check_masks_of_a_close(pair: Pair) -> Any:
    """A hang-up may be told besides: the peer has gone both ways. Data is still read first."""
    near, far = pair.near, pair.far
    far.sendall(b"data")
    until_readable(near)
    far.close()
    assert events(near, END, DEADLINE)
    seen: list[Any] = [_without_hangup(events(near, ALL)), near.recv(4), _without_hangup(events(near, ALL))]
    return [*seen, near.recv(4), _without_hangup(events(near, ALL))]


@like_plain_tcp
def check_masks_of_a_reset(pair: Pair) -> Any:
    pair.far.run(reset)
    until_hangup(pair.near)
    return [events(pair.near, IN) & IN, events(pair.near, OUT) & OUT, bool(events(pair.near, 0) & (HANGUP | ERROR))]


@on_pair
def check_death_is_reported(pair: Pair) -> None:
    with select.epoll() as poller:
        poller.register(pair.near, select.EPOLLIN | select.EPOLLET)
        pair.far.process.kill()
        assert _edges(poller, DEADLINE) & IN
        assert pair.near.recv(1) == b""


def _wait_in_child(here: Any) -> Any:
    return events(here.sock, IN, DEADLINE)


@on_pair
def check_watching_in_a_forked_child(pair: Pair) -> None:
    with FarProcess(sock=pair.near) as child:
        watching = child.begin(_wait_in_child)
        child.until_blocked()
        pair.far.sendall(b"x")
        assert watching.result() == IN
        assert events(pair.near, IN, DEADLINE) == IN
        assert pair.near.recv(1) == b"x"
        assert not events(pair.near, IN)


@on_pair
def check_watching_a_dup(pair: Pair) -> None:
    with pair.near.dup() as other:
        assert not events(other, IN)
        pair.far.sendall(b"x")
        assert events(other, IN, DEADLINE) == IN
        assert pair.near.recv(1) == b"x"
        assert not events(other, IN)
        pair.far.sendall(b"y")
        pair.near.close()
        assert events(other, IN, DEADLINE) == IN
        assert receive(other, 1) == b"y"


@on_pair
def check_watchers_of_a_number_that_others_take(pair: Pair) -> None:
    """The number stays registered where it was, and tells the same, when something unread lies behind it."""
    near, far, number = pair.near, pair.far, pair.near.fileno()
    shapes = {"level": 0, "edge": select.EPOLLET, "once": select.EPOLLONESHOT}
    watchers = {shape: select.epoll() for shape in shapes}
    for shape, flag in shapes.items():
        watchers[shape].register(number, select.POLLIN | flag)
    far.sendall(b"unread")
    until_readable(near)
    other = os.dup(number)
    for shape, watcher in watchers.items():
        assert watcher.poll(DEADLINE) == [(number, select.POLLIN)], shape
    assert receive(near, 6) == b"unread"
    assert watchers["level"].poll(0) == []
    watchers["once"].modify(number, select.POLLIN | select.EPOLLONESHOT)
    far.sendall(b"more")
    for shape, watcher in watchers.items():
        assert watcher.poll(DEADLINE) == [(number, select.POLLIN)], shape
    assert receive(near, 4) == b"more"
    for watcher in watchers.values():
        watcher.unregister(number)
        watcher.close()
    os.close(other)


@on_pair
def check_several_watch_one_socket(pair: Pair) -> None:
    """Two pollers on one descriptor both see an arrival."""
    near, far = pair.near, pair.far
    with select.epoll() as first, select.epoll() as second:
        first.register(near, select.EPOLLIN | select.EPOLLET)
        second.register(near, select.EPOLLIN)
        for _ in range(20):
            far.sendall(b"x")
            assert _edges(second, DEADLINE) & IN
            assert _edges(first, DEADLINE) & IN
            assert near.recv(10) == b"x"
            assert not _edges(second)


@on_pair
def check_closed_sockets_leave_the_poller(pair: Pair) -> None:
    """A closed connection's registration goes with it: nothing is reported for ever."""
    maker = pair.maker
    with select.epoll() as poller:
        for _ in range(10):
            with maker.pair() as each:
                poller.register(each.near, select.EPOLLIN | select.EPOLLOUT)
                assert _edges(poller, DEADLINE)
                each.near.close()
                assert poller.poll(0) == []


@on_pair
def check_a_thread_reads_while_another_watches(pair: Pair) -> None:
    """A watcher thread and a reading thread on one socket: all bytes come, and the watcher ends with the stream."""
    near, total = pair.near, 2 << 20
    near.setblocking(False)
    ready, done = threading.Semaphore(0), threading.Event()

    def watch() -> None:
        with select.epoll() as poller:
            poller.register(near, select.EPOLLIN | select.EPOLLET)
            while not done.is_set():
                if poller.poll(0.1):
                    ready.release()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        sending = pair.far.begin("sendall", Pattern(5).at(0, total))
        received = bytearray()
        while len(received) < total:
            assert ready.acquire(timeout=DEADLINE), f"no event after {len(received)} bytes"
            while True:
                try:
                    received += near.recv(50_000)
                except BlockingIOError:
                    break
        Pattern(5).verify(0, received)
        sending.result()
    finally:
        done.set()
        watcher.join()


def check_reads_to_the_end_by_events(maker: PairMaker) -> None:
    """A loop that reads only on events gets all that a peer sent before it died."""
    with maker.pair() as pair:
        size = 700_000
        pair.far.sendall(Pattern(6).at(0, size))
        pair.far.process.kill()
        pair.near.setblocking(False)
        received = bytearray()
        with select.epoll() as poller:
            poller.register(pair.near, select.EPOLLIN)
            while True:
                assert poller.poll(DEADLINE)
                block = pair.near.recv(10_000)
                if not block:
                    break
                received += block
        assert len(received) == size
        Pattern(6).verify(0, received)


@on_pair
def check_receive_all_after_watching(pair: Pair) -> None:
    """Once watched, a socket can go back to blocking calls."""
    near, far = pair.near, pair.far
    for _ in range(3):
        assert not events(near, IN)
        far.sendall(Pattern(7).at(0, 100_000))
        Pattern(7).verify(0, receive(near, 100_000))
    far.shutdown(socket.SHUT_WR)
    assert receive_all(near) == b""
