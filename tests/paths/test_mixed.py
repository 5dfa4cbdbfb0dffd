"""One end is fast, the other knows nothing of it: plain Python, C programs, uvloop, children that got a descriptor.

The fast end is an unmodified program under the launcher, preferring each path in turn; `plain` is the reference. The
connection must stay on TCP, and not a byte or a refusal may tell the other end that anything was tried.
"""

from __future__ import annotations

import importlib.util

import pytest

from fastsock.testing.patterns import Pattern

from ..helpers.certificates import authority, issued
from ..helpers.paths import carriers_of
from ..helpers.programs import free_port, need, nginx, output_of, redis
from ..helpers.scripts import Script

MIB = 1 << 20

HELPERS = """
import hashlib, os, socket, ssl, sys, threading
def exactly(sock, count):
    data = bytearray()
    while len(data) < count:
        block = sock.recv(min(count - len(data), 1 << 20))
        if not block: raise SystemExit(f"ended after {len(data)} of {count}")
        data += block
    return bytes(data)
def path_of(sock):
    return getattr(sock, "transport", "plain")
block = bytes(range(251)) * 4177
"""

# Both sides know the whole dialogue: one byte too many or too few and it fails.
SERVER = (
    HELPERS
    + """
listener = socket.create_server(("127.0.0.1", 0))
tell(listener.getsockname()[1])
while True:
    sock, address = listener.accept()
    tell(path_of(sock))
    if hear() == "stop": break
    assert address == sock.getpeername()
    assert exactly(sock, 4) == b"ping"
    sock.sendall(b"pong")
    assert exactly(sock, len(block)) == block
    sock.sendall(block)
    assert sock.recv(1) == b""
    sock.sendall(b"bye")
    sock.close()
tell("stopped")
"""
)

CLIENT = (
    HELPERS
    + """
for _ in range(3):
    sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    tell(path_of(sock))
    hear()
    sock.sendall(b"ping")
    assert exactly(sock, 4) == b"pong"
    sock.sendall(block)
    assert exactly(sock, len(block)) == block
    sock.shutdown(socket.SHUT_WR)
    assert exactly(sock, 3) == b"bye"
    assert sock.recv(1) == b""
    sock.close()
tell("finished")
"""
)


def _expected(kind):
    return "plain" if kind == "plain" else "tcp"


def _dialogue(server_kind, client_kind):
    with Script(server_kind, SERVER) as server:
        port = server.hear()
        with Script(client_kind, CLIENT, str(port)) as client:
            for _ in range(3):
                took = client.hear()
                assert took == _expected(client_kind)
                assert server.hear() == _expected(server_kind)
                client.tell("go")
                server.tell("go")
            assert client.hear() == "finished"
            assert client.finish() == 0
        server.process.kill()


def test_fast_server_and_plain_client(kind):
    _dialogue(kind, "plain")


def test_plain_server_and_fast_client(kind):
    _dialogue("plain", kind)


@pytest.mark.parametrize("server,client", [("tcp", "shm"), ("shm", "tcp")])
def test_ends_that_prefer_different_paths(server, client):
    """Nothing in common but TCP."""
    from ..helpers.paths import why_not

    for each in (server, client):
        if why_not(each):
            pytest.skip(why_not(each))
    _dialogue(server, client)


# C programs


REDIS_CLIENT = (
    HELPERS
    + """
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
tell(path_of(sock))
stream = sock.makefile("rwb")
def command(*parts):
    stream.write(b"*%d\\r\\n" % len(parts))
    for part in parts:
        stream.write(b"$%d\\r\\n%s\\r\\n" % (len(part), part))
    stream.flush()
def reply():
    line = stream.readline()
    assert line.endswith(b"\\r\\n"), line
    kind, rest = line[:1], line[1:-2]
    if kind in b"+:": return rest
    if kind == b"$": return stream.read(int(rest) + 2)[:-2] if int(rest) >= 0 else None
    if kind == b"*": return [reply() for _ in range(int(rest))]
    raise AssertionError(line)
command(b"PING"); assert reply() == b"PONG"
command(b"SET", b"big", block); assert reply() == b"OK"
command(b"GET", b"big"); assert reply() == block
for number in range(2000):
    stream.write(b"*2\\r\\n$4\\r\\nINCR\\r\\n$5\\r\\ncount\\r\\n")
stream.flush()
assert [int(reply()) for _ in range(2000)] == list(range(1, 2001))
# A blocked receive is woken by another connection's push.
other = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
command(b"BLPOP", b"list", b"0")
other.sendall(b"*3\\r\\n$5\\r\\nLPUSH\\r\\n$4\\r\\nlist\\r\\n$1\\r\\nx\\r\\n")
assert reply() == [b"list", b"x"]
tell("blocked")
command(b"BLPOP", b"list", b"0")
try:
    tell(stream.readline().decode())
except ConnectionResetError:
    tell("")
"""
)


def test_redis_server_and_fast_client(kind, tmp_path):
    with redis(tmp_path) as (port, process), Script(kind, REDIS_CLIENT, str(port)) as client:
        assert client.hear() == _expected(kind)
        assert client.hear() == "blocked"
        process.kill()
        assert client.hear() == ""
        assert client.finish() == 0


REDIS_SERVER = (
    HELPERS
    + """
def serve(sock):
    with sock, sock.makefile("rwb") as stream:
        while line := stream.readline():
            parts = []
            for _ in range(int(line[1:])):
                size = int(stream.readline()[1:])
                parts.append(stream.read(size + 2)[:-2])
            name = parts[0].upper()
            if name == b"PING":
                stream.write(b"+PONG\\r\\n")
            elif name == b"ECHO":
                stream.write(b"$%d\\r\\n%s\\r\\n" % (len(parts[1]), parts[1]))
            else:
                stream.write(b"*0\\r\\n")
            stream.flush()
listener = socket.create_server(("127.0.0.1", 0))
tell(listener.getsockname()[1])
while True:
    sock, _ = listener.accept()
    try:
        serve(sock)
    except ConnectionResetError:
        continue  # redis-benchmark leaves without reading its last answers
"""
)


def test_fast_server_and_redis_clients(kind):
    program = need("redis-cli")
    benchmark = need("redis-benchmark")
    with Script(kind, REDIS_SERVER) as server:
        port = str(server.hear())
        assert output_of([program, "-p", port, "PING"]) == b"PONG\n"
        text = "x" * 50_000
        assert output_of([program, "-p", port, "ECHO", text]) == text.encode() + b"\n"
        # a whole number of pipelines: it gives up when its clock ticks after it has done more than it was asked for
        answer = output_of([benchmark, "-p", port, "-c", "1", "-n", "512", "-P", "16", "-t", "ping_mbulk", "--csv"])
        assert b"PING_MBULK" in answer
        server.process.kill()


HTTP_SERVER = (
    HELPERS
    + """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.answer(block)
    def do_POST(self):
        self.answer(self.rfile.read(int(self.headers["Content-Length"])))
    def answer(self, data):
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Path", path_of(self.request))
        self.end_headers()
        self.wfile.write(data)
    def log_message(self, *arguments):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
if len(sys.argv) > 1:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1])
    server.socket = context.wrap_socket(server.socket, server_side=True)
tell(server.server_address[1])
server.serve_forever()
"""
)

BLOCK = bytes(range(251)) * 4177


@pytest.fixture
def certificate(tmp_path):
    """Files of a certificate with its key, and of the authority."""
    both, trusted = tmp_path / "both.pem", tmp_path / "authority.pem"
    issued().private_key_and_cert_chain_pem.write_to_path(str(both))
    authority().cert_pem.write_to_path(str(trusted))
    return str(both), str(trusted)


def test_fast_server_and_curl(kind):
    curl = need("curl")
    with Script(kind, HTTP_SERVER) as server:
        url = f"http://127.0.0.1:{server.hear()}/"
        assert output_of([curl, "-s", url]) == BLOCK
        # Two requests on one connection.
        assert output_of([curl, "-s", url, url]) == BLOCK * 2
        data = Pattern(1).at(0, 3 * MIB)
        assert output_of([curl, "-s", "--data-binary", "@-", url], input=data) == data
        headers = output_of([curl, "-s", "-o", "/dev/null", "-D", "-", url])
        assert f"X-Path: {_expected(kind)}".encode() in headers
        server.process.kill()


def test_fast_tls_server_and_curl(kind, certificate):
    curl = need("curl")
    both, trusted = certificate
    with Script(kind, HTTP_SERVER, both) as server:
        url = f"https://localhost:{server.hear()}/"
        assert output_of([curl, "-s", "-4", "--cacert", trusted, url]) == BLOCK
        data = Pattern(1).at(0, 3 * MIB)
        assert output_of([curl, "-s", "-4", "--cacert", trusted, "--data-binary", "@-", url], input=data) == data
        server.process.kill()


HTTP_CLIENT = (
    HELPERS
    + """
import http.client
if len(sys.argv) > 2:
    context = ssl.create_default_context(cafile=sys.argv[2])
    connection = http.client.HTTPSConnection("localhost", int(sys.argv[1]), context=context)
else:
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
for _ in range(5):
    connection.request("GET", "/file")
    tell(hashlib.sha1(connection.getresponse().read()).hexdigest())
connection.close()
"""
)


def _check_downloads(client, content):
    import hashlib

    for _ in range(5):
        assert client.hear() == hashlib.sha1(content).hexdigest()
    assert client.finish() == 0


def test_nginx_and_fast_client(kind, tmp_path):
    content = Pattern(2).at(0, 3 * MIB + 1)
    with nginx(tmp_path, "", {"file": content}) as port, Script(kind, HTTP_CLIENT, str(port)) as client:
        _check_downloads(client, content)


def test_nginx_tls_and_fast_client(kind, tmp_path, certificate):
    both, trusted = certificate
    content = Pattern(3).at(0, 3 * MIB + 1)
    secure = free_port()
    body = f"listen 127.0.0.1:{secure} ssl; ssl_certificate {both}; ssl_certificate_key {both};"
    with nginx(tmp_path, body, {"file": content}), Script(kind, HTTP_CLIENT, str(secure), trusted) as client:
        _check_downloads(client, content)


def test_nginx_before_a_fast_server(kind, tmp_path):
    """nginx hands requests on to a Python program under the launcher."""
    curl = need("curl")
    with Script(kind, HTTP_SERVER) as server:
        backend = server.hear()
        with nginx(tmp_path, f"location / {{ proxy_pass http://127.0.0.1:{backend}; }}", {}) as port:
            data = Pattern(4).at(0, 2 * MIB)
            url = f"http://127.0.0.1:{port}/"
            assert output_of([curl, "-s", url]) == BLOCK
            assert output_of([curl, "-s", "--data-binary", "@-", url], input=data) == data
        server.process.kill()


# uvloop accepts and connects in C

UVLOOP_SERVER = """
import asyncio, uvloop
async def handle(reader, writer):
    while block := await reader.read(1 << 16):
        writer.write(block)
        await writer.drain()
    writer.close()
async def main():
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    tell(server.sockets[0].getsockname()[1])
    await server.serve_forever()
uvloop.install()
asyncio.run(main())
"""

ECHO_SERVER = (
    HELPERS
    + """
def echo(sock):
    while data := sock.recv(1 << 16):
        sock.sendall(data)
    sock.close()
listener = socket.create_server(("127.0.0.1", 0))
tell(listener.getsockname()[1])
while True:
    threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()
"""
)

ECHO_CLIENT = (
    HELPERS
    + """
paths = set()
for _ in range(4):
    sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    paths.add(path_of(sock))
    sender = threading.Thread(target=sock.sendall, args=(block * 3,))
    sender.start()
    assert exactly(sock, len(block) * 3) == block * 3
    sender.join()
    sock.shutdown(socket.SHUT_WR)
    assert sock.recv(1) == b""
    sock.close()
tell(sorted(paths))
"""
)

UVLOOP_CLIENT = (
    HELPERS
    + """
import asyncio, uvloop
async def main():
    for _ in range(4):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
        writer.write(block * 3)
        writer.write_eof()
        assert await reader.readexactly(len(block) * 3) == block * 3
        assert await reader.read() == b""
        writer.close()
uvloop.install()
asyncio.run(main())
tell("finished")
"""
)

needs_uvloop = pytest.mark.skipif(not importlib.util.find_spec("uvloop"), reason="uvloop is not installed")


@needs_uvloop
@pytest.mark.parametrize("client_kind", ["the same", "plain"])
def test_uvloop_server(kind, client_kind):
    """Its accept() is not ours: the client waits a bounded time and stays on TCP."""
    client_kind = kind if client_kind == "the same" else "plain"
    with Script(kind, UVLOOP_SERVER) as server:
        with Script(client_kind, ECHO_CLIENT, str(server.hear())) as client:
            assert client.hear() == [_expected(client_kind)]
        server.process.kill()


@needs_uvloop
@pytest.mark.parametrize("server_kind", ["the same", "plain"])
def test_uvloop_client(kind, server_kind):
    """Its connect() is not ours either."""
    server_kind = kind if server_kind == "the same" else "plain"
    with Script(server_kind, ECHO_SERVER) as server:
        with Script(kind, UVLOOP_CLIENT, str(server.hear())) as client:
            assert client.hear() == "finished"
        server.process.kill()


@needs_uvloop
def test_uvloop_on_both_ends(kind):
    with Script(kind, UVLOOP_SERVER) as server:
        with Script(kind, UVLOOP_CLIENT, str(server.hear())) as client:
            assert client.hear() == "finished"
        server.process.kill()


UVLOOP_CREATED = (
    HELPERS
    + """
import asyncio, uvloop
# A connection that Python made is given to the loop.
async def main():
    sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    tell(path_of(sock))
    sock.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=sock)
    writer.write(block * 3)
    writer.write_eof()
    assert await reader.readexactly(len(block) * 3) == block * 3
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
uvloop.install()
asyncio.run(main())
tell("finished")
"""
)


@needs_uvloop
def test_fast_connection_given_to_uvloop(kind):
    """uvloop takes the raw descriptor of a connection that has already moved to its path."""
    with Script(kind, ECHO_SERVER) as server:
        with Script(kind, UVLOOP_CREATED, str(server.hear())) as client:
            assert client.hear() in carriers_of(kind)
            assert client.hear() == "finished"
        server.process.kill()


# Children that were given a raw descriptor

FOREIGN_ACCEPT = (
    HELPERS
    + """
import subprocess
listener = socket.create_server(("127.0.0.1", 0))
text = '''
import socket, sys
listener = socket.socket(fileno=int(sys.argv[1]))
while True:
    sock, _ = listener.accept()
    while data := sock.recv(1 << 16):
        sock.sendall(data)
    sock.close()
'''
child = subprocess.Popen([sys.executable, "-I", "-c", text, str(listener.fileno())], pass_fds=[listener.fileno()])
port = listener.getsockname()[1]
# From here on the child alone accepts, though this process still holds the listener.
tell(port)
hear()
child.kill()
child.wait()
"""
)


@pytest.mark.parametrize("client_kind", ["the same", "plain"])
def test_listener_served_by_an_execed_child(kind, client_kind):
    """The child is plain Python: a client must not wait for an answer that never comes."""
    client_kind = kind if client_kind == "the same" else "plain"
    with Script(kind, FOREIGN_ACCEPT) as server:
        with Script(client_kind, ECHO_CLIENT, str(server.hear())) as client:
            assert client.hear() == [_expected(client_kind)]
        server.tell("stop")
        assert server.finish() == 0


CONNECTION_GIVEN = (
    HELPERS
    + """
import subprocess
listener = socket.create_server(("127.0.0.1", 0))
tell(listener.getsockname()[1])
text = '''
import socket, sys
sock = socket.socket(fileno=int(sys.argv[1]))
while data := sock.recv(1 << 16):
    sock.sendall(data)
'''
while True:
    sock, _ = listener.accept()
    number = sock.fileno()
    child = subprocess.Popen([sys.executable, "-I", "-c", text, str(number)], pass_fds=[number])
    sock.close()
    assert child.wait() == 0
"""
)


@pytest.mark.parametrize("client_kind", ["the same", "plain"])
def test_connection_given_to_an_execed_child(kind, client_kind):
    client_kind = kind if client_kind == "the same" else "plain"
    with Script(kind, CONNECTION_GIVEN) as server:
        with Script(client_kind, ECHO_CLIENT, str(server.hear())) as client:
            [took] = client.hear()
            assert took in carriers_of(client_kind)
        server.process.kill()


# TLS with a plain peer

TLS_SERVER = (
    HELPERS
    + """
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])
listener = socket.create_server(("127.0.0.1", 0))
tell(listener.getsockname()[1])
sock, _ = listener.accept()
if sys.argv[2] == "starttls":
    assert exactly(sock, 8) == b"STARTTLS"
    sock.sendall(b"OK")
names = sock.getsockname(), sock.getpeername()
secure = context.wrap_socket(sock, server_side=True)
assert (secure.getsockname(), secure.getpeername()) == names
assert exactly(secure, len(block)) == block
secure.sendall(block)
secure.unwrap().close()
tell("finished")
"""
)

TLS_CLIENT = (
    HELPERS
    + """
context = ssl.create_default_context(cafile=sys.argv[2])
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
if sys.argv[3] == "starttls":
    sock.sendall(b"STARTTLS")
    assert exactly(sock, 2) == b"OK"
names = sock.getsockname(), sock.getpeername()
secure = context.wrap_socket(sock, server_hostname="localhost")
assert (secure.getsockname(), secure.getpeername()) == names
secure.sendall(block)
assert exactly(secure, len(block)) == block
secure.unwrap().close()
tell("finished")
"""
)


@pytest.mark.parametrize("begin", ["at once", "starttls"])
@pytest.mark.parametrize("fast", ["server", "client", "both"])
def test_tls(kind, certificate, fast, begin):
    both, trusted = certificate
    server_kind = "plain" if fast == "client" else kind
    client_kind = "plain" if fast == "server" else kind
    with Script(server_kind, TLS_SERVER, both, begin) as server:
        with Script(client_kind, TLS_CLIENT, str(server.hear()), trusted, begin) as client:
            assert client.hear() == "finished"
            assert server.hear() == "finished"
            assert client.finish() == 0
        assert server.finish() == 0
