"""Programs that close every number that they find, as daemons do, and use the numbers for files of their own.

What fastsock keeps open beside the program's sockets is gone then: it is made anew, and no file of the program is
written to, read or closed in its place.
"""

from __future__ import annotations

import os

import pytest

from ..helpers.paths import all_took, carriers_of
from ..helpers.scripts import Script

CONNECTIONS = 4
LONG = bool(os.environ.get("FASTSOCK_SOAK"))

CLOSING = """
        import os
        def opened():
            found = set()
            for name in os.listdir("/proc/self/fd"):
                try:
                    os.fstat(int(name))
                except OSError:
                    continue
                found.add(int(name))
            return found
        def unknown(*sockets):
            return sorted(opened() - {0, 1, 2, _HEARING, _TELLING, *(sock.fileno() for sock in sockets)})
        def gaps(*sockets):
            '''What lies between the numbers that the program knows.'''
            known = sorted({2, _HEARING, _TELLING, *(sock.fileno() for sock in sockets)})
            return [(low + 1, high) for low, high in zip(known, [*known[1:], 1024]) if low + 1 < high]
        def by_range(numbers):
            for number in numbers:
                os.closerange(number, number + 1)
        def one_by_one(numbers):
            for number in numbers:
                os.close(number)
        def behind_python(numbers):
            import ctypes  # not among the module's names: its numbers would be taken for what C reads and writes
            for number in numbers:
                ctypes.CDLL(None).close(number)
    """

SERVER = (
    CLOSING
    + """
        import socket
        listener = socket.create_server(("127.0.0.1", 0))
        tell(listener.getsockname())
        def serve(count):
            for _ in range(count):
                sock, _ = listener.accept()
                with sock:
                    while data := sock.recv(100):
                        sock.sendall(data)
        serve(hear())
        {how}(unknown(listener))
        tell("closed")
        serve(hear())
    """
)
CLIENT = """
        import socket
        def use(address, count):
            taken = []
            for _ in range(count):
                with socket.create_connection(address) as sock:
                    sock.sendall(b"abc")
                    assert sock.recv(100) == b"abc"
                    taken.append(getattr(sock, "transport", "plain"))
            return taken
        while True:
            tell(use(*hear()))
    """


@pytest.mark.parametrize("how", ("by_range", "one_by_one", "behind_python"))
def test_a_server_that_closed_all_but_its_listener_is_found_again(kind, how):
    with Script(kind, SERVER.replace("{how}", how)) as server, Script(kind, CLIENT) as client:
        address = server.hear()
        server.tell(CONNECTIONS)
        client.tell([address, CONNECTIONS])
        assert all_took(client.hear(), kind, CONNECTIONS)
        assert server.hear() == "closed"
        server.tell(1 + CONNECTIONS)
        client.tell([address, 1])
        [first] = client.hear()
        assert first in (*carriers_of(kind), "tcp")  # nobody finds it before it has accepted
        client.tell([address, CONNECTIONS])
        assert all_took(client.hear(), kind, CONNECTIONS)
        assert server.finish() == 0


TAKING = (
    CLOSING
    + """
        import gc, socket, tempfile, threading
        far, count = hear()
        listener = socket.create_server(("127.0.0.1", 0))
        tell(listener.getsockname())
        def echo(sock):
            sock.sendall(b"abc")
            assert sock.recv(3) == b"abc"
        def leave(sock):
            '''Closes it while a thread waits on it.'''
            def wait():
                try:
                    sock.recv(1)
                except OSError:
                    pass
            thread = threading.Thread(target=wait)
            thread.start()
            sock.shutdown(socket.SHUT_RDWR)
            sock.close()
            thread.join()
        def connect_both_ways():
            for _ in range(count):
                with socket.create_connection(far) as sock:
                    echo(sock)
                with listener.accept()[0] as sock:
                    echo(sock)
        connect_both_ways()
        leave(socket.create_connection(far))
        kept = socket.create_connection(far)
        echo(kept)
        given = listener.accept()[0]
        given.sendall(b"unread here")
        given.recv(11, socket.MSG_WAITALL | socket.MSG_PEEK)
        given.sendall(b"more")
        stream = socket.socket(socket.AF_UNIX, fileno=given.detach())  # a bridge, where that can be
        files = {}
        for number in unknown(listener, kept, stream):
            file = tempfile.TemporaryFile(buffering=0)
            file.write(b"mine")
            files[number] = file
        for number, file in files.items():
            if number not in (each.fileno() for each in files.values()):
                os.dup2(file.fileno(), number)
        tell(len(files))
        try:
            stream.sendall(b"x" * 1000)
            stream.shutdown(socket.SHUT_WR)
            while stream.recv(4096):
                pass
        except OSError:
            pass
        echo(kept)
        leave(kept)
        stream.close()
        listener.close()
        del given, kept, stream, listener
        gc.collect()
        listener = socket.create_server(("127.0.0.1", 0))
        tell(listener.getsockname())
        connect_both_ways()
        listener.close()
        wrong = []
        for number, file in files.items():
            try:
                same = os.fstat(number).st_ino == os.fstat(file.fileno()).st_ino
            except OSError:
                same = False
            if not same or os.pread(number, 100, 0) != b"mine":
                wrong.append([number, same])
        tell(wrong)
    """
)
FAR = """
        import socket, threading
        listener = socket.create_server(("127.0.0.1", 0))
        tell(listener.getsockname())
        def echo(sock):
            try:
                while data := sock.recv(100):
                    sock.sendall(data)
            except OSError:
                pass  # a bridge that was taken apart
            sock.close()
        def serve():
            while True:
                threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()
        threading.Thread(target=serve, daemon=True).start()
        address, count = hear()
        for _ in range(count + 1):
            echo(socket.create_connection(tuple(address)))
        address = hear()
        for _ in range(count):
            echo(socket.create_connection(tuple(address)))
    """


def test_numbers_that_the_program_took_are_its_own(kind):
    with Script(kind, FAR) as far, Script(kind, TAKING) as tested:
        address = far.hear()
        tested.tell([address, CONNECTIONS])
        far.tell([tested.hear(), CONNECTIONS])
        hidden = tested.hear()
        assert hidden > 0 or kind in ("plain", "tcp")
        far.tell(tested.hear())
        assert tested.hear() == []
        assert tested.finish() == 0
        assert far.finish() == 0


BUSY = (
    CLOSING
    + """
        import socket, threading
        far, rounds = hear()
        socks = [socket.create_connection(far) for _ in range(3)]
        left = threading.Semaphore(0)
        def exchange(sock, seed):
            size = 1
            while running:
                data = os.urandom(size)
                sock.sendall(data)
                assert sock.recv(size, socket.MSG_WAITALL) == data
                size = size * 7 % 5003
            left.release()
        running = True
        threads = [threading.Thread(target=exchange, args=(sock, n)) for n, sock in enumerate(socks)]
        for thread in threads:
            thread.start()
        def close_range(*range):
            import ctypes
            ctypes.CDLL(None).close_range(*range)
        for turn in range(rounds):
            for low, high in gaps(*socks):
                os.closerange(low, high) if turn % 2 else close_range(low, high - 1, 0)
            with socket.create_connection(far) as sock:
                sock.sendall(b"abc")
                assert sock.recv(3, socket.MSG_WAITALL) == b"abc"
        running = False
        for thread in threads:
            left.acquire()
        for thread in threads:
            thread.join()
        tell([getattr(sock, "transport", "plain") for sock in socks])
    """
)


def test_connections_go_on_while_all_other_numbers_are_closed(kind):
    with Script(kind, FAR) as far, Script(kind, BUSY) as tested:
        tested.tell([far.hear(), 5000 if LONG else 50])
        assert all_took(tested.hear(), kind, 3)
        assert tested.finish() == 0
        far.process.kill()
        far.finish()
