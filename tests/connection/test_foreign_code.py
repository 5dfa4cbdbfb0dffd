"""C code that takes a number from fileno(), without detach(), and reads and writes it: pyOpenSSL, cffi, ctypes.

The other end is in a process of its own, and knows nothing of it: it reads and writes by a socket, by TLS over the
descriptor (ssl), or by TLS in memory (asyncio).
"""

from __future__ import annotations

import pytest

from ..helpers.certificates import issued
from ..helpers.paths import carriers_of
from ..helpers.scripts import Script

CONTEXTS = """
        import asyncio, socket, ssl, sys
        from OpenSSL import SSL
        chain, key = sys.argv[1:]
        def context(server):
            made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
            if server:
                made.load_cert_chain(chain, key)
            else:
                made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
            return made
        def wrapped(sock, server):
            made = SSL.Context(SSL.TLS_METHOD)
            if server:
                made.use_certificate_file(chain)
                made.use_privatekey_file(key)
            found = SSL.Connection(made, sock)
            found.set_accept_state() if server else found.set_connect_state()
            found.do_handshake()
            return found
        def received(stream, size):
            data = b""
            while len(data) < size:
                data += stream.recv(size - len(data))
            return data
        SIZE = 300_000
    """
ENDS = {
    "pyopenssl": """
        def use(sock, server):
            stream = wrapped(sock, server)
            answer(stream.sendall, lambda size: received(stream, size), server)
    """,
    "ssl": """
        def use(sock, server):
            stream = context(server).wrap_socket(sock, server_side=server)
            answer(stream.sendall, lambda size: received(stream, size), server)
    """,
    "asyncio": "",
}
BY_SOCKET = """
        def answer(send, receive, server):
            for _ in range(3):
                if server:
                    send(receive(SIZE)[::-1])
                else:
                    send(b"abc" * (SIZE // 3))
                    assert receive(SIZE) == b"cba" * (SIZE // 3)
        if role == "server":
            listener = socket.create_server(("127.0.0.1", 0))
            tell(listener.getsockname())
            use(listener.accept()[0], True)
        else:
            sock = socket.create_connection(tuple(hear()))
            use(sock, False)
            tell(getattr(sock, "transport", "plain"))
    """
BY_ASYNCIO = """
        async def exchange(reader, writer, server):
            for _ in range(3):
                if server:
                    writer.write((await reader.readexactly(SIZE))[::-1])
                else:
                    writer.write(b"abc" * (SIZE // 3))
                    assert await reader.readexactly(SIZE) == b"cba" * (SIZE // 3)
            await writer.drain()
            writer.close()
        async def main():
            if role == "server":
                over = asyncio.Event()
                async def serve(reader, writer):
                    await exchange(reader, writer, True)
                    over.set()
                server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context(True))
                tell(server.sockets[0].getsockname())
                await over.wait()
                server.close()
            else:
                reader, writer = await asyncio.open_connection(*hear(), ssl=context(False))
                await exchange(reader, writer, False)
                tell("done")
        asyncio.run(main())
    """


def _program(end: str, role: str) -> str:
    return CONTEXTS + f"\n        role = {role!r}\n" + ENDS[end] + (BY_ASYNCIO if end == "asyncio" else BY_SOCKET)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    pytest.importorskip("OpenSSL")
    folder = tmp_path_factory.mktemp("tls")
    chain, key = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(b"".join(blob.bytes() for blob in issued().cert_chain_pems))
    issued().private_key_pem.write_to_path(key)
    return chain, key


@pytest.mark.parametrize(
    ("client", "server"),
    [(client, server) for client in ENDS for server in ENDS if "pyopenssl" in (client, server)],
)
def test_pyopenssl_at_one_end(kind, files, client, server):
    with (
        Script(kind, _program(server, "server"), *map(str, files)) as accepting,
        Script(kind, _program(client, "client"), *map(str, files)) as connecting,
    ):
        connecting.tell(accepting.hear())
        assert connecting.hear() in ("done", "tcp", "plain", "shm")  # by memory where the doors of C code are there
        assert accepting.finish() == 0
        assert connecting.finish() == 0


# C code that nothing tells from a watcher: it has the number from code without a library among its names
UNKNOWN = """
        import ctypes, socket
        def library():
            return ctypes.CDLL(None, use_errno=True)
        sock = socket.create_connection(tuple(hear()))
        taken = getattr(sock, "transport", "plain")
        number = sock.fileno()
        for turn in range(3):
            assert library().send(number, b"question", 8, 0) == 8
            answer = ctypes.create_string_buffer(100)
            assert library().recv(number, answer, 6, 0x100) == 6
            assert answer.value == b"answer", answer.value
        library().send(number, b"last", 4, 0)
        tell(taken)
    """
ANSWERS = """
        import asyncio, socket, sys
        def by_socket(listener):
            sock = listener.accept()[0]
            for _ in range(3):
                assert sock.recv(8, socket.MSG_WAITALL) == b"question"
                sock.sendall(b"answer")
            assert sock.recv(100) == b"last"
            assert sock.recv(100) == b""
        async def by_asyncio(listener):
            over = asyncio.Event()
            async def serve(reader, writer):
                for _ in range(3):
                    assert await reader.readexactly(8) == b"question"
                    writer.write(b"answer")
                assert await reader.read() == b"last"
                over.set()
            server = await asyncio.start_server(serve, sock=listener)
            await over.wait()
        listener = socket.create_server(("127.0.0.1", 0))
        tell(listener.getsockname())
        by_socket(listener) if sys.argv[1] == "socket" else asyncio.run(by_asyncio(listener))
    """


@pytest.mark.parametrize("how", ("socket", "asyncio"))
def test_what_unknown_c_code_writes_first_is_payload(kind, how):
    """Bytes that were never announced can be nothing else; from then on the number carries both directions."""
    with Script(kind, ANSWERS, how) as accepting, Script(kind, UNKNOWN) as connecting:
        connecting.tell(accepting.hear())
        assert connecting.hear() in carriers_of(kind)
        assert connecting.finish() == 0
        assert accepting.finish() == 0


C_CALLS = """
def receive(sock):
    block = ctypes.create_string_buffer(100)
    got = library.recv(sock.fileno(), block, 100, 0)
    return block.raw[:got]
def send(sock, data):
    assert library.send(sock.fileno(), data, len(data), 0x4000) == len(data)
"""
HOLDS_LIBRARY = "import ctypes; library = ctypes.CDLL(None)" + C_CALLS
TAKES_NUMBERS = HOLDS_LIBRARY.replace("sock.fileno()", "sock")
BY_CFFI = """
from cffi import FFI
ffi = FFI()
ffi.cdef("ssize_t recv(int, void *, size_t, int); ssize_t send(int, const void *, size_t, int);")
library = ffi.dlopen(None)
""" + C_CALLS.replace("ctypes.create_string_buffer(100)", "ffi.new('char[]', 100)").replace(
    "block.raw", "ffi.buffer(block)"
)
BY_MODULE = """
import binding
def receive(sock):
    return binding.receive(sock.fileno())
def send(sock, data):
    binding.send(sock.fileno(), data)
"""
BY_FUNCTIONS = BY_MODULE.replace("import binding", "from binding import receive as take, send as put")
AROUND = """
import holding
class Around:
    def __init__(self, sock):
        self.sock = sock
    def fileno(self):
        return self.sock.fileno()
def receive(sock):
    return holding.receive(Around(sock))
def send(sock, data):
    holding.send(Around(sock), data)
"""
# Ways to C code that reads before it writes: the modules, of which the last one is used.
SHAPES = {
    "library": {"asking": HOLDS_LIBRARY},
    "local library": {"asking": "import ctypes" + C_CALLS.replace("library", "ctypes.CDLL(None)")},
    "cffi": {"asking": BY_CFFI},
    "module of functions": {"binding": TAKES_NUMBERS, "asking": BY_MODULE},
    "functions": {
        "binding": TAKES_NUMBERS,
        "asking": BY_FUNCTIONS.replace("binding.receive", "take").replace("binding.send", "put"),
    },
    "object around it": {"holding": HOLDS_LIBRARY, "asking": AROUND},
    "file": {"holding": HOLDS_LIBRARY, "asking": AROUND.replace("Around(sock)", "sock.makefile('rwb', 0)")},
}
SPEAKS_FIRST = """
        import socket
        listener = socket.create_server(("127.0.0.1", 0))
        tell(listener.getsockname())
        for _ in range(2):
            sock = listener.accept()[0]
            sock.sendall(b"banner")
            assert sock.recv(8, socket.MSG_WAITALL) == b"question"
            sock.sendall(b"answer")
            assert sock.recv(100) == b""
            sock.close()
    """
READS_FIRST = """
        import socket, sys, types
        for name, text in hear().items():
            asking = sys.modules[name] = types.ModuleType(name)
            exec(text, vars(asking))
        where = tuple(hear())
        for _ in range(2):
            sock = socket.create_connection(where)
            assert asking.receive(sock) == b"banner"
            asking.send(sock, b"question")
            assert asking.receive(sock) == b"answer"
            sock.shutdown(socket.SHUT_WR)
            assert asking.receive(sock) == b""
            sock.close()
        tell("done")
    """


@pytest.mark.parametrize("shape", SHAPES)
def test_c_code_is_known_by_what_its_module_holds(kind, shape):
    with Script(kind, SPEAKS_FIRST) as accepting, Script(kind, READS_FIRST) as connecting:
        connecting.tell(SHAPES[shape])
        connecting.tell(accepting.hear())
        assert connecting.hear() == "done"
        assert connecting.finish() == 0
        assert accepting.finish() == 0


WRITES_LAST = """
        import socket, sys
        def send(number, data):
            import ctypes
            assert ctypes.CDLL(None).send(number, data, len(data), 0) == len(data)
        where, how = tuple(hear()), sys.argv[1]
        for turn in range(10):
            sock = socket.create_connection(where)
            if turn % 2:
                sock.sendall(b"first")
            send(sock.fileno(), b"last" * 600 * turn)
            if how != "close":
                sock.shutdown(socket.SHUT_WR)
                tell("shut")
                assert sock.recv(100) == b""
            sock.close()
            tell("closed")
            hear()
    """
READS_LATE = """
        import socket, sys
        listener = socket.create_server(("127.0.0.1", 0))
        tell(listener.getsockname())
        for turn in range(10):
            sock = listener.accept()[0]
            hear()
            data = b""
            while block := sock.recv(1000):
                data += block
            assert data == b"first" * (turn % 2) + b"last" * 600 * turn, (turn, data)
            sock.close()
            tell("read")
    """


@pytest.mark.parametrize("how", ("close", "shutdown"))
def test_what_unknown_c_code_wrote_before_an_end_is_read(kind, how):
    """Neither is it lost, nor is what an end leaves on the descriptor taken for it."""
    with Script(kind, READS_LATE) as accepting, Script(kind, WRITES_LAST, how) as connecting:
        connecting.tell(accepting.hear())
        for _ in range(10):
            assert connecting.hear() == ("closed" if how == "close" else "shut")
            accepting.tell("read")
            assert accepting.hear() == "read"
            if how != "close":
                assert connecting.hear() == "closed"
            connecting.tell("next")
        assert connecting.finish() == 0
        assert accepting.finish() == 0


LATE_SERVER = """
        listener = socket.create_server(("127.0.0.1", 0))
        tell(listener.getsockname())
        hear()
        use(listener.accept()[0], True)
    """
EARLY_CLIENT = """
        sock = socket.create_connection(tuple(hear()))
        made = SSL.Connection(SSL.Context(SSL.TLS_METHOD), sock)
        made.set_connect_state()
        tell("asked")
        made.do_handshake()
        answer(made.sendall, lambda size: received(made, size), False)
    """


@pytest.mark.parametrize("server", ("pyopenssl", "ssl"))
def test_the_number_is_taken_before_the_server_accepts(kind, files, server):
    answering = BY_SOCKET[: BY_SOCKET.index("if role")].rstrip(" ")
    with (
        Script(kind, CONTEXTS + ENDS[server] + answering + LATE_SERVER, *map(str, files)) as accepting,
        Script(kind, CONTEXTS + answering + EARLY_CLIENT, *map(str, files)) as connecting,
    ):
        connecting.tell(accepting.hear())
        assert connecting.hear() == "asked"
        accepting.tell("accept")
        assert accepting.finish() == 0
        assert connecting.finish() == 0


# The number is asked for, and taken out of a thread's hands, at any moment of its exchange.
EXCHANGES = """
        import ctypes, socket, sys, threading
        library = ctypes.CDLL(None)
        where, how = tuple(hear()), sys.argv[1]
        sys.setswitchinterval(1e-5)
        def exchange(sock):
            size = 1
            for turn in range(40):
                data = bytes([turn % 251]) * size
                if how == "whole":
                    sock.sendall(data)
                    assert sock.recv(size, socket.MSG_WAITALL) == data
                else:
                    sent = received = 0
                    while sent < size:
                        sent += sock.send(data[sent:])
                    while received < size:
                        block = bytearray(4000)
                        got = sock.recv_into(block)
                        assert block[:got] == data[received : received + got]
                        received += got
                size = size * 7 % 50021
        for turn in range(4):
            sock = socket.create_connection(where)
            if turn % 2 and how != "whole":  # else a receive may be over before all is there
                sock.settimeout(30)
            thread = threading.Thread(target=exchange, args=(sock,))
            failures = []
            threading.excepthook = lambda given: failures.append(repr(given.exc_value))
            thread.start()
            while thread.is_alive():
                if sock.fileno() < 0:
                    break
            thread.join()
            assert failures == [], failures
            sock.close()
        tell("done")
    """
ECHO = """
        import socket
        listener = socket.create_server(("127.0.0.1", 0))
        tell(listener.getsockname())
        for _ in range(4):
            sock = listener.accept()[0]
            while data := sock.recv(3000):
                sock.sendall(data)
            sock.close()
    """


@pytest.mark.parametrize("how", ("whole", "in parts"))
def test_a_thread_goes_on_while_its_number_is_taken(kind, how):
    with Script(kind, ECHO) as accepting, Script(kind, EXCHANGES, how) as connecting:
        connecting.tell(accepting.hear())
        assert connecting.hear() == "done"
        assert connecting.finish() == 0
        assert accepting.finish() == 0
