"""TLS on both ends, begun at once or in the middle of a conversation (STARTTLS), and taken off again."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl

import pytest

from fastsock.testing.outcomes import outcome, receive
from fastsock.testing.patterns import Pattern

from ..helpers.certificates import client_context, issued, server_context
from ..helpers.scripts import Script

MIB = 1 << 20


@pytest.fixture(autouse=True, scope="module")
def certificate():
    issued()


def wrap(sock, server):
    if server:
        return server_context().wrap_socket(sock, server_side=True)
    return client_context().wrap_socket(sock, server_hostname="localhost")


def _wrap_there(here, server):
    here.sock = wrap(here.sock, server)


def _both_wrap(pair):
    """TLS on both ends; the accepting one is the server."""
    server = not pair.maker.near_connects
    there = pair.far.process.begin(_wrap_there, not server)
    wrapped = wrap(pair.near, server)
    there.result()
    return wrapped


def _unwrap_there(here):
    here.sock = here.sock.unwrap()


def _echo(sock, size):
    sock.sendall(receive(sock, size))


def test_both_ends(installed_pair):
    far = installed_pair.far
    with _both_wrap(installed_pair) as near:
        assert near.version() == far.run(_version)
        near.sendall(b"secret")
        assert far.run(receive, 6) == b"secret"
        echoing = far.begin_run(_echo, MIB)
        near.sendall(Pattern(1).at(0, MIB))
        Pattern(1).verify(0, receive(near, MIB))
        echoing.result()


def _version(sock):
    return sock.version()


def test_begun_in_the_middle(installed_pair):
    """STARTTLS: plain text first, and the first bytes of TLS may already be there."""
    near, far = installed_pair.near, installed_pair.far
    near.sendall(b"STARTTLS\r\n")
    assert far.run(receive, 10) == b"STARTTLS\r\n"
    far.sendall(b"go ahead\r\n")
    assert receive(near, 10) == b"go ahead\r\n"
    with _both_wrap(installed_pair) as near:
        far.sendall(b"private")
        assert receive(near, 7) == b"private"


def test_hello_already_there(installed_pair):
    """The other end's hello lies unread when this end begins: the bytes follow the descriptor."""
    if installed_pair.maker.near_connects:
        there = installed_pair.far.process.begin(_wrap_there, True)
        near = wrap(installed_pair.near, False)
    else:
        there = installed_pair.far.process.begin(_wrap_there, False)
        assert installed_pair.near.recv(1, socket.MSG_PEEK) == b"\x16"
        near = wrap(installed_pair.near, True)
    there.result()
    with near:
        near.sendall(b"x")
        assert installed_pair.far.recv(1) == b"x"


def test_taken_off_again(installed_pair):
    far = installed_pair.far
    near = _both_wrap(installed_pair)
    near.sendall(b"secret")
    assert far.run(receive, 6) == b"secret"
    there = far.process.begin(_unwrap_there)
    near = near.unwrap()
    there.result()
    with near:
        near.sendall(b"plain again")
        assert far.run(receive, 11) == b"plain again"
        far.sendall(b"and back")
        assert receive(near, 8) == b"and back"


def test_modes(installed_pair):
    with _both_wrap(installed_pair) as near:
        near.setblocking(False)
        try:
            near.recv(1)
        except ssl.SSLWantReadError:
            pass
        else:
            raise AssertionError("something to read")
        near.settimeout(0.05)
        assert "timed out" in str(_error(near.recv, 1))
        near.settimeout(20)
        installed_pair.far.sendall(b"late")
        assert receive(near, 4) == b"late"


def _error(function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        return error
    return None


def test_end_of_file(installed_pair):
    with _both_wrap(installed_pair) as near:
        installed_pair.far.sendall(b"last")
        installed_pair.far.close()
        assert receive(near, 4) == b"last"
        # Reset where the far end had not read TLS's session tickets.
        ends = [b"", "SSLEOFError 8", "ConnectionResetError ECONNRESET"]
        if installed_pair.maker.transport == "shm":
            ends.append("BrokenPipeError EPIPE")  # where a plain class closes: docs/explanation/limits.md
        assert outcome(near.recv, 1) in ends


def test_handshake_refused(installed_pair):
    """A client that does not trust the certificate: both ends get TLS's own errors, not a hang."""
    server = not installed_pair.maker.near_connects
    there = installed_pair.far.process.begin(_handshake_error, not server)
    here = _handshake(installed_pair.near, server)
    for text in (here, there.result()):
        assert "certificate" in text.lower() or "alert" in text.lower(), text


def _handshake(sock, server):
    context = server_context() if server else ssl.create_default_context()
    try:
        with context.wrap_socket(sock, server_side=server, server_hostname=None if server else "localhost"):
            return "no error"
    except ssl.SSLError as error:
        return str(error)


def _handshake_error(here, server):
    return _handshake(here.sock, server)


def _serve_asyncio(here):
    async def serve():
        async def handle(reader, writer):
            while block := await reader.read(65536):
                writer.write(block)
                await writer.drain()
            writer.close()
            here.done.set_result(None)

        here.done = asyncio.get_running_loop().create_future()
        server = await asyncio.start_server(handle, sock=here.listener, ssl=server_context())
        await here.done
        server.close()

    asyncio.run(serve())


def _listen(here, maker):
    here.listener = maker.listener()
    return here.listener.getsockname()


def test_asyncio_streams(installed_pair):
    """asyncio's TLS works over memory buffers."""
    maker = installed_pair.maker
    address = installed_pair.far.process.run(_listen, maker.away)
    serving = installed_pair.far.process.begin(_serve_asyncio)

    async def converse():
        reader, writer = await asyncio.open_connection(*address, ssl=client_context(), server_hostname="localhost")
        data = Pattern(2).at(0, MIB)
        writer.write(data[:1000])
        assert await reader.readexactly(1000) == data[:1000]
        writer.write(data[1000:])
        assert await reader.readexactly(MIB - 1000) == data[1000:]
        writer.close()
        await writer.wait_closed()

    asyncio.run(asyncio.wait_for(converse(), 30))
    serving.result()


def _close(sock):
    sock.close()


def test_the_first_send_to_an_end_that_closed_is_taken_and_later_ones_break(installed_pair):
    """OpenSSL answers an end without a goodbye by an alert: refused, that hides the end from whoever reads."""
    with _both_wrap(installed_pair) as near, socket.socket(fileno=os.dup(near.fileno())) as raw:
        near.sendall(b"x")
        assert installed_pair.far.run(receive, 1) == b"x"  # and what TLS sent before: closed unread, that is a reset
        installed_pair.far.run(_close)
        while raw.recv(1 << 16):  # what TLS sent by itself
            pass
        assert raw.send(b"alert") == 5
        with pytest.raises(ConnectionError):
            while True:
                raw.send(b"more")


BOTH_ENDS = """
        import os, socket, ssl, sys, threading
        count = int(sys.argv[2])
        listener = socket.create_server(("127.0.0.1", 0))
        accepting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        accepting.load_cert_chain(sys.argv[1])
        connecting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        connecting.check_hostname, connecting.verify_mode = False, ssl.CERT_NONE
        kept = []
        def serve():
            for _ in range(count):
                kept.append(accepting.wrap_socket(listener.accept()[0], server_side=True))
                kept[-1].sendall(b"welcome")
        thread = threading.Thread(target=serve)
        thread.start()
        for _ in range(count):
            sock = socket.create_connection(listener.getsockname())
            kept.append(connecting.wrap_socket(sock))
            assert kept[-1].recv(7) == b"welcome"
        thread.join()
    """

CLOSES_MANY = """
        numbers = [sock.fileno() for sock in kept]
        for sock in kept:
            sock.close()
        taken = []
        for number in numbers:
            try:
                os.fstat(number)
            except OSError:
                continue
            taken.append(number)
        tell(taken)
    """


def test_closed_numbers_are_free_for_the_program_alone(kind, tmp_path):
    """What goes on behind a close takes no number that the program has just given up, and may ask for."""
    both = tmp_path / "key and chain"
    issued().private_key_and_cert_chain_pem.write_to_path(both)
    with Script(kind, BOTH_ENDS + CLOSES_MANY, str(both), "8") as program:
        assert program.hear() == []


NUMBER_CLOSED = """
        os.close(kept[0].fileno())
        try:
            kept[0].close()
        except OSError as error:
            tell(error.strerror)
        tell(kept[0].fileno())
    """


def test_a_number_that_was_closed_before_its_socket(kind, tmp_path):
    both = tmp_path / "key and chain"
    issued().private_key_and_cert_chain_pem.write_to_path(both)
    with Script(kind, BOTH_ENDS + NUMBER_CLOSED, str(both), "1") as program:
        assert program.hear() == "Bad file descriptor"
        assert program.hear() == -1
