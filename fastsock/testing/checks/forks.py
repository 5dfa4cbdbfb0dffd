"""fork(): parent and child share the connection as they share a descriptor."""

from __future__ import annotations

import collections
import os
import signal
import socket
from typing import Any

from ..outcomes import on_pair, outcome, receive, receive_all, receive_until_error
from ..pairs import Pair, PairMaker
from ..patterns import Pattern
from ..process import FarProcess


def _send(here: Any, data: bytes) -> None:
    here.sock.sendall(data)


def _receive(here: Any, count: int) -> bytes:
    return receive(here.sock, count)


def _close(here: Any) -> None:
    here.sock.close()


def _shutdown(here: Any, how: int) -> None:
    here.sock.shutdown(how)


def _transport(here: Any) -> Any:
    return getattr(here.sock, "transport", None)


@on_pair
def check_both_keep_using_it(pair: Pair) -> None:
    near, far = pair.near, pair.far
    with FarProcess(sock=near) as child:
        for _ in range(20):
            near.sendall(b"parent")
            assert far.run(receive, 6) == b"parent"
            child.run(_send, b"child")
            assert far.run(receive, 5) == b"child"
            far.sendall(b"abcd")
            assert receive(near, 2) == b"ab"
            assert child.run(_receive, 2) == b"cd"


@on_pair
def check_both_write_at_once(pair: Pair) -> None:
    """Two processes write much at the same time: every byte arrives once."""
    size, block = 3 << 20, 5000
    with FarProcess(sock=pair.near) as child:
        receiving = pair.far.begin_run(_count_bytes, 2 * size)
        sending = child.begin(_write_blocks, b"c", size, block)
        for start in range(0, size, block):
            pair.near.sendall(b"p" * min(block, size - start))
        sending.result()
        assert receiving.result() == {ord("p"): size, ord("c"): size}


def _write_blocks(here: Any, letter: bytes, size: int, block: int) -> None:
    for start in range(0, size, block):
        here.sock.sendall(letter * min(block, size - start))


def _count_bytes(sock: Any, total: int) -> dict[int, int]:
    counter: collections.Counter[int] = collections.Counter()
    while total:
        data = sock.recv(min(total, 100_000))
        counter.update(data)
        total -= len(data)
        assert data
    return dict(counter)


@on_pair
def check_both_read_at_once(pair: Pair) -> None:
    """Two processes read at the same time: every byte comes to one of them, and both see the end."""
    size = 3 << 20
    with FarProcess(sock=pair.near) as child:
        reading = child.begin(_read_to_the_end)
        sending = pair.far.begin_run(_send_and_shut, size)
        here = collections.Counter(receive_all(pair.near))
        there = reading.result()
        sending.result()
    assert here + there == collections.Counter(Pattern(1).at(0, size))


def _read_to_the_end(here: Any) -> Any:
    return collections.Counter(receive_all(here.sock))


def _send_and_shut(sock: Any, size: int) -> None:
    sock.sendall(Pattern(1).at(0, size))
    sock.shutdown(socket.SHUT_WR)


@on_pair
def check_readers_race_for_each_block(pair: Pair) -> None:
    """Whoever is too late for a block waits for the next one: never is a blocking call refused, or a block lost."""
    blocks, size = 3000, 9984
    with FarProcess(sock=pair.near) as child:
        reading = child.begin(_count_to_the_end)
        sending = pair.far.begin_run(_send_blocks_and_shut, blocks, size)
        here = receive_until_error(pair.near)
        there = reading.result()
        sending.result()
    assert (here[0] + there[0], here[1], there[1]) == (blocks * size, "EOF", "EOF")


def _count_to_the_end(here: Any) -> tuple[int, str]:
    return receive_until_error(here.sock)


def _send_blocks_and_shut(sock: Any, blocks: int, size: int) -> None:
    for _ in range(blocks):
        sock.sendall(bytes(size))
    sock.shutdown(socket.SHUT_WR)


@on_pair
def check_parent_closes(pair: Pair) -> None:
    """A server that forks for each connection: the child serves, the parent closes its copy."""
    near, far = pair.near, pair.far
    far.sendall(b"unread at the fork")
    with FarProcess(sock=near) as child:
        near.close()
        assert child.run(_receive, 18) == b"unread at the fork"
        size = 3 << 20
        sending = far.begin("sendall", Pattern(2).at(0, size))
        Pattern(2).verify(0, child.run(_receive, size))
        sending.result()
        child.run(_send, b"answer")
        assert far.run(receive, 6) == b"answer"
        child.run(_close)
        assert far.recv(1) == b""


@on_pair
def check_child_closes(pair: Pair) -> None:
    near, far = pair.near, pair.far
    with FarProcess(sock=near) as child:
        child.run(_close)
        near.sendall(b"parent")
        assert far.run(receive, 6) == b"parent"
        far.sendall(b"reply")
        assert receive(near, 5) == b"reply"
    near.close()
    assert far.recv(1) == b""


@on_pair
def check_child_exits(pair: Pair) -> None:
    """Forked children that never touch the socket come and go."""
    near, far = pair.near, pair.far
    for _ in range(3):
        with FarProcess():
            pass
        near.sendall(b"parent")
        assert far.run(receive, 6) == b"parent"
    far.close()
    assert near.recv(1) == b""


@on_pair
def check_end_of_file_waits_for_both(pair: Pair) -> None:
    near, far = pair.near, pair.far
    with FarProcess(sock=near) as child:
        near.close()
        far.settimeout(0.02)
        assert outcome(far.recv, 1) == "TimeoutError"
        far.settimeout(None)
        child.run(_send, b"last")
        child.run(_close)
        assert far.run(receive_all) == b"last"


@on_pair
def check_child_is_killed(pair: Pair) -> None:
    near, far = pair.near, pair.far
    with FarProcess(sock=near) as child:
        child.run(_send, b"from the child")
        child.kill()
        child.wait()
    assert far.run(receive, 14) == b"from the child"
    near.sendall(b"parent")
    assert far.run(receive, 6) == b"parent"
    far.sendall(b"reply")
    assert receive(near, 5) == b"reply"


@on_pair
def check_last_holder_is_killed(pair: Pair) -> None:
    near, far = pair.near, pair.far
    with FarProcess(sock=near) as child:
        near.close()
        child.run(_send, b"last words")
        child.kill()
        child.wait()
    assert far.run(receive_all) == b"last words"


@on_pair
def check_child_is_killed_while_both_write(pair: Pair) -> None:
    """A lock that the child held when it died does not stop the parent."""
    near, far = pair.near, pair.far
    receiving = far.begin_run(_receive_letters)
    with FarProcess(sock=near) as child:
        child.begin(_write_for_ever)
        for _ in range(200):
            near.sendall(b"p" * 3000)
        child.kill()
        child.wait()
    for _ in range(200):
        near.sendall(b"p" * 3000)
    near.shutdown(socket.SHUT_WR)
    counted = receiving.result()
    assert counted[ord("p")] == 400 * 3000
    assert set(counted) <= {ord("p"), ord("c")}


def _write_for_ever(here: Any) -> None:
    while True:
        here.sock.sendall(b"c" * 3000)


def _receive_letters(sock: Any) -> dict[int, int]:
    counter: collections.Counter[int] = collections.Counter()
    while data := sock.recv(100_000):
        counter.update(data)
    return dict(counter)


@on_pair
def check_shutdown_in_the_child_counts_for_both(pair: Pair) -> None:
    near, far = pair.near, pair.far
    with FarProcess(sock=near) as child:
        child.run(_shutdown, socket.SHUT_WR)
        assert far.recv(1) == b""
        assert outcome(near.send, b"x") == "BrokenPipeError EPIPE"
        far.sendall(b"other way")
        assert receive(near, 9) == b"other way"


@on_pair
def check_blocked_across_the_fork(pair: Pair) -> None:
    """The far end is blocked in recv() while this end is forked and the child answers."""
    receiving = pair.far.begin("recv", 5)
    pair.far.until_blocked()
    with FarProcess(sock=pair.near) as child:
        child.run(_send, b"child")
        assert receiving.result() == b"child"


@on_pair
def check_grandchild(pair: Pair) -> None:
    with FarProcess(sock=pair.near) as child:
        assert child.run(_in_a_grandchild) == 0
        assert pair.far.run(receive, 10) == b"grandchild"
        pair.near.sendall(b"parent")
        assert pair.far.run(receive, 6) == b"parent"


def _in_a_grandchild(here: Any) -> int:
    with FarProcess(sock=here.sock) as grandchild:
        grandchild.run(_send, b"grandchild")
    return grandchild.wait()


@on_pair
def check_child_dups_and_parent_leaves(pair: Pair) -> None:
    with FarProcess(sock=pair.near) as child:
        pair.near.close()
        child.run(_swap_for_a_dup)
        child.run(_send, b"by the dup")
        assert pair.far.run(receive, 10) == b"by the dup"


def _swap_for_a_dup(here: Any) -> None:
    first, here.sock = here.sock, here.sock.dup()
    first.close()


def check_workers_share_a_listener(maker: PairMaker) -> None:
    """Pre-forked workers accept from one inherited listener."""
    workers, each = 3, 4
    with maker.listener() as listener:
        children = [FarProcess(listener=listener) for _ in range(workers)]
        address = listener.getsockname()
        listener.close()
        try:
            serving = [child.begin(_serve, maker, each) for child in children]
            for number in range(workers * each):
                with maker.connect(address) as sock:
                    maker.check(sock)
                    sock.sendall(Pattern(number).at(0, 20_000))
                    sock.shutdown(socket.SHUT_WR)
                    assert receive_all(sock) == Pattern(number).at(0, 20_000)
            assert [pending.result() for pending in serving] == [each] * workers
        finally:
            for child in children:
                child.close()


def _serve(here: Any, maker: PairMaker, count: int) -> int:
    for _ in range(count):
        sock, _ = here.listener.accept()
        with sock:
            maker.check(sock)
            sock.sendall(receive_all(sock))
    return count


def check_parent_keeps_serving_while_children_come_and_go(maker: PairMaker) -> None:
    """socketserver.ForkingMixIn's way: fork for each connection, the parent closes its copy at once."""
    with FarProcess() as server:
        address = server.run(_listen, maker)
        serving = server.begin(_serve_forking, 6)
        for number in range(6):
            with maker.connect(address) as sock:
                sock.sendall(Pattern(number).at(0, 100_000))
                sock.shutdown(socket.SHUT_WR)
                assert receive_all(sock) == Pattern(number).at(0, 100_000)
        assert serving.result() == [0] * 6


def _listen(here: Any, maker: PairMaker) -> Any:
    here.listener = maker.listener()
    return here.listener.getsockname()


def _serve_forking(here: Any, count: int) -> list[int]:
    children = []
    for _ in range(count):
        sock, _ = here.listener.accept()
        pid = os.fork()
        if not pid:
            status = 1
            try:
                here.listener.close()
                sock.sendall(receive_all(sock))
                sock.close()
                status = 0
            finally:
                os._exit(status)
        sock.close()
        children.append(pid)
    return [os.waitpid(pid, 0)[1] for pid in children]


@on_pair
def check_stopped_child_does_not_stop_the_parent(pair: Pair) -> None:
    near, far = pair.near, pair.far
    with FarProcess(sock=near) as child:
        child.kill(signal.SIGSTOP)
        near.sendall(b"parent")
        assert far.run(receive, 6) == b"parent"
        far.sendall(b"reply")
        assert receive(near, 5) == b"reply"
        child.kill(signal.SIGCONT)
