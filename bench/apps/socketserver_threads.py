"""socketserver with one thread a connection; requests and answers are lengths and bytes over one connection."""

from __future__ import annotations

import socket
import socketserver
import struct

import program

LENGTH = struct.Struct("!I")


class Echo(socketserver.StreamRequestHandler):
    wbufsize = -1

    def handle(self) -> None:
        while head := self.rfile.read(LENGTH.size):
            data = self.rfile.read(LENGTH.unpack(head)[0])
            self.wfile.write(head)
            self.wfile.write(data)
            self.wfile.flush()


class Threads(socketserver.ThreadingTCPServer):
    daemon_threads = True


def serve() -> None:
    with Threads(("127.0.0.1", 0), Echo) as server:
        program.announce(server.server_address[1])
        server.serve_forever()


def main() -> None:
    options = program.arguments()
    if options.serve:
        return serve()
    with program.Server() as server, socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answers = connection.makefile("rb")

        def ask(data: bytes) -> None:
            connection.sendall(LENGTH.pack(len(data)) + data)
            assert len(answers.read(LENGTH.unpack(answers.read(LENGTH.size))[0])) == len(data)

        small, large = b"s" * program.SMALL, b"l" * program.LARGE
        program.report(
            small=program.rate(lambda: ask(small), options.seconds),
            large=program.rate(lambda: ask(large), options.seconds),
        )


if __name__ == "__main__":
    main()
